//===- DecomposePartials.cpp - Sums for parameters --------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "transforms/DecomposePartials.h"

#include "analysis/DiagonalSteps.h"
#include "analysis/FollowsFrom.h"
#include "transforms/ScoreTranslation.h"
#include "transforms/TileEmitter.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;

namespace tesela {
namespace {

bool adds(Operation *op) { return isa<tile::CollectOp, tile::DepositOp, tile::PutOp>(op); }

/// The ops of a hook that add, or that contain an op that adds (attn.reduce).
SmallVector<Operation *> additionsOf(Block &hook) {
  SmallVector<Operation *> found;
  for (Operation &op : hook)
    if (op.walk([](Operation *inner) {
            return adds(inner) ? WalkResult::interrupt() : WalkResult::advance();
          }).wasInterrupted())
      found.push_back(&op);
  return found;
}

/// Copies `value` of a hook to `builder`, with all ops of the hook that it depends on. Values from
/// outside the hook are not copied.
Value copied(Value value, Block &hook, OpBuilder &builder, IRMapping &mapping);

void copyOperands(Operation *op, Block &hook, OpBuilder &builder, IRMapping &mapping) {
  for (Value used : valuesUsedBy(*op))
    if (Value copy = copied(used, hook, builder, mapping); copy != used)
      mapping.map(used, copy);
}

Value copied(Value value, Block &hook, OpBuilder &builder, IRMapping &mapping) {
  if (Value known = mapping.lookupOrNull(value))
    return known;
  Operation *op = value.getDefiningOp();
  if (!op || op->getBlock() != &hook)
    return value;
  copyOperands(op, hook, builder, mapping);
  builder.clone(*op, mapping);
  return mapping.lookup(value);
}

/// The contribution of a pair. If `gradient` is 0 (the pair is masked, or its probability is 0), it
/// is 0 even if the derivative is NaN or infinite.
Value shareOf(TileEmitter::Scalars at, Value gradient, Value derivative) {
  if (matchPattern(derivative, m_OneFloat()))
    return gradient;
  return at.select(at.equal(gradient, at.zero()), at.zero(), at.multiply(gradient, derivative));
}

/// Copies an op that adds. Each addition is multiplied by `gradient`.
Value copiedAddition(Operation *op, Block &hook, TileEmitter::Scalars at, Value gradient,
                     IRMapping &mapping) {
  copyOperands(op, hook, at.builder, mapping);
  Operation *copy = at.builder.clone(*op, mapping);
  copy->walk([&](Operation *inner) {
    if (!adds(inner))
      return;
    OpBuilder before(inner);
    inner->setOperand(0, shareOf({before, at.loc}, gradient, inner->getOperand(0)));
  });
  return copy->getResult(0);
}

/// Copies all of `additions`. Returns the sum of their results, so that a map can yield it.
Value copiedAdditions(ArrayRef<Operation *> additions, Block &hook, TileEmitter::Scalars at,
                      Value gradient, IRMapping &mapping) {
  Value sum;
  for (Operation *op : additions) {
    Value added = copiedAddition(op, hook, at, gradient, mapping);
    sum = sum ? at.add(sum, added) : added;
  }
  return sum;
}

void perform(TileEmitter &emit, Value additions) {
  tile::PerformOp::create(emit.builder, emit.loc, additions);
}

/// The rows of a block of queries.
struct Rows {
  tile::CoordinatesOp place;
  Value end; ///< Sq

  Rows(OpBuilder &builder, Location loc, Value block)
      : place(tile::CoordinatesOp::create(builder, loc, block)),
        end(tile::ExtentOp::create(builder, loc, builder.getI32Type(), "Sq")) {}

  Value position(TileEmitter::Scalars at, Value row) {
    return arith::AddIOp::create(at.builder, at.loc, place.getFirst(), row);
  }
  /// `gradient`, or 0 if the row does not exist.
  Value existing(TileEmitter::Scalars at, Value gradient, Value query) {
    Value exists = arith::CmpIOp::create(at.builder, at.loc, arith::CmpIPredicate::slt, query, end);
    return at.select(exists, gradient, at.zero());
  }
};

class ScorePartials {
public:
  explicit ScorePartials(tile::ScorePartialsOp op)
      : op(op), hook(op.getBody().front()), emit(op), rows(emit.builder, emit.loc, op.getQueries()),
        keys(tile::CoordinatesOp::create(emit.builder, emit.loc, op.getKeys())) {}

  void run() {
    SmallVector<Operation *> ofPairs;
    DiagonalSteps steps(hook);
    for (BlockArgument same : hook.getArguments().slice(1, 3))
      steps.set(same, 0);
    steps.setPosition(hook.getArgument(query));
    steps.setPosition(hook.getArgument(key));
    for (Operation *addition : additionsOf(hook)) {
      auto collect = dyn_cast<tile::CollectOp>(addition);
      if (!collect || followsFrom(collect, score))
        ofPairs.push_back(addition);
      else if (!followsFrom(collect, key))
        addByRow(collect);
      else if (!followsFrom(collect, query))
        addByLine(collect, tile::AddLinesOp::columns);
      else if (llvm::all_of(collect.getIndices(),
                            [&](Value index) { return steps.of(index) == 0u; }))
        addByLine(collect, tile::AddLinesOp::diagonals);
      else
        addByLine(collect, tile::AddLinesOp::elements);
    }
    if (!ofPairs.empty())
      addByPair(ofPairs);
    if (addsDiagonals)
      addKept();
  }

private:
  // Arguments of the hook.
  static constexpr unsigned score = 0, query = 4, key = 5;

  /// Whether an index depends on an argument of the hook.
  bool followsFrom(tile::CollectOp collect, unsigned argument) {
    return llvm::any_of(collect.getIndices(), [&](Value index) {
      return tesela::followsFrom(index,
                                 [&](Value each) { return each == hook.getArgument(argument); });
    });
  }

  /// Maps the hook's arguments to their values for an element. `product` is the element of Q Kᵀ; it
  /// is null if no addition needs the score.
  void enter(TileEmitter::Scalars at, Value product, Value row, Value column, IRMapping &mapping) {
    Value query = rows.position(at, row),
          key = arith::AddIOp::create(at.builder, at.loc, keys.getFirst(), column);
    if (product)
      mapping.map(hook.getArgument(score), at.multiply(op.getScale(), product));
    mapping.map(hook.getArguments().drop_front(),
                ValueRange{rows.place.getBatch(), rows.place.getHead(), rows.place.getKvHead(),
                           query, key});
  }

  /// Whether an op that adds depends on the score.
  bool needsScore(Operation *addition) {
    return llvm::any_of(valuesUsedBy(*addition), [&](Value used) { return needsScore(used); });
  }
  bool needsScore(Value value) {
    return tesela::followsFrom(value, [&](Value each) { return each == hook.getArgument(score); });
  }

  /// The tiles that a map of elements reads.
  SmallVector<Value> sources(bool withScore) {
    SmallVector<Value> tiles = {op.getGradient()};
    if (withScore)
      tiles.push_back(op.getSource());
    return tiles;
  }

  void addByPair(ArrayRef<Operation *> additions) {
    bool withScore =
        llvm::any_of(additions, [&](Operation *addition) { return needsScore(addition); });
    perform(emit,
            emit.map(op.getGradient().getType(), sources(withScore),
                     [&](TileEmitter::Scalars at, ValueRange elements, Value row, Value column) {
                       IRMapping mapping;
                       enter(at, withScore ? elements[1] : Value(), row, column, mapping);
                       return copiedAdditions(additions, hook, at, elements[0], mapping);
                     }));
  }

  /// A tile with the contribution of each pair.
  Value shares(tile::CollectOp collect) {
    Value value = collect.getValue();
    if (matchPattern(value, m_OneFloat()))
      return op.getGradient();
    bool withScore = needsScore(value);
    return emit.map(op.getGradient().getType(), sources(withScore),
                    [&](TileEmitter::Scalars at, ValueRange elements, Value row, Value column) {
                      Value derivative =
                          derivativeOf(value, at, withScore ? elements[1] : Value(), row, column);
                      bool isFinite = isSurelyFinite(*at.builder.getInsertionBlock());
                      return isFinite ? at.multiply(elements[0], derivative)
                                      : shareOf(at, elements[0], derivative);
                    });
  }

  /// Translates `value` of the hook for an element, into the normal form that scores have.
  Value derivativeOf(Value value, TileEmitter::Scalars at, Value product, Value row, Value column) {
    OpBuilder uniforms(at.builder.getInsertionBlock()->getParentOp());
    ScoreTranslation translation(&hook, op->hasAttr(exactPartialsAttr), uniforms, at.builder,
                                 product, row, column);
    if (product)
      translation.setLinear(hook.getArgument(score), Linear{{{op.getScale(), product}}, Value()});
    const Value coordinates[] = {rows.place.getBatch(), rows.place.getHead(),
                                 rows.place.getKvHead()};
    for (auto [argument, known] : llvm::zip(hook.getArguments().slice(1, 3), coordinates))
      translation.setUniform(argument, known);
    translation.setIndex(hook.getArgument(query), Position(rows.place.getFirst(), {1, 0}));
    translation.setIndex(hook.getArgument(key), Position(keys.getFirst(), {0, 1}));
    llvm::DenseSet<Operation *> needed;
    SmallVector<Value> worklist = {value};
    while (!worklist.empty())
      if (Operation *each = worklist.pop_back_val().getDefiningOp();
          each && each->getBlock() == &hook && needed.insert(each).second)
        llvm::append_range(worklist, valuesUsedBy(*each));
    for (Operation &each : hook)
      if (needed.contains(&each))
        translation.translate(each);
    return translation.element(translation.linear(value));
  }

  void addByLine(tile::CollectOp collect, StringRef lines) {
    auto addition = tile::AddLinesOp::create(emit.builder, emit.loc, lines, shares(collect));
    Block &body = addition.getBody().emplaceBlock();
    Type f32 = emit.builder.getF32Type(), i32 = emit.builder.getI32Type();
    body.addArguments({f32, i32, i32}, {emit.loc, emit.loc, emit.loc});
    OpBuilder inner = OpBuilder::atBlockEnd(&body);
    IRMapping mapping;
    mapping.map(
        hook.getArguments().slice(1, 5),
        ValueRange{rows.place.getBatch(), rows.place.getHead(), rows.place.getKvHead(),
                   rows.position({inner, emit.loc}, body.getArgument(1)),
                   arith::AddIOp::create(inner, emit.loc, keys.getFirst(), body.getArgument(2))});
    SmallVector<Value> indices;
    for (Value index : collect.getIndices())
      indices.push_back(copied(index, hook, inner, mapping));
    tile::CollectOp::create(inner, emit.loc, f32, body.getArgument(0), collect.getView(), indices);
    addsDiagonals |= lines == tile::AddLinesOp::diagonals;
  }

  /// Adds tile.add_kept after the outermost loop.
  void addKept() {
    Operation *loop = op;
    while (!isa<tile::KernelOp>(loop->getParentOp()))
      loop = loop->getParentOp();
    OpBuilder behind(op.getContext());
    behind.setInsertionPointAfter(loop);
    tile::AddKeptOp::create(behind, emit.loc);
  }

  void addByRow(tile::CollectOp collect) {
    Value shares = this->shares(collect);
    auto tile = cast<tile::TileType>(shares.getType());
    auto rowType = tile::TileType::get(op.getContext(), tile.getExtents().take_front(1),
                                       tile.getElementType(), /*encoding=*/Attribute());
    auto loop = dyn_cast<scf::ForOp>(op->getParentOp());
    OpBuilder outside(loop ? loop : op.getOperation());
    Value zero = tile::ConstantOp::create(outside, emit.loc, rowType, outside.getF32FloatAttr(0));
    auto sumFrom = [&](OpBuilder &builder, Value start) -> Value {
      return tile::ReduceOp::create(builder, emit.loc, rowType, tile::Reduction::Add, shares,
                                    start);
    };
    if (!loop)
      return collectRows(collect, emit, rows, sumFrom(emit.builder, zero));
    IRRewriter rewriter(outside);
    auto attributes = llvm::to_vector(loop->getDiscardableAttrs());
    FailureOr<LoopLikeOpInterface> carrying = loop.replaceWithAdditionalYields(
        rewriter, zero, /*replaceInitOperandUsesInLoop=*/false,
        [&](OpBuilder &builder, Location, ArrayRef<BlockArgument> carried) {
          return SmallVector<Value>{sumFrom(builder, carried.front())};
        });
    emit.builder.setInsertionPoint(op); // the op has moved to the new loop's block
    Operation *newLoop = *carrying;
    for (NamedAttribute attribute : attributes)
      newLoop->setDiscardableAttr(attribute.getName(), attribute.getValue());
    TileEmitter behind(newLoop);
    behind.builder.setInsertionPointAfter(newLoop);
    collectRows(collect, behind, Rows(behind.builder, emit.loc, op.getQueries()),
                newLoop->getResults().back());
  }

  /// Adds the sum of each row, after the loop.
  void collectRows(tile::CollectOp collect, TileEmitter &behind, Rows of, Value shares) {
    Value sums = tile::TotalOp::create(behind.builder, emit.loc, shares.getType(), shares);
    Value added =
        behind.map(shares.getType(), sums,
                   [&](TileEmitter::Scalars at, ValueRange elements, Value row, Value) -> Value {
                     IRMapping mapping;
                     Value query = of.position(at, row);
                     mapping.map(hook.getArguments().slice(1, 4),
                                 ValueRange{of.place.getBatch(), of.place.getHead(),
                                            of.place.getKvHead(), query});
                     SmallVector<Value> indices;
                     for (Value index : collect.getIndices())
                       indices.push_back(copied(index, hook, at.builder, mapping));
                     return tile::CollectOp::create(at.builder, at.loc, at.builder.getF32Type(),
                                                    elements[0], collect.getView(), indices);
                   });
    perform(behind, added);
  }

  tile::ScorePartialsOp op;
  Block &hook;
  TileEmitter emit;
  Rows rows;
  tile::CoordinatesOp keys;
  bool addsDiagonals = false;
};

} // namespace

void decompose(tile::ScorePartialsOp op) {
  if (!op.getBody().empty())
    ScorePartials(op).run();
}

void decompose(tile::SinkPartialsOp op) {
  if (op.getBody().empty())
    return;
  Block &hook = op.getBody().front();
  SmallVector<Operation *> additions = additionsOf(hook);
  if (additions.empty())
    return;
  TileEmitter emit(op);
  Rows rows(emit.builder, emit.loc, op.getRows());
  Value added = emit.map(
      op.getGradient().getType(), op.getGradient(),
      [&](TileEmitter::Scalars at, ValueRange elements, Value row, Value) {
        Value query = rows.position(at, row);
        IRMapping mapping;
        mapping.map(hook.getArguments(), ValueRange{rows.place.getBatch(), rows.place.getHead(),
                                                    rows.place.getKvHead(), query});
        return copiedAdditions(additions, hook, at, rows.existing(at, elements[0], query), mapping);
      });
  perform(emit, added);
}

} // namespace tesela
