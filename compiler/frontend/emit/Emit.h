//===- Emit.h - A variant as a module of the attn dialect -------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_FRONTEND_EMIT_EMIT_H
#define TESELA_FRONTEND_EMIT_EMIT_H

#include "frontend/Variant.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace tesela {

/// A module with one attn.variant, with the name of `variant`. Operations have
/// locations in the variant's text. A body computes each value that it needs once.
/// exp, log, tanh, sin and cos become math operations in all bodies; the lowering
/// of masks expands them (ExpandArithmetic.h). Loads the dialects that it needs
/// (attn, arith, math) into `context`.
mlir::OwningOpRef<mlir::ModuleOp> emitVariant(const Variant &variant, mlir::MLIRContext &context);

} // namespace tesela

#endif // TESELA_FRONTEND_EMIT_EMIT_H
