//===- Phases.h - tile.phase as arithmetic ----------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_COMMON_PHASES_H
#define TESELA_COMPILER_TARGETS_COMMON_PHASES_H

#include "mlir/IR/Builders.h"

namespace tesela {

/// x mod period of an i32 or a vector of i32, as `tile.phase` defines it. The types must be equal.
mlir::Value emitPhase(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x,
                      mlir::Value period, mlir::Value factor);

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_COMMON_PHASES_H
