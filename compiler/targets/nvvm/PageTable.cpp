//===- PageTable.cpp - The page of a sequence's row -------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/PageTable.h"

#include "targets/nvvm/KernelLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tesela::nvvm {

std::pair<Value, Value> lookUpPage(OpBuilder &builder, Location loc, const PageTable &table,
                                   const BlockCoordinates &block) {
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(builder, loc, value, 32);
  };
  auto product = [&](Value index, Value stride) -> Value {
    Value wide = arith::ExtSIOp::create(builder, loc, builder.getI64Type(), index);
    return arith::MulIOp::create(builder, loc, wide, stride);
  };
  Value last = arith::SubIOp::create(builder, loc, block.limit, constant(1));
  Value held = arith::MinSIOp::create(builder, loc, block.first, last);
  held = arith::MaxSIOp::create(builder, loc, held, constant(0)); // a sequence may have no rows
  Value number = arith::DivUIOp::create(builder, loc, held, table.rows);
  Value index = arith::AddIOp::create(builder, loc, product(table.batch, table.lineStride),
                                      product(number, table.pageStride));
  Type i32 = builder.getI32Type();
  auto load = LLVM::LoadOp::create(
      builder, loc, i32,
      LLVM::GEPOp::create(builder, loc, table.data.getType(), i32, table.data, index));
  load.setInvariant(true);
  return {load, arith::RemUIOp::create(builder, loc, held, table.rows)};
}

Value isInPool(OpBuilder &builder, Location loc, const PageTable &table, Value pages,
               const BlockCoordinates &block) {
  Value page = lookUpPage(builder, loc, table, block).first;
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, page, pages);
}

std::pair<Value, Value> KernelLowering::placeInPage(tile::PagedOp op,
                                                    const BlockCoordinates &block) {
  PageTable table(viewOf(op.getTable()), slots, valueOf(op.getBatch()),
                  constant(*op.getView().getType().getStaticExtent(2)));
  auto [page, row] = lookUpPage(builder, loc, table, block);
  // A wrong table must not lead to an address outside of the pool.
  Value lastPage =
      arith::SubIOp::create(builder, loc, slots[viewOf(op.getView()).extents[0]], constant(1));
  page = arith::MinSIOp::create(builder, loc, page, lastPage);
  page = arith::MaxSIOp::create(builder, loc, page, constant(0));
  return {page, row};
}

} // namespace tesela::nvvm
