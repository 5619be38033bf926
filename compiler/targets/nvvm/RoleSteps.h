//===- RoleSteps.h - A role's ops on channels -------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_ROLESTEPS_H
#define TESELA_COMPILER_TARGETS_NVVM_ROLESTEPS_H

#include "targets/nvvm/Passes.h"

#include "llvm/ADT/MapVector.h"

#include <vector>

namespace tesela::nvvm {

/// The channel and the number of the use that `op` names; nulls if it names none.
std::pair<mlir::Value, mlir::Value> useOf(mlir::Operation *op);

/// The part of the use that an acquire or a fill is for; 0 for other ops.
int64_t partOf(mlir::Operation *op);

/// The channel that fills the buffer which is crossed with the one that `channel` fills; null if
/// there is none.
mlir::Value crossedChannel(mlir::Value channel);

inline bool beginsUse(mlir::Operation *op) {
  return llvm::isa<pipe::AcquireOp, pipe::AwaitOp, pipe::ReceiveOp>(op);
}

inline int64_t stagesOf(mlir::Value channel) {
  return llvm::cast<pipe::ChannelType>(channel.getType()).getStages();
}

inline bool isLoop(mlir::Operation *op) {
  return llvm::isa<mlir::scf::ForOp, mlir::scf::WhileOp>(op);
}

/// The blocks of `loop`, in the order in which an iteration runs them.
llvm::SmallVector<mlir::Block *> blocksOf(mlir::Operation *loop);

/// An op of a role on a channel, or a loop that contains such ops.
struct Step {
  mlir::Operation *op;
  mlir::Value channel;          ///< null for a loop
  std::vector<Step> head, body; ///< of a loop; the head runs once more when the loop ends

  bool isOf(mlir::Value other) const {
    if (channel)
      return channel == other && beginsUse(op) && partOf(op) == 0;
    auto isOfOther = [&](const Step &step) { return step.isOf(other); };
    return llvm::any_of(head, isOfOther) || llvm::any_of(body, isOfOther);
  }
};
using Steps = std::vector<Step>;

/// A use, from the op that begins it to the op that ends it. Null: a reader keeps it to the end.
struct Hold {
  mlir::Operation *begin, *end;
};

/// Collects a role's steps and checks them against C1 to C3 of pipe-verify-protocol (Passes.td).
class Role {
public:
  explicit Role(llvm::StringRef name) : name(name), scopes(1) {}

  /// Reads the whole program of the role.
  mlir::LogicalResult read(mlir::Region &region) { return read(region.front(), steps); }
  /// Whether the role awaits or receives `channel` or, if `sends`, fills it or sends through it.
  bool uses(mlir::Value channel, bool sends) {
    return llvm::any_of(holds[channel], [&](const Hold &hold) {
      return llvm::isa<pipe::AcquireOp>(hold.begin) == sends;
    });
  }
  llvm::ArrayRef<Hold> holdsOf(mlir::Value channel) { return holds[channel]; }
  /// The op that ends the use which `begin` begins.
  mlir::Operation *endOf(mlir::Operation *begin) {
    for (const Hold &hold : holds[useOf(begin).first])
      if (hold.begin == begin)
        return hold.end;
    return nullptr;
  }

  llvm::StringRef name; ///< with its article, for messages
  Steps steps;

private:
  mlir::LogicalResult read(mlir::Block &block, Steps &into);
  mlir::LogicalResult readUse(mlir::Operation *op, llvm::SmallVectorImpl<mlir::Operation *> &open);
  mlir::LogicalResult readLoop(mlir::Operation *op, Steps &into);
  bool isNext(mlir::Value number, mlir::Value channel, unsigned depth);

  /// The use `value` of a channel, of which `parts` parts have begun. With 0 it is the next use.
  struct Count {
    mlir::Value value;
    int64_t parts;
  };
  /// A region that is being read. The first scope stands for the role itself.
  struct Scope {
    Scope() = default;
    Scope(mlir::ValueRange starts, mlir::ValueRange arguments)
        : starts(starts), arguments(arguments) {}

    mlir::ValueRange starts, arguments;             ///< initial values of the arguments; these
    llvm::DenseMap<mlir::Value, unsigned> counters; ///< argument that counts a channel's uses
    llvm::MapVector<mlir::Value, Count> counts;     ///< of channels that were used in the region
  };

  llvm::SmallVector<Scope> scopes;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<Hold>> holds;
};

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_ROLESTEPS_H
