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

/// What the arguments of a call make of a plan.
struct LaunchSizes {
  struct Step {
    Extents extents;
    int64_t items; ///< 0 or less: nothing to launch
  };
  ShortArray<Step, 8> steps;
  /// Addresses count from 0. The summary of a captured tensor has two levels.
  ShortArray<Tensor, 2 * usualParameters> workspaces;
  size_t workspaceBytes = 0; ///< of all together
};

/// An artifact's launches with the names in their slots resolved once.
class LaunchPlan {
public:
  /// Code::defect where a slot names what the artifact does not have.
  static Result<LaunchPlan> create(const Artifact &artifact);

  const Signature &signature() const { return signature_; }

  /// Every launch of the plan that goes by its own extents has no more work items at `extents` than
  /// the target's grid takes: 2^31 - 1 on a GPU, 2^63 - 2 on the host. Else Code::unsupported.
  Status checkItems(const Extents &extents) const;
  /// What arguments that passed the checks make of the plan. Code::unsupported where launches or
  /// workspaces are larger than the target can have.
  Status measure(const CheckedArguments &arguments, LaunchSizes &sizes) const;

  /// Whether some launch may take a workspace.
  bool hasWorkspaces() const { return !workspaceShapes.empty(); }
  /// Bytes of the caller's workspace that a launch takes; 0: it needs none.
  size_t workspaceBytes(const LaunchSizes &sizes) const { return sizes.workspaceBytes; }
  /// Whether `given`, where the caller gives one, serves a launch.
  Status checkWorkspace(const LaunchSizes &sizes, const LaunchWorkspace &given) const;

  /// Fills the slots and starts the launches in order. A launch without work items is left out.
  /// `sizes` are of `arguments`. `workspaces`: the kernel's; a plan without workspaces needs none.
  /// Nor does one where `given`, which has passed the check, holds what they would. Allocates
  /// nothing but what `workspaces` and counters do, as long as a launch has no more than
  /// `usualSlots` slots and the plan no more than usualParameters parameters.
  Status launch(const LoadedCode &code, const CheckedArguments &arguments, const LaunchSizes &sizes,
                void *stream, Workspaces *workspaces, const LaunchWorkspace &given) const;
  /// Measures and launches.
  Status launch(const LoadedCode &code, const CheckedArguments &arguments, void *stream,
                Workspaces *workspaces = nullptr, const LaunchWorkspace &given = {}) const;

private:
  /// A launch has at most this many tensor maps: they are encoded without allocation.
  static constexpr int maxTensorMaps = 8;
  /// Those of the library's variants, with three captured tensors of two axes, have 70 at most.
  static constexpr size_t usualSlots = 128;
  /// Workspaces of one memory begin at multiples of this: no line belongs to two.
  static constexpr int64_t workspaceAlignment = 256;

  enum class Owner { extents, tensor, parameter, workspace };
  struct Slot {
    ArgumentSlot::Kind kind;
    Owner owner; ///< `index` counts the artifact's tensors, parameters or workspaces
    int index;
    int axis, heads;
    /// A tensor without elements reads as zero wherever a kernel asks (ArgumentSlot::Kind::data).
    bool readsZero = false;
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
    bool dependent;                       ///< Launch::dependent
    std::vector<Slot> slots;
  };
  struct BoundWorkspace {
    std::string name;
    ElementType type;
    std::vector<BoundExpression> extents;
    bool isSummary() const { return name.starts_with('$'); }
  };

  static int parameterIndex(const Artifact &artifact, std::string_view name);
  static Result<Slot> resolve(const ArgumentSlot &slot, const Artifact &artifact);
  static bool fitsTensor(const ArgumentSlot &slot, const TensorArgument &tensor);
  static Result<std::vector<BoundExpression>> bind(const std::vector<Expression> &expressions,
                                                   const Artifact &artifact);
  static Result<Extents> extentsOf(const Step &step, const CheckedArguments &arguments);
  Status layOut(const CheckedArguments &arguments, LaunchSizes &sizes) const;

  /// What the launches of one call share.
  struct Call {
    const LoadedCode &code;
    const CheckedArguments &arguments;
    const LaunchSizes &sizes;
    void *stream;
    uint64_t counter = 0;
    uint64_t workspaces = 0;         ///< the address that theirs count from
    StreamWorkspace *kept = nullptr; ///< what they lie in
  };
  static uint64_t value(const Slot &slot, const Extents &extents, const Call &call);
  Status launchKept(Call &call, Workspaces &workspaces, StreamWorkspace &workspace) const;
  Status launchSteps(const Call &call) const;
  Status launchStep(size_t index, const Call &call, bool overlaps) const;

  Signature signature_;
  int64_t maxItems = 0; ///< a launch
  std::vector<Step> steps;
  std::vector<BoundWorkspace> workspaceShapes;
  bool usesCounter = false;
};

} // namespace tesela

#endif // TESELA_LAUNCH_LAUNCHPLAN_H
