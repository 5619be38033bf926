//===- GradientProblem.h - The tensors of a backward pass -------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TOOLS_GRADIENTPROBLEM_H
#define TESELA_TOOLS_GRADIENTPROBLEM_H

#include "Problem.h"

#include "tesela/Check.h"
#include "tesela/Context.h"

#include <string>
#include <utility>
#include <vector>

namespace tesela::tool {

/// What the gradients of a Problem need besides it, in host memory.
struct GradientProblem {
  /// do, dq, dk, dv, and dlse where the file of --input has it: the names of a launch's tensors.
  std::vector<NamedTensor> tensors;

  /// Those of the forward pass, o and lse among them, with these.
  LaunchArguments arguments(const Problem &problem, const LaunchArguments &forward) const;
  /// The view [B, H, S, D], whatever the layout.
  Tensor view(const Problem &problem, const NamedTensor &tensor) const;
  /// How each gradient compares with its reference.
  Result<std::vector<std::pair<std::string, Comparison>>>
  compare(const Problem &problem, const GradientReference &reference) const;
};

/// `do` and `dlse` from the file of `options.input` where it has them; else `do` is random, and
/// there is no dlse.
Result<GradientProblem> makeGradientProblem(const RunOptions &options, const Problem &problem);

/// The same in the device's memory: the results are filled with NaN.
class DeviceGradients {
public:
  static Result<DeviceGradients> create(const Context &context, const GradientProblem &host);

  /// Addresses in the device's memory in place of those in the host's.
  void place(LaunchArguments &arguments) const;
  Status copyResults(const Context &context, GradientProblem &host) const;

private:
  std::vector<Buffer> buffers; ///< by GradientProblem::tensors
};

} // namespace tesela::tool

#endif // TESELA_TOOLS_GRADIENTPROBLEM_H
