//===- LowerNarrowDot.cpp - Products with elements of 8 bits ----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/MatrixAddress.h"
#include "targets/nvvm/NarrowProducts.h"
#include "targets/nvvm/WordWidener.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tesela::nvvm {

Value NarrowProductWriter::constant(int64_t value) {
  return arith::ConstantIntOp::create(builder, loc, value, 32);
}

Value NarrowProductWriter::add(Value a, Value b) {
  return arith::AddIOp::create(builder, loc, a, b);
}

Value NarrowProductWriter::multiply(Value a, int64_t factor) {
  return arith::MulIOp::create(builder, loc, a, constant(factor));
}

Value NarrowProductWriter::bits(int64_t shift, int64_t taken) {
  Value shifted = arith::ShRUIOp::create(builder, loc, lane, constant(shift));
  return arith::AndIOp::create(builder, loc, shifted, constant(taken));
}

Values NarrowProductWriter::product(tile::DotOp dot, ValueRange left, Value address, Values sums) {
  auto right = cast<tile::TileType>(dot.getB().getType());
  auto result = cast<tile::TileType>(dot.getType());
  Type element = right.getElementType();
  bool transposed = dot.getTransposed();
  int64_t steps = right.getExtent(transposed ? 1 : 0) / 16, groups = result.getExtent(1) / 8,
          strips = result.getExtent(0) / 16;
  int64_t rowBytes = rowBytesOf(right, Float8E4M3FNType::get(dot.getContext()));
  Value lanePart = add(address, laneAddress(builder, loc, lane, Value(), rowBytes,
                                            /*rowBit=*/transposed ? 4 : 3,
                                            /*halfBit=*/transposed ? 3 : 4));
  bool converts = dot->getParentOfType<tile::KernelOp>()->hasAttr(convertsAttr);
  WordWidener widener(builder, loc, element, converts);
  auto multiplyGroup = [&](int64_t step, int64_t group, ValueRange b) {
    for (int64_t strip = 0; strip < strips; ++strip) {
      auto first = sums.begin() + (strip * groups + group) * 4;
      Values product = ptx().mma(element, left.slice((strip * steps + step) * 4, 4), b,
                                 ValueRange(ArrayRef(first, 4)));
      std::copy(product.begin(), product.end(), first);
    }
  };
  if (transposed) {
    // The rows of b are columns of the product. The four matrices: depth 0-15 and 16-31 of 8 rows,
    // then of the next 8 rows.
    for (int64_t twoSteps = 0; twoSteps < int64_t(llvm::divideCeil(steps, 2)); ++twoSteps)
      for (int64_t pair = 0; pair < groups / 2; ++pair) {
        Values words =
            ptx().loadMatrices(stepAddress(builder, loc, lanePart, twoSteps),
                               pair * 16 * rowBytes + stepOffset(twoSteps), /*transposed=*/false);
        for (auto [index, word] : llvm::enumerate(words))
          if (int64_t step = 2 * twoSteps + index % 2; step < steps)
            multiplyGroup(step, 2 * pair + index / 2,
                          {widener.everyOther(word, false), widener.everyOther(word, true)});
      }
    return sums;
  }
  // The rows of b are the depth. The four matrices, transposed on the way: rows 0-7 and 8-15 of
  // columns 0-15, then of the next 16. A word has two columns of two rows.
  int64_t chunks = right.getExtent(1) / 16;
  for (int64_t step = 0; step < steps; ++step)
    for (int64_t twoChunks = 0; twoChunks < int64_t(llvm::divideCeil(chunks, 2)); ++twoChunks) {
      Values words =
          ptx().loadMatrices(stepAddress(builder, loc, lanePart, twoChunks),
                             step * 16 * rowBytes + stepOffset(twoChunks), /*transposed=*/true);
      for (int64_t chunk = 2 * twoChunks; chunk < std::min(chunks, 2 * twoChunks + 2); ++chunk)
        for (bool odd : {false, true}) {
          auto rows = words.begin() + chunk % 2 * 2;
          multiplyGroup(step, 2 * chunk + odd,
                        {widener.everyOther(rows[0], odd), widener.everyOther(rows[1], odd)});
        }
    }
  return sums;
}

Values NarrowProductWriter::leftOperand(tile::TileType type, Value address) {
  int64_t rowBytes = rowBytesOf(type, type.getElementType());
  // A lane has four adjacent columns, 8 bytes, of chunk 2 · step + half of the row. Lanes 0 and 1
  // have the two halves of one chunk, lanes 2 and 3 those of the next.
  Value swizzle = arith::XOrIOp::create(builder, loc, bits(1, 1), bits(2, 7));
  Value lanePart = add(address, multiply(bits(2, 7), rowBytes));
  lanePart = add(lanePart, multiply(swizzle, 16));
  lanePart = add(lanePart, multiply(bits(0, 1), 8));
  Values registers;
  for (int64_t firstRow = 0; firstRow < type.getExtent(0); firstRow += 16)
    for (int64_t step = 0; step < type.getExtent(1) / 16; ++step) {
      Value of = stepAddress(builder, loc, lanePart, step);
      Values even, odd;
      for (int64_t row : {firstRow, firstRow + 8}) {
        Values words;
        for (Value word : ptx().loadSharedPair(of, row * rowBytes + stepOffset(step)))
          words.push_back(arith::BitcastOp::create(builder, loc, builder.getI32Type(), word));
        even.push_back(ptx().permuteBytes(words[0], words[1], constant(0x5410)));
        odd.push_back(ptx().permuteBytes(words[0], words[1], constant(0x7632)));
      }
      llvm::append_range(registers, even);
      llvm::append_range(registers, odd);
    }
  return registers;
}

/// Sixteen columns are eight pairs of neighbours. A lane has two adjacent pairs and gets two pairs
/// that are four apart.
Values NarrowProductWriter::ordered(Values sums) {
  Value isUpper =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, bits(0, 2), constant(0));
  auto select = [&](Value a, Value b) -> Value {
    return arith::SelectOp::create(builder, loc, isUpper, a, b);
  };
  // The lane whose number has the two lowest bits of this lane's number exchanged.
  Value other = add(add(bits(0, ~3), multiply(bits(0, 1), 2)), bits(1, 1));
  for (int64_t first = 0; first < int64_t(sums.size()); first += 8) // 16 columns
    for (int64_t half : {0, 2}) {
      // From columns 4t and 4t + 2 and those behind them to pairs of neighbours.
      Value *low = &sums[first + half], *high = &sums[first + 4 + half];
      std::swap(low[1], high[0]);
      for (int64_t column : {0, 1}) {
        // Lanes whose numbers differ by two exchange the lower's second and the upper's first pair.
        Value received = ptx().shuffleXor(select(low[column], high[column]), 2);
        Value second = select(high[column], received);
        low[column] = ptx().shuffleFrom(select(received, low[column]), other);
        high[column] = ptx().shuffleFrom(second, other);
      }
    }
  return sums;
}

} // namespace tesela::nvvm
