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

/// Four 32-bit words: i32, or vectors of i32.
using PhiloxWords = std::array<mlir::Value, 4>;

/// The upper and the lower half of the product of a word and a number, as words.
using WideProduct = llvm::function_ref<std::pair<mlir::Value, mlir::Value>(uint32_t, mlir::Value)>;

/// Philox4x32 with `rounds` rounds (Salmon, Moraes, Dror and Shaw, SC'11). `key` is two words of
/// the counter's type; if it is empty, the key is 0, and the keys of the rounds are constants.
/// `multiply` is the target's wide product; by default it is a 64-bit multiplication.
PhiloxWords emitPhilox(mlir::OpBuilder &builder, mlir::Location loc, PhiloxWords counter,
                       unsigned rounds, mlir::ValueRange key = {}, WideProduct multiply = {});

} // namespace tesela

#endif // TESELA_FRONTEND_EMIT_PHILOX_H
