//===- Export.cpp - Writes bundles ----------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "api/State.h"
#include "artifact/Digest.h"
#include "assemble/BestAttempt.h"
#include "bundle/CLauncher.h"
#include "bundle/CNames.h"
#include "bundle/CodeReach.h"
#include "bundle/Manifest.h"
#include "system/File.h"
#include "system/UnfinishedWork.h"

#include <algorithm>
#include <filesystem>

namespace tesela {

namespace fs = std::filesystem;

/// An empty file that is in the folder while a bundle is written into it. If the process ends in
/// between, the next export knows by it that the files there are no one else's.
static constexpr const char *unfinishedMark = "unfinished-bundle";

/// Creates the folder if necessary. Fails if it has files of others, which must not be overwritten.
/// Returns whether the folder has no bundle yet.
static Result<bool> prepareFolder(const std::string &folder) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure)
    return Error(Code::inputOutput,
                 folder + " could not be created: " + failure.message() + "; use another folder");
  bool isEmpty = fs::is_empty(folder, failure);
  if (failure)
    return Error(Code::inputOutput, folder + " could not be read: " + failure.message());
  if (isEmpty || factsOf(folder + "/" + unfinishedMark))
    return true;
  Result<std::string> manifest = readFile(folder + "/" + manifestFile);
  if (manifest && looksLikeManifest(*manifest))
    return false;
  return Error(Code::invalidArgument, folder +
                                          " contains other files but no bundle: use a new folder, "
                                          "or the folder of a bundle to replace");
}

/// Writes the files in their order. After a failure, removes them from a folder that had no bundle.
static Status writeFiles(const std::string &folder, const std::vector<TextFile> &files,
                         bool isNew) {
  auto pathOf = [&](const std::string &name) { return folder + "/" + name; };
  Status status = isNew ? writeFile(pathOf(unfinishedMark), "") : Status::success();
  size_t begun = 0;
  while (status && begun < files.size()) {
    const TextFile &file = files[begun++];
    status = writeFile(pathOf(file.name), file.text);
  }
  if (!isNew)
    return status;
  std::error_code ignored;
  for (size_t i = 0; !status && i < begun; ++i)
    fs::remove(pathOf(files[i].name), ignored);
  fs::remove(pathOf(unfinishedMark), ignored);
  // Files stay that could not be removed, or that an earlier process left: then the mark does, too.
  if (!status && !fs::is_empty(folder, ignored))
    (void)writeFile(pathOf(unfinishedMark), "");
  return status;
}

static Status checkTargets(const BundleOptions &options) {
  if (options.targets.empty())
    return Error(Code::invalidArgument,
                 "a bundle needs at least one target: pass one, such as sm_90 or host");
  for (size_t i = 0; i < options.targets.size(); ++i)
    if (std::find(options.targets.begin(), options.targets.begin() + i, options.targets[i]) !=
        options.targets.begin() + i)
      return Error(Code::invalidArgument,
                   "the target " + options.targets[i] + " is named twice: name it once");
  return Status::success();
}

namespace {

struct Compiled {
  Artifact artifact;
  std::string architecture;
};

} // namespace

/// Compiles, and assembles a cubin if ptxas can do it; else the artifact keeps its PTX.
static Result<Compiled> compileFor(const BundleOptions &options, const std::string &target,
                                   const std::optional<Ptxas> &ptxas) {
  KernelOptions kernel = options.kernel;
  kernel.target = target;
  Result<KernelSpecification> specification = makeSpecification(kernel, target);
  if (!specification)
    return specification.error();
  auto assemble = [&](Artifact artifact) -> Result<Compiled> {
    if (artifact.format == CodeFormat::hostObject)
      return Compiled{std::move(artifact), hostFeatures()};
    std::string architecture = assemblerTarget(artifact.code, specification->target.sm);
    if (ptxas) {
      Result<Assembled> assembled = ptxas->assemble(artifact.code, specification->target.sm);
      if (assembled) {
        artifact.code = std::move(assembled->cubin);
        artifact.format = CodeFormat::cubin;
        artifact.resources = assembled->resources;
      } else if (assembled.code() != Code::unsupported) { // if ptxas is too old for the GPU, the
                                                          // driver assembles
        return assembled.error();
      }
    }
    return Compiled{std::move(artifact), std::move(architecture)};
  };
  return bestAttempt<Compiled>(*specification, /*times=*/nullptr, /*limits=*/{}, assemble);
}

static BundleTarget describe(const Compiled &compiled, const std::string &bytes) {
  const Artifact &artifact = compiled.artifact;
  BundleTarget target;
  target.target = artifact.target.name();
  target.architecture = compiled.architecture;
  target.file = target.target + ".kernel";
  target.digest = sha256Hex(bytes);
  target.bytes = bytes.size();
  target.codeFormat = codeFormatName(artifact.format);
  target.schedule = artifact.schedule;
  return target;
}

Result<BundleInfo> exportBundle(const BundleOptions &options, const std::string &folder) {
  UnfinishedWork work;
  if (Status status = work.mayBegin(); !status)
    return status.error();
  if (Status status = checkTargets(options); !status)
    return status.error();
  if (!options.name.empty() && !isCName(options.name))
    return Error(Code::invalidArgument,
                 "the name '" + options.name +
                     "' cannot be part of C names: use a letter, then letters, digits and "
                     "underscores, at most 100 characters");
  std::optional<Ptxas> ptxas = options.ptx ? std::nullopt : Ptxas::find();
  std::vector<Compiled> compiled;
  for (const std::string &target : options.targets) {
    Result<Compiled> each = compileFor(options, target, ptxas);
    if (!each)
      return each.error().within("for the target " + target);
    compiled.push_back(std::move(*each));
  }

  const Artifact &any = compiled.front().artifact;
  BundleInfo info;
  info.name = options.name.empty() ? any.variantName : options.name;
  if (!isCName(info.name))
    return Error(Code::invalidArgument,
                 "the variant's name '" + info.name +
                     "' cannot be part of C names: give the bundle another name");
  if (isHeaderOfC(info.name))
    return Error(Code::invalidArgument, "the launcher's header '" + info.name +
                                            ".h' would hide the C library's: give the bundle "
                                            "another name");
  info.version = version();
  info.variantName = any.variantName;
  info.variantText = options.kernel.variantText;
  info.inputType = any.inputType;
  info.headDimQk = any.headDimQk;
  info.headDimV = any.headDimV;

  std::vector<TextFile> files;
  ManifestDetails details;
  std::vector<CLauncherTarget> gpus;
  for (const Compiled &each : compiled) {
    std::string bytes = each.artifact.serialize();
    info.targets.push_back(describe(each, bytes));
    files.push_back({info.targets.back().file, std::move(bytes)});
    details.artifacts.push_back(each.artifact);
    if (each.artifact.target.kind == Target::Kind::cuda)
      gpus.push_back({&each.artifact, each.architecture});
  }
  if (!gpus.empty() && !options.noLauncher) {
    Result<std::vector<TextFile>> launcher = makeCLauncher(info.name, info.version, gpus);
    if (!launcher)
      return launcher.error();
    for (TextFile &file : *launcher) {
      details.cFiles.push_back(file.name);
      files.push_back(std::move(file));
    }
  }
  details.constants = constantsOf(options.kernel);

  Result<bool> isNew = prepareFolder(folder);
  if (!isNew)
    return isNew.error();
  files.push_back(
      {manifestFile, writeManifest(info, details)}); // the last: see exportBundle's promise
  if (Status status = writeFiles(folder, files, *isNew); !status)
    return status.error().within("writing the bundle");
  return info;
}

} // namespace tesela
