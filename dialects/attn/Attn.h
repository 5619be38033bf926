//===- Attn.h - The attn dialect --------------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Attn.td describes the dialect. The parameters of a variant are ScalarAttr and CaptureAttr.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_ATTN_ATTN_H
#define TESELA_ATTN_ATTN_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "attn/AttnDialect.h.inc"
#include "attn/AttnEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "attn/AttnAttributes.h.inc"

#define GET_OP_CLASSES
#include "attn/AttnOps.h.inc"

#endif // TESELA_ATTN_ATTN_H
