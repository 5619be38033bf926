//===- PeriodicWords.cpp - Words of conditions that repeat ------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/PeriodicWords.h"

#include "targets/common/Phases.h"
#include "targets/nvvm/ColumnWords.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tesela::nvvm {

Value PeriodicWords::constant(int64_t value) {
  return arith::ConstantIntOp::create(builder, loc, value, 32);
}

Value PeriodicWords::reduced(Value x, Value period) {
  // If x is less than the period, x - period wraps to a large unsigned number, so x is the minimum.
  return arith::MinUIOp::create(builder, loc, x, arith::SubIOp::create(builder, loc, x, period));
}

Value PeriodicWords::pattern(Value lane, Value period, Value factor,
                             llvm::function_ref<Value(Value)> holds) {
  // From lane 8·i + a to column 128·i + a.
  Value a = arith::AndIOp::create(builder, loc, lane, constant(7));
  Value first = arith::ShLIOp::create(
      builder, loc, arith::ShRUIOp::create(builder, loc, lane, constant(3)), constant(7));
  Value phase =
      emitPhase(builder, loc, arith::AddIOp::create(builder, loc, first, a), period, factor);
  Value step = emitPhase(builder, loc, constant(8), period, factor);
  Value word = constant(0);
  auto add = [&](Value at, int64_t bit) {
    Value single = constant(int32_t(uint32_t(1) << bit));
    Value own = arith::SelectOp::create(builder, loc, holds(at), single, constant(0));
    word = arith::OrIOp::create(builder, loc, word, own);
  };
  for (int64_t group = 0; group < ColumnWords::groupsOfWord; ++group) {
    Value next = arith::AddIOp::create(builder, loc, phase, constant(1));
    add(phase, 2 * group);
    add(reduced(next, period), 2 * group + 1);
    phase = reduced(arith::AddIOp::create(builder, loc, phase, step), period);
  }
  return word;
}

Value PeriodicWords::word(Value pattern, Value begin) {
  auto both = [&](Value x, int64_t bits) -> Value {
    return arith::AndIOp::create(builder, loc, x, constant(bits));
  };
  auto shifted = [&](Value x, int64_t bits) -> Value {
    return arith::ShRUIOp::create(builder, loc, x, constant(bits));
  };
  Value a = both(begin, 7), eights = both(shifted(begin, 4), 24);
  Value lane = arith::OrIOp::create(builder, loc, a, eights);
  Value next = arith::AddIOp::create(builder, loc, lane, constant(8));
  PtxInstructions ptx(builder, loc);
  Value low = ptx.shuffleFrom(pattern, lane), high = ptx.shuffleFrom(pattern, next);
  // A shift by 2·m. The instruction uses only the last five bits of the amount.
  Value amount = both(shifted(begin, 2), 30);
  return LLVM::FshrOp::create(builder, loc, builder.getI32Type(), high, low, amount);
}

} // namespace tesela::nvvm
