//===- LaunchPlan.h - From arguments to kernel parameters -------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_LAUNCH_LAUNCHPLAN_H
#define TESELA_LAUNCH_LAUNCHPLAN_H

#include "backend/Backend.h"
#include "launch/CheckedArguments.h"

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

  /// Fills the slots and starts the launches in order, for extents that passed checkItems. A
  /// launch without work items is left out.
  Status launch(const LoadedCode &code, const CheckedArguments &arguments, void *stream) const;

private:
  /// A launch has at most this many tensor maps: they are encoded without allocation.
  static constexpr int maxTensorMaps = 8;

  struct Slot {
    ArgumentSlot::Kind kind;
    bool isParameter; ///< `index` counts parameters; else q k v o lse
    int index;        ///< -1: the launch's extents
    int axis;
  };
  struct Step {
    Expression items;
    std::vector<Slot> slots;
  };
  static Result<Slot> resolve(const ArgumentSlot &slot, const Artifact &artifact);
  static uint64_t value(const Slot &slot, const CheckedArguments &arguments,
                        const LoadedCode &code);

  Signature signature_;
  int64_t maxItems = 0; ///< a launch
  std::vector<Step> steps;
};

} // namespace tesela

#endif // TESELA_LAUNCH_LAUNCHPLAN_H
