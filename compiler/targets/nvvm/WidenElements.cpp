//===- WidenElements.cpp - From 8 to 16 bits in shared memory ---*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Products read elements of 16 bits. Elements of 8 bits are copied to shared memory as they are.
// Then the threads that compute widen them from there to another buffer, 16 elements at a time: one
// load of 16 bytes and two stores. So registers hold no more than 16 elements.
//
//===----------------------------------------------------------------------===//
#include "targets/nvvm/KernelLowering.h"
#include "targets/nvvm/WordWidener.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tesela::nvvm {

/// Eight lanes have four chunks of two rows. Chunk s of row r is at place s ^ r (modulo 8). It
/// becomes chunks 2s and 2s + 1, in panels of 8 chunks. For chunks 0, 2, 5 and 7 of rows r and r ^
/// 1 all places differ, and so do the places of the resulting chunks. So neither loads nor stores
/// have bank conflicts. The other half of a warp's lanes has chunks 1, 3, 4 and 6.
void KernelLowering::lowerWideningWrite(pipe::WriteOp op) {
  auto target = op.getBuffer().getType();
  auto source = pipe::BufferType::get(op.getContext(), 1, target.getRows(), target.getColumns(),
                                      cast<tile::TileType>(op.getTile().getType()).getElementType(),
                                      target.getPanels());
  constexpr int64_t chunkBytes = 16, panelBytes = 128;
  const int64_t rowsAtOnce = 4 * warps, rows = target.getRows(), chunks = target.getColumns() / 16;
  const int64_t rowBytes = target.getPanels() ? panelBytes : target.getRowBytes(),
                sourceRowBytes = source.getPanels() ? panelBytes : source.getRowBytes();
  const int64_t nextPanel = target.getPanels() ? rows * panelBytes : panelBytes;

  auto bit = [&](Value x, int64_t index) -> Value {
    Value shifted = arith::ShRUIOp::create(builder, loc, x, constant(index));
    return arith::AndIOp::create(builder, loc, shifted, constant(1));
  };
  auto either = [&](Value a, Value b) -> Value {
    return arith::XOrIOp::create(builder, loc, a, b);
  };
  // Pinned: base addresses are computed in each iteration, since they would hold registers.
  Value lane = ptx().pinned(this->lane);
  Value chunk = add(multiply(bit(lane, 0), constant(2)), multiply(bit(lane, 1), constant(5)));
  chunk = either(chunk, bit(lane, 3));
  Value row = add(bit(lane, 2), multiply(bit(lane, 4), constant(2)));
  row = add(row, multiply(warp, constant(4)));
  Value swizzle = arith::AndIOp::create(builder, loc, row, constant(7));
  Value from =
      add(valueOf(op.getTile()), add(multiply(row, constant(sourceRowBytes)),
                                     multiply(either(chunk, swizzle), constant(chunkBytes))));
  Value panel = arith::ShRUIOp::create(builder, loc, chunk, constant(2));
  Value place = either(
      arith::AndIOp::create(builder, loc, multiply(chunk, constant(2)), constant(7)), swizzle);
  Value to = add(stageAddress(op.getBuffer(), valueOf(op.getStage())),
                 add(multiply(row, constant(rowBytes)), multiply(place, constant(chunkBytes))));
  to = add(to, multiply(panel, constant(nextPanel)));
  Value toNext = either(to, constant(chunkBytes));

  WordWidener widener(builder, loc, target.getElementType(), kernel->hasAttr(convertsAttr));
  auto widen = [&](int64_t firstRow, int64_t group) {
    int64_t sourceOffset =
        firstRow * sourceRowBytes + group * (source.getPanels() ? rows * panelBytes : panelBytes);
    int64_t offset = firstRow * rowBytes + group * 2 * nextPanel;
    Values words = ptx().loadShared16Bytes(from, sourceOffset);
    Values wide;
    for (Value word : words)
      for (int64_t half : {0, 1})
        wide.push_back(widener.neighbours(word, half));
    ptx().storeSharedWords(to, offset, ArrayRef(wide).take_front(4));
    ptx().storeSharedWords(toNext, offset, ArrayRef(wide).drop_front(4));
  };
  for (int64_t group = 0; 8 * group < chunks; ++group)
    for (int64_t firstRow = 0; firstRow < rows; firstRow += rowsAtOnce) {
      Value exists;
      if (firstRow + rowsAtOnce > rows)
        exists = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, row,
                                       constant(rows - firstRow));
      if (int64_t left = chunks - 8 * group; left < 8) {
        Value hasChunk =
            arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, chunk, constant(left));
        exists = exists ? Value(arith::AndIOp::create(builder, loc, exists, hasChunk)) : hasChunk;
      }
      if (!exists) {
        widen(firstRow, group);
        continue;
      }
      auto branch = scf::IfOp::create(builder, loc, exists, /*withElseRegion=*/false);
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(branch.thenBlock());
      widen(firstRow, group);
    }
}

} // namespace tesela::nvvm
