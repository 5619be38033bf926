//===- ShipKernels.cpp - The kernels that come with the library -----------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// tesela_ship_kernels PACK VARIANT.attn...: compiles the variants for each given target, type and
// head dimension with the ptxas that it finds. It writes the kernels into the file PACK
// (runtime/cache/KernelPack.h), where this version of the library looks before it compiles. Needs
// no GPU.
//
// tesela_ship_kernels PACK --check: checks that PACK belongs to this version of the library.
//
//===----------------------------------------------------------------------===//
#include "AskedKernels.h"

#include "assemble/BestAttempt.h"
#include "cache/KernelKey.h"
#include "cache/KernelPack.h"
#include "frontend/Parser.h"
#include "system/Processors.h"
#include "system/TaskThreads.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>

using namespace tesela;

namespace {

struct Options {
  std::string pack;
  std::vector<std::string> variants;
  std::vector<std::string> targets = {"sm_80", "sm_86", "sm_89", "sm_90"};
  std::vector<std::string> dtypes = {"bf16", "f16"};
  std::vector<int> headDims = {64, 128, 256};
  std::vector<std::string> tuned;
  bool check = false;
  int jobs = usableProcessors();
};

/// A variant's text with a type, head dimensions and a target. It has one kernel or several.
struct Subject {
  KernelSpecification specification;
  std::string group; ///< the group in the pack
};

/// Kernels that resemble each other get the same group: those of one variant and head dimension,
/// for targets with the same matrix instructions.
std::string groupOf(const std::string &variant, const KernelSpecification &specification) {
  bool hasWarpgroups = specification.target.sm == 90;
  return fmt::format("{} {} {}", variant, specification.headDimQk, hasWarpgroups ? "wgmma" : "mma");
}

Result<std::vector<Subject>> subjectsOf(const Options &options) {
  std::vector<Subject> subjects;
  for (const std::string &path : options.variants) {
    Result<std::string> text = readFile(path);
    if (!text)
      return text.error();
    for (int headDim : options.headDims)
      for (const std::string &dtype : options.dtypes)
        for (const std::string &name : options.targets) {
          std::optional<ElementType> type = parseElementType(dtype);
          if (!type)
            return Error(Code::invalidArgument,
                         fmt::format("'{}' is not an element type; give bf16 or f16", dtype));
          Result<Target> target = Target::parse(name);
          if (!target)
            return target.error();
          KernelSpecification specification;
          specification.variantText = *text;
          specification.variantFile = path;
          specification.inputType = *type;
          specification.headDimQk = specification.headDimV = headDim;
          specification.target = *target;
          subjects.push_back({specification, groupOf(path, specification)});
        }
  }
  return subjects;
}

Result<std::vector<TuneRecord>> recordsOf(const Options &options) {
  std::vector<TuneRecord> records;
  for (const std::string &path : options.tuned) {
    Result<std::string> text = readFile(path);
    if (!text)
      return text.error();
    Result<std::vector<TuneRecord>> read = parseRecords(*text);
    if (!read)
      return read.error().within(path);
    records.insert(records.end(), read->begin(), read->end());
  }
  return records;
}

Result<PackedKernel> makeKernel(const ship::AskedKernel &asked, const std::string &group,
                                const Ptxas &ptxas) {
  const KernelSpecification &first = asked.specifications.front();
  Result<Artifact> artifact =
      bestAttempt<Artifact>(first, /*times=*/nullptr, /*limits=*/{}, [&](const Artifact &compiled) {
        return ptxas.assembled(compiled, first.target.sm);
      });
  if (!artifact)
    return artifact.error();
  PackedKernel kernel{{}, group, std::move(*artifact)};
  const std::string identity = assembledIdentity(first.target.name(), ptxas.identity());
  for (const KernelSpecification &each : asked.specifications)
    kernel.keys.push_back(kernelKey(each, identity));
  return kernel;
}

std::string labelOf(const KernelSpecification &specification) {
  return fmt::format("{} of {} and D {} on {}", specification.variantFile,
                     elementTypeName(specification.inputType), specification.headDimQk,
                     specification.target.name());
}

/// The kernels of all subjects, in their order. Gives the first failure, if there is one.
Result<std::vector<PackedKernel>> makeKernels(const std::vector<Subject> &subjects,
                                              const std::vector<TuneRecord> &records,
                                              const Options &options, const Ptxas &ptxas) {
  std::vector<std::vector<PackedKernel>> made(subjects.size());
  std::optional<Error> failure;
  std::mutex mutex;
  {
    TaskThreads threads(options.jobs); // its destructor waits for the tasks
    for (size_t index = 0; index < subjects.size(); ++index)
      threads.add([&, index] {
        const Subject &subject = subjects[index];
        auto fail = [&](const Error &error) {
          std::lock_guard lock(mutex);
          if (!failure)
            failure = error.within(labelOf(subject.specification));
        };
        Result<std::vector<ship::AskedKernel>> asked =
            ship::askedKernels(subject.specification, records);
        if (!asked)
          return fail(asked.error());
        for (const ship::AskedKernel &each : *asked) {
          {
            std::lock_guard lock(mutex);
            if (failure)
              return;
          }
          Result<PackedKernel> kernel = makeKernel(each, subject.group, ptxas);
          if (!kernel)
            return fail(kernel.error());
          made[index].push_back(std::move(*kernel));
        }
      });
  }
  if (failure)
    return *failure;
  std::vector<PackedKernel> kernels;
  for (std::vector<PackedKernel> &each : made)
    std::ranges::move(each, std::back_inserter(kernels));
  return kernels;
}

Status shipKernels(const Options &options) {
  std::optional<Ptxas> ptxas = Ptxas::find();
  if (!ptxas)
    return Error(Code::notFound, "there is no ptxas on PATH, in $CUDA_HOME/bin or in "
                                 "/usr/local/cuda/bin: scripts/install-assembler installs one");
  Result<std::vector<Subject>> subjects = subjectsOf(options);
  if (!subjects)
    return subjects.error();
  Result<std::vector<TuneRecord>> records = recordsOf(options);
  if (!records)
    return records.error();
  Result<std::vector<PackedKernel>> kernels = makeKernels(*subjects, *records, options, *ptxas);
  if (!kernels)
    return kernels.error();
  Result<std::string> bytes =
      encodePack(compilerVersion(Target::Kind::cuda), ptxas->identity(), *kernels, options.jobs);
  if (!bytes)
    return bytes.error();
  if (Status status = writeFileAtomically(options.pack, *bytes); !status)
    return status;
  size_t keys = 0, code = 0;
  for (const PackedKernel &kernel : *kernels) {
    keys += kernel.keys.size();
    code += kernel.artifact.code.size();
  }
  fmt::print("{}: {} kernels under {} keys, {:.1f} MB of code in {:.2f} MB, by {}\n", options.pack,
             kernels->size(), keys, double(code) * 1e-6, double(bytes->size()) * 1e-6,
             ptxas->identity());
  return Status::success();
}

Status checkPack(const std::string &path) {
  Result<KernelPack> pack = KernelPack::open(path);
  if (!pack)
    return pack.error();
  if (pack->compiler() != compilerVersion(Target::Kind::cuda))
    return Error(Code::invalidArgument,
                 fmt::format("{} was made by {}, but this is {}: make the pack again", path,
                             pack->compiler(), compilerVersion(Target::Kind::cuda)));
  return Status::success();
}

} // namespace

int main(int count, char **values) {
  Options options;
  CLI::App app("Makes the kernels that come with the library; needs ptxas and no GPU");
  app.add_option("pack", options.pack, "The file")->required();
  app.add_option("variants", options.variants, "Files of variants");
  app.add_option("--target", options.targets, "sm_80, ...");
  app.add_option("--dtype", options.dtypes, "bf16, f16");
  app.add_option("--head-dim", options.headDims, "Of q, k and v");
  app.add_option("--tuned", options.tuned, "Tables whose schedules are compiled, too");
  app.add_option("--jobs", options.jobs, "Kernels that are compiled at a time")
      ->check(CLI::PositiveNumber);
  app.add_flag("--check", options.check, "Only say whether the file is of this library");
  CLI11_PARSE(app, count, values);
  if (!options.check && options.variants.empty()) {
    fmt::print(stderr, "tesela_ship_kernels: expected files of variants behind the pack, got none; "
                       "name them (templates/variants/*.attn), or say --check\n");
    return 2;
  }
  Status status = options.check ? checkPack(options.pack) : shipKernels(options);
  if (!status) {
    fmt::print(stderr, "tesela_ship_kernels: {}\n", status.error().message());
    return 1;
  }
  return 0;
}
