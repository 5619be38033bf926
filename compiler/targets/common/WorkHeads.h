//===- WorkHeads.h - Work items of neighbouring heads -----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_COMMON_WORKHEADS_H
#define TESELA_COMPILER_TARGETS_COMMON_WORKHEADS_H

#include "targets/common/BlockCoordinates.h"
#include "tesela/compiler/Artifact.h"

namespace tesela {

/// What tile.work_heads gives.
struct WorkHeads {
  mlir::Value batch, position, first, end;
};

/// With s = ceil(B · H · Sq / most) heads of an item, and n = ceil(H / s) items of a position:
/// item = (batch · Sq + position) · n + first / s.
WorkHeads emitWorkHeads(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value item,
                        const ExtentValues &extents, int64_t most);

/// B · Sq · n.
Expression itemsOfHeads(int64_t most);

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_COMMON_WORKHEADS_H
