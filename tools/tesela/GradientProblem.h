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

/// The tensors that gradients need besides those of a Problem, in host memory.
struct GradientProblem {
  /// do, dq, dk, dv, and dlse if the file of --input has it. Names are those of a launch's tensors.
  std::vector<NamedTensor> tensors;

  /// The arguments `forward` of the forward pass (including o and lse), with these tensors added.
  LaunchArguments arguments(const Problem &problem, const LaunchArguments &forward) const;
  /// The tensor as a view [B, H, S, D], for both layouts.
  Tensor view(const Problem &problem, const NamedTensor &tensor) const;
  /// Compares each gradient with its reference.
  Result<std::vector<std::pair<std::string, Comparison>>>
  compare(const Problem &problem, const GradientReference &reference) const;
};

/// Takes `do` and `dlse` from the file of `options.input` if it has them. Otherwise `do` is random,
/// and there is no dlse.
Result<GradientProblem> makeGradientProblem(const RunOptions &options, const Problem &problem);

/// The tensors of a GradientProblem in device memory. The results are filled with NaN.
class DeviceGradients {
public:
  static Result<DeviceGradients> create(const Context &context, const GradientProblem &host);

  /// Replaces the host addresses of `arguments` by the device addresses.
  void place(LaunchArguments &arguments) const;
  Status copyResults(const Context &context, GradientProblem &host) const;

private:
  std::vector<Buffer> buffers; ///< in the order of GradientProblem::tensors
};

} // namespace tesela::tool

#endif // TESELA_TOOLS_GRADIENTPROBLEM_H
