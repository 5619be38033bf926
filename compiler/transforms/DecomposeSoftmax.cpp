//===- DecomposeSoftmax.cpp - Softmax as maps and reductions ----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "transforms/DecomposeSoftmax.h"

#include "transforms/TileEmitter.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

#include <functional>
#include <numbers>

using namespace mlir;

namespace tesela {

using Scalars = TileEmitter::Scalars;

//===----------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------===//

/// The map that is the only user of P, if its other operands are known before `op`: dropout. It is
/// written next to the exponentials, where its instructions cost least, and not after the branch
/// that may compute them again.
static tile::MapOp mapOfP(tile::SoftmaxStepOp op) {
  if (!op.getP().hasOneUse())
    return {};
  auto map = dyn_cast<tile::MapOp>(*op.getP().user_begin());
  auto isKnown = [&](Value operand) {
    Operation *source = operand.getDefiningOp();
    return operand == op.getP() || !source || source->getBlock() != op->getBlock() ||
           source->isBeforeInBlock(op);
  };
  bool isOfOp = map && map->getBlock() == op->getBlock() && map.getType() == op.getP().getType() &&
                llvm::all_of(map.getSources(), isKnown);
  return isOfOp ? map : tile::MapOp();
}

/// Applies that map to `p`. Without such a map, returns `p`.
static Value emitMapOfP(TileEmitter &emit, tile::SoftmaxStepOp op, Value p) {
  tile::MapOp map = mapOfP(op);
  if (!map)
    return p;
  IRMapping mapping;
  mapping.map(op.getP(), p);
  return emit.builder.clone(*map, mapping)->getResult(0);
}

/// c · m, or 0 where that is -inf. It is -inf in a row that has kept nothing yet, or whose scores
/// are all near f32's lowest number. Then exponentials take -inf - 0, and not -inf - -inf = NaN.
static Value emitExponents(TileEmitter &emit, tile::SoftmaxStepOp op, Value maxima) {
  return emit.map(maxima.getType(), maxima, [&](Scalars s, ValueRange x, Value, Value) {
    Value exponent = s.multiply(x[0], op.getFactor());
    return s.select(s.equal(exponent, s.minusInfinity()), s.zero(), exponent);
  });
}

/// 2^(c · x - r) of `values`, where r is the exponent of the row.
static Value emitExponentials(TileEmitter &emit, tile::SoftmaxStepOp op, Value values,
                              Value exponents) {
  return emit.map(values.getType(), {values, exponents},
                  [&](Scalars s, ValueRange x, Value, Value) {
                    return s.exp2(s.fma(x[0], op.getFactor(), s.negate(x[1])));
                  });
}

/// α = 2^(c · m - r'). It must use the same rounded product c · m as the earlier exponentials. With
/// another rounding every new maximum would add an error of 2^-24 times the size of the score.
static Value emitCorrection(TileEmitter &emit, tile::SoftmaxStepOp op, Value exponents) {
  return emit.map(exponents.getType(), {op.getM(), exponents},
                  [&](Scalars s, ValueRange x, Value, Value) {
                    return s.exp2(s.add(s.multiply(x[0], op.getFactor()), s.negate(x[1])));
                  });
}

static Value emitProduct(TileEmitter &emit, Value a, Value b) {
  return emit.map(a.getType(), {a, b},
                  [](Scalars s, ValueRange x, Value, Value) { return s.multiply(x[0], x[1]); });
}

static Value emitConstant(TileEmitter &emit, Type type, float value) {
  return tile::ConstantOp::create(emit.builder, emit.loc, type,
                                  FloatAttr::get(emit.builder.getF32Type(), value));
}

static Value emitFlag(TileEmitter &emit, bool value) {
  return arith::ConstantIntOp::create(emit.builder, emit.loc, value, 1);
}

static Value emitReduce(TileEmitter &emit, tile::Reduction kind, Value source, Value start,
                        bool inShares = false) {
  return tile::ReduceOp::create(emit.builder, emit.loc, start.getType(), kind, source, start,
                                inShares);
}

//===----------------------------------------------------------------------===//
// The three references
//===----------------------------------------------------------------------===//

SoftmaxDecomposition::Step SoftmaxDecomposition::follow(TileEmitter &emit, tile::SoftmaxStepOp op,
                                                        Value scores) {
  Value m = emitReduce(emit, tile::Reduction::Max, scores, op.getM());
  Value exponents = emitExponents(emit, op, m);
  Value alpha = emitCorrection(emit, op, exponents);
  Value p = emitExponentials(emit, op, scores, exponents);
  Value l = emitReduce(emit, tile::Reduction::Add, p, emitProduct(emit, op.getL(), alpha));
  return {emitMapOfP(emit, op, p), m, l, alpha, Value()};
}

SoftmaxDecomposition::Step SoftmaxDecomposition::lazy(TileEmitter &emit, tile::SoftmaxStepOp op) {
  // Exponentials up to 2^8 and their sums are far inside f32's range, and P is inside f16's.
  constexpr float limit = 8;
  Type rowType = op.getM().getType();
  Value lowest = emitConstant(emit, rowType, -std::numeric_limits<float>::infinity());
  Value own = emitReduce(emit, tile::Reduction::Max, op.getS(), lowest, /*inShares=*/true);
  Value excess =
      emit.map(rowType, {own, op.getM()}, [&](Scalars s, ValueRange x, Value, Value) -> Value {
        return s.fma(x[0], op.getFactor(), s.negate(s.fma(x[1], op.getFactor(), s.number(limit))));
      });
  Value grew =
      tile::AnyPositiveOp::create(emit.builder, emit.loc, emit.builder.getI1Type(), excess);
  auto branch = scf::IfOp::create(emit.builder, emit.loc, TypeRange{rowType, rowType}, grew,
                                  /*withElseRegion=*/true);
  TileEmitter inner(op);
  inner.builder.setInsertionPointToStart(branch.thenBlock());
  Value whole = tile::TotalOp::create(inner.builder, inner.loc, rowType, own, tile::Reduction::Max);
  Value next =
      inner.map(rowType, {whole, op.getM()}, [&](Scalars s, ValueRange x, Value, Value) -> Value {
        return arith::MaxNumFOp::create(s.builder, s.loc, x[0], x[1]);
      });
  Value alpha = emitCorrection(inner, op, emitExponents(inner, op, next));
  scf::YieldOp::create(inner.builder, inner.loc, ValueRange{next, alpha});
  inner.builder.setInsertionPointToStart(branch.elseBlock());
  Value one = emitConstant(inner, rowType, 1);
  scf::YieldOp::create(inner.builder, inner.loc, ValueRange{op.getM(), one});

  Value m = branch.getResult(0);
  alpha = branch.getResult(1);
  Value p = emitExponentials(emit, op, op.getS(), emitExponents(emit, op, m));
  Value l = emitReduce(emit, tile::Reduction::Add, p, emitProduct(emit, op.getL(), alpha));
  return {emitMapOfP(emit, op, p), m, l, alpha, grew};
}

/// Copies to `emit` the ops of `block` that compute `value`. Loaded tiles, constants, tiles of i1
/// and scalars are not copied.
static Value recomputed(TileEmitter &emit, Block *block, Value value) {
  SetVector<Operation *> needed;
  std::function<void(Value)> collect = [&](Value value) {
    Operation *op = value.getDefiningOp();
    auto type = dyn_cast<tile::TileType>(value.getType());
    if (!op || op->getBlock() != block || !type || type.getElementType().isInteger(1) ||
        isa<tile::LoadOp, tile::ConstantOp>(op))
      return;
    op->walk([&](Operation *inner) { llvm::for_each(inner->getOperands(), collect); });
    needed.insert(op);
  };
  collect(value);
  IRMapping mapping;
  for (Operation *op : needed)
    if (auto dot = dyn_cast<tile::DotOp>(emit.builder.clone(*op, mapping)))
      dot.setAgain(true);
  return mapping.lookupOrDefault(value);
}

/// Replaces `mask`, the branch on a partial block that gives `op` its scores, by a branch that also
/// gives the references. A row that has kept nothing so far gets the maximum of these scores as
/// its reference. The first block (`isFirst`) does not need this: its own step finds the maximum.
/// The old branch stays behind the new one.
static scf::IfOp emitMaskWithReferences(tile::SoftmaxStepOp op, scf::IfOp mask, Value isFirst) {
  OpBuilder builder(mask);
  Type rowType = op.getM().getType();
  auto branch = scf::IfOp::create(builder, mask.getLoc(), {mask.getType(0), rowType},
                                  mask.getCondition(), /*withElseRegion=*/true);
  auto copy = [&](Block *from, Block *to, llvm::function_ref<Value(TileEmitter &, Value)> newM) {
    TileEmitter inner(op);
    inner.builder.setInsertionPointToStart(to);
    IRMapping mapping;
    for (Operation &each : from->without_terminator())
      inner.builder.clone(each, mapping);
    Value scores = mapping.lookupOrDefault(from->getTerminator()->getOperand(0));
    Value m = newM(inner, scores);
    scf::YieldOp::create(inner.builder, inner.loc, ValueRange{scores, m});
  };
  copy(mask.thenBlock(), branch.thenBlock(), [&](TileEmitter &inner, Value scores) -> Value {
    // Returns op's own references if `condition` holds, and those of `emitElse` otherwise.
    auto keptIf = [&](TileEmitter &outer, Value condition,
                      llvm::function_ref<Value(TileEmitter &)> emitElse) -> Value {
      auto choice = scf::IfOp::create(outer.builder, outer.loc, rowType, condition,
                                      /*withElseRegion=*/true);
      TileEmitter here(op);
      here.builder.setInsertionPointToStart(choice.thenBlock());
      scf::YieldOp::create(here.builder, here.loc, op.getM());
      here.builder.setInsertionPointToStart(choice.elseBlock());
      Value m = emitElse(here);
      scf::YieldOp::create(here.builder, here.loc, m);
      return choice.getResult(0);
    };
    return keptIf(inner, isFirst, [&](TileEmitter &later) {
      Value isNew = later.map(rowType, op.getM(), [&](Scalars s, ValueRange x, Value, Value) {
        return s.select(s.equal(x[0], s.minusInfinity()), s.number(1), s.number(-1));
      });
      Value hasNew =
          tile::AnyPositiveOp::create(later.builder, later.loc, later.builder.getI1Type(), isNew);
      Value hasNone =
          arith::XOrIOp::create(later.builder, later.loc, hasNew, emitFlag(later, true));
      return keptIf(later, hasNone, [&](TileEmitter &found) {
        Value lowest = emitConstant(found, rowType, -std::numeric_limits<float>::infinity());
        Value maxima = emitReduce(found, tile::Reduction::Max, scores, lowest);
        return found.map(rowType, {op.getM(), maxima}, [&](Scalars s, ValueRange x, Value, Value) {
          return s.select(s.equal(x[0], s.minusInfinity()), x[1], x[0]);
        });
      });
    });
  });
  copy(mask.elseBlock(), branch.elseBlock(),
       [&](TileEmitter &, Value) -> Value { return op.getM(); });
  return branch;
}

/// Whether `p` is converted to f16, directly or after maps. `isMapped`: a map comes before it.
static bool becomesHalf(Value p, bool &isMapped) {
  bool isHalf = false;
  for (Operation *user : p.getUsers()) {
    if (auto convert = dyn_cast<tile::ConvertOp>(user)) {
      isHalf |= cast<tile::TileType>(convert.getType()).getElementType().isF16();
    } else if (auto map = dyn_cast<tile::MapOp>(user)) {
      bool isIgnored = false, isConverted = becomesHalf(map->getResult(0), isIgnored);
      isMapped |= isConverted;
      isHalf |= isConverted;
    }
  }
  return isHalf;
}

SoftmaxDecomposition::Step
SoftmaxDecomposition::againstReference(TileEmitter &emit, tile::SoftmaxStepOp op, Scored scored) {
  // The limit is far inside the range of bf16 and f32, for any number of keys. f16's range ends at
  // 2^16. If a map multiplies P first (by the scale of a page), 2^8 is the limit, as in lazy().
  bool isMapped = false, isHalf = becomesHalf(op.getP(), isMapped);
  float limit = !isHalf ? 0x1p60f : isMapped ? 0x1p8f : 0x1p15f;
  Type rowType = op.getM().getType();
  // A row that has kept nothing has the exponent -inf, and its exponentials exceed the limit. In a
  // partial block a reference was searched for such rows; a row that still has -inf keeps nothing
  // in this block.
  Value exponents = emit.map(rowType, scored.m, [&](Scalars s, ValueRange x, Value, Value) {
    Value exponent = s.multiply(x[0], op.getFactor());
    if (!scored.isPartial)
      return exponent;
    Value keepsNone = arith::AndIOp::create(s.builder, s.loc, scored.isPartial,
                                            s.equal(exponent, s.minusInfinity()));
    return s.select(keepsNone, s.zero(), exponent);
  });
  Value p = emitExponentials(emit, op, scored.scores, exponents);
  Value sums = emitReduce(emit, tile::Reduction::Add, p, emitConstant(emit, rowType, 0));
  p = emitMapOfP(emit, op, p);
  Value excess = emit.map(rowType, sums, [&](Scalars s, ValueRange x, Value, Value) -> Value {
    Value fits = arith::CmpFOp::create(s.builder, s.loc, arith::CmpFPredicate::OLE, x[0],
                                       s.number(limit)); // false for NaN, too
    return s.select(fits, s.number(-1), s.number(1));
  });
  Value exceeds =
      tile::AnyPositiveOp::create(emit.builder, emit.loc, emit.builder.getI1Type(), excess,
                                  /*group=*/true);
  Type types[] = {p.getType(), rowType, rowType, rowType};
  auto branch = scf::IfOp::create(emit.builder, emit.loc, types, exceeds, /*withElseRegion=*/true);
  TileEmitter inner(op);
  inner.builder.setInsertionPointToStart(branch.thenBlock());
  Step again = follow(inner, op, recomputed(inner, op->getBlock(), op.getS()));
  scf::YieldOp::create(inner.builder, inner.loc,
                       ValueRange{again.p, again.m, again.l, again.alpha});
  inner.builder.setInsertionPointToStart(branch.elseBlock());
  Value l = inner.map(rowType, {op.getL(), sums},
                      [](Scalars s, ValueRange x, Value, Value) { return s.add(x[0], x[1]); });
  Value one = emitConstant(inner, rowType, 1);
  scf::YieldOp::create(inner.builder, inner.loc, ValueRange{p, scored.m, l, one});
  return {branch.getResult(0), branch.getResult(1), branch.getResult(2), branch.getResult(3),
          exceeds};
}

SoftmaxDecomposition::Step SoftmaxDecomposition::recompute(TileEmitter &emit,
                                                           tile::SoftmaxStepOp op) {
  auto loop = dyn_cast<scf::ForOp>(op->getParentOp());
  if (!loop)
    return follow(emit, op, op.getS());
  Value isFirst = arith::CmpIOp::create(emit.builder, emit.loc, arith::CmpIPredicate::eq,
                                        loop.getInductionVar(), loop.getLowerBound());
  Type rowType = op.getM().getType();
  Scored scored{op.getS(), op.getM(), Value()};
  if (auto mask = hasFoundBlocks ? op.getS().getDefiningOp<scf::IfOp>() : nullptr) {
    isFirst.getDefiningOp()->moveBefore(mask);
    scf::IfOp branch = emitMaskWithReferences(op, mask, isFirst);
    scored = {branch.getResult(0), branch.getResult(1), mask.getCondition()};
  }
  Type types[] = {op.getS().getType(), rowType, rowType, rowType, emit.builder.getI1Type()};
  auto branch = scf::IfOp::create(emit.builder, emit.loc, types, isFirst, /*withElseRegion=*/true);
  auto emitBranch = [&](Block *block, llvm::function_ref<Step(TileEmitter &)> emitStep) {
    TileEmitter inner(op);
    inner.builder.setInsertionPointToStart(block);
    Step step = emitStep(inner);
    Value changed = step.changed ? step.changed : emitFlag(inner, true);
    scf::YieldOp::create(inner.builder, inner.loc,
                         ValueRange{step.p, step.m, step.l, step.alpha, changed});
  };
  emitBranch(branch.thenBlock(),
             [&](TileEmitter &inner) { return follow(inner, op, scored.scores); });
  emitBranch(branch.elseBlock(),
             [&](TileEmitter &inner) { return againstReference(inner, op, scored); });
  return {branch.getResult(0), branch.getResult(1), branch.getResult(2), branch.getResult(3),
          branch.getResult(4)};
}

//===----------------------------------------------------------------------===//
// The ops
//===----------------------------------------------------------------------===//

void SoftmaxDecomposition::decompose(tile::SoftmaxStepOp op) {
  tile::ScheduleAttr schedule = op->getParentOfType<tile::KernelOp>().getScheduleAttr();
  ScheduleReference reference = schedule ? schedule->reference : ScheduleReference::follow;
  TileEmitter emit(op);
  Step step = reference == ScheduleReference::lazy        ? lazy(emit, op)
              : reference == ScheduleReference::recompute ? recompute(emit, op)
                                                          : follow(emit, op, op.getS());
  if (step.changed)
    changedBy[step.alpha] = step.changed;
  if (tile::MapOp map = mapOfP(op)) {
    map.replaceAllUsesWith(step.p);
    map.erase();
  }
  op.replaceAllUsesWith(ValueRange{step.p, step.m, step.l, step.alpha});
}

void SoftmaxDecomposition::decompose(tile::RescaleOp op) {
  TileEmitter emit(op);
  Value changed = changedBy.lookup(op.getBy());
  if (!changed)
    return op.replaceAllUsesWith(emitProduct(emit, op.getSource(), op.getBy()));
  auto branch = scf::IfOp::create(emit.builder, emit.loc, op.getType(), changed,
                                  /*withElseRegion=*/true);
  TileEmitter inner(op);
  inner.builder.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(inner.builder, inner.loc, emitProduct(inner, op.getSource(), op.getBy()));
  inner.builder.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(inner.builder, inner.loc, op.getSource());
  op.replaceAllUsesWith(branch.getResult(0));
}

namespace {
/// A row's denominator with its sink z. Exponents of two are relative to the larger of the two:
///
///   top = max(c · m, log₂e · z)     denominator = L · 2^(c · m - top) + 2^(log₂e · z - top)
///
/// A row without keys has L = 0 and no m, so its first term is 0. A row without a sink has
/// z = -inf, so its second term is 0. If z is NaN or +inf, the result is NaN.
struct DenominatorWithSink {
  DenominatorWithSink(Scalars s, Value m, Value total, Value z, Value factor) {
    isEmpty = s.equal(total, s.zero());
    // The same exponent as in emitExponents, so that both have the same reference.
    Value exponent = s.multiply(m, factor);
    exponent = s.select(s.equal(exponent, s.minusInfinity()), s.zero(), exponent);
    Value sink = s.multiply(held(s, z), s.number(std::numbers::log2e_v<float>));
    Value own = s.select(isEmpty, s.minusInfinity(), exponent);
    top = arith::MaxNumFOp::create(s.builder, s.loc, own, sink);
    weight = s.select(isEmpty, s.zero(), s.exp2(s.add(exponent, s.negate(top))));
    term = s.select(s.equal(sink, s.minusInfinity()), s.zero(), s.exp2(s.add(sink, s.negate(top))));
    denominator = s.add(s.multiply(total, weight), term);
    isNothing = s.equal(denominator, s.zero());
    isSinkAlone = s.equal(weight, s.zero());
  }
  /// `z`, limited so that its product with log₂e is finite. Infinities and NaN do not change.
  static Value held(Scalars s, Value z) {
    constexpr float limit = 0x1.62e42ep+127f; // the largest f32, times ln 2
    auto max = [&](Value a, Value b) -> Value {
      return arith::MaxNumFOp::create(s.builder, s.loc, a, b);
    };
    Value least = s.number(-limit);
    Value inside = s.negate(max(s.negate(max(z, least)), least));
    // `max` drops a NaN, so NaN needs this test, which is false for ±inf, too.
    Value isFinite = s.equal(s.multiply(z, s.zero()), s.zero());
    return s.select(isFinite, inside, z);
  }
  Value isEmpty, isNothing; ///< no keys; neither keys nor a sink
  Value isSinkAlone;        ///< no keys, or their sum is negligible beside the sink
  Value top, weight, term, denominator;
};
} // namespace

/// The results of `op` if it has a sink.
static std::pair<Value, Value> finishWithSink(TileEmitter &emit, tile::FinishOp op, Value total) {
  Type rowType = op.getM().getType();
  SmallVector<Value> rows = {op.getM(), total, op.getSink()};
  Value weights = emit.map(rowType, rows, [&](Scalars s, ValueRange x, Value, Value) {
    DenominatorWithSink d(s, x[0], x[1], x[2], op.getFactor());
    return s.select(d.isNothing, s.zero(), s.divide(d.weight, d.denominator));
  });
  Value lse = emit.map(rowType, rows, [&](Scalars s, ValueRange x, Value, Value) {
    DenominatorWithSink d(s, x[0], x[1], x[2], op.getFactor());
    Value sum =
        s.multiply(s.add(d.top, s.log2(d.denominator)), s.number(std::numbers::ln2_v<float>));
    // `alone` is z, because the sink's term is 1; it is NaN if z is +inf.
    Value alone = s.add(x[2], s.add(d.term, s.number(-1)));
    return s.select(d.isNothing, s.minusInfinity(), s.select(d.isSinkAlone, alone, sum));
  });
  return {emitProduct(emit, op.getO(), weights), lse};
}

void SoftmaxDecomposition::decompose(tile::FinishOp op) {
  TileEmitter emit(op);
  Type rowType = op.getM().getType();
  Value total = tile::TotalOp::create(emit.builder, emit.loc, rowType, op.getL());
  // A hook without a sink has become a constant by now.
  if (op.getSink() && !op.getSink().getDefiningOp<tile::ConstantOp>()) {
    auto [output, lse] = finishWithSink(emit, op, total);
    return op.replaceAllUsesWith(ValueRange{output, lse});
  }
  Value inverse = emit.map(rowType, total, [&](Scalars s, ValueRange x, Value, Value) {
    return s.select(s.equal(x[0], s.zero()), s.zero(), s.divide(s.number(1), x[0]));
  });
  Value output = emitProduct(emit, op.getO(), inverse);
  Value lse = emit.map(rowType, {op.getM(), total}, [&](Scalars s, ValueRange x, Value, Value) {
    // The same product as in the exponentials.
    Value base2 = s.add(s.multiply(x[0], op.getFactor()), s.log2(x[1]));
    return s.select(s.equal(x[1], s.zero()), s.minusInfinity(),
                    s.multiply(base2, s.number(std::numbers::ln2_v<float>)));
  });
  op.replaceAllUsesWith(ValueRange{output, lse});
}

} // namespace tesela
