//===- LowerBernoulli.cpp - Random truths in vectors ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Computes Philox once for each block of 16 elements (`tile.bernoulli`), one block for each vector
// element, and stores the 16 truths that follow from its words. Then it spreads them to the tile's
// elements, one bit for each. In 8 rows and 16 columns there are four by four blocks, which have
// half of their elements there.
//
//===----------------------------------------------------------------------===//
#include "frontend/emit/Philox.h"
#include "targets/host/KernelLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tesela {

namespace {

/// The truths of blocks' elements, numbered as `tile.bernoulli` does, in vectors of blocks.
class BlockTruths {
public:
  BlockTruths(CodeBuilder &builder, int64_t width)
      : builder(builder), width(width), type(CodeBuilder::vectorOf(builder.getI32Type(), width)) {}

  Value of(PhiloxWords words, Value high, Value low) {
    Value rotated = arith::OrIOp::create(builder, left(words[1], tile::BernoulliOp::rotation),
                                         right(words[1], 32 - tile::BernoulliOp::rotation));
    Value rest = both(arith::XOrIOp::create(builder, words[0], rotated), 0x7FFFFFFF);
    Value isLess =
        arith::CmpIOp::create(builder, arith::CmpIPredicate::ult, rest, builder.splat(low, width));
    Value less = arith::ExtSIOp::create(builder, type, isLess);
    // From the lowest bit of the numbers on: a bit that differs from the probability's decides.
    for (int64_t plane = 0; plane < 8; ++plane) {
      Value bits = words[3 - plane % 4];
      if (plane >= 4)
        bits = right(bits, 16);
      Value bit = arith::AndIOp::create(
          builder, arith::ShRUIOp::create(builder, high, builder.i32(plane)), builder.i32(1));
      Value than = builder.splat(arith::SubIOp::create(builder, builder.i32(0), bit), width);
      Value differ = arith::XOrIOp::create(builder, bits, than);
      less = arith::OrIOp::create(builder, arith::AndIOp::create(builder, differ, than),
                                  arith::AndIOp::create(builder, inverse(differ), less));
    }
    return less;
  }

private:
  Value left(Value x, int64_t bits) {
    return arith::ShLIOp::create(builder, x, builder.integer(type, bits));
  }
  Value right(Value x, int64_t bits) {
    return arith::ShRUIOp::create(builder, x, builder.integer(type, bits));
  }
  Value both(Value x, int64_t bits) {
    return arith::AndIOp::create(builder, x, builder.integer(type, bits));
  }
  Value inverse(Value x) { return arith::XOrIOp::create(builder, x, builder.integer(type, -1)); }

  CodeBuilder &builder;
  int64_t width;
  VectorType type;
};

} // namespace

void KernelLowering::lowerBernoulli(tile::BernoulliOp op) {
  constexpr int64_t side = 16; // side of a square of 16 blocks
  TileStorage result = allocate(shapeOf(op.getType()));
  tiles_[op.getResult()] = result;
  // A row of blocks for each two rows. A square's blocks come twice, for its upper and lower half.
  TileStorage blocks = result;
  blocks.rows = result.rows / 2;
  blocks.columns = result.columns / 4;
  blocks = allocate(blocks);
  bool transposed = op.getTransposed();
  Type i32 = builder_.getI32Type();
  auto narrow = [&](Value index) { return arith::TruncIOp::create(builder_, i32, index); };
  auto shifted = [&](Value x, int64_t bits) -> Value {
    return arith::ShRUIOp::create(builder_, x, builder_.i32(bits));
  };
  auto both = [&](Value x, int64_t bits) -> Value {
    return arith::AndIOp::create(builder_, x, builder_.i32(bits));
  };
  auto left = [&](Value x, int64_t bits) -> Value {
    return arith::ShLIOp::create(builder_, x, builder_.i32(bits));
  };

  int64_t width = unit_.widthFor(blocks.columns);
  builder_.loop(blocks.rows, 1, [&](Value pair) {
    Value row = builder_.add(scalar(op.getFirstRow()), left(narrow(pair), 1));
    Value ofRow = builder_.add(left(shifted(row, 4), 2), shifted(both(row, 7), 1));
    builder_.loop(blocks.columns, width, [&](Value column) {
      Value first = builder_.add(shifted(scalar(op.getFirstColumn()), 2), narrow(column));
      Value ofKeys = builder_.splat(ofRow, width),
            ofQueries = builder_.add(builder_.splat(first, width), builder_.iota(width));
      if (!transposed)
        std::swap(ofKeys, ofQueries);
      auto word = [&](Value value) { return builder_.splat(scalar(value), width); };
      PhiloxWords counter = {arith::XOrIOp::create(builder_, word(op.getKeys()), ofKeys),
                             arith::XOrIOp::create(builder_, word(op.getQueries()), ofQueries),
                             word(op.getW2()), word(op.getW3())};
      PhiloxWords random =
          emitPhilox(builder_, builder_.getLoc(), counter, tile::BernoulliOp::rounds);
      Value truths =
          BlockTruths(builder_, width).of(random, scalar(op.getHigh()), scalar(op.getLow()));
      storeTile(truths, blocks, builder_.multiplyAdd(pair, blocks.columns, column));
    });
  });

  // For each column of a square: which of the row's four blocks it belongs to, and what it adds to
  // the number of the bit.
  SmallVector<int32_t> blockOf, bitOf;
  for (int32_t column = 0; column < side; ++column) {
    blockOf.push_back(column % 8 / 2);
    bitOf.push_back(transposed ? 8 * (column % 2) + 4 * (column / 8)
                               : 2 * (column / 8) + column % 2);
  }
  VectorType type = CodeBuilder::vectorOf(i32, side);
  builder_.loop(result.rows, 1, [&](Value index) {
    Value row = builder_.add(scalar(op.getFirstRow()), narrow(index));
    Value parity = both(row, 1), lower = both(shifted(row, 3), 1);
    Value ofRow = transposed ? builder_.add(left(lower, 1), parity)
                             : builder_.add(left(parity, 3), left(lower, 2));
    Value amounts = builder_.add(
        builder_.splat(ofRow, side),
        arith::ConstantOp::create(builder_, DenseElementsAttr::get(type, ArrayRef(bitOf))));
    Value pair = arith::ShRUIOp::create(builder_, index, builder_.i64(1));
    builder_.loop(result.columns / side, 1, [&](Value square) {
      Value four = loadTile(
          blocks,
          builder_.multiplyAdd(pair, blocks.columns, builder_.multiply(square, builder_.i64(4))),
          4);
      Value spread = builder_.shuffle(four, four, blockOf);
      Value truths = arith::AndIOp::create(
          builder_, arith::ShRUIOp::create(builder_, spread, amounts), builder_.integer(type, 1));
      storeTile(truths, result,
                builder_.multiplyAdd(index, result.columns,
                                     builder_.multiply(square, builder_.i64(side))));
    });
  });
}

} // namespace tesela
