//===- RoleRun.h - Executes a role in the compiler --------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// What a role does to channels depends on two things only: the number of work items, and how often
// the loops of each item run. So the compiler can execute a role for given numbers of both. It
// computes i32 and i1 values; tiles and loaded values stay unknown. All roles see the same numbers.
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

using Number = std::optional<int64_t>; ///< nothing if it is unknown
using Numbers = llvm::SmallVector<Number>;

/// The numbers for which the roles are executed.
struct Scenario {
  int64_t items; ///< work items of the thread block
  /// How often a loop of unknown bounds runs the first, third, … time; the other times it runs once
  /// more. The loops of all roles run equally often (C4 of pipe-verify-protocol).
  int64_t iterations;
};

/// An op that a role has run. Events are in program order.
struct Event {
  mlir::Operation *op;
  Number use; ///< of an op on a channel: its use; of a pipe.write: its stage
  /// The stages that `op` reads through pipe.slot, each with its buffer.
  llvm::SmallVector<std::pair<mlir::Value, Number>, 2> reads;
};

/// The numbers that were sent, by channel and use.
using Sent = llvm::DenseMap<mlir::Value, std::vector<Numbers>>;

/// Executes a role and returns its events: ops on channels and buffers, and barriers. Roles that
/// send must run first: `sent` has what they sent, and gets what this role sends.
mlir::FailureOr<std::vector<Event>> runRole(mlir::Region &role, const Scenario &scenario,
                                            Sent &sent);

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_ROLERUN_H
