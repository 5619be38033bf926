//===- TileDialect.cpp - Registration ---------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tile/ColumnOps.h"
#include "tile/GradientOps.h"
#include "tile/WorkOps.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tesela::tile;

#include "tile/TileDialect.cpp.inc"

#include "tile/TileEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "tile/TileAttributes.cpp.inc"

const tesela::Schedule *ScheduleAttr::operator->() const { return &getImpl()->choices; }

void TileDialect::initialize() {
  registerTypes();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "tile/TileAttributes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "tile/TileOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "tile/ColumnOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "tile/GradientOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "tile/WorkOps.cpp.inc"
      >();
}
