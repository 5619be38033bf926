//===- CodeBuilder.h - Loops, vectors and addresses -------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// An op builder with the few forms of code that the host's lowering needs. Vectors are 1-D MLIR
// vectors. arith and math compute them element by element, and LLVM's own ops load, store and
// shuffle them, so no other dialect is needed.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_HOST_CODEBUILDER_H
#define TESELA_COMPILER_TARGETS_HOST_CODEBUILDER_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace tesela {

class CodeBuilder : public mlir::ImplicitLocOpBuilder {
public:
  using ImplicitLocOpBuilder::ImplicitLocOpBuilder;

  mlir::Type pointerType();
  static mlir::VectorType vectorOf(mlir::Type element, int64_t width);
  /// `element` if `shape` is a scalar; a vector of `element` as wide as `shape` if it is a vector.
  static mlir::Type likeShape(mlir::Type shape, mlir::Type element);

  mlir::Value i32(int64_t value);
  mlir::Value i64(int64_t value);
  /// The number as a constant of `type`: an integer or float, or a vector of it.
  mlir::Value integer(mlir::Type type, int64_t value);
  mlir::Value real(mlir::Type type, float value);
  /// A vector of `width` elements that are all `scalar`.
  mlir::Value splat(mlir::Value scalar, int64_t width);
  /// (0, 1, 2, …) in i32.
  mlir::Value iota(int64_t width);
  /// The elements with the numbers `numbers` of `a` followed by `b`.
  mlir::Value shuffle(mlir::Value a, mlir::Value b, llvm::ArrayRef<int32_t> numbers);

  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value multiply(mlir::Value a, mlir::Value b);
  /// a · factor + b, in i64.
  mlir::Value multiplyAdd(mlir::Value a, int64_t factor, mlir::Value b);

  /// The address `index` elements behind `base`; for a vector of indices, a vector of addresses.
  mlir::Value address(mlir::Value base, mlir::Type element, mlir::Value index);
  mlir::Value load(mlir::Type type, mlir::Value address);
  /// A load from memory that nothing writes while the kernel runs.
  mlir::Value loadInvariant(mlir::Type type, mlir::Value address);
  void store(mlir::Value value, mlir::Value address);

  /// for (i64 i = low; i < high; i += step) body(i)
  void loop(mlir::Value low, mlir::Value high, int64_t step,
            llvm::function_ref<void(mlir::Value)> body);
  void loop(int64_t high, int64_t step, llvm::function_ref<void(mlir::Value)> body);
  /// The same with carried values. The body returns their next values.
  llvm::SmallVector<mlir::Value>
  loop(int64_t high, int64_t step, mlir::ValueRange init,
       llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value, mlir::ValueRange)> body);
};

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_HOST_CODEBUILDER_H
