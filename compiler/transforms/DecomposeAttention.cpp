//===- DecomposeAttention.cpp - tile-decompose ------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/emit/ExpandArithmetic.h"
#include "transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

#include <limits>
#include <numbers>

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_TILEDECOMPOSE
#include "transforms/Passes.h.inc"

namespace {

/// Builds the ops of one decomposition at one place.
class Emitter {
public:
  explicit Emitter(Operation *op) : builder(op), loc(op->getLoc()) {}

  /// The scalar arithmetic of a map's body.
  struct Scalars {
    OpBuilder &builder;
    Location loc;

    Value number(float value) const {
      return arith::ConstantFloatOp::create(builder, loc, builder.getF32Type(), APFloat(value));
    }
    Value minusInfinity() const { return number(-std::numeric_limits<float>::infinity()); }
    Value zero() const { return number(0); }
    Value multiply(Value a, Value b) const { return arith::MulFOp::create(builder, loc, a, b); }
    Value add(Value a, Value b) const { return arith::AddFOp::create(builder, loc, a, b); }
    Value negate(Value a) const { return arith::NegFOp::create(builder, loc, a); }
    Value fma(Value a, Value b, Value c) const {
      return math::FmaOp::create(builder, loc, a, b, c);
    }
    Value divide(Value a, Value b) const { return arith::DivFOp::create(builder, loc, a, b); }
    Value exp2(Value a) const { return math::Exp2Op::create(builder, loc, a); }
    Value log2(Value a) const { return math::Log2Op::create(builder, loc, a); }
    Value equal(Value a, Value b) const {
      return arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OEQ, a, b);
    }
    Value select(Value condition, Value a, Value b) const {
      return arith::SelectOp::create(builder, loc, condition, a, b);
    }
  };

  /// tile.map with a body that computes one value of the elements, row and column.
  Value map(Type result, ValueRange sources,
            llvm::function_ref<Value(Scalars, ValueRange elements, Value row, Value column)> body) {
    auto op = tile::MapOp::create(builder, loc, result, sources);
    Block *block = new Block;
    op.getBody().push_back(block);
    for (Value source : sources)
      block->addArgument(cast<tile::TileType>(source.getType()).getElementType(), loc);
    Value row = block->addArgument(builder.getI32Type(), loc);
    Value column = block->addArgument(builder.getI32Type(), loc);
    OpBuilder inner = OpBuilder::atBlockEnd(block);
    Value value =
        body(Scalars{inner, loc}, block->getArguments().take_front(sources.size()), row, column);
    tile::YieldOp::create(inner, loc, value);
    return op.getResult();
  }

  OpBuilder builder;
  Location loc;
};

struct TileDecompose : impl::TileDecomposeBase<TileDecompose> {
  void runOnOperation() override {
    SmallVector<Operation *> ops;
    getOperation().walk([&](Operation *op) {
      if (isa<tile::ScoreOp, tile::MaskOp, tile::SoftmaxStepOp, tile::RescaleOp, tile::FinishOp>(
              op))
        ops.push_back(op);
    });
    for (Operation *op : ops) {
      if (auto score = dyn_cast<tile::ScoreOp>(op))
        decompose(score);
      else if (auto mask = dyn_cast<tile::MaskOp>(op))
        decompose(mask);
      else if (auto step = dyn_cast<tile::SoftmaxStepOp>(op))
        decompose(step);
      else if (auto rescale = dyn_cast<tile::RescaleOp>(op))
        decompose(rescale);
      else
        decompose(cast<tile::FinishOp>(op));
      op->erase();
    }
    expandAttnArithmetic(getOperation().getBody());
  }

  /// The values of b h hkv, and the first q and k, of a block of scores.
  struct Place {
    Value batch, head, kvHead, firstQuery, firstKey;

    Place(OpBuilder &builder, Location loc, Value rows, Value keys) {
      auto query = tile::CoordinatesOp::create(builder, loc, rows);
      auto key = tile::CoordinatesOp::create(builder, loc, keys);
      batch = query.getBatch();
      head = query.getHead();
      kvHead = query.getKvHead();
      firstQuery = query.getFirst();
      firstKey = key.getFirst();
    }
  };

  /// Copies a filled hook for the element at (row, column); `score` is null in masks.
  static Value inlineHook(Emitter::Scalars scalars, Region &hook, Value score, const Place &place,
                          Value row, Value column) {
    OpBuilder &builder = scalars.builder;
    Value query = arith::AddIOp::create(builder, scalars.loc, place.firstQuery, row);
    Value key = arith::AddIOp::create(builder, scalars.loc, place.firstKey, column);
    SmallVector<Value> values = {place.batch, place.head, place.kvHead, query, key};
    if (score)
      values.insert(values.begin(), score);
    IRMapping mapping;
    mapping.map(hook.getArguments(), values);
    for (Operation &op : hook.front().without_terminator())
      builder.clone(op, mapping);
    return mapping.lookup(hook.front().getTerminator()->getOperand(0));
  }

  static void decompose(tile::ScoreOp op) {
    Emitter emit(op);
    Place place(emit.builder, emit.loc, op.getRows(), op.getKeys());
    Value scores = emit.map(op.getType(), op.getSource(),
                            [&](Emitter::Scalars s, ValueRange x, Value row, Value column) {
                              Value scaled = s.multiply(x[0], op.getScale());
                              return op.getBody().empty()
                                         ? scaled
                                         : inlineHook(s, op.getBody(), scaled, place, row, column);
                            });
    op.replaceAllUsesWith(scores);
  }

  /// The masking stands in a branch that the whole block takes or leaves together.
  static void decompose(tile::MaskOp op) {
    Emitter emit(op);
    auto branch = scf::IfOp::create(emit.builder, emit.loc, op.getType(), op.getPartial(),
                                    /*withElseRegion=*/true);
    Emitter inner(op);
    inner.builder.setInsertionPointToStart(branch.thenBlock());
    Place place(inner.builder, inner.loc, op.getRows(), op.getKeys());
    Value limit =
        tile::ExtentOp::create(inner.builder, inner.loc, inner.builder.getI32Type(), "Sk");
    Value masked = inner.map(
        op.getType(), op.getSource(),
        [&](Emitter::Scalars s, ValueRange x, Value row, Value column) -> Value {
          Value key = arith::AddIOp::create(s.builder, s.loc, place.firstKey, column);
          Value keep =
              arith::CmpIOp::create(s.builder, s.loc, arith::CmpIPredicate::slt, key, limit);
          if (!op.getBody().empty())
            keep = arith::AndIOp::create(s.builder, s.loc, keep,
                                         inlineHook(s, op.getBody(), Value(), place, row, column));
          return s.select(keep, x[0], s.minusInfinity());
        });
    scf::YieldOp::create(inner.builder, inner.loc, masked);
    inner.builder.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(inner.builder, inner.loc, op.getSource());
    op.replaceAllUsesWith(branch.getResult(0));
  }

  static bool isLazy(Operation *op) {
    tile::ScheduleAttr schedule = op->getParentOfType<tile::KernelOp>().getScheduleAttr();
    return schedule && schedule.getLazyRescale();
  }

  /// c · m, or 0 for a row that has kept nothing yet: -inf - 0 instead of -inf - -inf.
  static Value emitExponents(Emitter &emit, tile::SoftmaxStepOp op, Value maxima) {
    return emit.map(maxima.getType(), maxima, [&](Emitter::Scalars s, ValueRange x, Value, Value) {
      return s.select(s.equal(x[0], s.minusInfinity()), s.zero(), s.multiply(x[0], op.getFactor()));
    });
  }

  /// 2^(c · x - r).
  static auto exponential(tile::SoftmaxStepOp op) {
    return [factor = op.getFactor()](Emitter::Scalars s, ValueRange x, Value, Value) {
      return s.exp2(s.fma(x[0], factor, s.negate(x[1])));
    };
  }

  /// The next m, and α.
  static std::pair<Value, Value> reference(Emitter &emit, tile::SoftmaxStepOp op) {
    Type rowType = op.getM().getType();
    Value maxima = tile::ReduceOp::create(emit.builder, emit.loc, rowType, tile::Reduction::Max,
                                          op.getS(), op.getM());
    Value exponents = emitExponents(emit, op, maxima);
    return {maxima, emit.map(rowType, {op.getM(), exponents}, exponential(op))};
  }

  /// Any reference gives the same softmax as long as nothing overflows: m stays, and α is 1, until
  /// a maximum exceeds it by 2^8 (lazyLimit). The first block that keeps something always does.
  static std::pair<Value, Value> lazyReference(Emitter &emit, tile::SoftmaxStepOp op) {
    // Exponentials up to 2^8 and their sums are far inside f32, P's inside f16 (HOPPER.md).
    constexpr float lazyLimit = 8;
    Type rowType = op.getM().getType();
    auto lowest =
        FloatAttr::get(emit.builder.getF32Type(), -std::numeric_limits<float>::infinity());
    Value start = tile::ConstantOp::create(emit.builder, emit.loc, rowType, lowest);
    Value own = tile::ReduceOp::create(emit.builder, emit.loc, rowType, tile::Reduction::Max,
                                       op.getS(), start, /*in_shares=*/true);
    Value excess = emit.map(rowType, {own, op.getM()},
                            [&](Emitter::Scalars s, ValueRange x, Value, Value) -> Value {
                              Value limit = s.fma(x[1], op.getFactor(), s.number(lazyLimit));
                              return s.fma(x[0], op.getFactor(), s.negate(limit));
                            });
    Value grew =
        tile::AnyPositiveOp::create(emit.builder, emit.loc, emit.builder.getI1Type(), excess);
    auto branch = scf::IfOp::create(emit.builder, emit.loc, TypeRange{rowType, rowType}, grew,
                                    /*withElseRegion=*/true);
    Emitter inner(op);
    inner.builder.setInsertionPointToStart(branch.thenBlock());
    Value whole =
        tile::TotalOp::create(inner.builder, inner.loc, rowType, own, tile::Reduction::Max);
    Value maxima = inner.map(rowType, {whole, op.getM()},
                             [&](Emitter::Scalars s, ValueRange x, Value, Value) -> Value {
                               return arith::MaxNumFOp::create(s.builder, s.loc, x[0], x[1]);
                             });
    Value exponents = emitExponents(inner, op, maxima);
    Value alpha = inner.map(rowType, {op.getM(), exponents}, exponential(op));
    scf::YieldOp::create(inner.builder, inner.loc, ValueRange{maxima, alpha});
    inner.builder.setInsertionPointToStart(branch.elseBlock());
    auto one = FloatAttr::get(emit.builder.getF32Type(), 1.0);
    Value unchanged = tile::ConstantOp::create(inner.builder, inner.loc, rowType, one);
    scf::YieldOp::create(inner.builder, inner.loc, ValueRange{op.getM(), unchanged});
    return {branch.getResult(0), branch.getResult(1)};
  }

  static void decompose(tile::SoftmaxStepOp op) {
    Emitter emit(op);
    Type rowType = op.getM().getType();
    auto [maxima, alpha] = isLazy(op) ? lazyReference(emit, op) : reference(emit, op);
    Value exponents = emitExponents(emit, op, maxima);
    Value p = emit.map(op.getS().getType(), {op.getS(), exponents}, exponential(op));
    Value scaled =
        emit.map(rowType, {op.getL(), alpha}, [&](Emitter::Scalars s, ValueRange x, Value, Value) {
          return s.multiply(x[0], x[1]);
        });
    Value sums =
        tile::ReduceOp::create(emit.builder, emit.loc, rowType, tile::Reduction::Add, p, scaled);
    op.replaceAllUsesWith(ValueRange{p, maxima, sums, alpha});
  }

  static void decompose(tile::RescaleOp op) {
    Emitter emit(op);
    auto rescale = [&](Emitter &at) {
      return at.map(
          op.getType(), {op.getSource(), op.getBy()},
          [](Emitter::Scalars s, ValueRange x, Value, Value) { return s.multiply(x[0], x[1]); });
    };
    if (!isLazy(op))
      return op.replaceAllUsesWith(rescale(emit));
    // Mostly all factors are 1: factors are at most 1, so something is to do where 1 - α is
    // positive.
    Value change = emit.map(op.getBy().getType(), op.getBy(),
                            [](Emitter::Scalars s, ValueRange x, Value, Value) -> Value {
                              return s.add(s.number(1), s.negate(x[0]));
                            });
    Value changes =
        tile::AnyPositiveOp::create(emit.builder, emit.loc, emit.builder.getI1Type(), change);
    auto branch = scf::IfOp::create(emit.builder, emit.loc, op.getType(), changes,
                                    /*withElseRegion=*/true);
    Emitter inner(op);
    inner.builder.setInsertionPointToStart(branch.thenBlock());
    scf::YieldOp::create(inner.builder, inner.loc, rescale(inner));
    inner.builder.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(inner.builder, inner.loc, op.getSource());
    op.replaceAllUsesWith(branch.getResult(0));
  }

  static void decompose(tile::FinishOp op) {
    Emitter emit(op);
    Type rowType = op.getM().getType();
    Value total = tile::TotalOp::create(emit.builder, emit.loc, rowType, op.getL());
    Value inverse = emit.map(rowType, total, [&](Emitter::Scalars s, ValueRange x, Value, Value) {
      return s.select(s.equal(x[0], s.zero()), s.zero(), s.divide(s.number(1), x[0]));
    });
    Value output = emit.map(
        op.getO().getType(), {op.getO(), inverse},
        [&](Emitter::Scalars s, ValueRange x, Value, Value) { return s.multiply(x[0], x[1]); });
    Value lse =
        emit.map(rowType, {op.getM(), total}, [&](Emitter::Scalars s, ValueRange x, Value, Value) {
          Value base2 = s.fma(x[0], op.getFactor(), s.log2(x[1]));
          return s.select(s.equal(x[1], s.zero()), s.minusInfinity(),
                          s.multiply(base2, s.number(std::numbers::ln2_v<float>)));
        });
    op.replaceAllUsesWith(ValueRange{output, lse});
  }
};

} // namespace
} // namespace tesela
