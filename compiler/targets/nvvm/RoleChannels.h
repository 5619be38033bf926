//===- RoleChannels.h - What roles send each other --------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The channels between the roles of a kernel (pipe-split-roles). There is one for each view that
// the producer loads for the consumers. Through the others roles send each other numbers: a work
// item's coordinates, the number of found blocks, and each found block.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_ROLECHANNELS_H
#define TESELA_COMPILER_TARGETS_NVVM_ROLECHANNELS_H

#include "targets/nvvm/RoleOutputs.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/MapVector.h"

namespace tesela::nvvm {

/// The channels of one kernel, and what a role does to send and receive numbers.
class RoleChannels {
protected:
  explicit RoleChannels(tile::KernelOp kernel)
      : kernel(kernel), schedule(kernel.getScheduleAttr()) {}

  enum class RoleKind { Finder, Producer, Consumers };

  /// How many uses of each channel a role has made, as i32 values, by the channel's number.
  using Uses = llvm::SmallVector<mlir::Value>;

  /// The buffer and the channel through which a view is loaded.
  struct ViewChannel {
    pipe::AllocOp buffer;
    pipe::OpenOp channel;
    unsigned number; ///< index of the channel in Uses
    bool inLoop;     ///< whether a loop loads the view, so that it is read until the loop ends
    bool isByRows;   ///< whether each warpgroup reads only its own rows
  };

  /// Whether the producer copies `load` for the consumers. Otherwise another load brings it
  /// (`broughtBy`), or the consumers load it themselves.
  static bool isBrought(tile::LoadOp load);
  /// Whether the producer, or the finder, has work inside `op`.
  static bool hasLoads(mlir::Operation *op);
  static bool hasFinds(mlir::Operation *op);

  /// Emits an error at `op` and sets failed_.
  void fail(mlir::Operation *op, llvm::StringRef reason);

  static mlir::Value constant(mlir::OpBuilder &builder, mlir::Location loc, int64_t value);
  static mlir::Value increment(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value);

  /// Opens the channels of the loads that the producer makes for the consumers.
  void openChannels(mlir::OpBuilder &builder);
  void crossLateLoads();
  pipe::OpenOp openNumbers(mlir::OpBuilder &builder, mlir::Location loc, int64_t stages,
                           int64_t words);
  /// Opens the finder's channels: `counts` sends all roles the number of blocks, and `blocks` sends
  /// the producer each block.
  void openFinds(mlir::OpBuilder &builder);

  unsigned countsNumber() { return viewChannels.size(); }
  unsigned blocksNumber() { return viewChannels.size() + 1; }

  /// The role that takes the work items.
  RoleKind leader() { return counts ? RoleKind::Finder : RoleKind::Producer; }

  void send(mlir::OpBuilder &builder, mlir::Location loc, pipe::OpenOp channel,
            mlir::ValueRange numbers, mlir::Value &use);
  pipe::ReceiveOp receive(mlir::OpBuilder &builder, mlir::Location loc, pipe::OpenOp channel,
                          unsigned count, mlir::Value &use);
  /// Sends the other roles the coordinates of `item`, so that they need no divisions. The first
  /// number is 0 if there is no such item, and otherwise 1 plus its part (tile.work_part). Returns
  /// whether there is one.
  mlir::Value sendItem(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value item,
                       mlir::Value use);
  /// Returns whether there is an item. Appends its batch, head and first row to
  /// `coordinates`, and its part if query heads are dealt. Only the first number is the same for
  /// all threads of a warp in the eyes of the assembler, and the part decides how often loops run.
  mlir::Value receiveItem(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value use,
                          llvm::SmallVector<mlir::Value> &coordinates);

  /// The numbers of the channels that `role` uses in the body of `loop`.
  llvm::SmallVector<unsigned> usedIn(mlir::scf::ForOp loop, RoleKind role);

  /// The buffers over which an output may be staged: a work item loads them once, and each
  /// warpgroup reads only its own rows.
  llvm::SmallVector<OwnRows> ownRows();

  tile::KernelOp kernel;
  tile::ScheduleAttr schedule;
  llvm::MapVector<mlir::Value, ViewChannel> viewChannels; ///< by view
  tile::WorkOp work;
  pipe::OpenOp items;          ///< persistent: the coordinates of the work items
  pipe::OpenOp counts, blocks; ///< of found blocks
  /// By the load that carries its numbers.
  llvm::DenseMap<mlir::Operation *, tile::FoundBlockOp> carried;
  bool failed_ = false;

private:
  /// The number of stages for the view of `load`. The first product of an iteration reads a stage
  /// that the iteration before has awaited (pipe-start-products), and the last product reads its
  /// stage until the iteration ends. Products in between hold a stage for a shorter time, so their
  /// loads may have another number of stages (`late_stages`).
  int64_t stagesOf(tile::LoadOp load, bool isInLoop);
  /// Finds, for each found block of which consumers need more than its tiles, the block's first
  /// load. That load carries the block's numbers to the consumers.
  void findCarriers();
};

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_ROLECHANNELS_H
