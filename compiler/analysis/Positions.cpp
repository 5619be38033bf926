//===- Positions.cpp ------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "analysis/Positions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace tesela {

static std::optional<int64_t> constantOf(const Position &position) {
  APInt value;
  if (!position.isUniform())
    return std::nullopt;
  if (!position.base)
    return 0;
  if (!matchPattern(position.base, m_ConstantInt(&value)))
    return std::nullopt;
  return value.getSExtValue();
}

std::optional<Position> combinePositions(Operation &op, ArrayRef<Position> operands,
                                         OpBuilder &uniforms) {
  Location loc = op.getLoc();
  Position result;
  if (isa<arith::AddIOp, arith::SubIOp>(op)) {
    bool isSum = isa<arith::AddIOp>(op);
    const Position &a = operands[0], &b = operands[1];
    int64_t sign = isSum ? 1 : -1;
    result = Position(a.base, a + b * sign);
    if (b.base && isSum) {
      result.base = a.base ? uniforms.createOrFold<arith::AddIOp>(loc, a.base, b.base) : b.base;
    } else if (b.base) {
      Value from = a.base ? a.base : arith::ConstantIntOp::create(uniforms, loc, 0, 32);
      result.base = uniforms.createOrFold<arith::SubIOp>(loc, from, b.base);
    }
  } else if (isa<arith::MulIOp>(op)) {
    std::optional<int64_t> left = constantOf(operands[0]), right = constantOf(operands[1]);
    if (!left && !right)
      return std::nullopt;
    int64_t factor = right ? *right : *left;
    if (std::abs(factor) > ElementMultiples::largest)
      return std::nullopt;
    const Position &source = right ? operands[0] : operands[1];
    result = Position(Value(), source * factor);
    if (source.base)
      result.base = uniforms.createOrFold<arith::MulIOp>(
          loc, source.base, arith::ConstantIntOp::create(uniforms, loc, factor, 32));
  } else {
    return std::nullopt;
  }
  return result.isSmall() ? std::optional(result) : std::nullopt;
}

} // namespace tesela
