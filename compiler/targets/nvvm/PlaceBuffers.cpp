//===- PlaceBuffers.cpp - pipe-place-buffers --------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/common/BlockFinder.h"
#include "targets/nvvm/ChipFacts.h"
#include "targets/nvvm/DiagonalValues.h"
#include "targets/nvvm/LinesPlace.h"
#include "targets/nvvm/Passes.h"
#include "targets/nvvm/Residents.h"

#include "mlir/IR/Builders.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_PIPEPLACEBUFFERS
#include "targets/nvvm/Passes.h.inc"

namespace {

/// Bytes. All generations' 128-byte swizzles repeat after 8 rows of 128 bytes. Buffers of f32 have
/// no swizzle; the copy engine needs 16 bytes.
int64_t alignmentOf(pipe::BufferType buffer) { return buffer.getElementType().isF32() ? 16 : 1024; }

/// Bytes that `op` needs to join the rows of a cut tile: one f32 per row and part (CutTiles.cpp).
int64_t bytesOfParts(Operation *op) {
  auto reduce = dyn_cast<tile::ReduceOp>(op);
  if (!isa<tile::TotalOp>(op) && (!reduce || reduce.givesShares()))
    return 0;
  auto type = cast<tile::TileType>(op->getResult(0).getType());
  auto rows = dyn_cast_or_null<pipe::RowsAttr>(type.getEncoding());
  tile::ScheduleAttr schedule = op->getParentOfType<tile::KernelOp>().getScheduleAttr();
  if (!rows || !schedule || rows.getWarps() == schedule->warps)
    return 0;
  return schedule->warps / rows.getWarps() * type.getExtent(0) * 4;
}

struct PipePlaceBuffers : impl::PipePlaceBuffersBase<PipePlaceBuffers> {
  void runOnOperation() override {
    int64_t end = 0;
    auto alignment = [](pipe::AllocOp alloc) {
      int64_t result = alignmentOf(alloc.getBuffer().getType());
      for (Operation *user : alloc.getBuffer().getUsers())
        if (auto over = dyn_cast<pipe::AllocOp>(user))
          result = std::max(result, alignmentOf(over.getBuffer().getType()));
      return result;
    };
    SmallVector<pipe::AllocOp> allocs, overOthers;
    getOperation().walk(
        [&](pipe::AllocOp alloc) { (alloc.getOver() ? overOthers : allocs).push_back(alloc); });
    // Buffers with the widest alignment come first, so that there are no gaps.
    llvm::stable_sort(
        allocs, [&](pipe::AllocOp a, pipe::AllocOp b) { return alignment(a) > alignment(b); });
    for (pipe::AllocOp alloc : allocs) {
      end = llvm::alignTo(end, alignment(alloc));
      alloc.setOffset(end);
      end += alloc.getBuffer().getType().getBytes();
    }
    for (pipe::AllocOp alloc : overOthers)
      alloc.setOffset(*alloc.getOver().getDefiningOp<pipe::AllocOp>().getOffset() +
                      alloc.getBehind());
    end = llvm::alignTo(end, 16);
    getOperation().walk([&](pipe::OpenOp open) {
      open.setOffset(end);
      end += open.getChannel().getType().getBytes();
    });
    // Without roles each warp is a finder with memory of its own. With roles there is one finder.
    Builder builder(&getContext());
    tile::ScheduleAttr schedule = getOperation().getScheduleAttr();
    int64_t warps = schedule && schedule->consumers == 0 ? schedule->warps : 1;
    getOperation().walk([&](tile::FindBlocksOp find) {
      find->setAttr(finderOffsetAttr, builder.getI64IntegerAttr(end));
      end = llvm::alignTo(end + warps * 4 * BlockFinder::memoryWords, 16);
    });
    getOperation().walk([&](tile::OrderAdditionsOp) {
      end = llvm::alignTo(end, 16);
      getOperation()->setAttr(mailboxOffsetAttr, builder.getI64IntegerAttr(end));
      end += schedule->consumers * bytesOfMailbox;
    });
    // The ops that join cut tiles use one place, one after the other.
    int64_t partsOffset = llvm::alignTo(end, 16);
    getOperation().walk([&](Operation *op) {
      if (int64_t bytes = bytesOfParts(op)) {
        op->setAttr(partsOffsetAttr, builder.getI64IntegerAttr(partsOffset));
        end = std::max(end, partsOffset + bytes);
      }
    });
    // All sums of lines of one kind use one place, one after the other.
    for (StringRef kind :
         {tile::AddLinesOp::elements, tile::AddLinesOp::columns, tile::AddLinesOp::diagonals}) {
      int64_t offset = llvm::alignTo(end, 16);
      getOperation().walk([&](tile::AddLinesOp lines) {
        if (lines.getLines() != kind)
          return;
        lines->setAttr(nvvm::linesOffsetAttr, builder.getI64IntegerAttr(offset));
        end = std::max(end, offset + nvvm::LinesPlace(lines).bytes());
      });
    }
    placeKept(end);
    placeDiagonals(end);
    std::optional<int64_t> itemOffset;
    getOperation().walk([&](Operation *op) {
      if (!isa<pipe::FirstItemOp, pipe::NextItemOp>(op))
        return;
      if (!itemOffset) {
        itemOffset = end;
        end += 16;
      }
      IntegerAttr offset = builder.getI64IntegerAttr(*itemOffset);
      if (auto first = dyn_cast<pipe::FirstItemOp>(op))
        first.setOffsetAttr(offset);
      else
        cast<pipe::NextItemOp>(op).setOffsetAttr(offset);
    });
    if (auto least = getOperation()->getAttrOfType<IntegerAttr>(leastSharedAttr))
      end = std::max(end, least.getInt());
    getOperation()->setAttr(sharedBytesAttr, builder.getI64IntegerAttr(end));
  }

  /// Places what the threads of roles keep of diagonals, if the kernel has one tile.add_lines of
  /// diagonals and there is room. It is added to memory at the end of the work item and not cleared
  /// for another one, so a persistent kernel keeps nothing.
  void placeKept(int64_t &end) {
    tile::ScheduleAttr schedule = getOperation().getScheduleAttr();
    SmallVector<tile::AddLinesOp> diagonals;
    getOperation().walk([&](tile::AddLinesOp lines) {
      if (lines.getLines() == tile::AddLinesOp::diagonals)
        diagonals.push_back(lines);
    });
    bool isAdded = getOperation()
                       .walk([](tile::AddKeptOp) { return WalkResult::interrupt(); })
                       .wasInterrupted();
    if (!isAdded || diagonals.size() != 1 || !schedule || schedule->consumers == 0 ||
        schedule->persistent)
      return;
    std::optional<SmallVector<int64_t>> values = nvvm::keptValues(diagonals.front());
    if (!values)
      return;
    int64_t offset = llvm::alignTo(end, 16),
            bytes = nvvm::KeptLines(nvvm::LinesPlace(diagonals.front())).bytes();
    if (offset + bytes > mostShared())
      return;
    Builder builder(&getContext());
    diagonals.front()->setAttr(nvvm::keptOffsetAttr, builder.getI64IntegerAttr(offset));
    diagonals.front()->setAttr(nvvm::keptValuesAttr, builder.getDenseI64ArrayAttr(*values));
    end = offset + bytes;
  }

  /// Places the values that consumers' maps compute per diagonal, if there is room. All maps use
  /// one place, one after the other.
  void placeDiagonals(int64_t &end) {
    tile::ScheduleAttr schedule = getOperation().getScheduleAttr();
    int64_t offset = llvm::alignTo(end, 16), limit = mostShared();
    Builder builder(&getContext());
    getOperation().walk([&](tile::MapOp map) {
      Operation *value = nvvm::findDiagonalValue(map);
      if (!value)
        return;
      int64_t bytes = 4 * schedule->consumers * nvvm::diagonalsOfGroup(map, schedule);
      if (offset + bytes > limit)
        return;
      int64_t number = std::distance(map.getBody().front().begin(), value->getIterator());
      map->setAttr(nvvm::diagonalsOffsetAttr, builder.getI64IntegerAttr(offset));
      map->setAttr(nvvm::diagonalsOpAttr, builder.getI64IntegerAttr(number));
      end = std::max(end, offset + bytes);
    });
  }

  /// The shared memory that a thread block with roles may have, less what is placed behind.
  static int64_t mostShared() {
    constexpr int chipWithRoles = 90;
    constexpr int64_t bytesOfItem = 16;
    return chipFacts(chipWithRoles)->blockShared - bytesOfItem;
  }
};

} // namespace
} // namespace tesela
