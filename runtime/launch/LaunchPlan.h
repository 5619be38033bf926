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

/// The sizes that follow from the arguments of a call.
struct LaunchSizes {
  struct Step {
    Extents extents;
    int64_t items; ///< 0 or less: nothing to launch
  };
  ShortArray<Step, 8> steps;
  /// Addresses are offsets from 0. The summary of a captured tensor has two levels.
  ShortArray<Tensor, 2 * usualParameters> workspaces;
  size_t workspaceBytes = 0; ///< of all workspaces together
};

/// An artifact's launches, with the names in their slots resolved once.
class LaunchPlan {
public:
  /// Code::defect: a slot names something that the artifact does not have.
  static Result<LaunchPlan> create(const Artifact &artifact);

  const Signature &signature() const { return signature_; }

  /// Checks that no launch with the plan's own extents has more work items at `extents` than the
  /// target's grid can have: 2^31 - 1 on a GPU, 2^63 - 2 on the host. Otherwise Code::unsupported.
  Status checkItems(const Extents &extents) const;
  /// Computes the sizes for arguments that passed the checks. Code::unsupported: a launch or a
  /// workspace is larger than the target can have.
  Status measure(const CheckedArguments &arguments, LaunchSizes &sizes) const;

  /// Whether a launch of the plan can need a workspace.
  bool hasWorkspaces() const { return !workspaceShapes.empty(); }
  /// Bytes that a launch needs of the caller's workspace; 0: none.
  size_t workspaceBytes(const LaunchSizes &sizes) const { return sizes.workspaceBytes; }
  /// Checks `given`, if the caller gives a workspace: its size and alignment.
  Status checkWorkspace(const LaunchSizes &sizes, const LaunchWorkspace &given) const;

  /// Fills the slots and starts the launches in order, except those without work items. `sizes`
  /// must be measured from `arguments`. `workspaces` are the kernel's; null is allowed if the plan
  /// has none, or if `given`, which must have passed checkWorkspace(), replaces them. Allocates
  /// nothing except workspaces and counters, if a launch has at most `usualSlots` slots and the
  /// plan at most usualParameters parameters.
  Status launch(const LoadedCode &code, const CheckedArguments &arguments, const LaunchSizes &sizes,
                void *stream, Workspaces *workspaces, const LaunchWorkspace &given) const;
  /// measure() and launch().
  Status launch(const LoadedCode &code, const CheckedArguments &arguments, void *stream,
                Workspaces *workspaces = nullptr, const LaunchWorkspace &given = {}) const;

private:
  /// The most tensor maps of a launch: they are encoded without allocation.
  static constexpr int maxTensorMaps = 8;
  /// The library's variants with three captured tensors of two axes have at most 70.
  static constexpr size_t usualSlots = 128;
  /// Bytes. Workspaces in one memory begin at multiples of this: none share a cache line.
  static constexpr int64_t workspaceAlignment = 256;

  enum class Owner { extents, tensor, parameter, workspace };
  struct Slot {
    ArgumentSlot::Kind kind;
    Owner owner; ///< `index` counts the artifact's tensors, parameters or workspaces
    int index;
    int axis, heads;
    /// A tensor without elements reads as zero everywhere (ArgumentSlot::Kind::data).
    bool readsZero = false;
  };
  /// An expression whose captured tensors are resolved.
  struct BoundExpression {
    Expression expression;
    std::vector<std::pair<int, int>> captureAxes; ///< index of the parameter, and axis
    int64_t evaluate(const CheckedArguments &arguments) const;
  };
  struct Step {
    Expression items;
    std::vector<BoundExpression> extents; ///< empty: the plan's; else B H Hkv Sq Sk
    int summarizes;                       ///< the index of the summarized parameter; -1: none
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

  /// The state that the launches of one call share.
  struct Call {
    const LoadedCode &code;
    const CheckedArguments &arguments;
    const LaunchSizes &sizes;
    void *stream;
    uint64_t counter = 0;
    uint64_t workspaces = 0;         ///< the base address of the workspaces
    StreamWorkspace *kept = nullptr; ///< the memory that contains them
  };
  static uint64_t value(const Slot &slot, const Extents &extents, const Call &call);
  Status launchKept(Call &call, Workspaces &workspaces, StreamWorkspace &workspace) const;
  Status launchSteps(const Call &call) const;
  Status launchStep(size_t index, const Call &call, bool overlaps) const;

  Signature signature_;
  int64_t maxItems = 0; ///< the most work items of one launch
  std::vector<Step> steps;
  std::vector<BoundWorkspace> workspaceShapes;
  bool usesCounter = false;
};

} // namespace tesela

#endif // TESELA_LAUNCH_LAUNCHPLAN_H
