//===- LowerMemory.cpp - Loads, stores and reads ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/common/ViewPlace.h"
#include "targets/host/KernelLowering.h"
#include "targets/host/SmallFloats.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include <numeric>

using namespace mlir;

namespace tesela {

Value KernelLowering::existingRows(const BlockCoordinates &block, int64_t rows) {
  Type i64 = builder_.getI64Type();
  Value limit = arith::ExtSIOp::create(builder_, i64, block.limit);
  Value first = arith::ExtSIOp::create(builder_, i64, block.first);
  Value left = arith::SubIOp::create(builder_, limit, first);
  left = arith::MinSIOp::create(builder_, left, builder_.i64(rows));
  return arith::MaxSIOp::create(builder_, left, builder_.i64(0));
}

Value KernelLowering::rowAddress(Value view, const BlockCoordinates &block, Value row) {
  ViewPlace viewPlace = placeOf(view);
  const ViewSlots &slots = signature_.view(viewPlace.argument.getArgNumber());
  Type element = storageType(cast<tile::ViewType>(view.getType()).getElementType());
  auto wide = [&](Value value) -> Value {
    return arith::ExtSIOp::create(builder_, builder_.getI64Type(), value);
  };
  Value position = builder_.add(wide(block.first), row);
  Value outer = wide(block.batch);
  if (viewPlace.ragged) {
    outer = builder_.i64(0);
    position = builder_.add(position, wide(scalar(viewPlace.ragged.getShift())));
  } else if (viewPlace.paged) {
    std::tie(outer, position) = placeInPage(viewPlace.paged, position);
  }
  Value index;
  if (slots.strides.empty()) { // contiguous [B, H, Sq]
    index = builder_.add(builder_.multiply(wide(block.batch), wide(extents_.H)), wide(block.head));
    index = builder_.add(builder_.multiply(index, wide(extents_.Sq)), position);
  } else {
    index = builder_.multiply(outer, slots_[slots.strides[0]]);
    index = builder_.add(index, builder_.multiply(wide(block.head), slots_[slots.strides[1]]));
    bool hasRowStride = slots.strides.size() > 2; // otherwise a row is one number
    index = builder_.add(index, hasRowStride ? builder_.multiply(position, slots_[slots.strides[2]])
                                             : position);
  }
  return builder_.address(slots_[slots.data], element, index);
}

/// The table's entry for the page of `position`, in the line of batch `batch` (i32).
static Value pageAt(CodeBuilder &builder, tile::PagedOp op, const ViewSlots &table,
                    ArrayRef<Value> slots, Value batch, Value position) {
  Value rows = builder.i64(*op.getView().getType().getStaticExtent(2));
  Value number = arith::DivUIOp::create(builder, position, rows);
  Value wide = arith::ExtSIOp::create(builder, builder.getI64Type(), batch);
  Value line = builder.multiply(wide, slots[table.strides[0]]);
  Value index = builder.add(line, builder.multiply(number, slots[table.strides[1]]));
  Type i32 = builder.getI32Type();
  return builder.load(i32, builder.address(slots[table.data], i32, index));
}

std::pair<Value, Value> KernelLowering::placeInPage(tile::PagedOp op, Value position) {
  Value rows = builder_.i64(*op.getView().getType().getStaticExtent(2));
  const ViewSlots &table =
      signature_.view(cast<BlockArgument>(Value(op.getTable())).getArgNumber());
  Value page = pageAt(builder_, op, table, slots_, scalar(op.getBatch()), position);
  // A wrong table must not lead to an address outside of the pool.
  Value pages =
      slots_[signature_.view(cast<BlockArgument>(Value(op.getView())).getArgNumber()).extents[0]];
  page = arith::MinSIOp::create(builder_, page,
                                arith::SubIOp::create(builder_, pages, builder_.i32(1)));
  page = arith::MaxSIOp::create(builder_, page, builder_.i32(0));
  return {arith::ExtSIOp::create(builder_, builder_.getI64Type(), page),
          arith::RemUIOp::create(builder_, position, rows)};
}

Value KernelLowering::rowsInMemory(Value view, const BlockCoordinates &block, int64_t rows) {
  Value existing = existingRows(block, rows);
  const ViewSlots &slots = signature_.view(placeOf(view).argument.getArgNumber());
  if (!slots.isOptional)
    return existing;
  Value isLeftOut =
      LLVM::ICmpOp::create(builder_, LLVM::ICmpPredicate::eq, slots_[slots.data],
                           LLVM::ZeroOp::create(builder_, slots_[slots.data].getType()));
  return arith::SelectOp::create(builder_, isLeftOut, builder_.i64(0), existing);
}

void KernelLowering::forEachRow(Value view, Value blockValue, int64_t rows,
                                llvm::function_ref<void(Value row, Value address)> body) {
  BlockCoordinates block = blocks_.lookup(blockValue);
  int64_t heads = cast<tile::BlockType>(blockValue.getType()).getHeadCount();
  Value none = builder_.i64(0), positions = rowsInMemory(view, block, rows / heads);
  if (heads == 1)
    return builder_.loop(none, positions, 1,
                         [&](Value row) { body(row, rowAddress(view, block, row)); });
  // The heads that exist: from the block's first head to the last one of its key/value head.
  Value sharing = arith::DivUIOp::create(builder_, extents_.H, extents_.Hkv);
  Value inSharing = arith::RemUIOp::create(builder_, block.head, sharing);
  Value left = arith::SubIOp::create(builder_, sharing, inSharing);
  left = arith::MinUIOp::create(builder_, left, builder_.i32(heads));
  Value existing = arith::ExtUIOp::create(builder_, builder_.getI64Type(), left);
  builder_.loop(none, positions, 1, [&](Value position) {
    builder_.loop(none, existing, 1, [&](Value head) {
      BlockCoordinates ofHead = block;
      Value offset = arith::TruncIOp::create(builder_, builder_.getI32Type(), head);
      ofHead.head = builder_.add(block.head, offset);
      body(builder_.multiplyAdd(position, heads, head), rowAddress(view, ofHead, position));
    });
  });
}

int64_t columnsOfView(TypedValue<tile::ViewType> view, int64_t columns) {
  if (view.getType().getRank() == 3)
    return columns;
  return view.getType().getStaticExtent(3).value_or(columns);
}

namespace {
/// How products read a loaded tile.
struct RightUses {
  bool asItIs = false, transposed = false; ///< as their right operand
  bool others = false;                     ///< whether another op reads it

  explicit RightUses(tile::LoadOp op) {
    bool isWhole = !op.getColumns() && op.getBlock().getType().getHeadCount() == 1 &&
                   op.getView().getType().getRank() == 4;
    for (OpOperand &use : op.getTile().getUses()) {
      auto dot = dyn_cast<tile::DotOp>(use.getOwner());
      if (!isWhole || !dot || use.get() != dot.getB() || use.get() == dot.getA())
        others = true;
      else
        (dot.getTransposed() ? transposed : asItIs) = true;
    }
  }
};
} // namespace

// Loads and transposes squares of rows that exist, and the remaining rows element by element.
void KernelLowering::lowerTransposedLoad(tile::LoadOp op) {
  TileStorage shape = shapeOf(op.getTile().getType());
  Type element = op.getView().getType().getElementType(), stored = storageType(element);
  int64_t had = columnsOfView(op.getView(), shape.columns);
  bool isOfPairs = bool(pairProductOf(op.getTile()));
  if (isOfPairs) {
    shape = asPairs(shape);
    stored = shape.element;
    had /= 2;
  }
  TileStorage tile = allocatePanels(shape.columns, shape.rows, shape.element);
  tiles_[op.getTile()] = tile;
  BlockCoordinates block = blocks_.lookup(op.getBlock());
  int64_t width = unit_.widthFor(std::gcd(shape.rows, had));
  Value existing = existingRows(block, shape.rows);
  Value rest = arith::RemUIOp::create(builder_, existing, builder_.i64(width));
  Value whole = arith::SubIOp::create(builder_, existing, rest);
  auto load = [&](Value row, Value column, int64_t length) {
    Value address = builder_.address(rowAddress(op.getView(), block, row), stored, column);
    Type bits = length ? Type(CodeBuilder::vectorOf(stored, length)) : stored;
    Value loaded = builder_.load(bits, address);
    return isOfPairs ? loaded : toFloat(builder_, unit_, element, loaded);
  };
  auto place = [&](Value row, Value column) { return panelIndex(tile, column, row); };
  builder_.loop(builder_.i64(0), whole, width, [&](Value row) {
    builder_.loop(had, width, [&](Value column) {
      SmallVector<Value> lines;
      for (int64_t line = 0; line < width; ++line)
        lines.push_back(load(builder_.add(row, builder_.i64(line)), column, width));
      transposeSquare(lines);
      for (int64_t line = 0; line < width; ++line)
        storeTile(lines[line], tile, place(row, builder_.add(column, builder_.i64(line))));
    });
  });
  builder_.loop(whole, existing, 1, [&](Value row) {
    builder_.loop(had, 1,
                  [&](Value column) { storeTile(load(row, column, 0), tile, place(row, column)); });
  });
  Value zero = isOfPairs ? builder_.integer(tile.element, 0) : builder_.real(tile.element, 0.0f);
  auto clear = [&](Value firstRow, Value firstColumn) {
    builder_.loop(firstRow, builder_.i64(shape.rows), 1, [&](Value row) {
      builder_.loop(firstColumn, builder_.i64(shape.columns), 1,
                    [&](Value column) { storeTile(zero, tile, place(row, column)); });
    });
  };
  clear(existing, builder_.i64(0));
  if (had < shape.columns)
    clear(builder_.i64(0), builder_.i64(had));
}

void KernelLowering::lowerLoad(tile::LoadOp op) {
  RightUses uses(op);
  if (uses.transposed && !uses.asItIs && !uses.others)
    return lowerTransposedLoad(op);
  tile::DotOp pairProduct = pairProductOf(op.getTile());
  if (pairProduct && op.getTile() == pairProduct.getB())
    return lowerInterleavedLoad(op);
  TileStorage tile = shapeOf(op.getTile().getType());
  Type element = op.getView().getType().getElementType();
  if (pairProduct)
    tile.element = storageType(element);
  bool isRight = uses.asItIs && !uses.others;
  tile = isRight ? allocatePanels(tile.rows, tile.columns, tile.element) : allocate(tile);
  tiles_[op.getTile()] = tile;
  bool rowValues = op.getView().getType().getRank() == 3;
  int64_t rows = rowValues ? tile.columns : tile.rows;
  int64_t columns = rowValues ? 1 : tile.columns;
  int64_t width = unit_.widthFor(columns);
  int64_t had = columnsOfView(op.getView(), columns);
  auto place = [&](Value row, Value column) {
    return isRight ? panelIndex(tile, row, column) : builder_.multiplyAdd(row, columns, column);
  };
  Value none = builder_.i64(0), all = builder_.i64(columns);
  bool isPacked = op.getBlock().getType().getHeadCount() > 1;

  auto load = [&](Value row, Value address, Value low, Value high, int64_t length) {
    Type bits = CodeBuilder::vectorOf(storageType(element), length);
    builder_.loop(low, high, length, [&](Value column) {
      Value loaded = builder_.load(bits, builder_.address(address, storageType(element), column));
      storeTile(pairProduct ? loaded : toFloat(builder_, unit_, element, loaded), tile,
                place(row, column));
    });
  };
  auto clear = [&](Value row, Value low, int64_t length) {
    Type vector = CodeBuilder::vectorOf(tile.element, length);
    Value zero = pairProduct ? builder_.integer(vector, 0) : builder_.real(vector, 0.0f);
    builder_.loop(low, all, length,
                  [&](Value column) { storeTile(zero, tile, place(row, column)); });
  };
  if (isPacked) // rows that do not exist lie between rows that do, so clear all rows first
    builder_.loop(rows, 1, [&](Value row) { clear(row, none, width); });
  forEachRow(op.getView(), op.getBlock(), rows, [&](Value row, Value address) {
    if (!op.getColumns()) {
      int64_t whole = had / width * width, rest = std::gcd(had, width);
      load(row, address, none, builder_.i64(whole), width);
      if (whole < had)
        load(row, address, builder_.i64(whole), builder_.i64(had), rest);
      if (had < columns)
        clear(row, builder_.i64(had), std::gcd(columns - had, rest));
      return;
    }
    // Load whole vectors of the columns that exist, then the remaining ones one by one.
    BlockCoordinates of = blocks_.lookup(op.getColumns());
    Value first = arith::ExtSIOp::create(builder_, builder_.getI64Type(), of.first);
    address = builder_.address(address, storageType(element), first);
    Value left = existingRows(of, columns);
    Value rest = arith::RemUIOp::create(builder_, left, builder_.i64(width));
    Value whole = arith::SubIOp::create(builder_, left, rest);
    load(row, address, none, whole, width);
    load(row, address, whole, left, 1);
    clear(row, left, 1);
  });
  if (!isPacked)
    builder_.loop(rowsInMemory(op.getView(), blocks_.lookup(op.getBlock()), rows),
                  builder_.i64(rows), 1, [&](Value row) { clear(row, none, width); });
  if (uses.transposed) // once, instead of once for each product
    transposed_[op.getTile()] = transpose(tile);
}

void KernelLowering::lowerStore(tile::StoreOp op) {
  const TileStorage &tile = storageOf(op.getTile());
  Type element = op.getView().getType().getElementType();
  bool rowValues = op.getView().getType().getRank() == 3;
  int64_t rows = rowValues ? std::min(tile.columns, op.getBlock().getType().getRows()) : tile.rows;
  int64_t columns = rowValues ? 1 : tile.columns;
  int64_t width = unit_.widthFor(columns);
  int64_t has = columnsOfView(op.getView(), columns), whole = has / width * width;

  auto store = [&](Value row, Value address, int64_t low, int64_t high, int64_t length) {
    builder_.loop(builder_.i64(low), builder_.i64(high), length, [&](Value column) {
      Value value = loadTile(tile, builder_.multiplyAdd(row, columns, column), length);
      builder_.store(toBits(builder_, unit_, element, value),
                     builder_.address(address, storageType(element), column));
    });
  };
  auto storeRow = [&](Value row, Value address) {
    store(row, address, 0, whole, width);
    if (whole < has)
      store(row, address, whole, has, std::gcd(has, width));
  };
  tile::PagedOp paged = placeOf(op.getView()).paged;
  forEachRow(op.getView(), op.getBlock(), rows, [&](Value row, Value address) {
    if (!paged)
      return storeRow(row, address);
    // If the table names no page of the pool, the row must not go to another sequence's page.
    Value first = arith::ExtSIOp::create(builder_, builder_.getI64Type(),
                                         blocks_.lookup(op.getBlock()).first);
    Value position = builder_.add(first, row);
    auto slotsOf = [&](Value view) -> const ViewSlots & {
      return signature_.view(cast<BlockArgument>(view).getArgNumber());
    };
    Value named = pageAt(builder_, paged, slotsOf(paged.getTable()), slots_,
                         scalar(paged.getBatch()), position);
    Value pages = slots_[slotsOf(paged.getView()).extents[0]];
    Value exists = arith::CmpIOp::create(builder_, arith::CmpIPredicate::ult, named, pages);
    auto branch = scf::IfOp::create(builder_, exists, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(builder_);
    builder_.setInsertionPointToStart(branch.thenBlock());
    storeRow(row, address);
  });
}

/// Atomic, because other threads may add to the same rows.
void KernelLowering::lowerAccumulate(tile::AccumulateOp op) {
  const TileStorage &tile = storageOf(op.getTile());
  Type element = op.getView().getType().getElementType();
  forEachRow(op.getView(), op.getBlock(), tile.rows, [&](Value row, Value address) {
    builder_.loop(columnsOfView(op.getView(), tile.columns), 1, [&](Value column) {
      Value value = loadTile(tile, builder_.multiplyAdd(row, tile.columns, column), 0);
      LLVM::AtomicRMWOp::create(builder_, builder_.getLoc(), LLVM::AtomicBinOp::fadd,
                                builder_.address(address, element, column), value,
                                LLVM::AtomicOrdering::monotonic);
    });
  });
}

// A gather reads all of its elements if no extent is 0, and none if one is.
Value KernelLowering::lowerRead(tile::ReadOp op, ValueRange indices) {
  const ViewSlots &slots = signature_.view(cast<BlockArgument>(Value(op.getView())).getArgNumber());
  Type element = op.getView().getType().getElementType(), stored = storageType(element);
  auto vector = dyn_cast<VectorType>(indices.front().getType());
  int64_t width = vector ? vector.getDimSize(0) : 1;
  Type i32 = CodeBuilder::vectorOf(builder_.getI32Type(), width);
  Type i64 = CodeBuilder::vectorOf(builder_.getI64Type(), width);
  Type result = CodeBuilder::vectorOf(stored, width);

  Value exists = arith::ConstantIntOp::create(builder_, 1, 1);
  Value offset = builder_.integer(i64, 0);
  for (auto [axis, index] : llvm::enumerate(indices)) {
    Value extent = slots_[slots.extents[axis]], stride = slots_[slots.strides[axis]];
    Value some =
        arith::CmpIOp::create(builder_, arith::CmpIPredicate::sgt, extent, builder_.i32(0));
    exists = arith::AndIOp::create(builder_, exists, some);
    Value last = arith::SubIOp::create(builder_, extent, builder_.i32(1));
    Value clamped = vector ? index : builder_.splat(index, width);
    clamped = arith::MinSIOp::create(builder_, clamped, builder_.splat(last, width));
    clamped = arith::MaxSIOp::create(builder_, clamped, builder_.integer(i32, 0));
    Value step = builder_.multiply(arith::ExtSIOp::create(builder_, i64, clamped),
                                   builder_.splat(stride, width));
    offset = builder_.add(offset, step);
  }
  Value addresses = builder_.address(slots_[slots.data], stored, offset);
  Value zero = isa<FloatType>(stored) ? builder_.real(result, 0.0f) : builder_.integer(result, 0);
  Value gathered = LLVM::masked_gather::create(
      builder_, result, addresses, builder_.splat(exists, width), ValueRange(zero),
      builder_.getI32IntegerAttr(stored.getIntOrFloatBitWidth() / 8));
  Value read = isa<FloatType>(element) ? toFloat(builder_, unit_, element, gathered) : gathered;
  if (element.isInteger(8))
    read = arith::ExtUIOp::create(builder_, i32, read);
  if (isa<FloatType>(element) && op.getElement().getType().isInteger(32))
    read = arith::BitcastOp::create(builder_, i32, read);
  if (vector)
    return read;
  return LLVM::ExtractElementOp::create(builder_, read, builder_.i64(0));
}

} // namespace tesela
