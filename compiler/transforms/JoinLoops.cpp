//===- JoinLoops.cpp - tile-join-loops --------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "analysis/FollowsFrom.h"
#include "tile/GradientOps.h"
#include "tile/OwnedTiles.h"
#include "transforms/Passes.h"
#include "transforms/TileEmitter.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/LoopInvariantCodeMotionUtils.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_TILEJOINLOOPS
#include "transforms/Passes.h.inc"

namespace {

/// The op that stores a tile, and the loops around it.
struct Nest {
  tile::PerformOp perform;
  tile::MapOp map;
  tile::PutOp put;
  scf::ForOp inner, outer; ///< over blocks of keys, over batches
  tile::BlockOp keys;      ///< the block of keys at which the tile is stored
};

/// The tile.put in the body of the map that `op` performs; null unless there is exactly one.
tile::PutOp putOf(tile::PerformOp op) {
  auto map = op.getTile().getDefiningOp<tile::MapOp>();
  auto puts = map ? llvm::to_vector(map.getBody().front().getOps<tile::PutOp>())
                  : SmallVector<tile::PutOp>();
  return puts.size() == 1 ? puts.front() : tile::PutOp();
}

/// Finds the loops of a kernel. The result's `put` is null if the kernel has another form.
Nest findNest(tile::KernelOp kernel) {
  Nest nest;
  kernel.walk([&](tile::PerformOp op) {
    if (tile::PutOp put = putOf(op)) {
      nest.perform = op;
      nest.put = put;
    }
  });
  if (!nest.put)
    return nest;
  nest.map = cast<tile::MapOp>(nest.put->getParentOp());
  nest.inner = dyn_cast<scf::ForOp>(nest.perform->getParentOp());
  nest.outer = nest.inner ? dyn_cast<scf::ForOp>(nest.inner->getParentOp()) : scf::ForOp();
  for (Value used : valuesUsedBy(*nest.map))
    if (auto place = used.getDefiningOp<tile::CoordinatesOp>())
      if (auto block = place.getBlock().getDefiningOp<tile::BlockOp>();
          block && cast<tile::BlockType>(block.getType()).getAxis() == tile::Axis::Key)
        nest.keys = block;
  if (!nest.outer || !nest.keys || nest.outer.getNumResults() != 0 ||
      nest.inner.getNumResults() != 0 || nest.map->getNextNode() == nullptr)
    nest.put = {};
  return nest;
}

class Joiner {
public:
  explicit Joiner(Nest nest)
      : nest(nest), builder(nest.outer), loc(nest.map.getLoc()),
        type(cast<tile::TileType>(nest.map.getType())) {}

  void run() {
    moveLoopInvariantCode(nest.outer);
    Value zero = constant(0), one = constant(1), count = nest.outer.getUpperBound();
    // All batches have the same blocks.
    IRMapping ofFirst;
    ofFirst.map(nest.outer.getInductionVar(), zero);
    Value low = copied(nest.inner.getLowerBound(), builder, ofFirst),
          high = copied(nest.inner.getUpperBound(), builder, ofFirst);
    zeros = tile::ConstantOp::create(builder, loc, type, builder.getF32FloatAttr(0));
    storeZeros(low, high, count, ofFirst);

    auto loop = scf::ForOp::create(builder, loc, multiply(low, count), multiply(high, count), one,
                                   ValueRange{zeros});
    OpBuilder inside = OpBuilder::atBlockEnd(loop.getBody());
    Value number = loop.getInductionVar();
    IRMapping mapping;
    mapping.map(nest.inner.getInductionVar(),
                arith::DivUIOp::create(inside, loc, number, count).getResult());
    Value batch = arith::RemUIOp::create(inside, loc, number, count);
    mapping.map(nest.outer.getInductionVar(), batch);
    Value next;
    for (Operation &op : nest.outer.getBody()->without_terminator()) {
      if (&op != nest.inner) {
        inside.clone(op, mapping);
        continue;
      }
      for (Operation &each : nest.inner.getBody()->without_terminator()) {
        if (&each == nest.map)
          continue;
        if (&each == nest.perform)
          next = addUp(inside, mapping, loop.getRegionIterArg(0), batch, count);
        else
          inside.clone(each, mapping);
      }
    }
    scf::YieldOp::create(inside, loc, next);
    nest.outer.erase();
  }

private:
  Value constant(int64_t value) { return arith::ConstantIntOp::create(builder, loc, value, 32); }
  Value multiply(Value a, Value b) { return arith::MulIOp::create(builder, loc, a, b); }

  /// Copies `value`, and everything in the loops that it depends on.
  Value copied(Value value, OpBuilder &at, IRMapping &mapping) {
    if (Value known = mapping.lookupOrNull(value))
      return known;
    Operation *op = value.getDefiningOp();
    if (!op || nest.outer.isDefinedOutsideOfLoop(value))
      return value;
    for (Value used : valuesUsedBy(*op))
      copied(used, at, mapping);
    at.clone(*op, mapping);
    return mapping.lookup(value);
  }

  /// Adds one batch's tile to `sum`: the map's body without the put, then the addition. The last
  /// batch stores the sum, and the next sum begins with zeros.
  Value addUp(OpBuilder &at, IRMapping &mapping, Value sum, Value batch, Value count) {
    SmallVector<Value> sources;
    for (Value source : nest.map.getSources())
      sources.push_back(mapping.lookupOrDefault(source));
    sources.push_back(sum);
    TileEmitter emit(nest.map);
    emit.builder = at;
    Value all = emit.map(
        type, sources, [&](TileEmitter::Scalars s, ValueRange elements, Value row, Value column) {
          return s.add(elements.back(), share(s, elements.drop_back(), row, column, mapping));
        });
    Value last =
        arith::SubIOp::create(at, loc, count, arith::ConstantIntOp::create(at, loc, 1, 32));
    Value isLast = arith::CmpIOp::create(at, loc, arith::CmpIPredicate::eq, batch, last);
    auto branch = scf::IfOp::create(at, loc, type, isLast, /*withElseRegion=*/true);
    OpBuilder then = branch.getThenBodyBuilder(), otherwise = branch.getElseBodyBuilder();
    store(then, mapping, all);
    scf::YieldOp::create(then, loc, zeros);
    scf::YieldOp::create(otherwise, loc, all);
    return branch.getResult(0);
  }

  IRMapping bodyMapping(ValueRange elements, Value row, Value column, const IRMapping &outside) {
    Block &body = nest.map.getBody().front();
    IRMapping mapping(outside);
    size_t sources = nest.map.getSources().size();
    if (!elements.empty())
      mapping.map(body.getArguments().take_front(sources), elements);
    mapping.map(body.getArgument(sources), row);
    mapping.map(body.getArgument(sources + 1), column);
    return mapping;
  }

  /// Copies `value` of the map's body, and everything in the body that it depends on.
  Value copiedInBody(Value value, OpBuilder &at, IRMapping &mapping) {
    Operation *op = value.getDefiningOp();
    if (!mapping.contains(value) && op && op->getBlock() == nest.put->getBlock()) {
      for (Value used : valuesUsedBy(*op))
        copiedInBody(used, at, mapping);
      at.clone(*op, mapping);
    }
    return mapping.lookupOrDefault(value);
  }

  Value share(TileEmitter::Scalars s, ValueRange elements, Value row, Value column,
              const IRMapping &outside) {
    IRMapping mapping = bodyMapping(elements, row, column, outside);
    return copiedInBody(nest.put.getValue(), s.builder, mapping);
  }

  /// Stores the elements of `tile`. `outside` maps values of the loops that the map's body uses.
  void store(OpBuilder &at, const IRMapping &outside, Value tile) {
    TileEmitter emit(nest.map);
    emit.builder = at;
    Value stored = emit.map(
        type, tile,
        [&](TileEmitter::Scalars s, ValueRange elements, Value row, Value column) -> Value {
          IRMapping mapping = bodyMapping({}, row, column, outside);
          SmallVector<Value> indices;
          for (Value index : nest.put.getIndices())
            indices.push_back(copiedInBody(index, s.builder, mapping));
          return tile::PutOp::create(s.builder, loc, s.builder.getF32Type(), elements[0],
                                     nest.put.getView(), indices);
        });
    tile::PerformOp::create(emit.builder, loc, stored);
    at = emit.builder;
  }

  /// Stores zeros in the blocks of keys that the loop does not visit: those before `low` and those
  /// from `high` on. If the loop's numbers are not block numbers, stores zeros in all blocks; the
  /// loop then overwrites some of them. Each thread stores the same elements of a block both times.
  void storeZeros(Value low, Value high, Value count, const IRMapping &ofFirst) {
    Value zero = constant(0), one = constant(1);
    int64_t positions = cast<tile::BlockType>(nest.keys.getType()).getPositions();
    Value size = constant(positions);
    Value keys = tile::ExtentOp::create(builder, loc, builder.getI32Type(), "Sk");
    Value whole = arith::DivUIOp::create(builder, loc, keys, size);
    Value rest = arith::RemUIOp::create(builder, loc, keys, size);
    Value hasRest = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, rest, zero);
    Value blocks = arith::AddIOp::create(
        builder, loc, whole,
        arith::ExtUIOp::create(builder, loc, builder.getI32Type(), hasRest).getResult());
    auto start = nest.keys.getFirst().getDefiningOp<arith::MulIOp>();
    bool isByNumber = start && (start.getLhs() == nest.inner.getInductionVar() ||
                                start.getRhs() == nest.inner.getInductionVar());
    if (!isByNumber)
      low = high = blocks;
    Value beyond = arith::SubIOp::create(builder, loc, blocks, high);
    beyond = arith::MaxSIOp::create(builder, loc, beyond, zero);
    Value left = arith::AddIOp::create(builder, loc, low, beyond);
    Value hasSome = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, count, zero);
    left = arith::SelectOp::create(builder, loc, hasSome, left, zero);
    auto loop = scf::ForOp::create(builder, loc, zero, left, one);
    OpBuilder inside = OpBuilder::atBlockBegin(loop.getBody());
    Value number = loop.getInductionVar();
    Value isBefore = arith::CmpIOp::create(inside, loc, arith::CmpIPredicate::slt, number, low);
    Value behind = arith::AddIOp::create(
        inside, loc, high, arith::SubIOp::create(inside, loc, number, low).getResult());
    Value block = arith::SelectOp::create(inside, loc, isBefore, number, behind);
    IRMapping mapping(ofFirst);
    mapping.map(nest.keys.getFirst(), arith::MulIOp::create(inside, loc, block, size).getResult());
    for (Value used : valuesUsedBy(*nest.map))
      if (!isa<tile::TileType>(used.getType()))
        copied(used, inside, mapping);
    store(inside, mapping, zeros);
  }

  Nest nest;
  OpBuilder builder;
  Location loc;
  tile::TileType type;
  Value zeros;
};

struct TileJoinLoops : impl::TileJoinLoopsBase<TileJoinLoops> {
  void runOnOperation() override {
    if (!getOperation()->hasAttr(tile::ownsTilesAttr))
      return;
    Nest nest = findNest(getOperation());
    if (nest.put)
      return Joiner(nest).run();
    getOperation().emitError()
        << "expected a tile.put in a loop over blocks of keys inside a loop "
           "over batches, as tile-own-tiles leaves it; a kernel that owns its "
           "tiles has no other form";
    signalPassFailure();
  }
};

} // namespace
} // namespace tesela
