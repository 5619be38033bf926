//===- WorkOps.cpp - Work items of other kinds ------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tile/WorkOps.h"

#include "tile/Extents.h"

using namespace mlir;
using namespace tesela::tile;

namespace tesela::tile {
/// For `custom<Extent>`.
static void printExtent(OpAsmPrinter &printer, Operation *, Attribute extent) {
  printExtent(static_cast<AsmPrinter &>(printer), extent);
}
} // namespace tesela::tile

#define GET_OP_CLASSES
#include "tile/WorkOps.cpp.inc"

/// A role is the other place for it, which this dialect does not know.
LogicalResult LeaveOp::verify() {
  Operation *parent = (*this)->getParentOp();
  bool isInRole = parent->getName().getDialectNamespace() == "pipe";
  if (isa<KernelOp>(parent) || isInRole)
    return success();
  return emitOpError() << "expected to stand in the kernel itself, got '" << parent->getName()
                       << "' around it: leave before loops and branches, or put what is left out "
                          "into a branch";
}
