//===- WorkOps.cpp - Work items of other kinds ------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tile/WorkOps.h"

#include "tile/CustomExtent.h"

using namespace mlir;
using namespace tesela::tile;

#define GET_OP_CLASSES
#include "tile/WorkOps.cpp.inc"

LogicalResult LeaveOp::verify() {
  Operation *parent = (*this)->getParentOp();
  if (isa<KernelOp>(parent))
    return success();
  return emitOpError() << "expected to be directly in the body of a tile.kernel, got the parent '"
                       << parent->getName()
                       << "': place it before loops and branches, or put the operations to be "
                          "skipped into a branch";
}
