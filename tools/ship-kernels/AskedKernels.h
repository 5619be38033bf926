//===- AskedKernels.h - Which kernels programs ask for ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A kernel's key has the lengths that launches are expected to have, or a schedule that was
// measured; few of these choose different schedules. A kernel of a pack is compiled once for each
// schedule, and has the keys of all that choose it.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TOOLS_SHIPKERNELS_ASKEDKERNELS_H
#define TESELA_TOOLS_SHIPKERNELS_ASKEDKERNELS_H

#include "tesela/compiler/Compile.h"
#include "tune/TuneRecord.h"

#include <string>
#include <vector>

namespace tesela::ship {

/// One kernel, and all that it answers to.
struct AskedKernel {
  std::string schedule;                            ///< that all of these choose, as text
  std::vector<KernelSpecification> specifications; ///< one at least
};

/// The kernels that launches of `specification` (which names no lengths and no schedule) run with
/// more than 64 queries, and those of the schedules of `records` that are of it.
Result<std::vector<AskedKernel>> askedKernels(const KernelSpecification &specification,
                                              const std::vector<TuneRecord> &records);

} // namespace tesela::ship

#endif // TESELA_TOOLS_SHIPKERNELS_ASKEDKERNELS_H
