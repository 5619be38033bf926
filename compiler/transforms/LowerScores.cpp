//===- LowerScores.cpp - tile-lower-scores ----------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "analysis/RowMap.h"
#include "analysis/UsedValues.h"
#include "attn/Attn.h"
#include "transforms/Passes.h"
#include "transforms/ScoreTranslation.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_TILELOWERSCORES
#include "transforms/Passes.h.inc"

namespace {

/// One score: its loop, and the exponents c · score + d that it alone gives, of a softmax or of
/// maps.
class ScoreLowering {
public:
  explicit ScoreLowering(tile::ScoreOp score)
      : score(score), loc(score.getLoc()),
        loop(isa<tile::BlocksOp, scf::ForOp>(score->getParentOp()) ? score->getParentOp() : score) {
  }

  void run() {
    findExponents();
    OpBuilder uniforms(score);
    auto map = tile::MapOp::create(uniforms, loc, score.getType(), score.getSource());
    uniforms.setInsertionPoint(map);
    Block &block = map.getBody().emplaceBlock();
    source = block.addArgument(uniforms.getF32Type(), loc);
    Value row = block.addArgument(uniforms.getI32Type(), loc);
    Value column = block.addArgument(uniforms.getI32Type(), loc);
    OpBuilder body = OpBuilder::atBlockEnd(&block);
    Block *hook = score.getBody().empty() ? nullptr : &score.getBody().front();
    RowPlace place{Value(), row};
    if (hook)
      place = emitRowPlace(body, loc, row, score.getRows().getType().getHeadCount());
    ScoreTranslation translation(hook, score.getExact(), uniforms, body, source, place.position,
                                 column);

    Linear form{{{score.getScale(), source}}, Value()};
    if (hook) {
      auto query = tile::CoordinatesOp::create(uniforms, loc, score.getQueries());
      auto key = tile::CoordinatesOp::create(uniforms, loc, score.getKeys());
      int64_t byRow = score.rowsAreKeys() ? 0 : 1;
      translation.setLinear(hook->getArgument(0), form);
      translation.setUniform(hook->getArgument(1), query.getBatch());
      if (place.head)
        translation.setElement(hook->getArgument(2),
                               arith::AddIOp::create(body, loc, query.getHead(), place.head));
      else
        translation.setUniform(hook->getArgument(2), query.getHead());
      translation.setUniform(hook->getArgument(3), query.getKvHead());
      translation.setIndex(hook->getArgument(4), Position(query.getFirst(), {byRow, 1 - byRow}));
      translation.setIndex(hook->getArgument(5), Position(key.getFirst(), {1 - byRow, byRow}));
      for (Operation &op : hook->without_terminator())
        translation.translate(op);
      form = translation.linear(hook->getTerminator()->getOperand(0));
    }
    hoist(map);
    if (!factors.empty())
      form = divided(form, translation);
    tile::YieldOp::create(body, loc, translation.element(form));
    hoist(map);
    score.replaceAllUsesWith(map.getResult());
    score.erase();
    removeIdentity(map);
  }

private:
  /// Fills `factors` where all that this score becomes, through masks, is exponents.
  void findExponents() {
    SmallVector<Value> worklist = {score.getResult()};
    SmallVector<Operation *> steps;
    SmallVector<OpOperand *> found;
    while (!worklist.empty())
      for (OpOperand &use : worklist.pop_back_val().getUses()) {
        Operation *user = use.getOwner();
        if (isa<tile::MaskOp>(user))
          worklist.push_back(user->getResult(0));
        else if (isa<tile::SoftmaxStepOp>(user))
          steps.push_back(user);
        else if (auto map = dyn_cast<tile::MapOp>(user);
                 !map || !findFactors(map.getBody().getArgument(use.getOperandNumber()), found))
          return;
      }
    bool isOnly = true;
    score->getParentOfType<tile::KernelOp>().walk([&](Operation *op) {
      if (auto step = dyn_cast<tile::SoftmaxStepOp>(op)) {
        isOnly &= llvm::is_contained(steps, op);
        found.push_back(&step.getFactorMutable());
      } else if (auto finish = dyn_cast<tile::FinishOp>(op)) {
        found.push_back(&finish.getFactorMutable());
      }
    });
    if (isOnly)
      factors = found;
  }

  /// Adds the constants c of all c · element + d that a map's body makes of an element, which it
  /// may also compare with the -inf of a masked one. False: it uses the element otherwise.
  static bool findFactors(Value element, SmallVectorImpl<OpOperand *> &found) {
    return llvm::all_of(element.getUses(), [&](OpOperand &use) {
      if (auto compare = dyn_cast<arith::CmpFOp>(use.getOwner()))
        return compare.getPredicate() == arith::CmpFPredicate::OEQ &&
               matchPattern(compare.getRhs(), m_NegInfFloat());
      auto sum = dyn_cast<math::FmaOp>(use.getOwner());
      if (!sum || use.getOperandNumber() != 0 || !matchPattern(sum.getB(), m_Constant()))
        return false;
      found.push_back(&sum.getBMutable());
      return true;
    });
  }

  bool isOutside(Value value) const {
    return !loop->isAncestor(value.getParentBlock()->getParentOp());
  }

  /// Moves what stands before `map` in the loop's body, and is the same for all blocks, before the
  /// loop.
  void hoist(tile::MapOp map) {
    if (loop == score)
      return;
    for (Operation &op :
         llvm::make_early_inc_range(llvm::make_range(map->getBlock()->begin(), map->getIterator())))
      if (isPure(&op) && (op.getNumRegions() == 0 || isa<attn::ReduceOp>(op)) &&
          llvm::none_of(op.getResultTypes(), llvm::IsaPred<tile::TileType, tile::BlockType>) &&
          llvm::all_of(valuesUsedBy(op), [&](Value value) { return isOutside(value); }))
        op.moveBefore(loop);
  }

  /// The scale times constants between 2^-20 and 2^20: positive, and far from overflow either way
  /// (a launch's scale is at least 2^-100).
  bool isPositiveScale(Value value) {
    double constants = 1;
    while (value != score.getScale()) {
      auto product = value.getDefiningOp<arith::MulFOp>();
      APFloat constant(0.0f);
      if (!product || !matchPattern(product.getRhs(), m_ConstantFloat(&constant)))
        return false;
      constants *= constant.convertToDouble();
      value = product.getLhs();
    }
    return constants >= 0x1p-20 && constants <= 0x1p20;
  }

  /// c · (f · x) = (c · f) · x: the exponents carry f, so that no element is multiplied by it.
  void carry(Value factor, OpBuilder &builder) {
    for (OpOperand *operand : factors) {
      Value c = operand->get();
      if (!isOutside(c)) // a constant of a map's body
        c = builder.clone(*c.getDefiningOp())->getResult(0);
      operand->set(builder.createOrFold<arith::MulFOp>(loc, factor, c));
    }
  }

  /// What is left of `form` when the exponents carry the scale, or the factor of a tanh.
  Linear divided(const Linear &form, ScoreTranslation &translation) {
    OpBuilder outside(loop);
    auto number = [&](float value) -> Value {
      return arith::ConstantFloatOp::create(outside, loc, outside.getF32Type(), APFloat(value));
    };
    const Linear::Term *product =
        llvm::find_if(form.terms, [&](const Linear::Term &term) { return term.value == source; });
    if (product != form.terms.end()) {
      Value scale = product->coefficient;
      if (!isPositiveScale(scale))
        return form;
      Linear rest = form;
      rest.terms.erase(rest.terms.begin() + (product - form.terms.begin()));
      if (!rest.terms.empty() || rest.constant)
        rest = translation.scaled(rest, arith::DivFOp::create(outside, loc, number(1), scale));
      rest.terms.push_back({Value(), source});
      carry(scale, outside);
      return rest;
    }
    if (form.terms.size() != 1 || form.constant)
      return form;
    const Linear *argument = translation.tanhArgument(form.terms.front().value);
    Value factor = form.terms.front().coefficient;
    if (!argument || !factor || !isOutside(factor))
      return form;
    // f · tanh(x) = |f| · tanh(±x). A maximum needs a positive factor, and a masked element a
    // product with -inf that is no NaN: what is 0 becomes tiny. A NaN stays, which the maximum
    // drops.
    Value sign = outside.createOrFold<math::CopySignOp>(loc, number(1), factor);
    Value magnitude = outside.createOrFold<math::AbsFOp>(loc, factor);
    Value held = outside.createOrFold<arith::MaxNumFOp>(loc, magnitude, number(0x1p-100f));
    Value isNumber =
        outside.createOrFold<arith::CmpFOp>(loc, arith::CmpFPredicate::ORD, magnitude, magnitude);
    carry(outside.createOrFold<arith::SelectOp>(loc, isNumber, held, magnitude), outside);
    return translation.tanh(translation.scaled(*argument, sign), loc);
  }

  void removeIdentity(tile::MapOp map) {
    if (map.getBody().front().getTerminator()->getOperand(0) != source)
      return;
    map.replaceAllUsesWith(map.getSources().front());
    map.erase();
  }

  tile::ScoreOp score;
  Location loc;
  Operation *loop;                  ///< the score itself where it stands in none
  Value source;                     ///< the product of q and k of an element
  SmallVector<OpOperand *> factors; ///< of the exponents; none where it is seen by others, too
};

struct TileLowerScores : impl::TileLowerScoresBase<TileLowerScores> {
  void runOnOperation() override {
    SmallVector<tile::ScoreOp> scores;
    getOperation().walk([&](tile::ScoreOp score) { scores.push_back(score); });
    for (tile::ScoreOp score : scores)
      ScoreLowering(score).run();
  }
};

} // namespace
} // namespace tesela
