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
  return emitOpError() << "expected to stand in the kernel itself, got '" << parent->getName()
                       << "' around it: leave before loops and branches, or put what is left out "
                          "into a branch";
}
