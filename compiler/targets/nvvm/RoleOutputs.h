//===- RoleOutputs.h - How consumers store results --------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Consumers write the results of a work item to shared memory, and the copy engine stores them: an
// output of 16 bits, or an addition to a workspace. All other results are stored straight from the
// registers.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_ROLEOUTPUTS_H
#define TESELA_COMPILER_TARGETS_NVVM_ROLEOUTPUTS_H

#include "targets/nvvm/Passes.h"

namespace tesela::nvvm {

/// A buffer that is filled once per work item and of which each warpgroup reads only its own rows.
struct OwnRows {
  pipe::AllocOp buffer;
  pipe::OpenOp channel;
};

/// For a `buffer` with a stage for each warpgroup: bytes from one stage to the next. If it lies
/// over a buffer of additions, each stage lies in its warpgroup's share of them.
int64_t bytesBetweenShares(mlir::Value buffer);

/// The copy engine adds sums of up to this many columns. Wider ones are added straight from the
/// registers: 64 rows of 256 columns take 64 KB, and with them keys, values, queries and dO do not
/// fit into the shared memory of sm_90.
inline constexpr int64_t mostBufferedColumns = 128;

/// Replaces each such tile.accumulate to a workspace in fragment order in `block`, a part of the
/// consumers' program. A pipe.drain stands before each: the buffer must be free again.
void emitAdditions(mlir::Block &block);

/// Replaces each tile.store of a 16-bit output of two extents in `block`, the consumers' program
/// for a work item. If the schedule has no buffer for outputs, an output lies over one of
/// `ownRows`: a warpgroup then overwrites only rows that no other one reads. `hasItems`: other work
/// items follow. Then the output lies over the additions of emitAdditions, if there are some,
/// because `ownRows` are filled for the next item meanwhile.
void emitStores(mlir::Block &block, llvm::ArrayRef<OwnRows> ownRows, bool hasItems);

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_ROLEOUTPUTS_H
