//===- LowerToLLVM.h - From the core to the LLVM dialect --------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_HOST_LOWERTOLLVM_H
#define TESELA_COMPILER_TARGETS_HOST_LOWERTOLLVM_H

#include "targets/host/VectorUnit.h"
#include "tesela/Status.h"

#include "mlir/IR/BuiltinOps.h"

namespace tesela {

/// Replaces the core (see HostTarget.h) by functions in the LLVM dialect for CPUs with such
/// vectors. Returns the bytes of scratch memory that each of the functions needs at most.
Result<int64_t> lowerToLLVMDialect(mlir::ModuleOp core, const VectorUnit &unit);

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_HOST_LOWERTOLLVM_H
