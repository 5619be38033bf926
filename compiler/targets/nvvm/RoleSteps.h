//===- RoleSteps.h - What a role does to channels -------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_ROLESTEPS_H
#define TESELA_COMPILER_TARGETS_NVVM_ROLESTEPS_H

#include "targets/nvvm/Passes.h"

#include "llvm/ADT/MapVector.h"

#include <vector>

namespace tesela::nvvm {

/// The channel and the number of the use that `op` names; null values where it names none.
std::pair<mlir::Value, mlir::Value> useOf(mlir::Operation *op);

/// The part of it that a fill is of; 0 elsewhere.
int64_t partOf(mlir::Operation *op);

inline bool beginsUse(mlir::Operation *op) {
  return llvm::isa<pipe::AcquireOp, pipe::AwaitOp, pipe::ReceiveOp>(op);
}

inline int64_t stagesOf(mlir::Value channel) {
  return llvm::cast<pipe::ChannelType>(channel.getType()).getStages();
}

inline bool isLoop(mlir::Operation *op) {
  return llvm::isa<mlir::scf::ForOp, mlir::scf::WhileOp>(op);
}

/// In the order in which an iteration runs them.
llvm::SmallVector<mlir::Block *> blocksOf(mlir::Operation *loop);

/// What a role does to a channel, or a loop in which it does so.
struct Step {
  mlir::Operation *op;
  mlir::Value channel;          ///< null: a loop
  std::vector<Step> head, body; ///< a loop's; the head also runs once when it ends

  bool isOf(mlir::Value other) const {
    if (channel)
      return channel == other && beginsUse(op) && partOf(op) == 0;
    auto isOfOther = [&](const Step &step) { return step.isOf(other); };
    return llvm::any_of(head, isOfOther) || llvm::any_of(body, isOfOther);
  }
};
using Steps = std::vector<Step>;

/// A use between what begins and what ends it; who reads may hold one to the end (null).
struct Hold {
  mlir::Operation *begin, *end;
};

/// Reads what a role does, and holds it against C1 to C3 of pipe-verify-protocol (Passes.td).
class Role {
public:
  explicit Role(llvm::StringRef name) : name(name), scopes(1) {}

  /// The whole program of the role.
  mlir::LogicalResult read(mlir::Region &region) { return read(region.front(), steps); }
  /// Whether it awaits or receives what `channel` carries, or, if `sends`, fills or sends it.
  bool uses(mlir::Value channel, bool sends) {
    return llvm::any_of(holds[channel], [&](const Hold &hold) {
      return llvm::isa<pipe::AcquireOp>(hold.begin) == sends;
    });
  }
  llvm::ArrayRef<Hold> holdsOf(mlir::Value channel) { return holds[channel]; }
  /// What ends the use that `begin` begins.
  mlir::Operation *endOf(mlir::Operation *begin) {
    for (const Hold &hold : holds[useOf(begin).first])
      if (hold.begin == begin)
        return hold.end;
    return nullptr;
  }

  llvm::StringRef name; ///< with its article
  Steps steps;

private:
  mlir::LogicalResult read(mlir::Block &block, Steps &into);
  mlir::LogicalResult readUse(mlir::Operation *op, llvm::SmallVectorImpl<mlir::Operation *> &open);
  mlir::LogicalResult readLoop(mlir::Operation *op, Steps &into);
  bool isNext(mlir::Value number, mlir::Value channel, unsigned depth);

  /// The use `value` of a channel, of which `parts` have begun, or none: then it is the next.
  struct Count {
    mlir::Value value;
    int64_t parts;
  };
  /// A region that is being read; the first stands for the role itself.
  struct Scope {
    Scope() = default;
    Scope(mlir::ValueRange starts, mlir::ValueRange arguments)
        : starts(starts), arguments(arguments) {}

    mlir::ValueRange starts, arguments;             ///< what it is given, and as what
    llvm::DenseMap<mlir::Value, unsigned> counters; ///< which argument counts a channel's uses
    llvm::MapVector<mlir::Value, Count> counts;     ///< of the channels that were used in it
  };

  llvm::SmallVector<Scope> scopes;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<Hold>> holds;
};

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_ROLESTEPS_H
