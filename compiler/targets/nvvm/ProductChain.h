//===- ProductChain.h - Loops whose products overlap ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Names of the parts of a loop's body. The *head* is what the first product of an iteration needs.
// The iteration before does it, behind its own last product. The *tail* begins with the last
// products: those that need no result of a product that may still run. The *main* part is what
// stands before the tail. The loop's exit stands between the two, because ptxas 13.0 makes all
// products wait (C7514) if one that started before the exit is awaited behind another one that
// starts after it. If all products read only stages, there are no last products: the tail then
// begins with the first op that uses the result of a product other than the first one.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_PRODUCTCHAIN_H
#define TESELA_COMPILER_TARGETS_NVVM_PRODUCTCHAIN_H

#include "pipe/Pipe.h"
#include "tile/Tile.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/SetVector.h"

#include <optional>

namespace tesela {

/// A loop and the parts of its body.
struct ProductChain {
  mlir::scf::ForOp loop;
  tile::DotOp first, last;              ///< last: null if all products read only stages
  llvm::SmallVector<tile::DotOp> early; ///< other products that read only stages
  llvm::SetVector<mlir::Operation *>
      head; ///< in the order of the body; does not contain `first` itself
  llvm::SmallVector<mlir::Value>
      received; ///< numbers that the head's awaits give to the rest of the iteration
  llvm::SmallVector<mlir::Operation *> main, tail; ///< without the awaits of the head
  llvm::SmallVector<pipe::AddOutOp> late; ///< additions of the tail that the next main part starts
  /// The last barrier before `last`. Late additions are drained in front of it. With an exchange,
  /// a pipe.publish replaces it.
  pipe::BarrierOp lastBarrier;
  /// Present if `last` can run one iteration late: the consumers hand its left operand to each
  /// other through this channel and the stages of a buffer.
  struct Exchange {
    pipe::WriteOp write;
    pipe::SlotOp slot;
    unsigned count;       ///< number of the loop's argument that counts the writes to the buffer
    pipe::OpenOp channel; ///< null until pipe-start-products has opened it
  };
  std::optional<Exchange> exchange;

  mlir::Block &body() { return *loop.getBody(); }
  /// Whether `value` is computed in the body or is an argument of it.
  bool isInside(mlir::Value value) {
    return loop.getBodyRegion().isAncestor(value.getParentRegion());
  }
  /// Whether the head uses `argument` of the loop.
  bool isOfHead(mlir::Value argument) {
    return llvm::any_of(argument.getUsers(),
                        [&](mlir::Operation *user) { return head.contains(user); });
  }
};

/// Returns nothing if the loop does not have the form that pipe-start-products shows (Passes.td).
std::optional<ProductChain> findProductChain(mlir::scf::ForOp loop);

/// The pipe.slot that gives `tile`; null if `tile` is computed.
pipe::SlotOp stageOf(mlir::Value tile);

/// The channel that fills `buffer`; null if no channel does.
mlir::Value channelThatFills(mlir::Value buffer);

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_NVVM_PRODUCTCHAIN_H
