//===- RolePair.h - Two roles that share channels ---------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_ROLEPAIR_H
#define TESELA_COMPILER_TARGETS_NVVM_ROLEPAIR_H

#include "targets/nvvm/RoleSteps.h"

namespace tesela::nvvm {

/// The diagnostic of uses that `there` (or nothing, null) does not match.
mlir::LogicalResult differ(mlir::Operation *here, mlir::Operation *there);

/// What was received, in any role, to what was sent.
using Messages = llvm::DenseMap<mlir::Value, mlir::Value>;

/// C4 of pipe-verify-protocol (Passes.td): holds the steps of a role that sends against those of
/// one that reads.
class Pair {
public:
  Pair(Role &sender, Role &reader, Messages &messages)
      : sender(sender), reader(reader), messages(messages) {}

  /// For one channel.
  mlir::LogicalResult compare(mlir::Value channel) {
    return compare(channel, sender.steps, reader.steps);
  }
  /// That the loops of both run equally often, once `compare` has seen all channels of all roles.
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
