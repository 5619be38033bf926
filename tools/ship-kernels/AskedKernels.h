//===- AskedKernels.h - Which kernels programs ask for ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A kernel's key contains the lengths that launches are expected to have, or a measured schedule.
// Most of these lengths choose the same few schedules. A pack has each kernel once for each
// schedule, under the keys of all specifications that choose it.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TOOLS_SHIPKERNELS_ASKEDKERNELS_H
#define TESELA_TOOLS_SHIPKERNELS_ASKEDKERNELS_H

#include "tesela/compiler/Compile.h"
#include "tune/TuneRecord.h"

#include <string>
#include <vector>

namespace tesela::ship {

/// One kernel, and all specifications that it answers.
struct AskedKernel {
  std::string schedule;                            ///< what all specifications choose, as text
  std::vector<KernelSpecification> specifications; ///< at least one
};

/// The kernels that launches of `specification` run with more than 64 queries, and those with the
/// schedules of `records` that belong to it. `specification` must name no lengths and no schedule.
Result<std::vector<AskedKernel>> askedKernels(const KernelSpecification &specification,
                                              const std::vector<TuneRecord> &records);

} // namespace tesela::ship

#endif // TESELA_TOOLS_SHIPKERNELS_ASKEDKERNELS_H
