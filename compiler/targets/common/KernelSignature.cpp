//===- KernelSignature.cpp - A kernel's arguments as launch slots -*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/common/KernelSignature.h"

#include "pipe/Pipe.h"
#include "targets/common/LoadUses.h"
#include "targets/common/ViewPlace.h"
#include "targets/common/WorkHeads.h"
#include "tile/Extents.h"
#include "tile/GradientOps.h"
#include "tile/WorkOps.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace tesela {

unsigned KernelSignature::extent(llvm::StringRef name) {
  return llvm::find(tile::launchExtents(), name) - tile::launchExtents().begin();
}

/// Whether warpgroups with roles copy the view's tiles by tensor maps: rows of 16 or 8 bits.
static bool isCopied(tile::KernelOp kernel, BlockArgument argument, tile::ViewType view) {
  return !kernel.isParameter(argument.getArgNumber()) && view.getRank() == 4 &&
         !view.getContiguous() && isa<FloatType>(view.getElementType()) &&
         view.getElementType().getIntOrFloatBitWidth() <= 16;
}

/// The part of a view that one tensor copy moves.
struct Box {
  int64_t rows = 0; ///< 0: nothing is copied
  int64_t heads = 1;
  bool endsInside = false; ///< the rows at a block's end are copied one by one
};

/// The box is a warpgroup's rows if the view is stored or is a left operand, and a whole block if
/// every warpgroup reads it; or the rows of it that are adjacent in memory.
static Box boxOf(BlockArgument view, int64_t consumers) {
  Box box;
  for (Operation *user : accessesOf(view)) {
    auto store = dyn_cast<tile::StoreOp>(user);
    bool hasOwnRows = !store || store.getBlock().getType().getRows() % (64 * consumers) == 0;
    if (store && (store.getView() != view || store->getParentOfType<scf::IfOp>() || !hasOwnRows))
      continue; // stored straight from the registers
    auto load = dyn_cast<tile::LoadOp>(user);
    auto types = user->getOperandTypes();
    auto found = llvm::find_if(types, llvm::IsaPred<tile::BlockType>); // the block of rows
    if (found == types.end() || (load && !isReadByProduct(load)))
      continue;
    auto block = cast<tile::BlockType>(*found);
    auto fill = dyn_cast<pipe::FillOp>(user);
    int64_t parts = fill   ? fill.getChannel().getType().getParts()
                    : load ? partsOf(load, consumers)
                           : consumers;
    int64_t rows = block.getRows() / parts;
    if (Value placed = load   ? load.getView()
                       : fill ? fill.getView()
                              : Value();
        placed && endsInside(placed, block)) {
      box.endsInside = true;
      rows = rowsTogether(placed, block);
    }
    box.rows = std::max(box.rows, rows);
    box.heads = std::max(box.heads, block.getHeadCount());
  }
  return box;
}

void KernelSignature::add(ArgumentSlot::Kind kind, std::string name, int axis, Type type,
                          int heads) {
  slots_.push_back({kind, std::move(name), axis, heads});
  types_.push_back(type);
}

KernelSignature::KernelSignature(tile::KernelOp kernel) {
  using Kind = ArgumentSlot::Kind;
  MLIRContext *context = kernel.getContext();
  Type i32 = IntegerType::get(context, 32), i64 = IntegerType::get(context, 64);
  for (int axis = 0; axis < 5; ++axis)
    add(Kind::extent, "", axis, i32);
  for (BlockArgument argument : kernel.getBodyBlock().getArguments()) {
    std::string name = kernel.getArgumentName(argument.getArgNumber()).str();
    ViewSlots &view = views_.emplace_back();
    view.data = slots_.size();
    view.isOptional = kernel.getArgumentRole(argument.getArgNumber()) == tile::Role::Optional;
    auto viewType = dyn_cast<tile::ViewType>(argument.getType());
    bool isParameter = kernel.isParameter(argument.getArgNumber());
    if (!viewType) {
      bool isScale = !isParameter && argument.getType().isF32();
      add(isScale ? Kind::scale : Kind::scalar, name, 0, argument.getType());
      continue;
    }
    add(Kind::data, name, 0, Type());
    // Elements of such views are read one by one, at clamped indices; other views by blocks of
    // rows.
    bool isRead = isParameter || viewType.getElementType().isInteger() ||
                  llvm::any_of(argument.getUsers(),
                               llvm::IsaPred<tile::DepositOp, tile::PutOp, tile::ReadOp>);
    int strides = viewType.getContiguous() ? 0 : viewType.getRank() - !isRead;
    for (int axis = 0; axis < strides; ++axis) {
      if (isRead) {
        view.extents.push_back(slots_.size());
        add(Kind::extent, name, axis, i32);
      }
      view.strides.push_back(slots_.size());
      add(Kind::stride, name, axis, i64);
    }
    // Views that hold rows of sequences, or pages, need their dynamic extents.
    bool isPlaced = llvm::any_of(argument.getUsers(), llvm::IsaPred<tile::RaggedOp, tile::PagedOp>);
    for (auto [axis, extent] : llvm::enumerate(viewType.getExtents())) {
      if (!isPlaced || isRead || viewType.getContiguous() || !tile::isDynamicExtent(extent))
        continue;
      view.extents.resize(viewType.getRank());
      view.extents[axis] = slots_.size();
      add(Kind::extent, name, int(axis), i32);
    }
  }
  tile::ScheduleAttr schedule = kernel.getScheduleAttr();
  if (!schedule || schedule->consumers == 0)
    return;
  for (BlockArgument argument : kernel.getBodyBlock().getArguments()) {
    auto viewType = dyn_cast<tile::ViewType>(argument.getType());
    std::string name = kernel.getArgumentName(argument.getArgNumber()).str();
    if (!viewType || !isCopied(kernel, argument, viewType))
      continue;
    Box box = boxOf(argument, schedule->consumers);
    if (box.rows == 0)
      continue;
    views_[argument.getArgNumber()].tensorMap = slots_.size();
    add(Kind::tensorMap, name, box.rows / box.heads, Type(), box.heads);
    add(Kind::coordinateStep, name, 0, i32);
    add(Kind::coordinateStep, name, 1, i32);
    if (!box.endsInside)
      continue;
    views_[argument.getArgNumber()].rowMap = slots_.size();
    add(Kind::tensorMap, name, 1, Type());
    if (comeInEights(box.rows))
      add(Kind::tensorMap, name, 8, Type());
  }
  if (schedule->persistent)
    add(Kind::counter, "", 0, Type());
}

Expression workItems(tile::KernelOp kernel) {
  for (tile::WorkHeadsOp work : kernel.getBodyBlock().getOps<tile::WorkHeadsOp>())
    return itemsOfHeads(*tile::staticExtent(work.getMost()));
  tile::BlockType block;
  std::optional<int64_t> workers;
  std::optional<int64_t> dealt;
  bool isJoined = false;
  kernel.walk([&](tile::WorkOp work) {
    block = work.getBlock().getType();
    isJoined = work.getJoined();
    if (Attribute number = work.getWorkersAttr())
      dealt = tile::staticExtent(number);
  });
  kernel.walk([&](tile::WorkSlotsOp work) {
    block = work.getBlock().getType();
    workers = tile::staticExtent(work.getWorkers());
  });
  bool isOfKeys = block.getAxis() == tile::Axis::Key;
  std::string packs = isOfKeys ? "Hkv" : "H";
  if (block.getHeadCount() > 1)
    packs = "(* Hkv (ceildiv (ceildiv H Hkv) " + std::to_string(block.getHeadCount()) + "))";
  std::string positions = std::to_string(block.getPositions());
  std::string blocks = (isOfKeys ? "(ceildiv Sk " : "(ceildiv Sq ") + positions + ")";
  if (dealt) {
    std::string items = "(* " + blocks + " (* B Hkv))", sharing = "(ceildiv H Hkv)";
    // ⌊workers / items⌋ is ⌈(workers + 1) / items⌉ - 1.
    std::string most = "(max 1 (+ -1 (ceildiv " + std::to_string(*dealt + 1) + " " + items + ")))";
    std::string parts = "(ceildiv " + sharing + " (ceildiv " + sharing + " " + most + "))";
    if (isJoined) // 0 if there is one part, otherwise 1
      parts = "(ceildiv (+ -1 " + parts + ") " + parts + ")";
    return Expression::parse("(* " + items + " " + parts + ")").value();
  }
  if (!workers)
    return Expression::parse("(* " + blocks + " (* B " + packs + "))").value();
  // An empty batch has no work: then (ceildiv B B) is 0, otherwise 1.
  std::string ofOne = "(* " + blocks + " " + packs + ")";
  std::string more = "(ceildiv " + std::to_string(*workers) + " " + ofOne + ")";
  return Expression::parse("(* " + ofOne + " (* (ceildiv B B) (+ B " + more + ")))").value();
}

} // namespace tesela
