//===- RowMap.cpp ---------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "analysis/RowMap.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tesela {

RowPlace emitRowPlace(OpBuilder &builder, Location loc, Value row, int64_t heads) {
  if (heads == 1)
    return {Value(), row};
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(builder, loc, row.getType(), value);
  };
  Value position = arith::ShRUIOp::create(builder, loc, row, constant(llvm::Log2_64(heads)));
  Value head = arith::AndIOp::create(builder, loc, row, constant(heads - 1));
  return {head, position};
}

/// The shift with which `op` computes the position of a row; nullopt if it does not.
static std::optional<int64_t> shiftOfRow(Operation *op, BlockArgument row) {
  APInt shift;
  auto position = dyn_cast_or_null<arith::ShRUIOp>(op);
  if (!position || position.getLhs() != row ||
      !matchPattern(position.getRhs(), m_ConstantInt(&shift)))
    return std::nullopt;
  return shift.getZExtValue();
}

static BlockArgument rowOf(tile::MapOp map) {
  return map.getBody().getArgument(map.getSources().size());
}

int64_t headsOfRows(tile::MapOp map) {
  for (Operation *user : rowOf(map).getUsers())
    if (std::optional<int64_t> shift = shiftOfRow(user, rowOf(map)))
      return int64_t(1) << *shift;
  return 1;
}

bool isRowPosition(Value value, tile::MapOp map) {
  return headsOfRows(map) == 1 ? value == rowOf(map)
                               : shiftOfRow(value.getDefiningOp(), rowOf(map)).has_value();
}

} // namespace tesela
