//===- RoleOutputs.h - How results leave the consumers ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Consumers write what leaves a work item to shared memory, from where the copy engine takes it: an
// output of 16 bits, or an addition to a workspace. What has another form goes straight from the
// registers.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_ROLEOUTPUTS_H
#define TESELA_COMPILER_TARGETS_NVVM_ROLEOUTPUTS_H

#include "targets/nvvm/Passes.h"

namespace tesela::nvvm {

/// A buffer that is filled once a work item, and of which each warpgroup reads its own rows alone.
struct OwnRows {
  pipe::AllocOp buffer;
  pipe::OpenOp channel;
};

/// From one warpgroup's stage of `buffer`, which is by shares, to the next one's. Over a buffer of
/// additions a stage lies in its warpgroup's share of these.
int64_t bytesBetweenShares(mlir::Value buffer);

/// Replaces each tile.accumulate in `block`, of the consumers, whose workspace is in fragment
/// order. The copy engine must have read a buffer before the next addition.
void emitAdditions(mlir::Block &block);

/// Replaces the tile.store of each output of two extents and 16 bits in `block`, the consumers'
/// program for a work item. Where the schedule has no buffer for outputs, an output leaves over one
/// of `ownRows`: a warpgroup writes only over rows that it alone has read. `hasItems`: other work
/// items follow. Then it leaves over the additions of emitAdditions, where there are some: the rows
/// of `ownRows` are filled for the next item meanwhile.
void emitStores(mlir::Block &block, llvm::ArrayRef<OwnRows> ownRows, bool hasItems);

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_ROLEOUTPUTS_H
