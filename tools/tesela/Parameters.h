//===- Parameters.h - A launch's extents and parameters ---------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TOOLS_PARAMETERS_H
#define TESELA_TOOLS_PARAMETERS_H

#include "HostTensor.h"
#include "RunOptions.h"
#include "Safetensors.h"

#include "tesela/Kernel.h"
#include "tesela/Variant.h"

#include <string>
#include <utility>
#include <vector>

namespace tesela::tool {

/// The extents of a launch, as the language names them.
struct LaunchExtents {
  int64_t B = 0, H = 0, Hkv = 0, Sq = 0, Sk = 0;
};

/// The extents that `shape` asks for. Fails if the number of heads is not a multiple of kv heads.
Result<LaunchExtents> extentsOf(const LaunchShape &shape);

using NamedTensor = std::pair<std::string, HostTensor>;

/// The values of --param. Parameters without a default must be among them.
Result<std::vector<ScalarArgument>> parseScalars(const std::vector<std::string> &assignments,
                                                 const VariantInfo &variant);

/// The same for commands without a launch: --param only gives `const` parameters.
Result<std::vector<ScalarArgument>> parseConstants(const std::vector<std::string> &assignments,
                                                   const VariantInfo &variant);

/// Removes the values of `const` parameters from `scalars` and returns them: they are the kernel's.
std::vector<ScalarArgument> takeConstants(std::vector<ScalarArgument> &scalars,
                                          const VariantInfo &variant);

/// Random captures from a seed: f32 normal, i32 uniform in [0, Sk], bool 0 or 1. An extent that a
/// capture names itself has the length Sk.
Result<std::vector<NamedTensor>> randomCaptures(const VariantInfo &variant,
                                                const LaunchExtents &extents, uint64_t seed);

/// Reads each capture of the variant from the file's tensor of that name.
Result<std::vector<NamedTensor>> readCaptures(const SafetensorsFile &file,
                                              const VariantInfo &variant);

} // namespace tesela::tool

#endif // TESELA_TOOLS_PARAMETERS_H
