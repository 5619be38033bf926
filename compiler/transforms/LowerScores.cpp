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

/// The loop around `op`, or `op` itself if it is not in a loop. Values that are the same for all
/// blocks are computed before it.
Operation *loopAround(Operation *op) {
  return isa<tile::BlocksOp, scf::ForOp>(op->getParentOp()) ? op->getParentOp() : op;
}

bool isOutside(Value value, Operation *loop) {
  return !loop->isAncestor(value.getParentBlock()->getParentOp());
}

/// Moves ops before the loop that stand before `map` in its body and give the same values for all
/// blocks.
void hoist(tile::MapOp map, Operation *loop) {
  if (!loop->isProperAncestor(map))
    return;
  for (Operation &op :
       llvm::make_early_inc_range(llvm::make_range(map->getBlock()->begin(), map->getIterator())))
    if (isPure(&op) && (op.getNumRegions() == 0 || isa<attn::ReduceOp>(op)) &&
        llvm::none_of(op.getResultTypes(), llvm::IsaPred<tile::TileType, tile::BlockType>) &&
        llvm::all_of(valuesUsedBy(op), [&](Value value) { return isOutside(value, loop); }))
      op.moveBefore(loop);
}

/// The first op of the block of `map` that uses the result, itself or inside its regions.
Operation *firstUse(tile::MapOp map) {
  Operation *first = &map->getBlock()->back();
  for (Operation *user : map->getUsers())
    if (Operation *ancestor = map->getBlock()->findAncestorOpInBlock(*user);
        ancestor->isBeforeInBlock(first))
      first = ancestor;
  return first;
}

/// The head of `queries`, whose coordinates are `place`. A block whose op names a head has that
/// one. It may be known in front of the loop, as in backward_fused.mlir. Then what a score reads
/// for each head is read there (docs/log/2026-11-30-several-runs.md).
Value headOf(Value queries, tile::CoordinatesOp place) {
  auto block = queries.getDefiningOp<tile::BlockOp>();
  return block && block.getHead() ? block.getHead() : place.getHead();
}

/// The map that replaces a tile.score or a tile.score_gradient.
template <typename HookOp> class HookMap {
public:
  /// The map reads the tiles `sources`; the last one is the product of Q and K.
  HookMap(HookOp op, ValueRange sources, bool exact)
      : op(op), uniforms(op),
        map(tile::MapOp::create(uniforms, op.getLoc(), op.getType(), sources)),
        body(OpBuilder::atBlockEnd(&map.getBody().emplaceBlock())) {
    uniforms.setInsertionPoint(map);
    Block &block = map.getBody().front();
    for (size_t source = 0; source < sources.size(); ++source)
      block.addArgument(uniforms.getF32Type(), op.getLoc());
    Value row = block.addArgument(uniforms.getI32Type(), op.getLoc());
    Value column = block.addArgument(uniforms.getI32Type(), op.getLoc());
    Block *hook = op.getBody().empty() ? nullptr : &op.getBody().front();
    place = {Value(), row};
    if (hook)
      place = emitRowPlace(body, op.getLoc(), row, op.getRows().getType().getHeadCount());
    translation.emplace(hook, exact, uniforms, body, product(), place.position, column);
  }

  Value product() { return map.getBody().getArgument(map.getSources().size() - 1); }

  /// The value that the hook yields. Without a body it is the product times the scale.
  Linear translate() {
    Linear form{{{op.getScale(), product()}}, Value()};
    if (op.getBody().empty())
      return form;
    Block &hook = op.getBody().front();
    Location loc = op.getLoc();
    auto query = tile::CoordinatesOp::create(uniforms, loc, op.getQueries());
    auto key = tile::CoordinatesOp::create(uniforms, loc, op.getKeys());
    Value head = headOf(op.getQueries(), query);
    int64_t byRow = op.rowsAreKeys() ? 0 : 1;
    translation->setLinear(hook.getArgument(0), form);
    translation->setUniform(hook.getArgument(1), query.getBatch());
    if (place.head)
      translation->setElement(hook.getArgument(2),
                              arith::AddIOp::create(body, loc, head, place.head));
    else
      translation->setUniform(hook.getArgument(2), head);
    translation->setUniform(hook.getArgument(3), query.getKvHead());
    translation->setIndex(hook.getArgument(4), Position(query.getFirst(), {byRow, 1 - byRow}));
    translation->setIndex(hook.getArgument(5), Position(key.getFirst(), {1 - byRow, byRow}));
    for (Operation &each : hook.without_terminator())
      translation->translate(each);
    return translation->linear(hook.getTerminator()->getOperand(0));
  }

  /// Replaces `op` by the map with the elements `element`. If `element` is an element of a source,
  /// replaces `op` by that source and returns null.
  tile::MapOp finish(Value element, Operation *loop) {
    tile::YieldOp::create(body, op.getLoc(), element);
    hoist(map, loop);
    auto argument = dyn_cast<BlockArgument>(element);
    bool isSource = argument && argument.getOwner() == &map.getBody().front() &&
                    argument.getArgNumber() < map.getSources().size();
    op.replaceAllUsesWith(isSource ? map.getSources()[argument.getArgNumber()] : map.getResult());
    op.erase();
    if (!isSource)
      return map;
    map.erase();
    return {};
  }

  HookOp op;
  OpBuilder uniforms;
  tile::MapOp map;
  OpBuilder body;
  std::optional<ScoreTranslation> translation;

private:
  RowPlace place;
};

/// Lowers one score. If the score is used only in exponents c · score + d, of a softmax or of maps,
/// the exponents can carry a factor of the score.
class ScoreLowering {
public:
  explicit ScoreLowering(tile::ScoreOp score)
      : score(score), loc(score.getLoc()), loop(loopAround(score)) {}

  void run() {
    findExponents();
    HookMap<tile::ScoreOp> elements(score, score.getSource(), score.getExact());
    source = elements.product();
    Linear form = elements.translate();
    hoist(elements.map, loop);
    if (!factors.empty())
      form = divided(form, *elements.translation);
    elements.finish(elements.translation->element(form), loop);
  }

private:
  /// Fills `factors` if this score is used, also through masks, only in exponents.
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

  /// Adds the constants c of all c · element + d in a map's body. The body may also compare the
  /// element with -inf (masked). Returns false if it uses the element in any other way.
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

  /// Whether `value` is the scale times constants whose product is between 2^-20 and 2^20. Then it
  /// is positive and far from overflow and underflow (a launch's scale is at least 2^-100).
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

  /// c · (f · x) = (c · f) · x: moves f into the exponents, so that no element is multiplied by it.
  void carry(Value factor, OpBuilder &builder) {
    for (OpOperand *operand : factors) {
      Value c = operand->get();
      if (!isOutside(c, loop)) // a constant of a map's body
        c = builder.clone(*c.getDefiningOp())->getResult(0);
      operand->set(builder.createOrFold<arith::MulFOp>(loc, factor, c));
    }
  }

  /// `form` without the scale, or without the factor of a tanh, which the exponents then carry.
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
    if (!argument || !factor || !isOutside(factor, loop))
      return form;
    // f · tanh(x) = |f| · tanh(±x). A maximum needs a positive factor, and the product of a masked
    // element's -inf with the factor must not be NaN. So a factor of 0 becomes 2^-100. A NaN stays
    // NaN; the maximum alone would drop it.
    Value sign = outside.createOrFold<math::CopySignOp>(loc, number(1), factor);
    Value magnitude = outside.createOrFold<math::AbsFOp>(loc, factor);
    Value held = outside.createOrFold<arith::MaxNumFOp>(loc, magnitude, number(0x1p-100f));
    Value isNumber =
        outside.createOrFold<arith::CmpFOp>(loc, arith::CmpFPredicate::ORD, magnitude, magnitude);
    carry(outside.createOrFold<arith::SelectOp>(loc, isNumber, held, magnitude), outside);
    return translation.tanh(translation.scaled(*argument, sign), loc);
  }

  tile::ScoreOp score;
  Location loc;
  Operation *loop;                  ///< loopAround
  Value source;                     ///< an element of the product of Q and K
  SmallVector<OpOperand *> factors; ///< of the exponents; empty if the score has other uses
};

/// Lowers a tile.score_gradient. Without a region the score is s, and the derivative is 1.
void lowerGradient(tile::ScoreGradientOp gradient, bool isExact) {
  if (gradient.getBody().empty()) {
    gradient.replaceAllUsesWith(gradient.getGradient());
    return gradient.erase();
  }
  Operation *loop = loopAround(gradient);
  HookMap<tile::ScoreGradientOp> elements(
      gradient, ValueRange{gradient.getGradient(), gradient.getSource()}, isExact);
  Linear form = elements.translate();
  hoist(elements.map, loop);
  Value derivative = elements.translation->element(form);
  Value received = elements.map.getBody().getArgument(0);
  bool usesProduct = !elements.product().use_empty();
  Location loc = gradient.getLoc();
  OpBuilder &body = elements.body;
  Value result = body.createOrFold<arith::MulFOp>(loc, received, derivative);
  // A masked pair adds nothing, even if its derivative is not finite.
  if (!isSurelyFinite(elements.map.getBody().front())) {
    Value zero = arith::ConstantFloatOp::create(body, loc, body.getF32Type(), APFloat(0.0f));
    Value isNothing = arith::CmpFOp::create(body, loc, arith::CmpFPredicate::OEQ, received, zero);
    result = arith::SelectOp::create(body, loc, isNothing, zero, result);
  }
  tile::MapOp map = elements.finish(result, loop);
  // A map that does not read the product of Q and K moves down to its first use. Here it would
  // only hold a second tile in registers until then.
  if (map && !usesProduct)
    map->moveBefore(firstUse(map));
}

struct TileLowerScores : impl::TileLowerScoresBase<TileLowerScores> {
  void runOnOperation() override {
    SmallVector<tile::ScoreOp> scores;
    SmallVector<tile::ScoreGradientOp> gradients;
    getOperation().walk([&](tile::ScoreOp score) { scores.push_back(score); });
    getOperation().walk([&](tile::ScoreGradientOp gradient) { gradients.push_back(gradient); });
    // Derivatives are as exact as the score, so that both take the same side of a condition.
    bool isExact = llvm::any_of(scores, [](tile::ScoreOp score) { return score.getExact(); });
    for (tile::ScoreOp score : scores)
      ScoreLowering(score).run();
    for (tile::ScoreGradientOp gradient : gradients)
      lowerGradient(gradient, isExact);
  }
};

} // namespace
} // namespace tesela
