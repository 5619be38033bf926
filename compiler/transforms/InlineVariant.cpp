//===- InlineVariant.cpp - tile-inline-variant ------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "attn/Attn.h"
#include "frontend/emit/ExpandArithmetic.h"
#include "tile/Extents.h"
#include "tile/GradientOps.h"
#include "transforms/DecomposePartials.h"
#include "transforms/ParameterGradients.h"
#include "transforms/Passes.h"
#include "transforms/ReverseSweep.h"
#include "transforms/SharePrefix.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"

#include <numbers>

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_TILEINLINEVARIANT
#include "transforms/Passes.h.inc"

namespace {

struct TileInlineVariant : impl::TileInlineVariantBase<TileInlineVariant> {
  using Base::Base;

  void runOnOperation() override {
    auto variants = llvm::to_vector(getOperation().getOps<attn::VariantOp>());
    if (variants.size() != 1) {
      getOperation().emitError() << "expected one attn.variant in the module, got "
                                 << variants.size();
      return signalPassFailure();
    }
    // The derivative is a variant whose score is ∂score/∂s. Only kernels with this hook need it.
    OwningOpRef<attn::VariantOp> derivative;
    WalkResult found =
        getOperation().walk([](tile::ScoreGradientOp) { return WalkResult::interrupt(); });
    if (found.wasInterrupted()) {
      derivative = variants.front().clone();
      if (failed(differentiateByScore(*derivative)))
        return signalPassFailure();
    }
    for (auto kernel : getOperation().getOps<tile::KernelOp>()) {
      OwningOpRef<attn::VariantOp> own;
      if (std::optional<tile::PrefixPart> part = tile::prefixPartOf(kernel))
        own = variantOf(*part, variants.front());
      fillHooks(own ? *own : variants.front(), *derivative, kernel);
    }
    if (!gradients.empty() && failed(fillPartials(variants.front())))
      return signalPassFailure();
    variants.front().erase();
  }

  /// Fills the hooks of kernels that sum the gradients of parameters.
  LogicalResult fillPartials(attn::VariantOp variant) {
    FailureOr<attn::GradientOp> gradient = differentiate(variant);
    if (failed(gradient))
      return failure();
    SmallVector<ParameterGradient> asked = parameterGradients(variant, *gradient, gradients);
    auto fill = [&](Region &source, Region &hook, bool ParameterGradient::*isIn) {
      auto kernel = hook.getParentOfType<tile::KernelOp>();
      bool isAsked = false;
      for (const ParameterGradient &each : asked)
        if (each.*isIn) {
          addGradient(each, kernel);
          isAsked = true;
        }
      if (!isAsked)
        return;
      IRMapping mapping;
      copyIntoHook(source.front(), hook, kernel, mapping);
      if (variant.getExactScore()) // the gradient must use the same indices as the score
        expandExactMath(hook);
    };
    getOperation().walk([&](tile::ScorePartialsOp op) {
      fill(gradient->getScore(), op.getBody(), &ParameterGradient::isInScore);
      if (variant.getExactScore())
        op->setAttr(exactPartialsAttr, UnitAttr::get(&getContext()));
    });
    getOperation().walk([&](tile::SinkPartialsOp op) {
      if (!gradient->getSink().empty())
        fill(gradient->getSink(), op.getBody(), &ParameterGradient::isInSink);
    });
    gradient->erase();
    return success();
  }

  /// Adds the view to which the gradient is added as an argument of the kernel.
  static void addGradient(const ParameterGradient &gradient, tile::KernelOp kernel) {
    if (kernel.getArgument(gradient.viewName()))
      return;
    Type element = Float32Type::get(kernel.getContext());
    if (!gradient.isDirect)
      element = IntegerType::get(kernel.getContext(), 32);
    SmallVector<Attribute> extents(gradient.rank + (gradient.isDirect ? 0 : 2),
                                   tile::getExtent(kernel.getContext(), ShapedType::kDynamic));
    kernel.addArgument(gradient.viewName(),
                       tile::ViewType::get(kernel.getContext(), extents, element), kernel.getLoc());
  }

  static void fillHooks(attn::VariantOp variant, attn::VariantOp derivative,
                        tile::KernelOp kernel) {
    // Arguments have the order of the variant's parameters, not of their uses.
    for (Attribute parameter : variant.getParameters())
      addParameter(variant, kernel, parameter);
    bool identity = variant.scoreIsIdentity();
    bool isCarried = !kernel.getBodyBlock().getOps<tile::ExponentFactorOp>().empty();
    kernel.walk([&](Operation *op) {
      if (auto score = dyn_cast<tile::ScoreOp>(op)) {
        if (!identity || !isCarried) {
          fillHook(variant.getScoreBody(), score.getBody(), kernel);
          score.setExact(variant.getExactScore());
          if (score.getExact())
            expandExactMath(score.getBody());
          return;
        }
        score.replaceAllUsesWith(score.getSource());
        score.erase();
      } else if (auto gradient = dyn_cast<tile::ScoreGradientOp>(op)) {
        if (!identity) {
          fillHook(derivative.getScoreBody(), gradient.getBody(), kernel);
          return;
        }
        gradient.replaceAllUsesWith(gradient.getGradient());
        gradient.erase();
      } else if (auto mask = dyn_cast<tile::MaskOp>(op)) {
        fillHook(variant.getMaskBody(), mask.getBody(), kernel);
        expandExactMath(mask.getBody());
      } else if (auto sink = dyn_cast<tile::SinkOp>(op)) {
        if (!variant.getSink().empty())
          fillHook(variant.getSink().front(), sink.getBody(), kernel);
      } else if (auto factor = dyn_cast<tile::ExponentFactorOp>(op)) {
        OpBuilder builder(factor);
        Value value = arith::ConstantFloatOp::create(builder, factor.getLoc(), builder.getF32Type(),
                                                     APFloat(std::numbers::log2e_v<float>));
        if (identity)
          value = arith::MulFOp::create(builder, factor.getLoc(), factor.getScale(), value);
        factor.replaceAllUsesWith(value);
        factor.erase();
      }
    });
  }

  /// Adds a parameter that the variant uses as an argument of the kernel.
  static void addParameter(attn::VariantOp variant, tile::KernelOp kernel, Attribute parameter) {
    auto isUsed = [&](StringRef name) {
      WalkResult found = variant.walk([&](Operation *op) {
        auto param = dyn_cast<attn::ParamOp>(op);
        auto read = dyn_cast<attn::ReadOp>(op);
        auto extent = dyn_cast<attn::CaptureExtentOp>(op);
        bool match = (param && param.getName() == name) || (read && read.getName() == name) ||
                     (extent && extent.getName() == name);
        return match ? WalkResult::interrupt() : WalkResult::advance();
      });
      return found.wasInterrupted();
    };
    if (auto scalar = dyn_cast<attn::ScalarAttr>(parameter)) {
      if (isUsed(scalar.getName()))
        kernel.addArgument(("$" + scalar.getName()).str(), scalar.getType(), variant.getLoc());
      return;
    }
    auto capture = cast<attn::CaptureAttr>(parameter);
    bool isThere = bool(kernel.getArgument(("$" + capture.getName()).str())); // in the template
    if (!isUsed(capture.getName()) || isThere)
      return;
    SmallVector<Attribute> extents(capture.getExtents().size(),
                                   tile::getExtent(kernel.getContext(), ShapedType::kDynamic));
    Type element = capture.getType();
    if (element.isInteger(1)) // a bool is a byte in memory
      element = IntegerType::get(kernel.getContext(), 8);
    auto type = tile::ViewType::get(kernel.getContext(), extents, element);
    kernel.addArgument(("$" + capture.getName()).str(), type, variant.getLoc());
  }

  static void fillHook(Block &source, Region &hook, tile::KernelOp kernel) {
    hook.getBlocks().clear();
    IRMapping mapping;
    OpBuilder builder = copyIntoHook(source, hook, kernel, mapping);
    Operation *yield = source.getTerminator();
    tile::YieldOp::create(builder, yield->getLoc(), mapping.lookup(yield->getOperand(0)));
  }

  /// Fills an empty hook with a copy of `source` without its terminator. Returns a builder at the
  /// end of the copy. `mapping` gets the values of the copy.
  static OpBuilder copyIntoHook(Block &source, Region &hook, tile::KernelOp kernel,
                                IRMapping &mapping) {
    Block &body = hook.emplaceBlock();
    for (BlockArgument argument : source.getArguments())
      mapping.map(argument, body.addArgument(argument.getType(), argument.getLoc()));
    OpBuilder builder = OpBuilder::atBlockEnd(&body);
    copyBody(source, builder, kernel, mapping);
    return builder;
  }

  /// Copies everything except the terminator.
  static void copyBody(Block &source, OpBuilder &builder, tile::KernelOp kernel,
                       IRMapping &mapping) {
    for (Operation &op : source) {
      if (op.hasTrait<OpTrait::IsTerminator>())
        break;
      Location loc = op.getLoc();
      auto mapped = [&](ValueRange values) {
        return llvm::map_to_vector(values, [&](Value value) { return mapping.lookup(value); });
      };
      auto argument = [&](StringRef name) { return kernel.getArgument(("$" + name).str()); };
      if (auto param = dyn_cast<attn::ParamOp>(op)) {
        mapping.map(param.getResult(), argument(param.getName()));
      } else if (auto read = dyn_cast<attn::ReadOp>(op)) {
        Value view = argument(read.getName());
        Value element =
            tile::ReadOp::create(builder, loc, cast<tile::ViewType>(view.getType()).getReadType(),
                                 view, mapped(read.getIndices()));
        if (read.getType().isInteger(1)) {
          Value zero = arith::ConstantIntOp::create(builder, loc, 0, 32);
          element = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, element, zero);
        }
        mapping.map(read.getResult(), element);
      } else if (auto extent = dyn_cast<attn::ExtentOp>(op)) {
        Value value = tile::ExtentOp::create(builder, loc, builder.getI32Type(),
                                             attn::stringifyExtent(extent.getExtent()));
        mapping.map(extent.getResult(), value);
      } else if (auto extent = dyn_cast<attn::CaptureExtentOp>(op)) {
        Value value = tile::ViewExtentOp::create(builder, loc, builder.getI32Type(),
                                                 argument(extent.getName()), extent.getAxis());
        mapping.map(extent.getResult(), value);
      } else if (auto reduce = dyn_cast<attn::ReduceOp>(op)) {
        mapping.map(reduce.getResult(), copyReduction(reduce, builder, kernel, mapping));
      } else if (auto partial = dyn_cast<attn::PartialOp>(op)) {
        copyPartial(partial, builder, kernel, mapping);
      } else if (auto rounds = dyn_cast<attn::RoundsOp>(op)) {
        copyRounds(rounds, builder, kernel, mapping);
      } else {
        builder.clone(op, mapping);
      }
    }
  }

  /// Copies an addition, if its gradient is requested. Returns the op's result.
  static Value copyPartial(attn::PartialOp partial, OpBuilder &builder, tile::KernelOp kernel,
                           IRMapping &mapping) {
    std::string name = ("$" + partial.getName()).str();
    Value sums = kernel.getArgument(name + ".sums"),
          direct = kernel.getArgument(name + ".gradient");
    if (!sums && !direct)
      return Value();
    SmallVector<Value> indices;
    for (Value index : partial.getIndices())
      indices.push_back(mapping.lookup(index));
    if (indices.empty()) // a scalar
      indices.push_back(arith::ConstantIntOp::create(builder, partial.getLoc(), 0, 32));
    Value value = mapping.lookup(partial.getValue());
    Type f32 = builder.getF32Type();
    if (direct)
      return tile::DepositOp::create(builder, partial.getLoc(), f32, value, direct, indices);
    return tile::CollectOp::create(builder, partial.getLoc(), f32, value, sums, indices);
  }

  /// Copies attn.rounds as a reduction whose body adds. The reduction's own sum is not used.
  static Value copyRounds(attn::RoundsOp rounds, OpBuilder &builder, tile::KernelOp kernel,
                          IRMapping &mapping) {
    Location loc = rounds.getLoc();
    auto copy = attn::ReduceOp::create(builder, loc, builder.getF32Type(), attn::Reduction::Sum,
                                       mapping.lookup(rounds.getBound()));
    OpBuilder::InsertionGuard guard(builder);
    Block *body = builder.createBlock(&copy.getBody(), {}, builder.getI32Type(), loc);
    Block &source = rounds.getBody().front();
    mapping.map(source.getArgument(0), body->getArgument(0));
    copyBody(source, builder, kernel, mapping);
    Value sum = arith::ConstantFloatOp::create(builder, loc, builder.getF32Type(), APFloat(0.0f));
    for (Operation &op : llvm::make_early_inc_range(*body))
      if (isa<tile::CollectOp, tile::DepositOp>(op) ||
          (isa<attn::ReduceOp>(op) && op.getResult(0).use_empty() && !isMemoryEffectFree(&op)))
        sum = arith::AddFOp::create(builder, loc, sum, op.getResult(0));
    attn::YieldOp::create(builder, loc, sum);
    return copy.getResult();
  }

  static Value copyReduction(attn::ReduceOp reduce, OpBuilder &builder, tile::KernelOp kernel,
                             IRMapping &mapping) {
    Location loc = reduce.getLoc();
    auto copy = attn::ReduceOp::create(builder, loc, reduce.getType(), reduce.getKind(),
                                       mapping.lookup(reduce.getBound()));
    OpBuilder::InsertionGuard guard(builder);
    Block *body = builder.createBlock(&copy.getBody(), {}, builder.getI32Type(), loc);
    Block &source = reduce.getBody().front();
    mapping.map(source.getArgument(0), body->getArgument(0));
    copyBody(source, builder, kernel, mapping);
    attn::YieldOp::create(builder, loc, mapping.lookup(source.getTerminator()->getOperand(0)));
    return copy;
  }
};

} // namespace
} // namespace tesela
