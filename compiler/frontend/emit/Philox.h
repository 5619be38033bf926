//===- Philox.h - Philox4x32 as operations ----------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_FRONTEND_EMIT_PHILOX_H
#define TESELA_FRONTEND_EMIT_PHILOX_H

#include "mlir/IR/Builders.h"

#include <array>

namespace tesela {

/// Four words of 32 bits: i32, or vectors of them.
using PhiloxWords = std::array<mlir::Value, 4>;

/// Philox4x32 of `rounds` rounds (Salmon, Moraes, Dror and Shaw, SC'11). `key`: two words of the
/// counter's type; without, the key is 0, and the rounds' keys are numbers.
PhiloxWords emitPhilox(mlir::OpBuilder &builder, mlir::Location loc, PhiloxWords counter,
                       unsigned rounds, mlir::ValueRange key = {});

} // namespace tesela

#endif // TESELA_FRONTEND_EMIT_PHILOX_H
