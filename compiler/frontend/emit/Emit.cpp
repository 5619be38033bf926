//===- Emit.cpp -----------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/emit/Emit.h"

#include "attn/Attn.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"

#include <cassert>

using namespace mlir;

namespace tesela {
namespace {

/// The text of an extent in the language: "H", "2*Sk", "P-1", "16".
std::string extentText(const CaptureExtent &extent) {
  if (extent.coefficient == 0)
    return std::to_string(extent.offset);
  std::string text = extent.name;
  if (extent.coefficient != 1)
    text = std::to_string(extent.coefficient) + "*" + text;
  if (extent.offset > 0)
    text += '+';
  if (extent.offset != 0)
    text += std::to_string(extent.offset);
  return text;
}

class Emitter {
public:
  Emitter(const Variant &variant, MLIRContext &context) : variant_(variant), builder_(&context) {}

  OwningOpRef<ModuleOp> run() {
    Location location = at(variant_.location);
    OwningOpRef<ModuleOp> module = ModuleOp::create(location);
    builder_.setInsertionPointToEnd(module->getBody());
    auto op = attn::VariantOp::create(builder_, location, variant_.name, parameters());
    op.setExactScore(variant_.scoreIsExact);
    Type f32 = builder_.getF32Type(), i32 = builder_.getI32Type();
    emitBody(op.getScore(), variant_.score, {f32, i32, i32, i32, i32, i32});
    emitBody(op.getMask(), variant_.mask, {i32, i32, i32, i32, i32});
    if (variant_.sink != kInvalid)
      emitBody(op.getSink(), variant_.sink, {i32, i32, i32, i32});
    return module;
  }

private:
  Location at(const SourceLocation &place) {
    return FileLineColLoc::get(builder_.getContext(), variant_.file, place.line, place.column);
  }

  Type typeOf(ElementType type) {
    switch (type) {
    case ElementType::f32:
      return builder_.getF32Type();
    case ElementType::f16:
      return builder_.getF16Type();
    case ElementType::bf16:
      return builder_.getBF16Type();
    case ElementType::i32:
      return builder_.getI32Type();
    case ElementType::boolean:
      return builder_.getI1Type();
    case ElementType::e4m3:
      break; // the parser rejects it
    }
    return nullptr;
  }
  Type typeOf(const Node &node) {
    switch (node.type) {
    case ScalarType::i32:
      return builder_.getI32Type();
    case ScalarType::f32:
      return builder_.getF32Type();
    case ScalarType::boolean:
      return builder_.getI1Type();
    }
    return nullptr;
  }

  ArrayAttr parameters() {
    SmallVector<Attribute> attributes;
    for (const Parameter &parameter : variant_.parameters) {
      Type type = typeOf(parameter.type);
      if (parameter.isCapture) {
        SmallVector<Attribute> extents;
        for (const CaptureExtent &extent : parameter.extents)
          extents.push_back(builder_.getStringAttr(extentText(extent)));
        attributes.push_back(attn::CaptureAttr::get(builder_.getContext(), parameter.name, type,
                                                    builder_.getArrayAttr(extents)));
        continue;
      }
      TypedAttr value;
      if (parameter.defaultValue && parameter.type == ElementType::i32)
        value = builder_.getI32IntegerAttr(static_cast<int32_t>(*parameter.defaultValue));
      else if (parameter.defaultValue)
        value = builder_.getF32FloatAttr(static_cast<float>(*parameter.defaultValue));
      attributes.push_back(
          attn::ScalarAttr::get(builder_.getContext(), parameter.name, type, value));
    }
    return builder_.getArrayAttr(attributes);
  }

  void emitBody(Region &region, NodeId root, ArrayRef<Type> arguments) {
    SmallVector<Location> locations(arguments.size(), at(variant_.location));
    body_ = builder_.createBlock(&region, {}, arguments, locations);
    hasScore_ = arguments.size() == 6;
    values_.assign(variant_.nodes.size(), Value());
    emitNodes(root, /*reduction=*/-1);
  }

  /// Emits the nodes that `root` needs and that are computed once in each round of `reduction`, and
  /// a yield of `root`.
  void emitNodes(NodeId root, int32_t reduction) {
    for (NodeId id : variant_.nodesOf(root, reduction))
      values_[id] = isReduction(variant_.nodes[id].op) ? emitReduction(variant_.nodes[id])
                                                       : emitNode(variant_.nodes[id]);
    attn::YieldOp::create(builder_, at(variant_.nodes[root].location), values_[root]);
  }

  Value emitReduction(const Node &node) {
    Location location = at(node.location);
    attn::Reduction kind = node.op == Operator::reduceAny   ? attn::Reduction::Any
                           : node.op == Operator::reduceAll ? attn::Reduction::All
                                                            : attn::Reduction::Sum;
    auto reduce =
        attn::ReduceOp::create(builder_, location, typeOf(node), kind, values_[node.operands[0]]);
    OpBuilder::InsertionGuard guard(builder_);
    Block *body = builder_.createBlock(&reduce.getBody(), {}, builder_.getI32Type(), location);
    indices_[node.integer] = body->getArgument(0);
    emitNodes(node.operands[1], node.integer);
    return reduce;
  }

  Value emitNode(const Node &node) {
    Location location = at(node.location);
    SmallVector<Value> operands;
    for (NodeId operand : node.operands)
      operands.push_back(values_[operand]);
    switch (node.op) {
    case Operator::constant:
      return constant(location, node);
    case Operator::score:
      assert(hasScore_ && "Sema keeps s out of masks");
      return body_->getArgument(0);
    case Operator::index:
      return body_->getArgument(node.integer + (hasScore_ ? 1 : 0));
    case Operator::extent:
      return attn::ExtentOp::create(builder_, location, builder_.getI32Type(),
                                    static_cast<attn::Extent>(node.integer));
    case Operator::boundExtent:
      return boundExtent(location, variant_.boundExtents[node.integer]);
    case Operator::reduceIndex:
      return indices_.lookup(node.integer);
    case Operator::scalar:
      return attn::ParamOp::create(builder_, location, typeOf(node),
                                   variant_.parameters[node.integer].name);
    case Operator::read:
      return attn::ReadOp::create(builder_, location, typeOf(node),
                                  variant_.parameters[node.integer].name, operands);
    case Operator::toFloat:
      return arith::SIToFPOp::create(builder_, location, builder_.getF32Type(), operands[0]);
    case Operator::toInt:
      return attn::ToIntOp::create(builder_, location, builder_.getI32Type(), operands[0]);
    case Operator::logicalNot:
      return arith::XOrIOp::create(
          builder_, location, operands[0],
          arith::ConstantOp::create(builder_, location, builder_.getBoolAttr(true)));
    case Operator::logicalAnd:
      return arith::AndIOp::create(builder_, location, operands[0], operands[1]);
    case Operator::logicalOr:
      return arith::OrIOp::create(builder_, location, operands[0], operands[1]);
    case Operator::select:
      return arith::SelectOp::create(builder_, location, operands[0], operands[1], operands[2]);
    case Operator::less:
    case Operator::lessEqual:
    case Operator::greater:
    case Operator::greaterEqual:
    case Operator::equal:
    case Operator::notEqual:
      return compare(location, node.op, variant_.nodes[node.operands[0]].type, operands);
    default:
      return node.type == ScalarType::i32 ? integerArithmetic(location, node.op, operands)
                                          : floatArithmetic(location, node.op, operands);
    }
  }

  /// (extent - offset) / coefficient. The launch has checked that it is exact and an i32.
  Value boundExtent(Location location, const BoundExtent &bound) {
    const CaptureExtent &axis = variant_.axisOf(bound);
    Type i32 = builder_.getI32Type();
    auto number = [&](int32_t value) {
      return arith::ConstantOp::create(builder_, location, builder_.getI32IntegerAttr(value));
    };
    Value value = attn::CaptureExtentOp::create(
        builder_, location, i32, variant_.parameters[bound.parameter].name, bound.axis);
    if (axis.offset != 0)
      value = arith::SubIOp::create(builder_, location, value, number(axis.offset));
    if (axis.coefficient != 1)
      value = attn::FloorDivOp::create(builder_, location, i32, value, number(axis.coefficient));
    return value;
  }

  Value constant(Location location, const Node &node) {
    TypedAttr value;
    if (node.type == ScalarType::i32)
      value = builder_.getI32IntegerAttr(node.integer);
    else if (node.type == ScalarType::f32)
      value = builder_.getF32FloatAttr(node.number);
    else
      value = builder_.getBoolAttr(node.integer != 0);
    return arith::ConstantOp::create(builder_, location, value);
  }

  Value compare(Location location, Operator op, ScalarType type, ArrayRef<Value> operands) {
    if (type == ScalarType::f32) {
      arith::CmpFPredicate predicate = arith::CmpFPredicate::UNE;
      if (op == Operator::less)
        predicate = arith::CmpFPredicate::OLT;
      else if (op == Operator::lessEqual)
        predicate = arith::CmpFPredicate::OLE;
      else if (op == Operator::greater)
        predicate = arith::CmpFPredicate::OGT;
      else if (op == Operator::greaterEqual)
        predicate = arith::CmpFPredicate::OGE;
      else if (op == Operator::equal)
        predicate = arith::CmpFPredicate::OEQ;
      return arith::CmpFOp::create(builder_, location, predicate, operands[0], operands[1]);
    }
    arith::CmpIPredicate predicate = arith::CmpIPredicate::ne;
    if (op == Operator::less)
      predicate = arith::CmpIPredicate::slt;
    else if (op == Operator::lessEqual)
      predicate = arith::CmpIPredicate::sle;
    else if (op == Operator::greater)
      predicate = arith::CmpIPredicate::sgt;
    else if (op == Operator::greaterEqual)
      predicate = arith::CmpIPredicate::sge;
    else if (op == Operator::equal)
      predicate = arith::CmpIPredicate::eq;
    return arith::CmpIOp::create(builder_, location, predicate, operands[0], operands[1]);
  }

  Value integerArithmetic(Location location, Operator op, ArrayRef<Value> operands) {
    auto choose = [&](arith::CmpIPredicate predicate, Value a, Value b) -> Value {
      Value takesB = arith::CmpIOp::create(builder_, location, predicate, b, a);
      return arith::SelectOp::create(builder_, location, takesB, b, a);
    };
    auto negated = [&](Value a) -> Value {
      Value zero = arith::ConstantOp::create(builder_, location, builder_.getI32IntegerAttr(0));
      return arith::SubIOp::create(builder_, location, zero, a);
    };
    switch (op) {
    case Operator::add:
      return arith::AddIOp::create(builder_, location, operands[0], operands[1]);
    case Operator::subtract:
      return arith::SubIOp::create(builder_, location, operands[0], operands[1]);
    case Operator::multiply:
      return arith::MulIOp::create(builder_, location, operands[0], operands[1]);
    case Operator::divide:
      return attn::FloorDivOp::create(builder_, location, operands[0].getType(), operands[0],
                                      operands[1]);
    case Operator::remainder:
      return attn::FloorModOp::create(builder_, location, operands[0].getType(), operands[0],
                                      operands[1]);
    case Operator::negate:
      return negated(operands[0]);
    case Operator::absolute: // max(x, -x) wraps; math.absi does not define -2^31
      return choose(arith::CmpIPredicate::sgt, operands[0], negated(operands[0]));
    case Operator::minimum:
      return choose(arith::CmpIPredicate::slt, operands[0], operands[1]);
    case Operator::maximum:
      return choose(arith::CmpIPredicate::sgt, operands[0], operands[1]);
    default:
      assert(false && "no arithmetic on i32");
      return {};
    }
  }

  Value floatArithmetic(Location location, Operator op, ArrayRef<Value> operands) {
    // (b before a || isnan(a)) ? b : a, see Operator::minimum in Variant.h.
    auto choose = [&](arith::CmpFPredicate predicate) -> Value {
      Value a = operands[0], b = operands[1];
      Value isBefore = arith::CmpFOp::create(builder_, location, predicate, b, a);
      Value isNaN = arith::CmpFOp::create(builder_, location, arith::CmpFPredicate::UNO, a, a);
      Value takesB = arith::OrIOp::create(builder_, location, isBefore, isNaN);
      return arith::SelectOp::create(builder_, location, takesB, b, a);
    };
    switch (op) {
    case Operator::add:
      return arith::AddFOp::create(builder_, location, operands[0], operands[1]);
    case Operator::subtract:
      return arith::SubFOp::create(builder_, location, operands[0], operands[1]);
    case Operator::multiply:
      return arith::MulFOp::create(builder_, location, operands[0], operands[1]);
    case Operator::divide:
      return arith::DivFOp::create(builder_, location, operands[0], operands[1]);
    case Operator::negate:
      return arith::NegFOp::create(builder_, location, operands[0]);
    case Operator::absolute:
      return math::AbsFOp::create(builder_, location, operands[0]);
    case Operator::minimum:
      return choose(arith::CmpFPredicate::OLT);
    case Operator::maximum:
      return choose(arith::CmpFPredicate::OGT);
    case Operator::exp:
      return math::ExpOp::create(builder_, location, operands[0]);
    case Operator::log:
      return math::LogOp::create(builder_, location, operands[0]);
    case Operator::sqrt:
      return math::SqrtOp::create(builder_, location, operands[0]);
    case Operator::tanh:
      return math::TanhOp::create(builder_, location, operands[0]);
    case Operator::sin:
      return math::SinOp::create(builder_, location, operands[0]);
    case Operator::cos:
      return math::CosOp::create(builder_, location, operands[0]);
    case Operator::floor:
      return math::FloorOp::create(builder_, location, operands[0]);
    default:
      assert(false && "no arithmetic on f32");
      return {};
    }
  }

  const Variant &variant_;
  OpBuilder builder_;
  Block *body_ = nullptr;
  bool hasScore_ = false;
  std::vector<Value> values_;
  DenseMap<int32_t, Value> indices_; ///< by reduction
};

} // namespace

OwningOpRef<ModuleOp> emitVariant(const Variant &variant, MLIRContext &context) {
  context.loadDialect<attn::AttnDialect, arith::ArithDialect, math::MathDialect>();
  return Emitter(variant, context).run();
}

} // namespace tesela
