//===- LowerMemory.cpp - Loads and stores of registers ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Tiles that go between registers and global memory directly, not through a buffer. Each thread
// loads and stores the elements that it holds.
//
//===----------------------------------------------------------------------===//
#include "targets/common/LoadUses.h"
#include "targets/nvvm/FragmentOrder.h"
#include "targets/nvvm/FreeColumns.h"
#include "targets/nvvm/KernelLowering.h"
#include "targets/nvvm/PageTable.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tesela::nvvm {

Value KernelLowering::rowAddress(Value view, const BlockCoordinates &block, Value row) {
  if (!viewOf(view).strides.empty())
    return advance(blockAddress(view, block, builder.getF32Type()), builder.getF32Type(),
                   wide(row));
  Value line = add(multiply(wide(block.batch), wide(extents().H)), wide(block.head));
  Value start = add(multiply(line, wide(extents().Sq)), wide(block.first));
  return advance(slots[viewOf(view).data], builder.getF32Type(), add(start, wide(row)));
}

Value KernelLowering::isPassed(Value view) {
  const ViewSlots &parts = viewOf(view);
  if (!parts.isOptional)
    return Value();
  Value data = ptx().pinned(slots[parts.data]),
        none = LLVM::ZeroOp::create(builder, loc, data.getType());
  return LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::ne, data, none);
}

/// The shape of the tiles whose maps read the column values `columns`. pipe-verify-lowerable makes
/// sure that all of them are cut in the same way.
static FragmentShape shapeOfReaders(Value columns, int64_t warps) {
  for (Operation *user : columns.getUsers())
    if (auto map = dyn_cast<tile::MapOp>(user))
      return FragmentShape(cast<tile::TileType>(map.getType()), warps);
  return FragmentShape(cast<tile::TileType>(columns.getType()), warps);
}

/// Loads a value for each column from a contiguous [B, H, Sq] view of f32. Where the tiles that use
/// the values are cut, a thread loads the values of its own part. Columns beyond the end are 0; for
/// them the load reads the last column, which exists. If the launch left the tensor out, all values
/// are 0 and nothing is read.
void KernelLowering::lowerColumnLoad(tile::LoadOp op) {
  BlockCoordinates block = blockOf(op.getBlock());
  FragmentShape shape = shapeOfReaders(op.getTile(), warps);
  int64_t columns = shape.columns;
  Value firstColumn = firstColumnOf(shape);
  Value last = arith::SubIOp::create(
      builder, loc, arith::SubIOp::create(builder, loc, block.limit, block.first), constant(1));
  Value start = rowAddress(op.getView(), block, constant(0)), passed = isPassed(op.getView());
  auto load = [&](Value column) -> Value {
    return LLVM::LoadOp::create(builder, loc, builder.getF32Type(),
                                advance(start, builder.getF32Type(), wide(column)));
  };
  auto loadIfPassed = [&](Value column) -> Value {
    if (!passed)
      return load(column);
    return scf::IfOp::create(
               builder, loc, passed,
               [&](OpBuilder &, Location) { scf::YieldOp::create(builder, loc, load(column)); },
               [&](OpBuilder &, Location) { scf::YieldOp::create(builder, loc, number(0)); })
        .getResult(0);
  };
  Values results;
  for (int64_t group = 0; group < columns / 8; ++group)
    for (int64_t odd = 0; odd < 2; ++odd) {
      Value column = add(firstColumn, constant(8 * group + odd));
      Value held = arith::MinSIOp::create(builder, loc, column, last);
      Value loaded = loadIfPassed(held);
      Value exists = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sle, column, last);
      results.push_back(arith::SelectOp::create(builder, loc, exists, loaded, number(0)));
    }
  values[op] = results;
}

/// Loads a tile that is used element by element straight into the registers of its fragment. A row
/// slice comes from a contiguous [B, H, Sq] view. A tile of two extents comes in pairs of columns;
/// columns that the view lacks are 0. Where the columns are free (FreeColumns.h), a lane loads four
/// pairs at a time.
void KernelLowering::lowerLoad(tile::LoadOp op) {
  auto type = cast<tile::TileType>(op.getType());
  if (type.isSingleRow())
    return lowerColumnLoad(op);
  if (isInFragmentOrder(op.getView()))
    return lowerFragmentLoad(op);
  FragmentShape shape = shapeOf(op.getTile());
  Value firstRow = firstRowOf(shape);
  bool isRow = type.getRank() == 1;
  BlockCoordinates block = blockOf(op.getBlock());
  Type element = type.getElementType();
  bool isNarrow = !element.isF32(); // a pair is one register
  int64_t pairBytes = 2 * element.getIntOrFloatBitWidth() / 8;
  Type pair = isNarrow ? Type(builder.getIntegerType(8 * pairBytes)) : VectorType::get(2, element);
  int64_t registersOfPair = isNarrow ? 1 : 2, groups = shape.groups();
  bool isPaged = bool(placeOf(op.getView()).paged);
  Value rowStride, target;
  bool isFree = !isRow && hasFreeColumns(op);
  constexpr int64_t groupsOfFree = freeColumnsOfRow / freeColumns;
  Value ownColumn =
      isFree ? multiply(firstColumn, constant(freeColumns / 2)) : firstColumn; // 8 columns, not 2
  if (isRow) {
    target = rowAddress(op.getView(), block, firstRow);
  } else {
    groups = *op.getView().getType().getStaticExtent(3) / 8;
    rowStride = slots[viewOf(op.getView()).strides[2]];
    if (!isPaged)
      target = advance(blockAddress(op.getView(), block, element), element,
                       add(multiply(wide(firstRow), rowStride), wide(ownColumn)));
  }
  Value rowsLeft = arith::SubIOp::create(builder, loc, block.limit, add(block.first, firstRow));
  if (Value passed = isPassed(op.getView())) // if the tensor was left out, no row is read
    rowsLeft = arith::SelectOp::create(builder, loc, passed, rowsLeft, constant(0));
  auto asRegister = [&](Value narrow) -> Value {
    return narrow.getType().isInteger(32)
               ? narrow
               : arith::ExtUIOp::create(builder, loc, builder.getI32Type(), narrow);
  };
  SmallVector<Type> registers = typesOf(type);
  Value zero = isNarrow ? constant(0) : number(0);
  Values results(registers.size(), zero);
  for (int64_t strip = 0; strip < shape.strips; ++strip)
    for (int64_t half = 0; half < 2; ++half) {
      int64_t row = shape.firstRow(strip) + 8 * half;
      Value exists =
          arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sgt, rowsLeft, constant(row));
      SmallVector<Type> types(isRow ? 1 : groups * registersOfPair, registers.front());
      auto branch = scf::IfOp::create(builder, loc, types, exists, /*withElseRegion=*/true);
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(branch.thenBlock());
      Values loaded;
      if (isRow) {
        loaded.push_back(LLVM::LoadOp::create(builder, loc, element,
                                              advance(target, element, constant(row, 64))));
      } else {
        Value start;
        if (isPaged) { // each row may lie in another page
          BlockCoordinates at = block;
          at.first = add(block.first, add(firstRow, constant(row)));
          start = advance(blockAddress(op.getView(), at, element), element, wide(ownColumn));
        } else {
          start = advance(target, element, multiply(constant(row, 64), rowStride));
        }
        for (int64_t group = 0; isFree && group < groups; group += groupsOfFree) {
          Value four = LLVM::LoadOp::create(builder, loc, VectorType::get(groupsOfFree, pair),
                                            advance(start, element, constant(8 * group, 64)),
                                            /*alignment=*/groupsOfFree * pairBytes);
          for (int64_t each = 0; each < groupsOfFree; ++each)
            loaded.push_back(LLVM::ExtractElementOp::create(builder, loc, four, constant(each)));
        }
        for (int64_t group = 0; !isFree && group < groups; ++group) {
          Value two = LLVM::LoadOp::create(builder, loc, pair,
                                           advance(start, element, constant(8 * group, 64)),
                                           /*alignment=*/pairBytes);
          if (isNarrow)
            loaded.push_back(asRegister(two));
          for (int64_t odd = 0; !isNarrow && odd < 2; ++odd)
            loaded.push_back(LLVM::ExtractElementOp::create(builder, loc, two, constant(odd)));
        }
      }
      scf::YieldOp::create(builder, loc, loaded);
      builder.setInsertionPointToStart(branch.elseBlock());
      scf::YieldOp::create(builder, loc, Values(types.size(), zero));
      for (auto [index, value] : llvm::enumerate(branch.getResults())) {
        int64_t group = index / registersOfPair, odd = index % registersOfPair;
        int64_t place = (strip * shape.groups() + group) * 2 + half;
        results[isRow ? strip * 2 + half : place * registersOfPair + odd] = value;
      }
    }
  values[op] = results;
}

/// Stores a tile of one extent as the columns of a block's only row. The first lane of each four
/// stores.
void KernelLowering::lowerColumnsStore(Value tile, TypedValue<tile::ViewType> view,
                                       TypedValue<tile::BlockType> blockValue) {
  FragmentShape shape = shapeOf(tile);
  Value firstRow = firstRowOf(shape);
  BlockCoordinates block = blockOf(blockValue);
  Type element = view.getType().getElementType();
  int64_t columns = *view.getType().getStaticExtent(3);
  Value stores =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, block.first, block.limit);
  Value isFirst =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, firstColumn, constant(0));
  stores = arith::AndIOp::create(builder, loc, stores, isFirst);
  if (Value passed = isPassed(view))
    stores = arith::AndIOp::create(builder, loc, stores, passed);
  Value target = advance(blockAddress(view, block, element), element, wide(firstRow));
  for (auto [index, value] : llvm::enumerate(valuesOf(tile))) {
    int64_t first = shape.firstRow(index / 2) + 8 * (index % 2);
    Value hasColumn = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, firstRow,
                                            constant(columns - first));
    auto branch =
        scf::IfOp::create(builder, loc, arith::AndIOp::create(builder, loc, stores, hasColumn),
                          /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    Value stored = value;
    if (int64_t bits = element.getIntOrFloatBitWidth(); bits < 32)
      stored = arith::TruncIOp::create(builder, loc, builder.getIntegerType(bits), stored);
    LLVM::StoreOp::create(builder, loc, stored, advance(target, element, constant(first, 64)));
  }
}

/// Stores a tile straight from the registers of its fragment. Of a row slice the first lane of each
/// four stores; the rows of a head are adjacent in memory. A tile of two extents is stored in pairs
/// of columns, as far as the view has the columns.
void KernelLowering::lowerRegisterStore(Value tile, TypedValue<tile::ViewType> viewValue,
                                        TypedValue<tile::BlockType> blockValue, bool adds) {
  if (isInFragmentOrder(viewValue))
    return lowerFragmentStore(tile, viewValue, blockValue, adds);
  if (cast<tile::TileType>(tile.getType()).getRank() == 1 && viewValue.getType().getRank() == 4)
    return lowerColumnsStore(tile, viewValue, blockValue);
  FragmentShape shape = shapeOf(tile);
  Value firstRow = ptx().pinned(firstRowOf(shape)), firstColumn = ptx().pinned(this->firstColumn);
  // Columns that the view lacks are not stored. In a cut tile the part decides which those are.
  int64_t parts = partsOf(shape);
  Value begin = multiply(partOf(shape), constant(shape.columns));
  const Values &registers = valuesOf(tile);
  BlockCoordinates block = blockOf(blockValue);
  int64_t heads = blockValue.getType().getHeadCount();
  tile::ViewType view = viewValue.getType();
  Type element = view.getElementType();
  bool isNarrow = !element.isF32(); // a pair is one register
  bool isRow = cast<tile::TileType>(tile.getType()).getRank() == 1;
  // The address of `row`, counted from the head and the position of `at`.
  auto address = [&](const BlockCoordinates &at, Value row) {
    if (isRow)
      return rowAddress(viewValue, at, row);
    Value rows = multiply(wide(row), slots[viewOf(viewValue).strides[2]]);
    return advance(blockAddress(viewValue, at, element), element,
                   add(rows, wide(add(firstColumn, begin))));
  };
  tile::PagedOp paged = placeOf(viewValue).paged;
  Value target = paged ? Value() : address(block, firstRow);
  Value isFirst =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, firstColumn, constant(0));
  if (Value passed = isPassed(viewValue))
    isFirst = arith::AndIOp::create(builder, loc, isFirst, passed);
  Value rowsLeft = arith::SubIOp::create(builder, loc, block.limit, block.first);
  int64_t rows = blockValue.getType().getRows();
  auto named = blockValue.getDefiningOp<tile::BlockOp>();
  bool hasOwnEnd = named && named.getEnd();
  if (hasWholeBlocks(viewValue, rows) && !hasOwnEnd) // the copy engine reads whole blocks later
    rowsLeft = constant(rows);
  if (rows == 1) // the first row of a larger tile
    rowsLeft = arith::MinSIOp::create(builder, loc, rowsLeft, constant(1));
  rowsLeft = arith::SubIOp::create(builder, loc, rowsLeft, firstRow);
  for (int64_t strip = 0; strip < shape.strips; ++strip)
    for (int64_t half = 0; half < 2; ++half) {
      int64_t row = shape.firstRow(strip) + 8 * half;
      RowCoordinates at;
      if (heads == 1)
        at.exists =
            arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sgt, rowsLeft, constant(row));
      else
        at = emitRow(builder, loc, block, add(firstRow, constant(row)), heads, extents());
      BlockCoordinates ofRow = block;
      if (paged) { // each row may lie in another page
        ofRow.first = add(block.first, add(firstRow, constant(row)));
        PageTable table(viewOf(paged.getTable()), slots, valueOf(paged.getBatch()),
                        constant(*paged.getView().getType().getStaticExtent(2)));
        at.exists = arith::AndIOp::create(
            builder, loc, at.exists,
            isInPool(builder, loc, table, slots[viewOf(paged.getView()).extents[0]], ofRow));
      }
      Value stores =
          isRow ? arith::AndIOp::create(builder, loc, at.exists, isFirst).getResult() : at.exists;
      auto branch = scf::IfOp::create(builder, loc, stores, /*withElseRegion=*/false);
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(branch.thenBlock());
      Value start;
      if (heads > 1) {
        start = address({block.batch, at.head, at.position}, constant(0));
      } else if (paged) {
        start = advance(blockAddress(viewValue, ofRow, element), element,
                        wide(add(firstColumn, begin)));
      } else {
        Value below = constant(row, 64);
        if (!isRow)
          below = multiply(below, slots[viewOf(viewValue).strides[2]]);
        start = advance(target, element, below);
      }
      if (isRow) {
        LLVM::StoreOp::create(builder, loc, registers[strip * 2 + half], start);
        continue;
      }
      for (int64_t group = 0; group < std::min(*view.getStaticExtent(3) / 8, shape.groups());
           ++group) {
        int64_t place = (strip * shape.groups() + group) * 2 + half;
        Value target = advance(start, element, constant(8 * group, 64));
        OpBuilder::InsertionGuard guardOfGroup(builder);
        if (int64_t left = *view.getStaticExtent(3) - 8 * group;
            left <= (parts - 1) * shape.columns) { // the last part does not have these columns
          Value isInside =
              arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, begin, constant(left));
          auto inside = scf::IfOp::create(builder, loc, isInside, /*withElseRegion=*/false);
          builder.setInsertionPointToStart(inside.thenBlock());
        }
        if (isNarrow) {
          int64_t bits = 2 * element.getIntOrFloatBitWidth();
          Value stored = registers[place];
          if (bits < 32)
            stored = arith::TruncIOp::create(builder, loc, builder.getIntegerType(bits), stored);
          LLVM::StoreOp::create(builder, loc, stored, target, /*alignment=*/bits / 8);
          continue;
        }
        if (adds) {
          for (int64_t odd = 0; odd < 2; ++odd)
            ptx().addGlobal(advance(target, element, constant(odd, 64)),
                            registers[2 * place + odd]);
          continue;
        }
        Value pair = LLVM::PoisonOp::create(builder, loc, VectorType::get(2, element));
        for (int64_t odd = 0; odd < 2; ++odd)
          pair = LLVM::InsertElementOp::create(builder, loc, pair, registers[2 * place + odd],
                                               constant(odd));
        LLVM::StoreOp::create(builder, loc, pair, target, /*alignment=*/8);
      }
    }
}

} // namespace tesela::nvvm
