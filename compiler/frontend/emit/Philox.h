//===- Philox.h - Philox4x32 as operations ----------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_FRONTEND_EMIT_PHILOX_H
#define TESELA_FRONTEND_EMIT_PHILOX_H

#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <array>
#include <utility>

namespace tesela {

/// Four words of 32 bits: i32, or vectors of them.
using PhiloxWords = std::array<mlir::Value, 4>;

/// Gives the upper and the lower half of a word's product with a number, as words.
using WideProduct = llvm::function_ref<std::pair<mlir::Value, mlir::Value>(uint32_t, mlir::Value)>;

/// Philox4x32 of `rounds` rounds (Salmon, Moraes, Dror and Shaw, SC'11). `key`: two words of the
/// counter's type; without, the key is 0, and the rounds' keys are numbers. `multiply`: the
/// target's own product; without, it is one of 64 bits.
PhiloxWords emitPhilox(mlir::OpBuilder &builder, mlir::Location loc, PhiloxWords counter,
                       unsigned rounds, mlir::ValueRange key = {}, WideProduct multiply = {});

} // namespace tesela

#endif // TESELA_FRONTEND_EMIT_PHILOX_H
