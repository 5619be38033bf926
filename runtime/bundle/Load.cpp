//===- Load.cpp - Reads bundles -------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "api/State.h"
#include "artifact/Digest.h"
#include "bundle/CodeReach.h"
#include "bundle/Manifest.h"
#include "system/File.h"

#include <filesystem>

namespace tesela {

namespace fs = std::filesystem;

/// The contents of a regular file of at most `limit` bytes. Reads no pipe, device or larger file.
static Result<std::string> readBounded(const std::string &path, uint64_t limit) {
  std::error_code failure;
  if (!fs::is_regular_file(path, failure))
    return Error(Code::notFound, path + " does not exist or is not a file");
  uint64_t bytes = fs::file_size(path, failure);
  if (failure || bytes > limit)
    return Error(Code::inputOutput,
                 path + (failure ? " cannot be read: " + failure.message()
                                 : " has " + std::to_string(bytes) + " bytes, more than " +
                                       std::to_string(limit)));
  return readFile(path);
}

/// The manifest's path. `path` may be the bundle's folder.
static std::string manifestPath(const std::string &path) {
  std::error_code failure;
  return fs::is_directory(path, failure) ? path + "/" + manifestFile : path;
}

Result<BundleInfo> readBundle(const std::string &path) {
  std::string manifest = manifestPath(path);
  Result<std::string> text = readBounded(manifest, maxManifestBytes);
  if (!text)
    return text.error().within("the bundle " + path);
  Result<BundleInfo> info = parseManifest(*text);
  return info ? info : info.error().within(manifest);
}

static CodeFormat formatOf(const std::string &name) {
  return name == "cubin" ? CodeFormat::cubin
         : name == "ptx" ? CodeFormat::ptx
                         : CodeFormat::hostObject;
}

/// The newest target of `info` that runs on `device`.
static Result<const BundleTarget *> chooseTarget(const BundleInfo &info, const Device &device) {
  std::string names, lacking;
  const BundleTarget *chosen = nullptr;
  int chosenSm = -1;
  bool onHost = device.kind == Device::Kind::host;
  for (const BundleTarget &each : info.targets) {
    names += (names.empty() ? "" : ", ") + each.target;
    Target target = *Target::parse(each.target); // the manifest's reader has checked it
    if (onHost != (target.kind == Target::Kind::host))
      continue;
    if (onHost) {
      lacking = lackingHostFeatures(each.architecture);
      if (lacking.empty())
        return &each;
      continue;
    }
    CodeReach reach = reachOf(formatOf(each.codeFormat), each.architecture);
    if (runsOn(reach, target.sm, device.sm) && target.sm > chosenSm) {
      chosen = &each;
      chosenSm = target.sm;
    }
  }
  if (chosen)
    return chosen;
  if (!lacking.empty())
    return Error(Code::notFound, "the host's code was made for a CPU with features that " +
                                     device.name + " lacks (" + lacking +
                                     "): export the bundle on a machine like this one");
  return Error(Code::notFound, "nothing in it runs on " + device.name + " (" + device.target +
                                   "), it has code for " + names + ": export it for " +
                                   device.target + ", too");
}

/// Files of different bundles must not be mixed.
static Status checkBelongs(const BundleInfo &info, const BundleTarget &target,
                           const Artifact &artifact) {
  if (artifact.variantName == info.variantName && artifact.target.name() == target.target &&
      artifact.inputType == info.inputType && artifact.headDimQk == info.headDimQk &&
      artifact.headDimV == info.headDimV && artifact.schedule == target.schedule &&
      codeFormatName(artifact.format) == target.codeFormat)
    return Status::success();
  return Error(Code::inputOutput, "the manifest describes another kernel than " + target.file +
                                      " contains: export the bundle again");
}

/// Checks numbers that are passed to the driver or allocated without further checks.
static Status checkNumbers(const Artifact &artifact) {
  bool onGpu = artifact.target.kind == Target::Kind::cuda;
  constexpr int64_t most = int64_t(1) << 30; // bytes of a thread block or a worker; far above any
                                             // real one
  for (const Launch &launch : artifact.launches)
    if ((onGpu && (launch.threads < 1 || launch.threads > 1024)) || launch.sharedBytes < 0 ||
        launch.sharedBytes > most || launch.workspaceBytes < 0 || launch.workspaceBytes > most)
      return Error(Code::inputOutput,
                   "the kernel " + launch.kernel +
                       " has an impossible number of threads or bytes: export the "
                       "bundle again");
  return Status::success();
}

static Result<Artifact> readArtifact(const BundleInfo &info, const BundleTarget &target,
                                     const std::string &folder) {
  std::string path = folder + "/" + target.file;
  Result<std::string> bytes = readBounded(path, target.bytes);
  if (!bytes)
    return bytes.error();
  if (bytes->size() != target.bytes || sha256Hex(*bytes) != target.digest)
    return Error(Code::inputOutput, path + " is damaged or from another bundle: its digest differs "
                                           "from the manifest's; export the bundle again");
  Result<Artifact> artifact = Artifact::deserialize(*bytes);
  if (!artifact)
    return artifact.error().within(path);
  if (Status status = checkBelongs(info, target, *artifact); !status)
    return status.error();
  if (Status status = checkNumbers(*artifact); !status)
    return status.error().within(path);
  return artifact;
}

Result<Kernel> loadKernel(const Context &context, const std::string &path) {
  Result<BundleInfo> info = readBundle(path);
  if (!info)
    return info.error();
  std::string within = "the bundle " + path;
  Result<const BundleTarget *> target = chooseTarget(*info, context.device());
  if (!target)
    return target.error().within(within);
  std::string folder = fs::path(manifestPath(path)).parent_path().string();
  Result<Artifact> artifact = readArtifact(*info, **target, folder.empty() ? "." : folder);
  if (!artifact)
    return artifact.error().within(within);
  auto kernel = loadKernel(*artifact, *context.internal()->backend);
  if (!kernel)
    return kernel.error().within(within);
  auto state = std::make_shared<Kernel::State>();
  state->events = context.internal()->events;
  state->kernel = std::move(*kernel);
  state->info = state->kernel->info;
  state->info.origin = KernelInfo::Origin::bundle;
  if (artifact->format == CodeFormat::cubin) // another machine assembled it
    state->info.assembler.clear();
  return Kernel(std::move(state));
}

} // namespace tesela
