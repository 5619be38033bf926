//===- KernelLowering.cpp - The function, loops and branches ----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/host/KernelLowering.h"

#include "targets/common/WorkHeads.h"
#include "tile/ColumnOps.h"
#include "tile/Extents.h"
#include "tile/WorkOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tesela {

KernelLowering::KernelLowering(tile::KernelOp kernel, const VectorUnit &unit)
    : kernel_(kernel), unit_(unit), signature_(kernel), builder_(kernel.getLoc(), kernel) {
  tile::ScheduleAttr schedule = kernel.getScheduleAttr();
  if (!schedule)
    return;
  if (schedule->vectorLength > 0)
    unit_.width = schedule->vectorLength;
  if (schedule->productRows > 0)
    unit_.productRows = schedule->productRows;
  if (schedule->productVectors > 0)
    unit_.productVectors = schedule->productVectors;
}

LogicalResult KernelLowering::run() {
  makeFunction();
  Block *entry = builder_.getInsertionBlock();
  if (failed(lowerBlock(kernel_.getBodyBlock())))
    return failure();
  builder_.setInsertionPointToEnd(entry);
  LLVM::ReturnOp::create(builder_, ValueRange());
  return success();
}

// void kernel(const void *const *arguments, int64_t item, void *scratch): see Artifact.h.
void KernelLowering::makeFunction() {
  Type pointer = builder_.pointerType(), i64 = builder_.getI64Type();
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(builder_.getContext()),
                                          {pointer, i64, pointer});
  auto function = LLVM::LLVMFuncOp::create(builder_, kernel_.getSymName(), type);
  function.setNoUnwind(true);
  // Only this worker uses its scratch, and no tensor overlaps it.
  function.setArgAttr(2, LLVM::LLVMDialect::getNoAliasAttrName(), builder_.getUnitAttr());
  Block *entry = function.addEntryBlock(builder_);
  builder_.setInsertionPointToStart(entry);
  scratch_ = entry->getArgument(2);
  item_ = arith::TruncIOp::create(builder_, builder_.getI32Type(), entry->getArgument(1));

  for (unsigned slot = 0; slot < signature_.slots().size(); ++slot) {
    Type slotType = signature_.type(slot) ? signature_.type(slot) : pointer;
    Value address = builder_.address(entry->getArgument(0), pointer, builder_.i64(slot));
    slots_.push_back(builder_.loadInvariant(slotType, builder_.loadInvariant(pointer, address)));
  }
  auto extent = [&](StringRef name) { return slots_[KernelSignature::extent(name)]; };
  extents_ = {extent("B"), extent("H"), extent("Hkv"), extent("Sq"), extent("Sk")};
  for (BlockArgument argument : kernel_.getBodyBlock().getArguments())
    if (!isa<tile::ViewType>(argument.getType()))
      scalars_.map(argument, slots_[signature_.scalar(argument.getArgNumber())]);
}

LogicalResult KernelLowering::lowerBlock(Block &block) {
  for (Operation &op : block.without_terminator()) {
    builder_.setLoc(op.getLoc());
    if (failed(lowerOperation(op)))
      return failure();
  }
  return success();
}

LogicalResult KernelLowering::lowerOperation(Operation &op) {
  return TypeSwitch<Operation *, LogicalResult>(&op)
      .Case([&](scf::ForOp loop) { return lowerFor(loop); })
      .Case([&](scf::IfOp branch) { return lowerIf(branch); })
      .Case([&](tile::WorkOp work) {
        tile::BlockType type = work.getBlock().getType();
        Location loc = builder_.getLoc();
        if (Attribute workers = work.getDealt())
          std::tie(blocks_[work.getBlock()], workPart_) =
              emitDealtWork(builder_, loc, item_, extents_, type, /*groupKeys=*/0,
                            *tile::staticExtent(workers), work.getOrder());
        else
          blocks_[work.getBlock()] =
              emitWork(builder_, loc, item_, extents_, type, /*groupKeys=*/0, work.getOrder());
        return success();
      })
      .Case([&](tile::WorkPartOp op) -> LogicalResult {
        auto work = op.getKeys().getDefiningOp<tile::WorkOp>();
        if (!work || !work.getDealt())
          return op.emitOpError() << "expected the block of a `tile.work dealt to`, got another "
                                     "one; ask for the part of the work item's own block";
        scalars_.map(op.getPart(), workPart_);
        return success();
      })
      .Case([&](tile::HeadPartsOp op) {
        scalars_.map(op.getCount(), emitHeadParts(builder_, builder_.getLoc(), extents_,
                                                  cast<tile::BlockType>(op.getKeys()),
                                                  *tile::staticExtent(op.getWorkers())));
        return success();
      })
      .Case([&](tile::WorkSlotsOp work) {
        tile::BlockType type = work.getBlock().getType();
        Location loc = builder_.getLoc();
        ExtentValues slots = extents_;
        Value more =
            emitMoreSlots(builder_, loc, slots, type, *tile::staticExtent(work.getWorkers()));
        slots.B = builder_.add(slots.B, more);
        scalars_.map(work.getMore(), more);
        blocks_[work.getBlock()] = emitWork(builder_, loc, item_, slots, type, /*groupKeys=*/0);
        return success();
      })
      .Case([&](tile::MoreSlotsOp op) {
        scalars_.map(op.getCount(), emitMoreSlots(builder_, builder_.getLoc(), extents_,
                                                  cast<tile::BlockType>(op.getRows()),
                                                  *tile::staticExtent(op.getWorkers())));
        return success();
      })
      .Case([&](tile::WorkItemsOp count) {
        auto rows = cast<tile::BlockType>(count.getRows());
        Location loc = builder_.getLoc();
        ExtentValues all = extents_;
        if (Attribute workers = count.getWorkersAttr())
          all = emitDealt(builder_, loc, all,
                          emitHeadParts(builder_, loc, all, rows, *tile::staticExtent(workers)));
        scalars_.map(count.getCount(), emitWorkItems(builder_, loc, all, rows));
        return success();
      })
      .Case([&](tile::WorkHeadsOp work) {
        WorkHeads heads = emitWorkHeads(builder_, builder_.getLoc(), item_, extents_,
                                        *tile::staticExtent(work.getMost()));
        for (auto [result, value] :
             llvm::zip_equal(work.getResults(),
                             std::array{heads.batch, heads.position, heads.first, heads.end}))
          scalars_.map(result, value);
        return success();
      })
      .Case([&](tile::LeaveOp leave) { // the rest is a branch for items that stay
        Location loc = builder_.getLoc();
        Value stays = arith::XOrIOp::create(
            builder_, scalar(leave.getCondition()),
            arith::ConstantIntOp::create(builder_, loc, 1, /*width=*/1).getResult());
        auto rest = scf::IfOp::create(builder_, stays, /*withElseRegion=*/false);
        builder_.setInsertionPointToStart(rest.thenBlock());
        return success();
      })
      .Case([&](tile::SequenceOp sequence) {
        blocks_[sequence.getBlock()] = emitSequence(
            builder_, builder_.getLoc(), blocks_.lookup(sequence.getRows()),
            scalar(sequence.getFrom()), scalar(sequence.getQueries()), scalar(sequence.getKeys()));
        return success();
      })
      // These ops describe memory. The lowering looks at them where the memory is accessed.
      .Case<tile::RaggedOp, tile::PagedOp, tile::FirstColumnsOp>([](auto) { return success(); })
      .Case([&](tile::BlockOp block) {
        Location loc = builder_.getLoc();
        auto coordinates = [&](Value of) { return blocks_.lookup(of); };
        auto kvHead = [&](Value of) {
          return emitKvHead(builder_, loc, blocks_.lookup(of).head, extents_);
        };
        blocks_[block] =
            emitBlock(builder_, loc, block, extents_,
                      {[&](Value value) { return scalar(value); }, coordinates, kvHead});
        return success();
      })
      .Case([&](tile::FindBlocksOp find) { return lowerFindBlocks(find); })
      .Case([&](tile::FoundBlockOp found) { return lowerFoundBlock(found); })
      .Case([&](tile::CoordinatesOp coordinates) {
        lowerCoordinates(coordinates);
        return success();
      })
      .Case([&](tile::ExtentOp extent) {
        scalars_.map(extent.getResult(), slots_[KernelSignature::extent(extent.getName())]);
        return success();
      })
      .Case([&](tile::ViewExtentOp extent) {
        auto view = cast<BlockArgument>(Value(extent.getView()));
        const ViewSlots &slots = signature_.view(view.getArgNumber());
        scalars_.map(extent.getResult(), slots_[slots.extents[extent.getAxis()]]);
        return success();
      })
      .Case([&](tile::ConstantOp constant) {
        TileStorage storage = shapeOf(constant.getTile().getType());
        storage.constant = constant.getValue().convertToFloat();
        tiles_[constant.getTile()] = storage;
        return success();
      })
      .Case([&](tile::ReadOp read) {
        SmallVector<Value> indices;
        for (Value index : read.getIndices())
          indices.push_back(scalar(index));
        scalars_.map(read.getElement(), lowerRead(read, indices));
        return success();
      })
      .Case([&](tile::LoadOp load) { return lowerLoad(load), success(); })
      .Case([&](tile::StoreOp store) { return lowerStore(store), success(); })
      .Case([&](tile::AccumulateOp op) { return lowerAccumulate(op), success(); })
      .Case([&](tile::DotOp dot) { return lowerDot(dot), success(); })
      .Case([&](tile::MapOp map) { return lowerMap(map); })
      .Case([&](tile::BernoulliOp random) { return lowerBernoulli(random), success(); })
      .Case([&](tile::AddLinesOp lines) { return lowerAddLines(lines); })
      .Case([](tile::AddKeptOp) { return success(); }) // the host keeps nothing
      .Case([](tile::PerformOp) { return success(); }) // the map has done its work
      .Case([&](tile::ConvertOp convert) { return lowerConvert(convert), success(); })
      .Case([&](tile::ReduceOp reduce) { return lowerReduce(reduce), success(); })
      .Case([&](tile::TotalOp total) { return lowerTotal(total), success(); })
      .Default([&](Operation *other) -> LogicalResult {
        StringRef dialect = other->getName().getDialectNamespace();
        if ((dialect == "arith" || dialect == "math") && other->getNumRegions() == 0) {
          builder_.clone(*other, scalars_);
          return success();
        }
        return other->emitOpError("is not part of the core that the host target lowers");
      });
}

void KernelLowering::lowerCoordinates(tile::CoordinatesOp op) {
  BlockCoordinates block = blocks_.lookup(op.getBlock());
  bool isQuery = op.getBlock().getType().getAxis() == tile::Axis::Query;
  scalars_.map(op.getBatch(), block.batch);
  scalars_.map(op.getHead(), block.head);
  scalars_.map(op.getKvHead(), isQuery
                                   ? emitKvHead(builder_, builder_.getLoc(), block.head, extents_)
                                   : block.head);
  scalars_.map(op.getFirst(), block.first);
}

// A worker has whole rows, so its share of a sum is the sum.
void KernelLowering::lowerTotal(tile::TotalOp op) {
  TileStorage source = storageOf(op.getSource());
  TileStorage result = source.constant ? source : placeOver(op.getSource(), op, op.getType());
  copy(source, result);
  tiles_[op.getResult()] = result;
}

/// A carried tile is one buffer, which each iteration updates.
LogicalResult KernelLowering::lowerFor(scf::ForOp op) {
  SmallVector<Value> init;
  for (auto [value, argument] : llvm::zip_equal(op.getInitArgs(), op.getRegionIterArgs())) {
    if (!isa<tile::TileType>(value.getType())) {
      init.push_back(scalar(value));
      continue;
    }
    TileStorage carried = allocate(shapeOf(value.getType()));
    copy(storageOf(value), carried);
    tiles_[argument] = carried;
  }
  auto loop = scf::ForOp::create(builder_, scalar(op.getLowerBound()), scalar(op.getUpperBound()),
                                 scalar(op.getStep()), init);
  scalars_.map(op.getInductionVar(), loop.getInductionVar());
  unsigned next = 0;
  for (BlockArgument argument : op.getRegionIterArgs())
    if (!isa<tile::TileType>(argument.getType()))
      scalars_.map(argument, loop.getRegionIterArg(next++));

  {
    OpBuilder::InsertionGuard guard(builder_);
    builder_.setInsertionPointToStart(loop.getBody());
    if (failed(lowerBlock(*op.getBody())))
      return failure();
    SmallVector<Value> yielded;
    SmallVector<std::pair<TileStorage, TileStorage>> moves;
    auto yield = cast<scf::YieldOp>(op.getBody()->getTerminator());
    for (auto [value, argument] : llvm::zip_equal(yield.getOperands(), op.getRegionIterArgs())) {
      if (isa<tile::TileType>(value.getType()))
        moves.push_back({storageOf(value), storageOf(argument)});
      else
        yielded.push_back(scalar(value));
    }
    // A value in another carried tile's buffer must be copied before that buffer is overwritten.
    for (auto &move : moves)
      if (!move.first.constant && llvm::any_of(moves, [&](auto &other) {
            return &other != &move && other.second.offset == move.first.offset;
          })) {
        TileStorage aside = allocate(move.first);
        copy(move.first, aside);
        move.first = aside;
      }
    for (auto &[from, to] : moves)
      copy(from, to);
    if (!yielded.empty())
      scf::YieldOp::create(builder_, yielded);
  }

  next = 0;
  for (auto [result, argument] : llvm::zip_equal(op.getResults(), op.getRegionIterArgs())) {
    if (isa<tile::TileType>(result.getType()))
      tiles_[result] = storageOf(argument);
    else
      scalars_.map(result, loop.getResult(next++));
  }
  return success();
}

LogicalResult KernelLowering::lowerIf(scf::IfOp op) {
  SmallVector<Type> scalarTypes;
  for (Type type : op.getResultTypes())
    if (!isa<tile::TileType>(type))
      scalarTypes.push_back(type);
  bool hasElse = !op.getElseRegion().empty();
  auto branch = scf::IfOp::create(builder_, scalarTypes, scalar(op.getCondition()),
                                  /*addThenBlock=*/true, /*addElseBlock=*/hasElse);
  Block *blocks[] = {branch.thenBlock(), hasElse ? branch.elseBlock() : nullptr};
  scf::YieldOp yields[] = {op.thenYield(), hasElse ? op.elseYield() : scf::YieldOp()};
  for (int side = 0; side < (hasElse ? 2 : 1); ++side) {
    OpBuilder::InsertionGuard guard(builder_);
    builder_.setInsertionPointToStart(blocks[side]);
    if (failed(lowerBlock(*yields[side]->getBlock())))
      return failure();
  }

  // Both sides may have left the result in the same buffer. Otherwise they copy it to a new one.
  for (OpResult result : op.getResults()) {
    if (!isa<tile::TileType>(result.getType()))
      continue;
    Value values[] = {yields[0].getOperand(result.getResultNumber()),
                      yields[1].getOperand(result.getResultNumber())};
    TileStorage sides[] = {storageOf(values[0]), storageOf(values[1])};
    bool same = !sides[0].constant && !sides[1].constant && sides[0].offset == sides[1].offset &&
                diesAt(values[0], yields[0]) && diesAt(values[1], yields[1]);
    TileStorage storage = same ? sides[0] : allocate(shapeOf(result.getType()));
    for (int side = 0; side < 2; ++side) {
      OpBuilder::InsertionGuard guard(builder_);
      builder_.setInsertionPointToEnd(blocks[side]);
      copy(sides[side], storage);
    }
    tiles_[result] = storage;
  }

  for (int side = 0; side < (hasElse ? 2 : 1); ++side) {
    OpBuilder::InsertionGuard guard(builder_);
    builder_.setInsertionPointToEnd(blocks[side]);
    SmallVector<Value> yielded;
    for (Value value : yields[side].getOperands())
      if (!isa<tile::TileType>(value.getType()))
        yielded.push_back(scalar(value));
    scf::YieldOp::create(builder_, yielded);
  }
  unsigned next = 0;
  for (OpResult result : op.getResults())
    if (!isa<tile::TileType>(result.getType()))
      scalars_.map(result, branch.getResult(next++));
  return success();
}

} // namespace tesela
