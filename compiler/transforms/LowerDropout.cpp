//===- LowerDropout.cpp - tile-lower-dropout --------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/Dropout.h"
#include "frontend/emit/Philox.h"
#include "tile/Extents.h"
#include "transforms/Passes.h"
#include "transforms/TileEmitter.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/DenseMap.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_TILELOWERDROPOUT
#include "transforms/Passes.h.inc"

namespace {

/// Shorthands that write integer arithmetic at one place.
struct Integers {
  OpBuilder &builder;
  Location loc;

  Value constant(int64_t value, unsigned bits = 32) {
    return arith::ConstantIntOp::create(builder, loc, value, bits);
  }
  Value low(Value x) { return arith::TruncIOp::create(builder, loc, builder.getI32Type(), x); }
  Value add(Value a, Value b) { return arith::AddIOp::create(builder, loc, a, b); }
  Value exclusiveOr(Value a, Value b) { return arith::XOrIOp::create(builder, loc, a, b); }
};

/// The values of a kernel's dropout that are the same for all of its blocks.
class KernelDropout {
public:
  /// Adds the launch's scalars to the kernel, and computes at its start the values that need them.
  explicit KernelDropout(tile::KernelOp kernel) : kernel(kernel) {
    Location loc = kernel.getLoc();
    OpBuilder builder = OpBuilder::atBlockBegin(&kernel.getBodyBlock());
    SmallVector<Value> words; // the seed, the offset, then the first positions
    for (const Parameter &parameter : dropoutParameters()) {
      Value argument = kernel.addArgument("$" + parameter.name, typeOf(parameter), loc);
      if (parameter.isCapture)
        addState(builder, loc, argument, words);
      else if (parameter.type == ElementType::f32)
        probability = argument;
      else
        words.push_back(argument);
    }
    Value zero = Integers{builder, loc}.constant(0);
    firstQuery = words[dropoutStateWords];
    firstKey = words[dropoutStateWords + 1];
    start = emitPhilox(builder, loc, {words[2], words[3], zero, zero}, /*rounds=*/10,
                       {words[0], words[1]});
    emitThreshold(builder, loc);
    emitScale(builder, loc);
  }

  void lower(tile::DropoutOp op) {
    Value dropped = droppedOf(op);
    TileEmitter emit(op);
    Value kept = emit.map(op.getType(), {op.getSource(), dropped},
                          [](TileEmitter::Scalars s, ValueRange x, Value, Value) {
                            return s.select(x[1], s.zero(), x[0]);
                          });
    op.replaceAllUsesWith(kept);
  }

  void lower(tile::DropoutScaleOp op) {
    TileEmitter emit(op);
    Value scaled = emit.map(op.getType(), op.getSource(),
                            [&](TileEmitter::Scalars s, ValueRange x, Value, Value) {
                              // `contract` lets a later subtraction become part of an fma.
                              return arith::MulFOp::create(s.builder, s.loc, x[0], scale,
                                                           arith::FastMathFlags::contract);
                            });
    op.replaceAllUsesWith(scaled);
  }

private:
  Type typeOf(const Parameter &parameter) {
    MLIRContext *context = kernel.getContext();
    Type i32 = IntegerType::get(context, 32);
    if (parameter.isCapture)
      return tile::ViewType::get(context, tile::getExtent(context, ShapedType::kDynamic), i32);
    return parameter.type == ElementType::f32 ? Type(Float32Type::get(context)) : i32;
  }

  /// Combines the words with those of `state`. Without such a tensor, reads give 0.
  static void addState(OpBuilder &builder, Location loc, Value state,
                       MutableArrayRef<Value> words) {
    Integers emit{builder, loc};
    for (auto [number, word] : llvm::enumerate(words.take_front(dropoutStateWords))) {
      Value read = tile::ReadOp::create(builder, loc, word.getType(), state, emit.constant(number));
      word = emit.exclusiveOr(word, read);
    }
  }

  /// ⌊p · 2^39⌋, in the two parts that tile.bernoulli takes.
  void emitThreshold(OpBuilder &builder, Location loc) {
    Integers emit{builder, loc};
    TileEmitter::Scalars s{builder, loc};
    Value whole = arith::FPToUIOp::create(builder, loc, builder.getI64Type(),
                                          s.multiply(probability, s.number(0x1p39f)));
    Value bits = emit.constant(31, 64), most = emit.constant(255, 64);
    // For p = 1 the upper part is 255, too, and the lower part is 2^31.
    Value upper = arith::MinUIOp::create(builder, loc,
                                         arith::ShRUIOp::create(builder, loc, whole, bits), most);
    Value lower = arith::SubIOp::create(builder, loc, whole,
                                        arith::ShLIOp::create(builder, loc, upper, bits));
    high = emit.low(upper);
    low = emit.low(lower);
  }

  void emitScale(OpBuilder &builder, Location loc) {
    TileEmitter::Scalars s{builder, loc};
    Value kept = s.add(s.number(1), s.negate(probability));
    scale = s.select(s.equal(kept, s.zero()), s.zero(), s.divide(s.number(1), kept));
  }

  /// A tile with the dropped pairs of a block. It does not depend on scores, so it can be computed
  /// early: as soon as the blocks are known, before the block's loads and products. In the forward
  /// pass another warpgroup's products run meanwhile. If both branches of an if compute the source,
  /// as for P of a backward pass, the tile is computed in both: there exponentials keep another
  /// unit busy, and products already run.
  Value droppedOf(tile::DropoutOp op) {
    Value &known = droppedBy[{op.getRows(), op.getColumns()}];
    if (known && known.getParentBlock() == op->getBlock())
      return known;
    auto branch = op.getSource().getDefiningOp<scf::IfOp>();
    if (branch && branch->getBlock() == op->getBlock() && !branch->isBeforeInBlock(placeOf(op)))
      return known = emitInBranches(branch, op);
    TileEmitter emit(op);
    emit.builder.setInsertionPoint(placeOf(op));
    return known = emitDropped(emit, op);
  }

  /// Computes the tile as an additional result of `branch`.
  Value emitInBranches(scf::IfOp branch, tile::DropoutOp op) {
    SmallVector<Type> types(branch.getResultTypes());
    types.push_back(truthsOf(op));
    OpBuilder builder(branch);
    auto wider = scf::IfOp::create(builder, branch.getLoc(), types, branch.getCondition());
    for (auto [to, from] : llvm::zip(wider->getRegions(), branch->getRegions())) {
      to.takeBody(from);
      TileEmitter emit(op);
      emit.builder.setInsertionPointToStart(&to.front());
      Value dropped = emitDropped(emit, op);
      Operation *yield = to.front().getTerminator();
      yield->insertOperands(yield->getNumOperands(), dropped);
    }
    branch.replaceAllUsesWith(wider.getResults().drop_back());
    branch.erase();
    return wider.getResults().back();
  }

  /// The first op of the block of `op` at which both of its blocks are known.
  static Operation *placeOf(tile::DropoutOp op) {
    Operation *place = &op->getBlock()->front();
    for (Value needed : {Value(op.getRows()), Value(op.getColumns())})
      if (Operation *source = needed.getDefiningOp();
          source && source->getBlock() == op->getBlock() && !source->isBeforeInBlock(place))
        place = source->getNextNode();
    return place;
  }

  tile::TileType truthsOf(tile::DropoutOp op) {
    return cast<tile::TileType>(op.getType()).withElementType(IntegerType::get(op.getContext(), 1));
  }

  Value emitDropped(TileEmitter &emit, tile::DropoutOp op) {
    OpBuilder &builder = emit.builder;
    Location loc = emit.loc;
    Integers integers{builder, loc};
    auto queries = tile::CoordinatesOp::create(builder, loc, op.getQueries()),
         keys = tile::CoordinatesOp::create(builder, loc, op.getKeys());
    Value heads = tile::ExtentOp::create(builder, loc, builder.getI32Type(), "H");
    Value head = arith::AddIOp::create(
        builder, loc, arith::MulIOp::create(builder, loc, queries.getBatch(), heads),
        queries.getHead());
    bool transposed = op.rowsAreKeys();
    Value firstRow = integers.add(queries.getFirst(), firstQuery),
          firstColumn = integers.add(keys.getFirst(), firstKey);
    if (transposed)
      std::swap(firstRow, firstColumn);
    return tile::BernoulliOp::create(builder, loc, truthsOf(op), high, low, start[0], start[1],
                                     integers.exclusiveOr(start[2], head), start[3], firstRow,
                                     firstColumn, transposed);
  }

  tile::KernelOp kernel;
  Value probability, scale, high, low;
  Value firstQuery, firstKey; ///< positions of the launch's first query and key
  PhiloxWords start;
  /// The tiles of dropped pairs, by the blocks of rows and of columns.
  llvm::DenseMap<std::pair<Value, Value>, Value> droppedBy;
};

struct TileLowerDropout : impl::TileLowerDropoutBase<TileLowerDropout> {
  using TileLowerDropoutBase::TileLowerDropoutBase;

  void runOnOperation() override {
    SmallVector<tile::DropoutOp> dropouts;
    SmallVector<tile::DropoutScaleOp> scales;
    getOperation().walk([&](tile::DropoutOp op) { dropouts.push_back(op); });
    getOperation().walk([&](tile::DropoutScaleOp op) { scales.push_back(op); });
    if (!drops) {
      for (tile::DropoutOp op : dropouts)
        op.replaceAllUsesWith(op.getSource());
      for (tile::DropoutScaleOp op : scales)
        op.replaceAllUsesWith(op.getSource());
    } else if (!dropouts.empty() || !scales.empty()) {
      KernelDropout dropout(getOperation());
      for (tile::DropoutOp op : dropouts) {
        if (int64_t heads = op.getRows().getType().getHeadCount(); heads > 1) {
          op.emitOpError() << "expected rows of one head, got " << op.getRows().getType();
          return signalPassFailure();
        }
        dropout.lower(op);
      }
      for (tile::DropoutScaleOp op : scales)
        dropout.lower(op);
    }
    for (tile::DropoutOp op : dropouts)
      op.erase();
    for (tile::DropoutScaleOp op : scales)
      op.erase();
  }
};

} // namespace
} // namespace tesela
