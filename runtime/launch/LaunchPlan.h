//===- LaunchPlan.h - From arguments to kernel parameters -------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_LAUNCH_LAUNCHPLAN_H
#define TESELA_LAUNCH_LAUNCHPLAN_H

#include "backend/Backend.h"
#include "launch/CheckedArguments.h"
#include "launch/Workspaces.h"

#include <vector>

namespace tesela {

/// An artifact's launches with the names in their slots resolved once.
class LaunchPlan {
public:
  /// Code::defect where a slot names what the artifact does not have.
  static Result<LaunchPlan> create(const Artifact &artifact);

  const Signature &signature() const { return signature_; }

  /// Every launch of the plan has no more work items at `extents` than the target's grid takes:
  /// 2^31 - 1 on a GPU, 2^63 - 2 on the host. Else Code::unsupported.
  Status checkItems(const Extents &extents) const;
  /// Likewise of the launches and the workspaces that follow from captured tensors.
  Status checkCaptures(const CheckedArguments &arguments) const;

  /// Fills the slots and starts the launches in order, for arguments that passed the checks. A
  /// launch without work items is left out. `workspaces`: the kernel's; a plan without workspaces
  /// needs none.
  Status launch(const LoadedCode &code, const CheckedArguments &arguments, void *stream,
                Workspaces *workspaces = nullptr) const;

private:
  /// A launch has at most this many tensor maps: they are encoded without allocation.
  static constexpr int maxTensorMaps = 8;
  /// Workspaces of one memory begin at multiples of this: no line belongs to two.
  static constexpr int64_t workspaceAlignment = 256;

  enum class Owner { extents, tensor, parameter, workspace };
  struct Slot {
    ArgumentSlot::Kind kind;
    Owner owner; ///< `index` counts q k v o lse, parameters or workspaces
    int index;
    int axis, heads;
  };
  /// An expression with its captured tensors found.
  struct BoundExpression {
    Expression expression;
    std::vector<std::pair<int, int>> captureAxes; ///< parameter and axis
    int64_t evaluate(const CheckedArguments &arguments) const;
  };
  struct Step {
    Expression items;
    std::vector<BoundExpression> extents; ///< none: the plan's; else B H Hkv Sq Sk
    int summarizes;                       ///< a parameter; -1: none
    std::vector<Slot> slots;
  };
  using Shape = std::vector<BoundExpression>;

  static int parameterIndex(const Artifact &artifact, std::string_view name);
  static Result<Slot> resolve(const ArgumentSlot &slot, const Artifact &artifact);
  static Result<std::vector<BoundExpression>> bind(const std::vector<Expression> &expressions,
                                                   const Artifact &artifact);
  static Result<Extents> extentsOf(const Step &step, const CheckedArguments &arguments);
  /// The workspaces as tensors whose addresses count from 0, and their bytes together.
  Result<std::pair<std::vector<Tensor>, size_t>> layOut(const CheckedArguments &arguments) const;
  static uint64_t value(const Slot &slot, const Extents &extents, const CheckedArguments &arguments,
                        const std::vector<Tensor> &workspaceTensors, const LoadedCode &code);
  Status launchSteps(const LoadedCode &code, const CheckedArguments &arguments, void *stream,
                     const std::vector<Tensor> &workspaceTensors, StreamWorkspace *workspace) const;

  Signature signature_;
  int64_t maxItems = 0; ///< a launch
  std::vector<Step> steps;
  std::vector<Shape> workspaceShapes;
};

} // namespace tesela

#endif // TESELA_LAUNCH_LAUNCHPLAN_H
