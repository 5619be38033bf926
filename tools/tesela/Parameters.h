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

/// Those that `shape` asks for; fails where the heads do not fit.
Result<LaunchExtents> extentsOf(const LaunchShape &shape);

using NamedTensor = std::pair<std::string, HostTensor>;

/// The assignments of --param; parameters without a default must be among them.
Result<std::vector<ScalarArgument>> parseScalars(const std::vector<std::string> &assignments,
                                                 const VariantInfo &variant);

/// The same where there is no launch: --param gives `const` parameters alone.
Result<std::vector<ScalarArgument>> parseConstants(const std::vector<std::string> &assignments,
                                                   const VariantInfo &variant);

/// Takes the values of `const` parameters out of `scalars`: the kernel's, not the launch's.
std::vector<ScalarArgument> takeConstants(std::vector<ScalarArgument> &scalars,
                                          const VariantInfo &variant);

/// Seeded random captures: f32 normal, i32 uniform in [0, Sk], bool 0 or 1. An extent that a
/// capture names itself is as long as Sk.
Result<std::vector<NamedTensor>> randomCaptures(const VariantInfo &variant,
                                                const LaunchExtents &extents, uint64_t seed);

/// Each capture of the variant, under its name in the file.
Result<std::vector<NamedTensor>> readCaptures(const SafetensorsFile &file,
                                              const VariantInfo &variant);

} // namespace tesela::tool

#endif // TESELA_TOOLS_PARAMETERS_H
