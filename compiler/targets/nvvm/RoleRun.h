//===- RoleRun.h - A role, run for a few work items -------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// What a role does to channels depends on two things alone: how many work items there are, and how
// often the loops of each run. So a role can be run here, for given numbers of both, by computing
// its i32 and i1 values; tiles and what is loaded stay unknown. All roles see the same numbers.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_ROLERUN_H
#define TESELA_COMPILER_TARGETS_NVVM_ROLERUN_H

#include "targets/nvvm/Passes.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>
#include <vector>

namespace tesela::nvvm {

using Number = std::optional<int64_t>; ///< nothing: not known
using Numbers = llvm::SmallVector<Number>;

/// What a run is given.
struct Scenario {
  int64_t items; ///< work items of the thread block
  /// Of a loop whose bounds are not known, the first, third, … time that it runs; the other times
  /// it has one more. The roles' loops run equally often (C4 of pipe-verify-protocol).
  int64_t iterations;
};

/// An op that a role ran, in order.
struct Event {
  mlir::Operation *op;
  Number use; ///< of a channel's op: the number of the use; of a pipe.write: the stage
  /// The stages that `op` reads through pipe.slot.
  llvm::SmallVector<std::pair<mlir::Value, Number>, 2> reads;
};

/// The numbers that were sent, by channel and use.
using Sent = llvm::DenseMap<mlir::Value, std::vector<Numbers>>;

/// The events of a role: what it does to channels and buffers, and barriers. Sending roles run
/// first: `sent` has what they sent, and gets what this one sends.
mlir::FailureOr<std::vector<Event>> runRole(mlir::Region &role, const Scenario &scenario,
                                            Sent &sent);

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_ROLERUN_H
