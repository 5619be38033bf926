//===- ColumnOps.cpp - Views of a tensor's columns --------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tile/ColumnOps.h"

#include "tile/Extents.h"

using namespace mlir;
using namespace tesela::tile;

#define GET_OP_CLASSES
#include "tile/ColumnOps.cpp.inc"

LogicalResult FirstColumnsOp::verify() {
  ViewType view = getView().getType(), result = getResult().getType();
  bool isAlike = view.getRank() == 4 && result.getRank() == 4 &&
                 view.getExtents().take_front(3) == result.getExtents().take_front(3) &&
                 view.getElementType() == result.getElementType();
  if (!isAlike)
    return emitOpError() << "expected two views [batch, head, position, D] that differ only in the "
                            "number of columns, got "
                         << view << " and " << result;
  std::optional<int64_t> has = view.getStaticExtent(3), takes = result.getStaticExtent(3);
  if (has && takes && *takes > *has)
    return emitOpError() << "expected at most the view's " << *has << " columns, got " << *takes;
  return success();
}
