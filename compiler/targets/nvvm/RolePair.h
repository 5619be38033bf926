//===- RolePair.h - Two roles that share channels ---------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_ROLEPAIR_H
#define TESELA_COMPILER_TARGETS_NVVM_ROLEPAIR_H

#include "targets/nvvm/RoleSteps.h"

namespace tesela::nvvm {

/// Reports that the use `here` has no matching use: `there` differs, or is null if there is none.
mlir::LogicalResult differ(mlir::Operation *here, mlir::Operation *there);

/// Maps values that a role received to the values that were sent.
using Messages = llvm::DenseMap<mlir::Value, mlir::Value>;

/// C4 of pipe-verify-protocol (Passes.td): compares the steps of a role that sends with those of a
/// role that reads.
class Pair {
public:
  Pair(Role &sender, Role &reader, Messages &messages)
      : sender(sender), reader(reader), messages(messages) {}

  /// Compares the steps on one channel.
  mlir::LogicalResult compare(mlir::Value channel) {
    return compare(channel, sender.steps, reader.steps);
  }
  /// Checks that the loops of both run equally often. `compare` must have seen all channels first.
  mlir::LogicalResult compareLoops();

private:
  mlir::LogicalResult compare(mlir::Value channel, const Steps &fills, const Steps &reads);
  mlir::Value resolve(mlir::Value value);
  bool isSame(mlir::Value first, mlir::Value second);
  bool isSameArgument(mlir::BlockArgument first, mlir::BlockArgument second);
  bool isSameResult(mlir::Value first, mlir::Value second);
  bool isSameLoop(mlir::Operation *first, mlir::Operation *second);

  Role &sender, &reader;
  Messages &messages;
  llvm::MapVector<mlir::Operation *, mlir::Operation *> loops; ///< the sender's to the reader's
  llvm::DenseMap<std::pair<mlir::Value, mlir::Value>, bool> same;
};

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_ROLEPAIR_H
