//===- TileEmitter.h - Maps over tiles, written in place --------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TRANSFORMS_TILEEMITTER_H
#define TESELA_COMPILER_TRANSFORMS_TILEEMITTER_H

#include "tile/Tile.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <limits>

namespace tesela {

/// Builds the ops of one decomposition at one insertion point.
class TileEmitter {
public:
  explicit TileEmitter(mlir::Operation *op) : builder(op), loc(op->getLoc()) {}

  /// The scalar arithmetic of a map's body.
  struct Scalars {
    mlir::OpBuilder &builder;
    mlir::Location loc;

    mlir::Value number(float value) const {
      return mlir::arith::ConstantFloatOp::create(builder, loc, builder.getF32Type(),
                                                  llvm::APFloat(value));
    }
    mlir::Value minusInfinity() const { return number(-std::numeric_limits<float>::infinity()); }
    mlir::Value zero() const { return number(0); }
    mlir::Value multiply(mlir::Value a, mlir::Value b) const {
      return mlir::arith::MulFOp::create(builder, loc, a, b);
    }
    mlir::Value add(mlir::Value a, mlir::Value b) const {
      return mlir::arith::AddFOp::create(builder, loc, a, b);
    }
    mlir::Value negate(mlir::Value a) const { return mlir::arith::NegFOp::create(builder, loc, a); }
    mlir::Value fma(mlir::Value a, mlir::Value b, mlir::Value c) const {
      return mlir::math::FmaOp::create(builder, loc, a, b, c);
    }
    mlir::Value divide(mlir::Value a, mlir::Value b) const {
      return mlir::arith::DivFOp::create(builder, loc, a, b);
    }
    mlir::Value exp2(mlir::Value a) const { return mlir::math::Exp2Op::create(builder, loc, a); }
    mlir::Value log2(mlir::Value a) const { return mlir::math::Log2Op::create(builder, loc, a); }
    mlir::Value equal(mlir::Value a, mlir::Value b) const {
      return mlir::arith::CmpFOp::create(builder, loc, mlir::arith::CmpFPredicate::OEQ, a, b);
    }
    mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b) const {
      return mlir::arith::SelectOp::create(builder, loc, condition, a, b);
    }
  };

  /// A tile.map whose body computes one value from the elements, the row and the column.
  mlir::Value map(mlir::Type result, mlir::ValueRange sources,
                  llvm::function_ref<mlir::Value(Scalars, mlir::ValueRange elements,
                                                 mlir::Value row, mlir::Value column)>
                      body) {
    auto op = tile::MapOp::create(builder, loc, result, sources);
    mlir::Block *block = new mlir::Block;
    op.getBody().push_back(block);
    for (mlir::Value source : sources)
      block->addArgument(llvm::cast<tile::TileType>(source.getType()).getElementType(), loc);
    mlir::Value row = block->addArgument(builder.getI32Type(), loc);
    mlir::Value column = block->addArgument(builder.getI32Type(), loc);
    mlir::OpBuilder inner = mlir::OpBuilder::atBlockEnd(block);
    mlir::Value value =
        body(Scalars{inner, loc}, block->getArguments().take_front(sources.size()), row, column);
    tile::YieldOp::create(inner, loc, value);
    return op.getResult();
  }

  mlir::OpBuilder builder;
  mlir::Location loc;
};

} // namespace tesela

#endif // TESELA_COMPILER_TRANSFORMS_TILEEMITTER_H
