//===- LowerMemory.cpp - Buffers, copies, loads, stores ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "pipe/Shares.h"
#include "targets/common/LoadUses.h"
#include "targets/nvvm/FragmentOrder.h"
#include "targets/nvvm/FreeColumns.h"
#include "targets/nvvm/KernelLowering.h"
#include "targets/nvvm/RoleOutputs.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tesela::nvvm {

// Memory moves in chunks of 16 bytes: 8 elements of 16 bits or 16 elements of 8 bits.
static constexpr int64_t chunkBytes = 16;

void KernelLowering::lowerAlloc(pipe::AllocOp op) {
  values[op] = {add(sharedBase, constant(*op.getOffset()))};
}

Value KernelLowering::stageAddress(Value buffer, Value stage) {
  Value bytes = constant(cast<pipe::BufferType>(buffer.getType()).getStageBytes());
  return add(valueOf(buffer), multiply(stage, bytes));
}

void KernelLowering::lowerSlot(pipe::SlotOp op) {
  values[op] = {stageAddress(op.getBuffer(), valueOf(op.getStage()))};
}

namespace {

/// How the chunks of a tile are dealt to the threads of a thread block. 8 threads take 8 adjacent
/// chunks of a row, and the next 8 threads take those of the next row. Further columns are dealt
/// likewise, in *groups* of 8 chunks. So a thread has one chunk in each group, in rows that are
/// `rowStep` apart. Where `rowStep` is a multiple of 8, all chunks of a thread have the same
/// swizzle. With one warp `rowStep` is 4, and every other row's swizzle differs in one bit.
struct ChunkDeal {
  ChunkDeal(pipe::BufferType type, int64_t threads)
      : groups(llvm::divideCeil(type.getColumns(), type.getPanelColumns())), rowStep(threads / 8),
        rows(type.getRows() / rowStep) {}

  int64_t groups;  ///< groups of 8 chunks in a row
  int64_t rowStep; ///< distance from a thread's row to its next row
  int64_t rows;    ///< rows of a thread
};

} // namespace

/// A thread's first chunk: its row, its chunk number in the row, and its address within a stage.
static std::tuple<Value, Value, Value> firstChunk(OpBuilder &builder, Location loc, Value thread,
                                                  int64_t rowBytes) {
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(builder, loc, value, 32);
  };
  Value row = arith::DivUIOp::create(builder, loc, thread, constant(8));
  Value chunk = arith::RemUIOp::create(builder, loc, thread, constant(8));
  Value swizzle = arith::AndIOp::create(builder, loc, row, constant(7));
  Value place = arith::XOrIOp::create(builder, loc, chunk, swizzle);
  Value address = arith::AddIOp::create(
      builder, loc, arith::MulIOp::create(builder, loc, row, constant(rowBytes)),
      arith::MulIOp::create(builder, loc, place, constant(chunkBytes)));
  return {row, chunk, address};
}

namespace {

/// A sequence's page table.
struct PageTable {
  PageTable(const ViewSlots &table, ArrayRef<Value> slots, Value batch, Value rows)
      : data(slots[table.data]), lineStride(slots[table.strides[0]]),
        pageStride(slots[table.strides[1]]), batch(batch), rows(rows) {}

  Value data, lineStride, pageStride; ///< address and strides of the table
  Value batch, rows;                  ///< the sequence's line in the table; rows of a page
};

} // namespace

/// The page of the block's first row, as the table names it, and the row within that page. If the
/// block's first row does not exist, the last row that exists is looked up.
static std::pair<Value, Value> lookUpPage(OpBuilder &builder, Location loc, const PageTable &table,
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

/// Whether the page of the block's first row is one of the pool's `pages` pages. A store to a page
/// outside of the pool must be dropped: it must not go to another page.
static Value isInPool(OpBuilder &builder, Location loc, const PageTable &table, Value pages,
                      const BlockCoordinates &block) {
  Value page = lookUpPage(builder, loc, table, block).first;
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, page, pages);
}

void KernelLowering::forEachChunk(Value bufferValue, Value stage, Value view, Value blockValue,
                                  Value columns, llvm::function_ref<void(const Chunk &)> body) {
  auto buffer = cast<pipe::BufferType>(bufferValue.getType());
  ChunkDeal deal(buffer, warps * 32);
  const int64_t chunkElements = chunkBytes / buffer.getElementBytes();
  auto [row, chunk, address] = firstChunk(builder, loc, thread, buffer.getRowBytes());
  Value evenRows = add(address, stageAddress(bufferValue, valueOf(stage)));
  Value oddRows = arith::XOrIOp::create(builder, loc, evenRows, constant(4 * chunkBytes));

  // For each group: how many bytes of this thread's chunk exist in the view.
  Value firstColumn = multiply(chunk, constant(chunkElements)), limit;
  int64_t known = 0; // columns that certainly exist
  if (columns) {
    BlockCoordinates of = blockOf(columns);
    limit = arith::SubIOp::create(builder, loc, of.limit, of.first);
  } else {
    known = *cast<tile::ViewType>(view.getType()).getStaticExtent(3);
    limit = constant(known);
  }
  Values bytes;
  const int64_t groupElements = 8 * chunkElements;
  for (int64_t group = 0; group < deal.groups; ++group) {
    if ((group + 1) * groupElements <= known) {
      bytes.push_back(constant(chunkBytes));
      continue;
    }
    Value column = add(firstColumn, constant(group * groupElements));
    Value left = arith::SubIOp::create(builder, loc, limit, column);
    left = arith::MaxSIOp::create(builder, loc, left, constant(0));
    left = arith::MinSIOp::create(builder, loc, left, constant(chunkElements));
    bytes.push_back(multiply(left, constant(buffer.getElementBytes())));
  }
  if (columns)
    firstColumn = add(firstColumn, blockOf(columns).first);

  Type element = buffer.getElementType();
  auto moveRow = [&](int64_t index, Value global, Value exists) {
    Value address = index * deal.rowStep % 8 == 0 ? evenRows : oddRows;
    for (int64_t group = 0; group < deal.groups; ++group)
      body({address, index * deal.rowStep * buffer.getRowBytes() + group * 8 * chunkBytes,
            advance(global, element, constant(group * groupElements, 64)), bytes[group], exists});
  };
  BlockCoordinates block = blockOf(blockValue);
  int64_t heads = cast<tile::BlockType>(blockValue.getType()).getHeadCount();
  if (heads > 1) {
    for (int64_t index = 0; index < deal.rows; ++index) {
      RowCoordinates at =
          emitRow(builder, loc, block, add(row, constant(index * deal.rowStep)), heads, extents());
      Value start = blockAddress(view, {block.batch, at.head, at.position}, element);
      moveRow(index, advance(start, element, wide(firstColumn)), at.exists);
    }
    return;
  }
  bool isWritten = kernel.getArgumentRole(placeOf(view).argument.getArgNumber()) == tile::Role::Out;
  bool liesTogether =
      !isWritten &&
      rowsTogether(view, cast<tile::BlockType>(blockValue.getType())) >= buffer.getRows();
  if (tile::PagedOp paged = placeOf(view).paged;
      paged && !liesTogether) { // each row may lie in another page
    PageTable table(viewOf(paged.getTable()), slots, valueOf(paged.getBatch()),
                    constant(*paged.getView().getType().getStaticExtent(2)));
    for (int64_t index = 0; index < deal.rows; ++index) {
      BlockCoordinates at = block;
      at.first = add(block.first, add(row, constant(index * deal.rowStep)));
      Value exists =
          arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, at.first, at.limit);
      if (isWritten) // a row must not go into a page of another sequence
        exists = arith::AndIOp::create(
            builder, loc, exists,
            isInPool(builder, loc, table, slots[viewOf(paged.getView()).extents[0]], at));
      Value start = blockAddress(view, at, element);
      moveRow(index, advance(start, element, wide(firstColumn)), exists);
    }
    return;
  }
  Value rowStride = slots[viewOf(view).strides[2]];
  Value global = advance(blockAddress(view, block, element), element,
                         add(multiply(wide(row), rowStride), wide(firstColumn)));
  Value step = multiply(rowStride, constant(deal.rowStep, 64));
  Value rowsLeft = arith::SubIOp::create(builder, loc, block.limit, add(block.first, row));
  for (int64_t index = 0; index < deal.rows; ++index) {
    Value exists = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sgt, rowsLeft,
                                         constant(index * deal.rowStep));
    moveRow(index, global, exists);
    if (index + 1 < deal.rows)
      global = advance(global, element, step);
  }
}

void KernelLowering::lowerCopy(pipe::CopyOp op) {
  forEachChunk(op.getBuffer(), op.getStage(), op.getView(), op.getBlock(), op.getColumns(),
               [&](const Chunk &chunk) {
                 Value bytes =
                     arith::SelectOp::create(builder, loc, chunk.exists, chunk.bytes, constant(0));
                 ptx().copyAsync(chunk.address, chunk.offset, chunk.global, bytes);
               });
}

void KernelLowering::lowerWrite(pipe::WriteOp op) {
  auto buffer = op.getBuffer().getType();
  if (isa<pipe::SharedAttr>(cast<tile::TileType>(op.getTile().getType()).getEncoding()))
    return lowerWideningWrite(op);
  if (buffer.getElementType().isF32())
    return lowerFragmentWrite(op);
  FragmentShape shape = shapeOf(op.getTile());
  const Values &pairs = valuesOf(op.getTile());
  int64_t rowBytes = buffer.getPanels() ? 8 * chunkBytes : buffer.getRowBytes();
  // The distance in bytes from 8 chunks of a row to the next 8 chunks.
  int64_t eightChunks = buffer.getPanels() ? buffer.getRows() * rowBytes : 8 * chunkBytes;
  auto pairOf = [&](int64_t strip, int64_t group, int64_t half) {
    return pairs[(strip * shape.groups() + group) * 2 + half];
  };
  // Where this thread's part of the columns begins: inside a panel of 8 chunks, or at a panel.
  Value partBits, partPanels;
  if (partsOf(shape) > 1 && shape.groups() % 8 == 0)
    partPanels = multiply(partOf(shape), constant(shape.groups() / 8 * eightChunks));
  else if (partsOf(shape) > 1)
    partBits = multiply(partOf(shape), constant(shape.groups() * chunkBytes));
  // Every chip whose kernels have consumers also has stmatrix. We use it for operands, which each
  // iteration writes. At the end of a work item its addresses would cost registers: with packed
  // heads of dimension 256, ptxas spilled 12 bytes.
  int64_t rows = cast<tile::TileType>(op.getTile().getType()).getExtent(0);
  bool isShare = pipe::isByShares(buffer, rows, consumers);
  bool isOperand = (buffer.getStages() > 1 && !isShare) || partsOf(shape) > 1;
  if (consumers > 0 && isOperand && shape.groups() % 2 == 0 && rowBytes % (8 * chunkBytes) == 0) {
    auto both = [&](Value a, int64_t bits) -> Value {
      return arith::AndIOp::create(builder, loc, a, constant(bits));
    };
    // A lane gives the address of one row of the four matrices: row (lane mod 16) of the strip, in
    // the first or the second of two groups.
    Value row = both(lane, 15), group = arith::ShRUIOp::create(builder, loc, lane, constant(4));
    Value place = arith::XOrIOp::create(builder, loc, group, both(row, 7));
    Value inStrip = add(arith::ShLIOp::create(builder, loc, rowWarpOf(shape), constant(4)), row);
    Value base = add(multiply(inStrip, constant(rowBytes)), multiply(place, constant(chunkBytes)));
    base = add(ptx().pinned(base), stageAddress(op.getBuffer(), valueOf(op.getStage())));
    if (partBits)
      base = arith::XOrIOp::create(builder, loc, base, partBits);
    else if (partsOf(shape) > 1)
      base = add(base, partPanels);
    for (int64_t group = 0; group < shape.groups(); group += 2) {
      Value address = arith::XOrIOp::create(builder, loc, base, constant((group % 8) * chunkBytes));
      for (int64_t strip = 0; strip < shape.strips; ++strip)
        ptx().storeMatrices(address, shape.firstRow(strip) * rowBytes + (group / 8) * eightChunks,
                            {pairOf(strip, group, 0), pairOf(strip, group, 1),
                             pairOf(strip, group + 1, 0), pairOf(strip, group + 1, 1)});
    }
    return;
  }
  Value firstRow = ptx().pinned(firstRowOf(shape)), firstColumn = ptx().pinned(this->firstColumn);
  Value base = stageAddress(op.getBuffer(), valueOf(op.getStage()));
  base = add(base, multiply(firstRow, constant(rowBytes)));
  base = add(base, multiply(firstColumn, constant(2))); // bytes within the chunk
  if (isShare)                                          // rows are numbered across all stages
    base = add(base, multiply(warpgroup, constant(bytesBetweenShares(op.getBuffer()) -
                                                  buffer.getRows() * rowBytes)));
  if (partPanels)
    base = add(base, partPanels);
  // The rows of a lane differ by multiples of 8, so they all have the same swizzle.
  Value swizzle =
      multiply(arith::AndIOp::create(builder, loc, firstRow, constant(7)), constant(chunkBytes));
  for (int64_t group = 0; group < shape.groups(); ++group) {
    Value bits = constant((group % 8) * chunkBytes);
    if (partBits)
      bits = add(bits, partBits);
    Value place = arith::XOrIOp::create(builder, loc, swizzle, bits);
    Value address = add(base, place);
    for (int64_t strip = 0; strip < shape.strips; ++strip)
      for (int64_t half = 0; half < 2; ++half) {
        int64_t row = shape.firstRow(strip) + 8 * half;
        int64_t offset = row * rowBytes + (group / 8) * eightChunks;
        ptx().storeShared(address, offset, pairOf(strip, group, half));
      }
  }
}

void KernelLowering::lowerStore(pipe::StoreOp op) {
  auto storeChunk = [&](const Chunk &chunk) {
    Values data = ptx().loadShared16Bytes(chunk.address, chunk.offset);
    Value hasColumns =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sgt, chunk.bytes, constant(0));
    Value exists = arith::AndIOp::create(builder, loc, chunk.exists, hasColumns);
    auto branch = scf::IfOp::create(builder, loc, exists, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    ptx().storeGlobal16Bytes(chunk.global, data);
  };
  forEachChunk(op.getBuffer(), op.getStage(), op.getView(), op.getBlock(), /*columns=*/Value(),
               storeChunk);
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

/// Exchanges registers between two lanes whose numbers differ in `bit`: the lower lane gives its
/// `second` and gets the upper lane's `first`.
void KernelLowering::exchange(Value &first, Value &second, Value isUpper, int64_t bit) {
  auto select = [&](Value a, Value b) -> Value {
    return arith::SelectOp::create(builder, loc, isUpper, a, b);
  };
  Value received = ptx().shuffleXor(select(first, second), bit);
  Value kept = first;
  first = select(received, kept);
  second = select(second, received);
}

} // namespace tesela::nvvm
