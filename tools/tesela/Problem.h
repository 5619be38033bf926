//===- Problem.h - The tensors of one run -----------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TOOLS_PROBLEM_H
#define TESELA_TOOLS_PROBLEM_H

#include "HostTensor.h"
#include "Parameters.h"
#include "RunOptions.h"

#include "tesela/Kernel.h"
#include "tesela/Variant.h"

#include <vector>

namespace tesela::tool {

/// Extents, inputs and memory for the results, on the host.
struct Problem : LaunchExtents {
  ElementType type = ElementType::bf16;
  Layout layout = Layout::bhsd;
  int64_t Dqk = 0, Dv = 0;
  double scale = 0;

  HostTensor q, k, v, o, lse;
  /// The four tensors as views [B, H, S, D], for both layouts.
  Tensor qView, kView, vView, oView;
  std::vector<NamedTensor> captures;
  std::vector<ScalarArgument> scalars;
  bool randomInputs = false;       ///< whether q, k and v are random, not from a file
  std::vector<std::string> unused; ///< tensors of the file that this run does not take

  /// All tensors and scalars, as the arguments of a launch on the host.
  LaunchArguments hostArguments() const;
};

/// Without `options.input`: seeded random data with the extents of `options` (q, k and v of the
/// kind `options.inputs`, and randomCaptures). With it: q, k, v and each capture are the file's
/// tensors of that name. If the file has captures and none of q, k and v, these are random, with
/// the extents that shapeOfFile gives.
Result<Problem> makeProblem(const RunOptions &options, const VariantInfo &variant);

} // namespace tesela::tool

#endif // TESELA_TOOLS_PROBLEM_H
