//===- CodeBuilder.cpp - Loops, vectors and addresses -----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/host/CodeBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tesela {

Type CodeBuilder::pointerType() { return LLVM::LLVMPointerType::get(getContext()); }

VectorType CodeBuilder::vectorOf(Type element, int64_t width) {
  return VectorType::get({width}, element);
}

Type CodeBuilder::likeShape(Type shape, Type element) {
  auto vector = dyn_cast<VectorType>(shape);
  return vector ? vectorOf(element, vector.getDimSize(0)) : element;
}

Value CodeBuilder::i32(int64_t value) { return integer(getI32Type(), value); }
Value CodeBuilder::i64(int64_t value) { return integer(getI64Type(), value); }

Value CodeBuilder::integer(Type type, int64_t value) {
  TypedAttr attribute = getIntegerAttr(getElementTypeOrSelf(type), value);
  if (auto vector = dyn_cast<VectorType>(type))
    attribute = DenseElementsAttr::get(vector, attribute);
  return arith::ConstantOp::create(*this, attribute);
}

Value CodeBuilder::real(Type type, float value) {
  TypedAttr attribute = getFloatAttr(getElementTypeOrSelf(type), llvm::APFloat(value));
  if (auto vector = dyn_cast<VectorType>(type))
    attribute = DenseElementsAttr::get(vector, attribute);
  return arith::ConstantOp::create(*this, attribute);
}

Value CodeBuilder::splat(Value scalar, int64_t width) {
  VectorType type = vectorOf(scalar.getType(), width);
  Value undefined = LLVM::PoisonOp::create(*this, type);
  Value first = LLVM::InsertElementOp::create(*this, undefined, scalar, i64(0));
  return shuffle(first, undefined, SmallVector<int32_t>(width, 0));
}

Value CodeBuilder::iota(int64_t width) {
  SmallVector<int32_t> numbers(width);
  for (int64_t index = 0; index < width; ++index)
    numbers[index] = int32_t(index);
  return arith::ConstantOp::create(
      *this, DenseElementsAttr::get(vectorOf(getI32Type(), width), ArrayRef<int32_t>(numbers)));
}

Value CodeBuilder::shuffle(Value a, Value b, ArrayRef<int32_t> numbers) {
  return LLVM::ShuffleVectorOp::create(*this, a, b, numbers);
}

Value CodeBuilder::add(Value a, Value b) { return arith::AddIOp::create(*this, a, b); }
Value CodeBuilder::multiply(Value a, Value b) { return arith::MulIOp::create(*this, a, b); }

Value CodeBuilder::multiplyAdd(Value a, int64_t factor, Value b) {
  return add(multiply(a, i64(factor)), b);
}

Value CodeBuilder::address(Value base, Type element, Value index) {
  return LLVM::GEPOp::create(*this, likeShape(index.getType(), pointerType()), element, base,
                             ValueRange{index});
}

/// Vectors have the alignment of their elements.
static unsigned alignmentOf(Type type) {
  Type element = getElementTypeOrSelf(type);
  return element.isIntOrFloat() ? element.getIntOrFloatBitWidth() / 8 : 8;
}

Value CodeBuilder::load(Type type, Value address) {
  return LLVM::LoadOp::create(*this, type, address, alignmentOf(type));
}

Value CodeBuilder::loadInvariant(Type type, Value address) {
  return LLVM::LoadOp::create(*this, type, address, alignmentOf(type), /*isVolatile=*/false,
                              /*isNonTemporal=*/false, /*isInvariant=*/true);
}

void CodeBuilder::store(Value value, Value address) {
  LLVM::StoreOp::create(*this, value, address, alignmentOf(value.getType()));
}

void CodeBuilder::loop(Value low, Value high, int64_t step, llvm::function_ref<void(Value)> body) {
  auto loop = scf::ForOp::create(*this, low, high, i64(step));
  InsertionGuard guard(*this);
  setInsertionPointToStart(loop.getBody());
  body(loop.getInductionVar());
}

void CodeBuilder::loop(int64_t high, int64_t step, llvm::function_ref<void(Value)> body) {
  loop(i64(0), i64(high), step, body);
}

SmallVector<Value>
CodeBuilder::loop(int64_t high, int64_t step, ValueRange init,
                  llvm::function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  auto loop = scf::ForOp::create(*this, i64(0), i64(high), i64(step), init);
  InsertionGuard guard(*this);
  setInsertionPointToStart(loop.getBody());
  SmallVector<Value> next = body(loop.getInductionVar(), loop.getRegionIterArgs());
  if (!next.empty()) // a loop that carries nothing has its terminator already
    scf::YieldOp::create(*this, next);
  return SmallVector<Value>(loop.getResults());
}

} // namespace tesela
