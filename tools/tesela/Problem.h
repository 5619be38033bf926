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

/// Extents, inputs and room for the results, in host memory.
struct Problem : LaunchExtents {
  ElementType type = ElementType::bf16;
  Layout layout = Layout::bhsd;
  int64_t Dqk = 0, Dv = 0;
  double scale = 0;

  HostTensor q, k, v, o, lse;
  /// The views [B, H, S, D] of the four tensors, whatever the layout.
  Tensor qView, kView, vView, oView;
  std::vector<NamedTensor> captures;
  std::vector<ScalarArgument> scalars;
  bool randomInputs = false; ///< q, k and v come from no file

  /// All of it as arguments of a launch on the host.
  LaunchArguments hostArguments() const;
};

/// Without `options.input` seeded random data of the extents in `options`: q, k and v of its kind,
/// and randomCaptures. Else each capture of the variant is the file's tensor of that name, and so
/// are q, k and v; where a file for captures has none of the three they are random, of the extents
/// that shapeOfFile gives.
Result<Problem> makeProblem(const RunOptions &options, const VariantInfo &variant);

} // namespace tesela::tool

#endif // TESELA_TOOLS_PROBLEM_H
