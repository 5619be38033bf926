//===- LowerBuffers.cpp - Buffers in shared memory --------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Buffers and their stages; copies of tiles from global memory to a stage and back; writes from
// registers to a stage. Channels and the copy engine's fills are in LowerRoles.cpp.
//
//===----------------------------------------------------------------------===//
#include "pipe/Shares.h"
#include "targets/nvvm/KernelLowering.h"
#include "targets/nvvm/PageTable.h"
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
  if (buffer.getDefiningOp<pipe::AllocOp>().getCrossed())
    stage = arith::SubIOp::create(builder, loc, constant(1), stage);
  return add(valueOf(buffer), multiply(stage, bytes));
}

void KernelLowering::lowerSlot(pipe::SlotOp op) {
  Value address = stageAddress(op.getBuffer(), valueOf(op.getStage()));
  pipe::BufferType buffer = op.getBuffer().getType();
  if (int64_t panels = op.getFirstColumn() / buffer.getPanelColumns(); panels > 0)
    address = add(address, constant(panels * buffer.getPanelBytes()));
  values[op] = {address};
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

} // namespace tesela::nvvm
