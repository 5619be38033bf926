//===- WorkHeads.h - Work items that share a position -----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_COMMON_WORKHEADS_H
#define TESELA_COMPILER_TARGETS_COMMON_WORKHEADS_H

#include "targets/common/BlockCoordinates.h"
#include "tesela/compiler/Artifact.h"

namespace tesela {

/// The results of tile.work_heads, each an i32.
struct WorkHeads {
  mlir::Value batch, position, first, end;
};

/// An item has s = ceil(B · H · Sq / most) heads, and a position has n = ceil(H / s) items. So
/// item = (batch · Sq + position) · n + first / s.
WorkHeads emitWorkHeads(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value item,
                        const ExtentValues &extents, int64_t most);

/// The number of work items: B · Sq · n.
Expression itemsOfHeads(int64_t most);

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_COMMON_WORKHEADS_H
