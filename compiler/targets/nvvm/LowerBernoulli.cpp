//===- LowerBernoulli.cpp - Random truths on registers ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A call of Philox serves 16 of the 256 elements of a square of 16 rows and 16 columns
// (`tile.bernoulli`). A lane and its neighbour, whose number differs in bit 2, hold just these 16.
// So of two adjacent squares each of the two lanes computes one, and they exchange the halves that
// the other needs. No call is made twice.
//
// The words of several squares are compared with the probability together. Bit 16 · n + j of a
// plane belongs to element j of square n. The planes are joined from the lowest to the highest;
// each is compared with its bit of the probability.
//
//===----------------------------------------------------------------------===//
#include "frontend/emit/Philox.h"
#include "targets/nvvm/KernelLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tesela::nvvm {

/// Lowers one tile.bernoulli.
class KernelLowering::BernoulliTile {
public:
  BernoulliTile(KernelLowering &lowering, tile::BernoulliOp op)
      : lowering(lowering), builder(lowering.builder), loc(lowering.loc), op(op),
        shape(cast<tile::TileType>(op.getType()), lowering.warps) {}

  Values emit() {
    // Pinned, because values that depend on it would hold registers over the whole loop.
    Value high = ptx().pinned(lowering.valueOf(op.getHigh()));
    // Puts bit i of four into the upper bit of byte i, which permutations replicate as a sign.
    auto spread = [&](Value bits) {
      return both(arith::MulIOp::create(builder, loc, bits, constant(0x10204080)), 0x80808080);
    };
    Value lower = spread(both(high, 15)), upper = spread(shifted<arith::ShRUIOp>(high, 4));
    for (int64_t plane = 0; plane < planes; ++plane)
      thresholds.push_back(ptx().permuteBytes(lower, upper, constant(0x8888 + plane * 0x1111)));
    odd = both(shifted<arith::ShRUIOp>(lowering.lane, 2), 1);
    isOdd = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, odd, constant(0));
    Values words;
    for (int64_t strip = 0; strip < shape.strips; ++strip) {
      Values halves[2];
      for (int64_t word = 0; word < shape.wordsOfRow(); ++word)
        for (auto [half, row] : llvm::zip(halves, wordsOfRows(strip, word)))
          half.push_back(row);
      for (const Values &half : halves)
        llvm::append_range(words, half);
    }
    return words;
  }

private:
  static constexpr int64_t planes = 8;
  static constexpr int64_t squaresOfWord = ColumnWords::groupsOfWord / 2;

  PtxInstructions ptx() { return lowering.ptx(); }
  Value constant(int64_t value) { return lowering.constant(value); }
  Value both(Value x, uint32_t bits) {
    return arith::AndIOp::create(builder, loc, x, constant(int32_t(bits)));
  }
  template <typename Shift> Value shifted(Value x, int64_t bits) {
    return bits == 0 ? x : Shift::create(builder, loc, x, constant(bits)).getResult();
  }
  Value exclusiveOr(Value a, Value b) { return arith::XOrIOp::create(builder, loc, a, b); }
  Value oddOr(Value ifOdd, Value ifEven) {
    return arith::SelectOp::create(builder, loc, isOdd, ifOdd, ifEven);
  }

  /// The words of a lane's two rows in a strip, for 128 columns.
  std::array<Value, 2> wordsOfRows(int64_t strip, int64_t word) {
    int64_t squares = std::min(squaresOfWord, shape.columns / 16 - word * squaresOfWord);
    Values calls; // 16 elements each: the calls for this lane's half of the squares
    for (int64_t first = 0; first < squares; first += 4) {
      PhiloxWords one = random(strip, word * squaresOfWord + first), two = one;
      if (first + 2 < squares)
        two = random(strip, word * squaresOfWord + first + 2);
      calls.push_back(inOrientation(truths(one, two)));
    }
    if (calls.size() == 1)
      calls.push_back(calls.front());
    // One byte of each call belongs to this lane, the other one to its neighbour.
    Value evens = constant(0x6420), odds = constant(0x7531);
    Value own = ptx().permuteBytes(calls[0], calls[1], oddOr(odds, evens));
    Value other = ptx().permuteBytes(calls[0], calls[1], oddOr(evens, odds));
    Value received = ptx().shuffleXor(other, 4);
    Value evenSquares = oddOr(received, own), oddSquares = oddOr(own, received);
    // The lower four bits of a byte belong to the first row, the others to the second.
    auto joined = [&](Value even, Value odd) -> Value {
      return arith::OrIOp::create(builder, loc, both(even, 0x0F0F0F0F), both(odd, 0xF0F0F0F0));
    };
    return {joined(evenSquares, shifted<arith::ShLIOp>(oddSquares, 4)),
            joined(shifted<arith::ShRUIOp>(evenSquares, 4), oddSquares)};
  }

  /// The call that this lane makes for `square` and the next square.
  PhiloxWords random(int64_t strip, int64_t square) {
    // c(i) = 4 ⌊i/16⌋ + ⌊(i mod 8)/2⌋ of the row and of the column (tile.bernoulli).
    auto quarter = [&](Value first) { return shifted<arith::ShRUIOp>(first, 2); };
    Value inStrip = lowering.add(shifted<arith::ShLIOp>(lowering.warp, 2),
                                 shifted<arith::ShRUIOp>(lowering.lane, 3));
    Value row = lowering.add(lowering.add(quarter(lowering.valueOf(op.getFirstRow())), inStrip),
                             constant(shape.firstRow(strip) / 4));
    Value inSquares = lowering.add(both(lowering.lane, 3), shifted<arith::ShLIOp>(odd, 2));
    Value column =
        lowering.add(lowering.add(quarter(lowering.valueOf(op.getFirstColumn())), inSquares),
                     constant(4 * square));
    if (op.getTransposed())
      std::swap(row, column);
    PhiloxWords counter = {exclusiveOr(lowering.valueOf(op.getKeys()), column),
                           exclusiveOr(lowering.valueOf(op.getQueries()), row),
                           lowering.valueOf(op.getW2()), lowering.valueOf(op.getW3())};
    // LLVM would keep the halves in 64 bits and make most products 64 by 64 bits.
    auto multiply = [&](uint32_t factor, Value word) { return ptx().multiplyWide(word, factor); };
    return emitPhilox(builder, loc, counter, tile::BernoulliOp::rounds, /*key=*/{}, multiply);
  }

  /// Bits 0 to 15 are those of `one`, the others those of `two`.
  Value truths(const PhiloxWords &one, const PhiloxWords &two) {
    Value lowHalves = constant(0x5410), highHalves = constant(0x7632);
    // If all 8 bits equal those of the probability, the rest decides.
    Value less = ptx().permuteBytes(isRestLess(one), isRestLess(two), lowHalves);
    for (int64_t plane = 0; plane < planes; ++plane) {
      int64_t word = 3 - plane % 4;
      Value bits = ptx().permuteBytes(one[word], two[word], plane < 4 ? lowHalves : highHalves);
      less = ptx().lessByBit(bits, thresholds[plane], less);
    }
    return less;
  }

  Value isRestLess(const PhiloxWords &words) {
    Value rotated = LLVM::FshlOp::create(builder, loc, builder.getI32Type(), words[1], words[1],
                                         constant(tile::BernoulliOp::rotation));
    Value rest = both(exclusiveOr(words[0], rotated), 0x7FFFFFFF);
    Value isLess = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, rest,
                                         lowering.valueOf(op.getLow()));
    return arith::ExtSIOp::create(builder, loc, builder.getI32Type(), isLess);
  }

  /// Bit 8 r + 4 R + 2 C + c of 16 belongs to the row with r = row mod 2 and R = ⌊row / 8⌋ mod 2,
  /// and to the column with c and C likewise. If the rows are keys, the numbers of rows and columns
  /// are exchanged: r with c, and R with C.
  Value inOrientation(Value bits) {
    if (!op.getTransposed())
      return bits;
    bits = swapped(bits, 7, 0x00AA00AA);
    return swapped(bits, 2, 0x0C0C0C0C);
  }

  /// Exchanges bit i, for each bit of `lower`, with bit i + `distance`.
  Value swapped(Value bits, int64_t distance, int64_t lower) {
    Value differ = both(exclusiveOr(bits, shifted<arith::ShRUIOp>(bits, distance)), lower);
    return exclusiveOr(bits, exclusiveOr(differ, shifted<arith::ShLIOp>(differ, distance)));
  }

  KernelLowering &lowering;
  OpBuilder &builder;
  Location loc;
  tile::BernoulliOp op;
  FragmentShape shape;
  Values thresholds; ///< by plane, the lowest first: a bit of the probability in all bits
  Value odd, isOdd;  ///< whether the lane computes the second of two squares
};

void KernelLowering::lowerBernoulli(tile::BernoulliOp op) {
  values[op] = BernoulliTile(*this, op).emit();
}

} // namespace tesela::nvvm
