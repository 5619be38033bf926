//===- SplitRoles.cpp - pipe-split-roles ------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Splits a kernel into the programs of a producer, of consumers, and of a finder where the kernel
// searches for its blocks.
//
// All roles run the same loops over the same loads. So the n-th fill of a channel belongs to the
// n-th await of that channel. Each role counts its uses of each channel, through all loops.
//
// Where the kernel searches for blocks (tile.find_blocks), the finder runs ahead of the other
// roles. It takes the work items and sends each item to the producer and the consumers. It sends
// each found block to the producer only. Where consumers need the block's number or kind, the
// producer sends these numbers along with its first load of the block. So consumers wait for one
// channel only.
//===----------------------------------------------------------------------===//
#include "targets/common/LoadUses.h"
#include "targets/nvvm/CarriedCounts.h"
#include "targets/nvvm/ColumnsInPlace.h"
#include "targets/nvvm/Passes.h"
#include "targets/nvvm/RoleChannels.h"
#include "targets/nvvm/RoleOutputs.h"
#include "targets/nvvm/RoleRegisters.h"

#include "tile/ColumnOps.h"
#include "tile/WorkOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_PIPESPLITROLES
#include "targets/nvvm/Passes.h.inc"

namespace {

/// Splits one kernel.
class RoleSplitter : nvvm::RoleChannels {
public:
  explicit RoleSplitter(tile::KernelOp kernel) : RoleChannels(kernel) {}

  LogicalResult run() {
    int64_t consumers = schedule->consumers;
    Block &body = kernel.getBodyBlock();
    Operation *first = begin = behindLeave();
    OpBuilder builder(first);
    Location loc = kernel.getLoc();
    openChannels(builder);
    openFinds(builder);
    if (failed_)
      return failure();
    if (schedule->persistent)
      items = openNumbers(builder, loc, /*stages=*/2, /*words=*/4);

    auto roles = pipe::RolesOp::create(builder, loc, /*producer_registers=*/0, consumers,
                                       /*consumer_registers=*/0);
    auto rest = llvm::make_range(first->getIterator(), body.getTerminator()->getIterator());
    kernel.walk([&](tile::WorkOp op) { work = op; });
    auto writeAhead = [&](RoleKind role, Region &region) {
      OpBuilder ahead = OpBuilder::atBlockEnd(&region.emplaceBlock());
      emitItems(ahead, loc, role, [&](OpBuilder &inside, IRMapping &mapping, Uses &uses) {
        emitAhead(role, inside, rest, mapping, uses);
      });
      if (items && role == leader())
        pipe::EndItemsOp::create(ahead, loc);
    };
    if (counts)
      writeAhead(RoleKind::Finder, roles.getFinder());
    writeAhead(RoleKind::Producer, roles.getProducer());
    nvvm::dealRegisters(roles, schedule);

    OpBuilder computes = OpBuilder::atBlockEnd(&roles.getConsumers().emplaceBlock());
    if (schedule->turns)
      pipe::OpenTurnsOp::create(computes, loc);
    emitItems(computes, loc, RoleKind::Consumers,
              [&](OpBuilder &inside, IRMapping &mapping, Uses &uses) {
                Block *block = inside.getInsertionBlock();
                block->getOperations().splice(block->end(), body.getOperations(), rest.begin(),
                                              rest.end());
                if (items) {
                  for (tile::WorkPartOp part : workParts()) {
                    part.replaceAllUsesWith(mapping.lookup(part.getPart()));
                    part.erase();
                  }
                  work.replaceAllUsesWith(mapping.lookup(work.getBlock()));
                  work.erase();
                }
                receiveAll(*block, uses);
                eraseUnused(*block);
                nvvm::emitAdditions(*block);
                nvvm::emitStores(*block, ownRows(), /*hasItems=*/bool(items));
                inside.setInsertionPointToEnd(block);
              });
    pipe::DrainOp::create(computes, loc);
    return failure(failed_);
  }

private:
  using RoleChannels::receive;

  /// The ops that ask for the work item's part.
  SmallVector<tile::WorkPartOp> workParts() {
    return llvm::to_vector(llvm::make_filter_range(
        llvm::map_range(work.getBlock().getUsers(),
                        [](Operation *user) { return dyn_cast<tile::WorkPartOp>(user); }),
        [](tile::WorkPartOp part) { return bool(part); }));
  }

  /// The first op of the roles. All threads run the ops before it, and so decide together whether
  /// the thread block has work (tile.leave).
  Operation *behindLeave() {
    Operation *first = &kernel.getBodyBlock().front();
    if (!schedule->persistent)
      for (auto leave : kernel.getBodyBlock().getOps<tile::LeaveOp>())
        first = leave->getNextNode();
    return first;
  }

  /// Writes a role's program. `body` writes the work for one item: once, or, if the kernel is
  /// persistent, in a loop over the items of the thread block. In that loop the mapping has the
  /// item's block.
  void emitItems(OpBuilder &builder, Location loc, RoleKind role,
                 llvm::function_ref<void(OpBuilder &, IRMapping &, Uses &)> body) {
    Uses uses(viewChannels.size() + (counts ? 2 : 0) + (items ? 1 : 0), constant(builder, loc, 0));
    IRMapping mapping;
    bool leads = role == leader();
    if (!items)
      return body(builder, mapping, uses);
    Type i32 = builder.getI32Type();
    SmallVector<Value> start(uses);
    if (leads)
      start.insert(start.begin(), pipe::FirstItemOp::create(builder, loc, i32, IntegerAttr()));
    // The arguments of the loop's body: the leader gets the item's number, the others get its three
    // coordinates and, if query heads are dealt, its part. The uses follow.
    SmallVector<Type> given(uses.size() + (leads ? 1 : work.getDealt() ? 4 : 3), i32);
    auto loop = scf::WhileOp::create(builder, loc, given, start);

    OpBuilder before(kernel.getContext()), inside(kernel.getContext());
    SmallVector<Location> locations(given.size(), loc);
    Block *condition =
        before.createBlock(&loop.getBefore(), {}, SmallVector<Type>(start.size(), i32),
                           ArrayRef(locations).take_front(start.size()));
    uses.assign(condition->args_begin() + leads, condition->args_end());
    Value more;
    SmallVector<Value> passed;
    if (leads) {
      passed.push_back(condition->getArgument(0));
      more = sendItem(before, loc, passed.front(), uses.back());
    } else {
      more = receiveItem(before, loc, uses.back(), passed);
    }
    uses.back() = increment(before, loc, uses.back());
    llvm::append_range(passed, uses);
    scf::ConditionOp::create(before, loc, more, passed);

    Block *block = inside.createBlock(&loop.getAfter(), {}, given, locations);
    auto arguments = block->getArguments();
    uses.assign(arguments.end() - uses.size(), arguments.end());
    Value rows =
        leads ? Value(tile::WorkOp::create(inside, loc, work.getBlock().getType(), arguments[0],
                                           work.getDealt(), work.getOrder()))
              : Value(tile::BlockOp::create(inside, loc, work.getBlock().getType(), arguments[2],
                                            arguments[0], arguments[1], /*of=*/Value()));
    mapping.map(work.getBlock(), rows);
    for (tile::WorkPartOp part : workParts())
      mapping.map(part.getPart(), leads ? Value(tile::WorkPartOp::create(inside, loc, i32, rows))
                                        : Value(arguments[3]));
    body(inside, mapping, uses);
    SmallVector<Value> yielded(uses);
    if (leads)
      yielded.insert(yielded.begin(), pipe::NextItemOp::create(inside, loc, i32, IntegerAttr()));
    scf::YieldOp::create(inside, loc, yielded);
  }

  //===--- finder and producer ----------------------------------------------===//

  /// Copies the ops of `source` that the finder or the producer needs: the role's own work, the
  /// loops that contain it, and scalars. Scalars include ops that may trap (a division): these are
  /// copied too, because they stay under the same conditions as before.
  template <typename Range>
  void emitAhead(RoleKind role, OpBuilder &builder, Range &&source, IRMapping &mapping,
                 Uses &uses) {
    auto isKnown = [&](Value value) {
      return mapping.contains(value) ||
             (value.getParentBlock() == &kernel.getBodyBlock() &&
              (isa<BlockArgument>(value) || value.getDefiningOp()->isBeforeInBlock(begin)));
    };
    bool finds = role == RoleKind::Finder;
    for (Operation &op : source) {
      Location loc = op.getLoc();
      bool hasWork = finds ? hasFinds(&op) : hasLoads(&op);
      if (auto load = dyn_cast<tile::LoadOp>(op)) {
        if (finds || !isBrought(load))
          continue;
        if (!isKnown(load.getView()))
          fail(load, "where its view lies follows from what only consumers compute");
        else if (!isKnown(load.getBlock()) || (load.getColumns() && !isKnown(load.getColumns())))
          fail(load, "its block follows from what only consumers compute");
        else
          emitFills(builder, load, mapping, uses);
      } else if (auto loop = dyn_cast<scf::ForOp>(op); loop && hasWork) {
        if (llvm::all_of(loop.getOperands().take_front(loop.getNumControlOperands()), isKnown))
          emitLoopAhead(role, builder, loop, mapping, uses);
        else
          fail(loop, "its ends follow from what only consumers compute");
      } else if (auto find = dyn_cast<tile::FindBlocksOp>(op)) {
        Value &use = uses[countsNumber()];
        if (finds) {
          builder.clone(op, mapping);
          send(builder, loc, counts, mapping.lookup(find.getCount()), use);
        } else {
          mapping.map(find.getCount(), receive(builder, loc, counts, 1, use).getResult(0));
        }
      } else if (auto found = dyn_cast<tile::FoundBlockOp>(op)) {
        Value &use = uses[blocksNumber()];
        if (finds) {
          builder.clone(op, mapping);
          Value partial = mapping.lookup(found.getPartial());
          partial = arith::ExtUIOp::create(builder, loc, builder.getI32Type(), partial);
          send(builder, loc, blocks, {mapping.lookup(found.getIndex()), partial}, use);
        } else {
          auto received = receive(builder, loc, blocks, 2, use);
          mapping.map(found.getIndex(), received.getResult(0));
          numbers[found] = received.getValues();
        }
      } else if (op.getNumRegions() > 0 && hasWork) {
        fail(&op, "loads inside it have no place in a producer's program");
      } else if (isMemoryEffectFree(&op) && isScalar(op) &&
                 !(items && isa<tile::WorkOp, tile::WorkPartOp>(op)) &&
                 llvm::all_of(op.getOperands(), isKnown) && usesKnownOnly(op, isKnown)) {
        builder.clone(op, mapping);
      }
    }
  }

  void emitFills(OpBuilder &builder, tile::LoadOp load, IRMapping &mapping, Uses &uses) {
    Location loc = load.getLoc();
    ViewChannel &loaded = viewChannels.find(load.getView())->second;
    Value &use = uses[loaded.number];
    for (int64_t part = 0; part < loaded.channel.getChannel().getType().getParts(); ++part) {
      pipe::AcquireOp::create(builder, loc, loaded.channel, use, part);
      Value columns = load.getColumns() ? mapping.lookupOrDefault(load.getColumns()) : Value();
      pipe::FillOp::create(builder, loc, mapping.lookupOrDefault(load.getView()),
                           mapping.lookupOrDefault(load.getBlock()), columns, loaded.buffer,
                           loaded.channel, use, part, numbers.lookup(carried.lookup(load)));
    }
    use = increment(builder, loc, use);
  }

  /// Whether neither `op` nor any op in its regions gives a tile.
  static bool isScalar(Operation &op) {
    auto hasTile = [](Operation *inner) {
      return llvm::any_of(inner->getResultTypes(), llvm::IsaPred<tile::TileType>);
    };
    return !op.walk([&](Operation *inner) {
                return hasTile(inner) ? WalkResult::interrupt() : WalkResult::advance();
              }).wasInterrupted();
  }

  static bool usesKnownOnly(Operation &op, llvm::function_ref<bool(Value)> isKnown) {
    llvm::SetVector<Value> used;
    getUsedValuesDefinedAbove(op.getRegions(), used);
    return llvm::all_of(used, isKnown);
  }

  void emitLoopAhead(RoleKind role, OpBuilder &builder, scf::ForOp loop, IRMapping &mapping,
                     Uses &uses) {
    SmallVector<unsigned> numbers = usedIn(loop, role);
    auto start = llvm::map_to_vector(numbers, [&](unsigned number) { return uses[number]; });
    auto copy =
        scf::ForOp::create(builder, loop.getLoc(), mapping.lookupOrDefault(loop.getLowerBound()),
                           mapping.lookupOrDefault(loop.getUpperBound()),
                           mapping.lookupOrDefault(loop.getStep()), start);
    OpBuilder inside = OpBuilder::atBlockBegin(copy.getBody());
    mapping.map(loop.getInductionVar(), copy.getInductionVar());
    for (auto [number, argument] : llvm::zip(numbers, copy.getRegionIterArgs()))
      uses[number] = argument;
    emitAhead(role, inside, loop.getBody()->without_terminator(), mapping, uses);
    scf::YieldOp::create(inside, loop.getLoc(),
                         llvm::map_to_vector(numbers, [&](unsigned n) { return uses[n]; }));
    for (auto [number, result] : llvm::zip(numbers, copy.getResults()))
      uses[number] = result;
  }

  //===--- the consumers ----------------------------------------------------===//

  void receiveAll(Block &block, Uses &uses) {
    // Gather the ops first: `receive` also erases the loads that another load brings.
    SmallVector<Operation *> ops;
    for (Operation &op : block)
      if (auto load = dyn_cast<tile::LoadOp>(op); !load || isBrought(load))
        ops.push_back(&op);
    for (Operation *op : ops) {
      if (auto load = dyn_cast<tile::LoadOp>(op))
        receive(load, uses);
      else if (auto find = dyn_cast<tile::FindBlocksOp>(op))
        receive(find, uses);
      else if (auto loop = dyn_cast<scf::ForOp>(op); loop && hasLoads(loop))
        receiveInLoop(loop, uses);
    }
  }

  void receiveInLoop(scf::ForOp loop, Uses &uses) {
    SmallVector<unsigned> numbers = usedIn(loop, RoleKind::Consumers);
    auto start = llvm::map_to_vector(numbers, [&](unsigned number) { return uses[number]; });
    scf::ForOp counted = nvvm::carryMore(loop, start);
    unsigned before = counted.getNumRegionIterArgs() - numbers.size();
    for (auto [index, number] : llvm::enumerate(numbers))
      uses[number] = counted.getRegionIterArg(before + index);
    receiveAll(*counted.getBody(), uses);
    for (auto [index, number] : llvm::enumerate(numbers)) {
      counted.getBody()->getTerminator()->setOperand(before + index, uses[number]);
      uses[number] = counted.getResult(before + index);
    }
  }

  void receive(tile::FindBlocksOp find, Uses &uses) {
    OpBuilder builder(find);
    auto received = receive(builder, find.getLoc(), counts, 1, uses[countsNumber()]);
    find.getCount().replaceAllUsesWith(received.getResult(0));
  }

  /// Erases the ops that only loads needed, and the search for blocks.
  static void eraseUnused(Block &block) {
    SmallVector<Operation *> ops;
    block.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (isa<arith::MulIOp, tile::BlockOp, tile::FoundBlockOp, tile::FindBlocksOp, tile::RaggedOp,
              tile::PagedOp, tile::FirstColumnsOp>(op))
        ops.push_back(op);
      // The ops in a search's body are erased with the search.
      return isa<tile::FindBlocksOp>(op) ? WalkResult::skip() : WalkResult::advance();
    });
    for (Operation *op : llvm::reverse(ops))
      if (op->use_empty())
        op->erase();
  }

  /// Replaces a load by what the consumers do: await the stage, read it, release it.
  void receive(tile::LoadOp load, Uses &uses) {
    ViewChannel &loaded = viewChannels.find(load.getView())->second;
    OpBuilder builder(load);
    Location loc = load.getLoc();
    Value use = uses[loaded.number];
    uses[loaded.number] = increment(builder, loc, use);
    Value stage = arith::RemUIOp::create(
        builder, loc, use, constant(builder, loc, loaded.buffer.getBuffer().getType().getStages()));
    await(load, use);
    auto type = cast<tile::TileType>(load.getType());
    Value tile = pipe::SlotOp::create(builder, loc,
                                      type.withEncoding(pipe::SharedAttr::get(kernel.getContext())),
                                      loaded.buffer, stage);
    Operation *first = firstUse(load);
    SmallVector<Value> reads = {tile};
    for (auto other : llvm::make_early_inc_range(load->getBlock()->getOps<tile::LoadOp>()))
      if (broughtBy(other) == load) {
        auto narrower = cast<tile::TileType>(other.getType());
        reads.push_back(
            pipe::SlotOp::create(builder, other.getLoc(),
                                 narrower.withEncoding(pipe::SharedAttr::get(kernel.getContext())),
                                 loaded.buffer, stage));
        other.replaceAllUsesWith(reads.back());
        other.erase();
      }
    load.replaceAllUsesWith(tile);
    if (type.isSingleRow()) { // into registers where it is needed
      builder.setInsertionPoint(first);
      Value columns = pipe::ConvertOp::create(builder, loc, type, tile);
      tile.replaceAllUsesExcept(columns, columns.getDefiningOp());
      if (nvvm::readInPlace(columns))
        reads = {columns};
    }
    // A buffer that is filled only once is never overwritten, so nobody waits for its release.
    if (items || loaded.inLoop || load->getParentOfType<scf::ForOp>() ||
        loaded.buffer.getBuffer().getType().getStages() > 1) {
      Operation *last = lastUse(reads.front());
      for (Value read : ArrayRef(reads).drop_front())
        if (Operation *other = lastUse(read); last->isBeforeInBlock(other))
          last = other;
      builder.setInsertionPointAfter(last);
      pipe::ReleaseOp::create(builder, loc, loaded.channel, use);
    }
    load.erase();
  }

  /// Awaits the stage of `load`. If the load carries the numbers of a found block, the await stands
  /// where the block was found, and its results replace those of the tile.found_block.
  void await(tile::LoadOp load, Value use) {
    ViewChannel &loaded = viewChannels.find(load.getView())->second;
    tile::FoundBlockOp found = carried.lookup(load);
    OpBuilder builder(found ? found.getOperation() : load.getOperation());
    Location loc = load.getLoc();
    SmallVector<Type> types(found ? 2 : 0, builder.getI32Type());
    auto awaited = pipe::AwaitOp::create(builder, loc, types, loaded.channel, use);
    if (!found)
      return;
    found.getIndex().replaceAllUsesWith(awaited.getResult(0));
    Value partial = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne,
                                          awaited.getResult(1), constant(builder, loc, 0));
    found.getPartial().replaceAllUsesWith(partial);
    found.erase();
  }

  /// The first op in the block of `load` that reads its tile, either itself or in a region.
  static Operation *firstUse(tile::LoadOp load) {
    Operation *first = load->getBlock()->getTerminator();
    for (Operation *user : load->getUsers()) {
      Operation *ancestor = load->getBlock()->findAncestorOpInBlock(*user);
      if (ancestor->isBeforeInBlock(first))
        first = ancestor;
    }
    return first;
  }

  /// The last op that reads `tile`, in the block of the tile's definition. A product reads its
  /// operands until it is awaited.
  static Operation *lastUse(Value tile) {
    Operation *last = tile.getDefiningOp();
    for (Operation *user : tile.getUsers()) {
      if (isa<pipe::DotStartOp>(user))
        user = *user->getResult(0).user_begin();
      Operation *ancestor = last->getBlock()->findAncestorOpInBlock(*user);
      if (last->isBeforeInBlock(ancestor))
        last = ancestor;
    }
    return last;
  }

  Operation *begin = nullptr; ///< first op of the roles; all threads run those before it
  llvm::DenseMap<Operation *, ValueRange> numbers; ///< of a found block, as the producer gets them
};

struct PipeSplitRoles : impl::PipeSplitRolesBase<PipeSplitRoles> {
  void runOnOperation() override {
    tile::ScheduleAttr schedule = getOperation().getScheduleAttr();
    if (schedule && schedule->consumers > 0 && failed(RoleSplitter(getOperation()).run()))
      signalPassFailure();
  }
};

} // namespace
} // namespace tesela
