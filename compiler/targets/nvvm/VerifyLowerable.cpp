//===- VerifyLowerable.cpp - pipe-verify-lowerable --------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "pipe/Shares.h"
#include "targets/common/LoadUses.h"
#include "targets/common/ViewPlace.h"
#include "targets/nvvm/Passes.h"
#include "targets/nvvm/ProductShares.h"
#include "targets/nvvm/RoleOutputs.h"
#include "tile/GradientOps.h"
#include "tile/WorkOps.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_PIPEVERIFYLOWERABLE
#include "targets/nvvm/Passes.h.inc"

namespace {

/// Whether `type` is an element type that a tile of two extents may hold in pairs.
bool isNarrowFloat(Type type) {
  return type.isF16() || type.isBF16() || isa<Float8E4M3FNType>(type);
}

/// Whether a tile of `type` is cut: several of the kernel's warps share its rows.
bool isCut(Operation *op, Type type) {
  tile::ScheduleAttr schedule = op->getParentOfType<tile::KernelOp>().getScheduleAttr();
  return schedule && nvvm::isCut(cast<tile::TileType>(type), schedule.getChoices());
}

LogicalResult refuseCut(Operation *op, Type type, StringRef what) {
  return op->emitOpError()
         << "expected a tile with 16 rows for each warp, or a multiple of them, got " << type
         << ": there are no " << what
         << " where warps share the rows; choose other blocks or fewer warps";
}

LogicalResult verify(tile::BernoulliOp op) {
  return isCut(op, op.getType()) ? refuseCut(op, op.getType(), "random numbers") : success();
}

LogicalResult verify(tile::AddLinesOp op) {
  Type type = op.getSource().getType();
  return isCut(op, type) ? refuseCut(op, type, "sums of lines") : success();
}

/// In a persistent kernel the count of work items does not include the additional slots.
LogicalResult verify(tile::WorkSlotsOp work) {
  tile::ScheduleAttr schedule = work->getParentOfType<tile::KernelOp>().getScheduleAttr();
  if (!schedule || !schedule->persistent)
    return success();
  return work.emitOpError() << "expected a schedule with persistent = false, got true; "
                               "work items of slots are one a thread block";
}

/// A persistent thread block that leaves would not do its remaining items.
LogicalResult verify(tile::LeaveOp leave) {
  tile::ScheduleAttr schedule = leave->getParentOfType<tile::KernelOp>().getScheduleAttr();
  if (!schedule || !schedule->persistent)
    return success();
  return leave.emitOpError() << "expected a schedule with persistent = false, got true; "
                                "a thread block of several work items cannot leave";
}

/// Whether the column values `source` are loaded, and read only by maps whose tiles are cut as that
/// of `map` is. Then a thread holds the values of its own columns (LowerMemory.cpp).
bool areLoadedForCut(Value source, tile::MapOp map) {
  tile::ScheduleAttr schedule = map->getParentOfType<tile::KernelOp>().getScheduleAttr();
  auto parts = [&](tile::MapOp each) {
    return nvvm::columnParts(cast<tile::TileType>(each.getType()), schedule.getChoices());
  };
  return schedule->consumers == 0 && source.getDefiningOp<tile::LoadOp>() &&
         llvm::all_of(source.getUsers(), [&](Operation *user) {
           auto other = dyn_cast<tile::MapOp>(user);
           return other && parts(other) == parts(map);
         });
}

LogicalResult verify(tile::MapOp map) {
  auto type = cast<tile::TileType>(map.getType());
  if (isCut(map, type)) {
    for (Value source : map.getSources())
      if (cast<tile::TileType>(source.getType()).isSingleRow() && !areLoadedForCut(source, map))
        return refuseCut(map, type,
                         "values of columns beside it, but those that are loaded for "
                         "such tiles alone");
    WalkResult found = map.walk([](Operation *op) {
      return isa<tile::CollectOp, tile::DepositOp, tile::PutOp, tile::ExactSumOp>(op)
                 ? WalkResult::interrupt()
                 : WalkResult::advance();
    });
    if (found.wasInterrupted())
      return refuseCut(map, type, "sums of its elements in memory");
  }
  if (!type.isSingleRow())
    return success();
  return map.emitOpError() << "expected a tile of more than one row, got " << type
                           << "; values of columns are loaded, and read by other maps";
}

/// The copy engine copies adjacent rows of queries, including those behind a sequence's end. That
/// is harmless in a left operand, where rows do not mix. Pages do not lie side by side.
LogicalResult verifyFill(tile::LoadOp load) {
  tile::ScheduleAttr schedule = load->getParentOfType<tile::KernelOp>().getScheduleAttr();
  ViewPlace place = placeOf(load.getView());
  bool isApart = place.paged || (place.ragged && !isReadByRows(load));
  if (!schedule || schedule->consumers == 0 || !isApart ||
      load.getBlock().getType().getAxis() == tile::Axis::Key)
    return success();
  return load.emitOpError() << "expected blocks of keys, or a left operand of tile.dot from a "
                               "dense or ragged view, got "
                            << load.getBlock().getType() << "; take consumers = 0";
}

/// Tiles that products read go through shared memory. Others go straight into registers.
LogicalResult verify(tile::LoadOp load) {
  // Loads of a loop run ahead of it, and the threads that hold a tile's rows need not be those that
  // stored them in an earlier round.
  auto isStore = [](Operation *access) { return isa<tile::StoreOp>(access); };
  if (!isa<tile::KernelOp>(load->getParentOp()) &&
      llvm::any_of(accessesOf(placeOf(load.getView()).argument), isStore))
    return load.emitOpError()
           << "in a loop or a branch expected a view that its kernel does not store to; "
              "load it in a kernel behind that, or compile for the host";
  if (isReadByProduct(load))
    return verifyFill(load);
  auto type = cast<tile::TileType>(load.getType());
  if (load.getColumns())
    return load.emitOpError() << "expected all columns of the view, got a block of them, which is "
                                 "loaded for tile.dot alone";
  std::optional<int64_t> columns =
      load.getView().getType().getRank() == 4 ? load.getView().getType().getStaticExtent(3) : 8;
  if (!columns || *columns % 8 != 0)
    return load.emitOpError() << "expected a view whose columns are a multiple of 8, got "
                              << load.getView().getType();
  Type element = type.getElementType();
  if (!element.isF32() && (type.getRank() == 1 || !isNarrowFloat(element)))
    return load.emitOpError()
           << "expected elements f32, or f16, bf16 or f8E4M3FN of two extents, got " << element;
  tile::ScheduleAttr schedule = load->getParentOfType<tile::KernelOp>().getScheduleAttr();
  bool hasRowsForAll = !schedule || type.isSingleRow() ||
                       type.getExtent(0) % (16 * nvvm::rowWarps(type, schedule.getChoices())) == 0;
  if (!hasRowsForAll ||
      (schedule && type.getRank() == 2 && nvvm::isCut(type, schedule.getChoices())))
    return load.emitOpError() << "expected a tile with 16 rows for each of " << schedule->warps
                              << " warps, or a multiple of them, got " << type
                              << "; choose other blocks or fewer warps";
  if (load.getBlock().getType().getHeadCount() > 1)
    return load.emitOpError() << "expected a block of one head, got " << load.getBlock().getType()
                              << ", which is loaded for tile.dot alone";
  return success();
}

/// Tiles of 16-bit elements are stored through a buffer, others straight from the registers.
LogicalResult verify(tile::StoreOp store) {
  auto type = cast<tile::TileType>(store.getTile().getType());
  Type element = type.getElementType();
  if (type.getRank() == 1 || element.isF32() || isNarrowFloat(element))
    return success();
  return store.emitOpError() << "expected a tile of elements f32, f16, bf16 or f8E4M3FN, got "
                             << type << "; convert it with tile.convert";
}

/// A row is added from the registers, or by the copy engine as one piece.
LogicalResult verify(tile::AccumulateOp accumulate) {
  tile::ViewType view = accumulate.getView().getType();
  if (isCut(accumulate, accumulate.getTile().getType()) &&
      !nvvm::isInFragmentOrder(accumulate.getView()))
    return refuseCut(accumulate, accumulate.getTile().getType(), "sums in memory");
  std::optional<int64_t> columns = view.getRank() == 4 ? view.getStaticExtent(3) : std::nullopt;
  if (columns && *columns % 8 == 0)
    return success();
  return accumulate.emitOpError() << "expected a view [batch, head, position, D] with D a multiple "
                                     "of 8, got "
                                  << view;
}

/// Adders are warps beside the consumers, and items must start in order. A finder takes items long
/// before their turn. Other thread blocks would wait for them: documents at 8k took 2.3 times as
/// long as without an order, with seven products 1.1 times
/// (docs/log/2026-12-01-additions-in-turn.md).
LogicalResult verify(tile::OrderAdditionsOp op) {
  auto kernel = op->getParentOfType<tile::KernelOp>();
  tile::ScheduleAttr schedule = kernel.getScheduleAttr();
  if (!schedule || schedule->consumers == 0 || schedule->consumers > 2 || !schedule->persistent)
    return op.emitOpError() << "expected a schedule with 1 or 2 consumers and persistent = true; "
                               "leave add_in_turn out";
  WalkResult search = kernel.walk([](tile::FindBlocksOp) { return WalkResult::interrupt(); });
  if (search.wasInterrupted())
    return op.emitOpError() << "expected a kernel that knows its blocks without a search "
                               "(tile.find_blocks), got one that searches; leave add_in_turn out";
  bool isDealt = false, isForward = false, isWide = false;
  kernel.walk([&](tile::WorkOp work) {
    isDealt |= bool(work.getDealt());
    isForward |= work.getOrder() == tile::ItemOrder::FirstKeysFirst;
  });
  kernel.walk([&](tile::AccumulateOp addition) {
    isWide |=
        cast<tile::TileType>(addition.getTile().getType()).getExtent(1) > nvvm::mostBufferedColumns;
  });
  if (isDealt != bool(op.getPart()))
    return op.emitOpError() << "expected " << (isDealt ? "a part" : "no part")
                            << " of a kernel whose work items have "
                            << (isDealt ? "parts" : "all query heads of a key/value head")
                            << " (tile.work), got " << (isDealt ? "none" : "one");
  // The first keys come first where the last queries do. Otherwise items would pass each other.
  if (isForward != schedule->lastKeysFirst)
    return op.emitOpError() << "expected the order of tile.work that tile-order-items gives, got "
                            << (isForward ? "first_keys_first without" : "another one with")
                            << " last_keys_first in the schedule; run that pass";
  if (isWide)
    return op.emitOpError() << "expected sums that the copy engine adds, which have at most "
                            << nvvm::mostBufferedColumns
                            << " columns, got more; leave add_in_turn out";
  return success();
}

LogicalResult verifyElements(tile::DotOp dot) {
  Type element = cast<tile::TileType>(dot.getA().getType()).getElementType();
  if (element.isF16() || element.isBF16())
    return success();
  return dot.emitOpError() << "expected operands f16 or bf16, got " << element
                           << "; convert them with tile.convert";
}

/// Whether the last part of the columns of `dot` may compute columns that the result lacks: sums
/// that are added to memory, where these columns are left out. The last part has at least one
/// column of the result. No part reads panels that the right operand does not have: the last part
/// may lack one, and then reads the one before twice.
bool hasUnevenSums(tile::DotOp dot, int64_t parts) {
  constexpr int64_t panel = 64;
  int64_t columns = cast<tile::TileType>(dot.getType()).getExtent(1),
          share = pipe::columnsOfPart(columns, parts),
          consumers = dot->getParentOfType<tile::KernelOp>().getScheduleAttr()->consumers;
  return consumers > 0 && !dot.getTransposed() && share % panel == 0 &&
         (parts - 1) * share < columns &&
         (parts * share <= int64_t(llvm::alignTo(columns, panel)) ||
          pipe::lacksLastPanel(columns, parts)) &&
         llvm::all_of(dot->getUsers(), llvm::IsaPred<tile::AccumulateOp, pipe::WriteOp>);
}

LogicalResult verify(tile::DotOp dot) {
  tile::ScheduleAttr schedule = dot->getParentOfType<tile::KernelOp>().getScheduleAttr();
  auto result = cast<tile::TileType>(dot.getType());
  if (!schedule)
    return verifyElements(dot);
  int64_t own = nvvm::rowWarps(result, schedule.getChoices()), parts = schedule->warps / own;
  bool hasRowsForAll = result.getExtent(0) % (16 * own) == 0;
  if (schedule->consumers > 0 && (own % 4 != 0 || result.getExtent(0) != 16 * own))
    return dot.emitOpError() << "expected a result with 64 rows for each consumer (consumers = "
                             << schedule->consumers << "), or 64 rows in all, got " << result
                             << "; choose other blocks or other consumers";
  if (!hasRowsForAll)
    return dot.emitOpError() << "expected a result with 16 rows for each of " << schedule->warps
                             << " warps, or a multiple of them, got " << result
                             << "; choose other blocks or fewer warps";
  // In a cut product, each part has whole panels of 64 columns of the right operand. If the columns
  // are its rows, or with mma.sync, a part may also have an equal share of 64.
  int64_t columns = result.getExtent(1) / parts;
  bool mayShare = dot.getTransposed() || schedule->consumers == 0;
  int64_t step = mayShare && columns > 0 && 64 % columns == 0 ? 16 : 64;
  // A computed left operand fits one panel, or each part fills whole panels. Of one in operand
  // registers each warp has all columns.
  auto left = cast<tile::TileType>(dot.getA().getType());
  bool isLoaded = dot.getA().getDefiningOp<tile::LoadOp>() ||
                  isa_and_nonnull<pipe::OperandAttr, pipe::SharedAttr>(left.getEncoding());
  int64_t leftParts = isLoaded ? 1 : nvvm::columnParts(left, schedule.getChoices());
  bool isLeftWhole =
      leftParts == 1 || left.getExtent(1) <= 64 || left.getExtent(1) % (64 * leftParts) == 0;
  bool isDivided =
      parts == 1 || result.getExtent(1) % (step * parts) == 0 || hasUnevenSums(dot, parts);
  if (!isLeftWhole || !isDivided)
    return dot.emitOpError() << "expected a result with 16 rows for each of " << schedule->warps
                             << " warps, or one whose columns are cut in " << parts
                             << " parts of a multiple of " << step
                             << ", with a computed left operand of 64 columns at most or a "
                                "multiple of 64 for each part, got "
                             << left << " for " << result << "; choose other blocks or fewer warps";
  return verifyElements(dot);
}

} // namespace

LogicalResult verifyLowerable(tile::KernelOp kernel) {
  WalkResult result = kernel.walk([](Operation *op) {
    LogicalResult verified =
        llvm::TypeSwitch<Operation *, LogicalResult>(op)
            .Case<tile::AccumulateOp, tile::AddLinesOp, tile::BernoulliOp, tile::DotOp,
                  tile::OrderAdditionsOp, tile::LeaveOp, tile::LoadOp, tile::MapOp, tile::StoreOp,
                  tile::WorkSlotsOp>([](auto each) { return verify(each); })
            .Default([](Operation *) { return success(); });
    return failed(verified) ? WalkResult::interrupt() : WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

namespace {

struct PipeVerifyLowerable : impl::PipeVerifyLowerableBase<PipeVerifyLowerable> {
  void runOnOperation() override {
    if (failed(verifyLowerable(getOperation())))
      signalPassFailure();
  }
};

} // namespace
} // namespace tesela
