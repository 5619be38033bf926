//===- ReverseSweep.cpp ---------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "transforms/ReverseSweep.h"

#include "transforms/Adjoints.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/CSE.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tesela {
namespace {

/// The largest number of factors of a product. A longer product is written to the IR, so that
/// the products of a long chain of multiplications share it.
constexpr size_t kMostFactors = 6;

/// The largest number of operations in copies of sums. A sum within a sum is copied for each value
/// that it needs from outside, so the number can grow exponentially with the depth of the nest.
constexpr int64_t kMostCopiedOps = int64_t(1) << 16;

enum class By { score, all };

/// Erases unused ops, also in the bodies of reductions.
void eraseDead(
    Block &block,
    llvm::function_ref<void(Operation *)> erase = [](Operation *op) { op->erase(); }) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    for (Region &region : op.getRegions())
      for (Block &inner : region)
        eraseDead(inner, erase);
    if (isOpTriviallyDead(&op))
      erase(&op);
  }
}

/// The sweep over one body. It writes at the body's end.
class Sweep {
public:
  Sweep(Block &body, By by)
      : body(body), by(by), builder(body.getParentOp()->getContext()),
        adjoints(builder, [this](Value value) { return isUniform(value); }) {
    // A score has the arguments s b h hkv q k, a sink b h hkv q.
    bool hasScore = body.getNumArguments() == 6;
    for (BlockArgument argument : body.getArguments()) {
      size_t number = argument.getArgNumber() + (hasScore ? 0 : 1);
      uniform[argument] = number >= 1 && number <= 3;
    }
    if (hasScore)
      active.insert(body.getArgument(0));
  }
  ~Sweep() {
    for (Operation *op : retired)
      op->destroy();
  }

  /// Sweeps from `result`, a value of the body. The insertion point is then at the end of the body,
  /// and derivativeByScore and writePartials may be called.
  LogicalResult run(Value result) {
    gatherParameters();
    markActive(body);
    if (body.mightHaveTerminator())
      builder.setInsertionPoint(body.getTerminator());
    else
      builder.setInsertionPointToEnd(&body);
    adjoints.add(result, {adjoints.always(), {}});
    sweep(body, by == By::all);
    return failure(failed);
  }

  /// The derivative by the body's first argument; null if it is 0.
  Value derivativeByScore() {
    adjoints.loc = body.getParentOp()->getLoc();
    std::optional<Term> term = adjoints.take(body.getArgument(0), /*isLast=*/true);
    return term ? adjoints.write(*term) : Value();
  }
  Value zero() { return adjoints.number(0); }
  void writePartial(StringRef name, Value value) {
    attn::PartialOp::create(builder, adjoints.loc, name, ValueRange(), value);
  }
  void writePartials() { write(partials); }

private:
  /// The derivative by a read or a parameter of a block, or the rounds for the reads of a sum.
  struct Partial {
    Operation *op;
    Value value; ///< null if `op` is rounds
  };

  /// Moves parameters to the start and joins equal ones: they are the same in all rounds.
  void gatherParameters() {
    llvm::StringMap<attn::ParamOp> first;
    SmallVector<attn::ParamOp> all;
    body.walk([&](attn::ParamOp param) { all.push_back(param); });
    Operation *last = nullptr;
    for (attn::ParamOp param : all) {
      auto [entry, isNew] = first.try_emplace(param.getName(), param);
      if (isNew) {
        if (last)
          param->moveAfter(last);
        else
          param->moveBefore(&body, body.begin());
        last = param;
      } else {
        param.replaceAllUsesWith(entry->second.getResult());
        param.erase();
      }
    }
  }

  //===--------------------------------------------------------------------===//
  // Dependencies
  //===--------------------------------------------------------------------===//

  /// Whether `value` is the same for all pairs of a tile.
  bool isUniform(Value value) {
    auto known = uniform.find(value);
    if (known != uniform.end())
      return known->second;
    Operation *op = value.getDefiningOp();
    // A sum counts as not uniform, whatever it reads from outside.
    bool result = op && op->getNumRegions() == 0 &&
                  llvm::all_of(op->getOperands(), [&](Value v) { return isUniform(v); });
    return uniform[value] = result;
  }

  /// Marks the f32 values that depend on something whose derivative is requested.
  void markActive(Block &block) {
    for (Operation &op : block) {
      if (auto reduce = dyn_cast<attn::ReduceOp>(op)) {
        markActive(reduce.getBody().front());
        Value yielded = reduce.getBody().front().getTerminator()->getOperand(0);
        if (active.contains(yielded))
          active.insert(reduce.getResult());
        continue;
      }
      if (op.getNumResults() != 1 || !op.getResult(0).getType().isF32() || isa<math::FloorOp>(op))
        continue;
      bool isVariable = by == By::all && isa<attn::ReadOp, attn::ParamOp>(op);
      if (isVariable || llvm::any_of(op.getOperands(), [&](Value v) { return active.contains(v); }))
        active.insert(op.getResult(0));
    }
  }

  //===--------------------------------------------------------------------===//
  // The sweep
  //===--------------------------------------------------------------------===//

  /// Sweeps over the ops that `block` has now. Values from outside the block keep their terms.
  /// `wantsPartials`: also derivatives by what the block reads.
  void sweep(Block &block, bool wantsPartials) {
    SmallVector<Operation *> ops;
    for (Operation &op : block)
      ops.push_back(&op);
    for (Operation *op : llvm::reverse(ops)) {
      if (failed || op->getNumResults() != 1 || !active.contains(op->getResult(0)))
        continue;
      adjoints.loc = op->getLoc();
      bool isVariable = isa<attn::ReadOp, attn::ParamOp>(op);
      std::optional<Term> term = adjoints.take(op->getResult(0), isVariable);
      if (!term)
        continue;
      if (term->product.size() > kMostFactors)
        term->product = Product().times(adjoints.write(term->product));
      if (auto reduce = dyn_cast<attn::ReduceOp>(op))
        addSum(reduce, *term, wantsPartials);
      else if (!isVariable)
        addOperands(op, *term);
      else if (wantsPartials)
        partials.push_back({op, adjoints.write(*term)});
    }
  }

  /// Adds to the adjoints of the operands of `op`. `term` is the adjoint of `op`.
  void addOperands(Operation *op, const Term &term) {
    Value v = op->getResult(0), a = op->getOperand(0);
    Value b = op->getNumOperands() > 1 ? op->getOperand(1) : Value();
    const Product &product = term.product;
    auto add = [&](Value operand, const Product &product) {
      if (active.contains(operand))
        adjoints.add(operand, {term.guard, product});
    };
    auto addWhere = [&](Value operand, bool holds) {
      if (active.contains(operand))
        adjoints.add(operand, {adjoints.where(term.guard, a, holds), product});
    };
    auto mul = [&](Value x, Value y) { return arith::MulFOp::create(builder, op->getLoc(), x, y); };
    auto isKnown =
        llvm::TypeSwitch<Operation *, bool>(op)
            .Case([&](arith::AddFOp) { return add(a, product), add(b, product), true; })
            .Case([&](arith::SubFOp) { return add(a, product), add(b, product.times(-1)), true; })
            .Case([&](arith::MulFOp) {
              return add(a, product.times(b)), add(b, product.times(a)), true;
            })
            .Case([&](arith::DivFOp) {
              add(a, product.dividedBy(b));
              add(b, product.times(-1).times(v).dividedBy(b));
              return true;
            })
            .Case([&](arith::NegFOp) { return add(a, product.times(-1)), true; })
            .Case([&](math::AbsFOp) { return add(a, product.times(sign(a))), true; })
            .Case([&](math::ExpOp) { return add(a, product.times(v)), true; })
            .Case([&](math::LogOp) { return add(a, product.dividedBy(a)), true; })
            .Case([&](math::SqrtOp) { return add(a, product.times(0.5).dividedBy(v)), true; })
            .Case([&](math::TanhOp) {
              Value slope =
                  arith::SubFOp::create(builder, op->getLoc(), adjoints.number(1), mul(v, v));
              return add(a, product.times(slope)), true;
            })
            .Case([&](math::SinOp) {
              return add(a, product.times(math::CosOp::create(builder, op->getLoc(), a))), true;
            })
            .Case([&](math::CosOp) {
              Value sine = math::SinOp::create(builder, op->getLoc(), a);
              return add(a, product.times(-1).times(sine)), true;
            })
            .Case([&](arith::SelectOp select) {
              addWhere(select.getTrueValue(), true);
              addWhere(select.getFalseValue(), false);
              return true;
            })
            .Default(false);
    if (isKnown)
      return;
    failed = true;
    op->emitOpError("has no rule to be differentiated by; write the score with the operations that "
                    "the table of transforms/ReverseSweep.h has, or add a rule to it");
  }

  /// -1 if a < 0, else 1.
  Value sign(Value a) {
    Value isNegative = arith::CmpFOp::create(builder, adjoints.loc, arith::CmpFPredicate::OLT, a,
                                             adjoints.number(0));
    return arith::SelectOp::create(builder, adjoints.loc, isNegative, adjoints.number(-1),
                                   adjoints.number(1));
  }

  //===--------------------------------------------------------------------===//
  // Sums
  //===--------------------------------------------------------------------===//

  void addSum(attn::ReduceOp reduce, const Term &term, bool wantsPartials) {
    for (auto &[value, product] : sums(reduce))
      adjoints.add(value, {term.guard, term.product.times(product)});
    if (wantsPartials && reduce
                             .walk([](attn::ReadOp read) {
                               return read.getType().isF32() ? WalkResult::interrupt()
                                                             : WalkResult::advance();
                             })
                             .wasInterrupted())
      addRounds(reduce, term);
  }

  /// Returns false, with an error, if the copies grow too large.
  bool mayCopy(attn::ReduceOp reduce) {
    reduce.walk([&](Operation *) { ++copiedOps; });
    if (!failed && copiedOps > kMostCopiedOps) {
      failed = true;
      reduce.emitError() << "the derivative of this reduction takes more than " << kMostCopiedOps
                         << " operations, because sums within sums are copied; nest fewer of them, "
                            "or put their values into a captured tensor";
    }
    return !failed;
  }

  /// The derivatives of `reduce` by each value from outside it. Factors that are the same in all
  /// rounds stand before the sum.
  SmallVector<std::pair<Value, Product>> sums(attn::ReduceOp reduce) {
    SmallVector<std::pair<Value, Product>> result;
    if (!mayCopy(reduce))
      return result;
    auto copy = cast<attn::ReduceOp>(builder.clone(*reduce));
    Block &block = copy.getBody().front();
    markActive(block);
    SmallVector<std::tuple<Value, Product, Value>> perRound;
    {
      Adjoints::Region region(adjoints);
      Operation *yield = block.getTerminator();
      builder.setInsertionPoint(yield);
      adjoints.add(yield->getOperand(0), {adjoints.always(), {}});
      sweep(block, /*wantsPartials=*/false);
      SmallVector<Value> values;
      for (auto &[value, terms] : adjoints.collected())
        values.push_back(value);
      for (Value value : values) {
        std::optional<Term> term = adjoints.take(value);
        if (!term)
          continue;
        Product before, within;
        if (term->guard == adjoints.always())
          split(term->product, copy, before, within);
        else
          within = term->product;
        bool isSame = term->guard == adjoints.always() && within.size() == 0;
        perRound.push_back(
            {value, before, isSame ? Value() : adjoints.write(Term{term->guard, within})});
      }
    }
    for (auto &[value, before, each] : perRound) {
      if (!each) { // the same in each round: multiply by the number of rounds
        result.push_back({value, before.times(count(reduce))});
        continue;
      }
      if (!mayCopy(copy))
        break;
      IRMapping mapping;
      auto sum = cast<attn::ReduceOp>(builder.clone(*copy, mapping));
      sum.getBody().front().getTerminator()->setOperand(0, mapping.lookupOrDefault(each));
      retireDead(sum.getBody().front());
      result.push_back({value, before.times(sum.getResult())});
    }
    retire(copy);
    return result;
  }

  /// Takes `op` out of the program and keeps its memory. What is known of values is found by their
  /// addresses, so no new value may get the address of an old one.
  void retire(Operation *op) {
    op->remove();
    op->dropAllReferences();
    retired.push_back(op);
  }
  void retireDead(Block &block) {
    eraseDead(block, [this](Operation *op) { retire(op); });
  }

  /// max(bound, 0), as an f32.
  Value count(attn::ReduceOp reduce) {
    Value bound = reduce.getBound();
    APInt number;
    if (matchPattern(bound, m_ConstantInt(&number)))
      return adjoints.number(double(std::max<int64_t>(number.getSExtValue(), 0)));
    Location loc = reduce.getLoc();
    Value zero = arith::ConstantIntOp::create(builder, loc, 0, 32);
    Value isNone = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sgt, zero, bound);
    Value rounds = arith::SelectOp::create(builder, loc, isNone, zero, bound);
    return arith::SIToFPOp::create(builder, loc, builder.getF32Type(), rounds);
  }

  /// Splits the factors of `product` into those outside `reduce` and those inside it.
  static void split(const Product &product, attn::ReduceOp reduce, Product &before,
                    Product &within) {
    auto isWithin = [&](Value value) {
      return reduce.getBody().isAncestor(value.getParentRegion());
    };
    before.coefficient = product.coefficient;
    for (Value value : product.over)
      (isWithin(value) ? within : before).over.push_back(value);
    for (Value value : product.under)
      (isWithin(value) ? within : before).under.push_back(value);
  }

  /// Adds the derivatives by what `reduce` reads. `term` is the adjoint of `reduce`.
  void addRounds(attn::ReduceOp reduce, const Term &term) {
    if (!mayCopy(reduce))
      return;
    auto rounds = attn::RoundsOp::create(builder, reduce.getLoc(), reduce.getBound());
    IRMapping mapping;
    reduce.getBody().cloneInto(&rounds.getBody(), mapping);
    Block &block = rounds.getBody().front();
    Operation *yield = block.getTerminator();
    Value value = yield->getOperand(0);
    retire(yield);
    markActive(block);
    SmallVector<Partial> outer = std::exchange(partials, {});
    {
      Adjoints::Region region(adjoints);
      builder.setInsertionPointToEnd(&block);
      adjoints.add(value, term);
      sweep(block, /*wantsPartials=*/true);
      write(partials);
    }
    partials = std::move(outer);
    retireDead(block);
    if (block.empty())
      retire(rounds);
    else
      partials.push_back({rounds, Value()});
  }

  /// Writes partials in the order of the ops that they belong to.
  void write(ArrayRef<Partial> partials) {
    for (const Partial &partial : llvm::reverse(partials)) {
      Operation *op = partial.op;
      if (auto read = dyn_cast<attn::ReadOp>(op))
        attn::PartialOp::create(builder, op->getLoc(), read.getName(), read.getIndices(),
                                partial.value);
      else if (auto param = dyn_cast<attn::ParamOp>(op))
        attn::PartialOp::create(builder, op->getLoc(), param.getName(), ValueRange(),
                                partial.value);
      else
        op->moveBefore(builder.getInsertionBlock(), builder.getInsertionPoint());
    }
  }

  Block &body;
  const By by;
  OpBuilder builder;
  Adjoints adjoints;
  llvm::DenseMap<Value, bool> uniform;
  llvm::DenseSet<Value> active;
  SmallVector<Partial> partials; ///< of the swept block; the last ops come first
  SmallVector<Operation *> retired;
  int64_t copiedOps = 0;
  bool failed = false;
};

/// Joins equal values. Equal reads are then one read, with one derivative.
void joinEqualValues(Operation *op) {
  IRRewriter rewriter(op->getContext());
  DominanceInfo dominance(op);
  eliminateCommonSubExpressions(rewriter, dominance, op);
}

LogicalResult writeGradient(Region &source, Region &target) {
  IRMapping mapping;
  source.cloneInto(&target, mapping);
  Block &body = target.front();
  Operation *yield = body.getTerminator();
  joinEqualValues(body.getParentOp());
  Value result = yield->getOperand(0);
  yield->erase();
  Sweep sweep(body, By::all);
  if (failed(sweep.run(result)))
    return failure();
  if (body.getNumArguments() == 6)
    if (Value byScore = sweep.derivativeByScore())
      sweep.writePartial("s", byScore);
  sweep.writePartials();
  eraseDead(body);
  return success();
}

} // namespace

FailureOr<attn::GradientOp> differentiate(attn::VariantOp variant) {
  OpBuilder builder(variant);
  builder.setInsertionPointAfter(variant);
  auto gradient = attn::GradientOp::create(builder, variant.getLoc(), variant.getSymName());
  bool isDone = succeeded(writeGradient(variant.getScore(), gradient.getScore()));
  if (isDone && !variant.getSink().empty())
    isDone = succeeded(writeGradient(variant.getSink(), gradient.getSink()));
  if (!isDone) {
    gradient.erase();
    return failure();
  }
  joinEqualValues(gradient);
  return gradient;
}

LogicalResult differentiateByScore(attn::VariantOp variant) {
  joinEqualValues(variant);
  Block &body = variant.getScoreBody();
  Operation *yield = body.getTerminator();
  Sweep sweep(body, By::score);
  if (failed(sweep.run(yield->getOperand(0))))
    return failure();
  Value derivative = sweep.derivativeByScore();
  yield->setOperand(0, derivative ? derivative : sweep.zero());
  eraseDead(body);
  joinEqualValues(variant);
  return success();
}

} // namespace tesela
