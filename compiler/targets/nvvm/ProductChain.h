//===- ProductChain.h - A loop whose products run beside each other *- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Names: the *head* is what the first product of an iteration needs. The iteration before does it,
// behind its own last product. The *tail* begins with the last products, those that need no result
// of a product that may still run: with it begins what a loop's exit must not cut apart, for ptxas
// 13.0 makes all products wait (C7514) where one that started before the exit is awaited behind
// another that starts after it. The *main* part is what stands before. Where all products are of
// stages there are no last ones, and the tail begins with what uses the result of another than the
// first.
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

/// A loop, and what is done where.
struct ProductChain {
  mlir::scf::ForOp loop;
  tile::DotOp first, last;              ///< no last one where all products are of stages
  llvm::SmallVector<tile::DotOp> early; ///< other products of stages alone
  llvm::SetVector<mlir::Operation *>
      head; ///< in the order of the body; `first` itself is not in it
  llvm::SmallVector<mlir::Value>
      received; ///< what awaits of the head give the rest of the iteration
  llvm::SmallVector<mlir::Operation *> main, tail; ///< without what only the head needs to do
  llvm::SmallVector<pipe::AddOutOp> late; ///< additions of the tail that the next main part starts
  /// Before `last`. In front of it late additions are drained; with an exchange a pipe.publish
  /// takes its place.
  pipe::BarrierOp lastBarrier;
  /// Where `last` can run one iteration late: the consumers hand its left operand to each other
  /// through this channel and the stages of a buffer.
  struct Exchange {
    pipe::WriteOp write;
    pipe::SlotOp slot;
    unsigned count;       ///< of the loop's arguments: how often the buffer was written
    pipe::OpenOp channel; ///< once pipe-start-products has opened it
  };
  std::optional<Exchange> exchange;

  mlir::Block &body() { return *loop.getBody(); }
  /// Of the body, or given to it.
  bool isInside(mlir::Value value) {
    return loop.getBodyRegion().isAncestor(value.getParentRegion());
  }
  /// Whether the head needs `argument` of the loop.
  bool isOfHead(mlir::Value argument) {
    return llvm::any_of(argument.getUsers(),
                        [&](mlir::Operation *user) { return head.contains(user); });
  }
};

/// Nothing where the loop is not of the form that pipe-start-products shows (Passes.td).
std::optional<ProductChain> findProductChain(mlir::scf::ForOp loop);

/// The stage that `tile` lies in; null where it is computed.
pipe::SlotOp stageOf(mlir::Value tile);

/// The channel that fills `buffer`; null where none does.
mlir::Value channelThatFills(mlir::Value buffer);

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_NVVM_PRODUCTCHAIN_H
