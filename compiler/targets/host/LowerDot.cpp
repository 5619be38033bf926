//===- LowerDot.cpp - Matrix products on vectors ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// One loop for both kinds of products. A block of the result, rows × vectors, stays in registers
// while x runs over the depth. For each x it needs one element of `a` per row (broadcast) and a few
// vectors of `b`. So it does not matter whether `a` is transposed. A transposed `b` is transposed
// first, which costs as much as a few rows of the product. Most of these tiles were transposed when
// they were loaded (LowerMemory.cpp).
//
//===----------------------------------------------------------------------===//
#include "targets/host/KernelLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;

namespace tesela {

/// How many products of f32 are summed before their sum is added to the result. So the rounding
/// error of a long row is no larger than that of a short one. Products of 16-bit numbers have a
/// tolerance that a single run over the row meets by far (docs/numerics.md).
static constexpr int64_t longestRun = 16;

/// How many products of a run stand in the body of its loop. The loop is short; with fewer
/// iterations a launch takes 4 % less time (docs/log/2026-11-23-host-cpu.md).
static constexpr int64_t stepsOfRun = 4;

namespace {
/// `count` pieces of `size` each, from `begin` on.
struct Pieces {
  int64_t begin, size, count;
  int64_t end() const { return begin + size * count; }
};
} // namespace

/// Divides [0, extent) into pieces of at most `most`: as few as possible, as even as possible, the
/// larger ones first.
static SmallVector<Pieces, 2> evenPieces(int64_t extent, int64_t most) {
  int64_t count = llvm::divideCeil(extent, most), size = extent / count, larger = extent % count;
  SmallVector<Pieces, 2> pieces;
  if (larger > 0)
    pieces.push_back({0, size + 1, larger});
  pieces.push_back({larger * (size + 1), size, count - larger});
  return pieces;
}

void KernelLowering::lowerDot(tile::DotOp op) {
  Product product;
  product.a = inMemory(storageOf(op.getA()));
  product.b = inMemory(storageOf(op.getB()));
  product.isLeftTransposed = op.getLeftTransposed();
  product.depth = product.isLeftTransposed ? product.a.rows : product.a.columns;
  if (op.getTransposed()) {
    auto known = transposed_.find(op.getB());
    if (known != transposed_.end())
      product.b = known->second;
    else if (product.b.panel == 0)
      product.b = transpose(product.b);
  }
  product.c = storageOf(op.getC());
  product.result = placeOver(op.getC(), op, op.getResult().getType());
  tiles_[op.getResult()] = product.result;
  product.isOfPairs = bool(pairProductOf(op.getA()));
  if (product.isOfPairs) { // their left operand is in memory order already
    product.a = asPairs(product.a);
    product.depth = product.a.columns;
  }
  bool isExact = cast<tile::TileType>(op.getA().getType()).getElementType().isF32();
  product.run = isExact ? longestRun : product.depth;

  int64_t width = unit_.widthFor(product.result.columns);
  // The panel of `b` that one iteration of the outer loop reads stays in the cache.
  for (Pieces columns : evenPieces(product.result.columns / width, unit_.productVectors))
    builder_.loop(builder_.i64(columns.begin * width), builder_.i64(columns.end() * width),
                  columns.size * width, [&](Value column) {
                    for (Pieces rows : evenPieces(product.result.rows, unit_.productRows))
                      builder_.loop(builder_.i64(rows.begin), builder_.i64(rows.end()), rows.size,
                                    [&](Value row) {
                                      lowerProductBlock(product, row, column, rows.size,
                                                        columns.size, width);
                                    });
                  });
}

Value KernelLowering::multiplyAdd(Value a, Value b, Value sum) {
  if (unit_.fma)
    return math::FmaOp::create(builder_, a, b, sum);
  return arith::AddFOp::create(builder_, arith::MulFOp::create(builder_, a, b), sum);
}

/// The block of `rows` × `vectors` at (row, column). The sums of earlier runs stay in registers if
/// there are enough beside those of the next run; otherwise in the result's memory.
void KernelLowering::lowerProductBlock(const Product &product, Value row, Value column,
                                       int64_t rows, int64_t vectors, int64_t width) {
  const auto &[a, b, c, result, depth, longest, isLeftTransposed, isOfPairs] = product;
  auto columnOf = [&](int64_t v) { return builder_.add(column, builder_.i64(v * width)); };
  auto rowOf = [&](int64_t r) { return builder_.add(row, builder_.i64(r)); };

  using Sums = SmallVector<Value>; // one vector each, row by row
  Type vector = CodeBuilder::vectorOf(builder_.getF32Type(), width);
  auto constant = [&](float value) { return Sums(rows * vectors, builder_.real(vector, value)); };
  auto indexOf = [&](int64_t i) {
    return builder_.multiplyAdd(rowOf(i / vectors), result.columns, columnOf(i % vectors));
  };
  auto load = [&](const TileStorage &storage) {
    Sums sums;
    for (int64_t i = 0; i < rows * vectors; ++i)
      sums.push_back(loadTile(storage, indexOf(i), width));
    return sums;
  };
  auto store = [&](const Sums &sums) {
    for (int64_t i = 0; i < rows * vectors; ++i)
      storeTile(sums[i], result, indexOf(i));
  };
  auto join = [&](ValueRange before, ValueRange run) {
    Sums sums;
    for (auto [left, right] : llvm::zip_equal(before, run))
      sums.push_back(arith::AddFOp::create(builder_, left, right));
    return sums;
  };

  auto loadRight = [&](Value x, Value at) {
    // A vector's first column is a multiple of the panel's width.
    Value index = b.panel ? builder_.add(builder_.multiply(at, builder_.i64(b.rows)),
                                         builder_.multiply(x, builder_.i64(b.panel)))
                          : builder_.multiplyAdd(x, b.columns, at);
    return loadTile(b, index, width);
  };
  auto addProducts = [&](Value x, ValueRange sums) {
    Sums factors, next;
    for (int64_t v = 0; v < vectors; ++v)
      factors.push_back(loadRight(x, columnOf(v)));
    for (int64_t r = 0; r < rows; ++r) {
      // Elements are read one by one, so it does not matter whether the operand is transposed.
      Value index = isLeftTransposed ? builder_.multiplyAdd(x, a.columns, rowOf(r))
                                     : builder_.multiplyAdd(rowOf(r), a.columns, x);
      Value element = loadTile(a, index, 0);
      Value broadcast = builder_.splat(element, width);
      for (int64_t v = 0; v < vectors; ++v)
        next.push_back(isOfPairs ? multiplyPairs(broadcast, factors[v], sums[next.size()])
                                 : multiplyAdd(broadcast, factors[v], sums[next.size()]));
    }
    return next;
  };
  bool hasRuns = depth > longest;
  auto sumRun = [&](float first, Value begin, int64_t length) {
    int64_t steps = hasRuns ? std::gcd(stepsOfRun, length) : 1;
    return builder_.loop(length, steps, constant(first), [&](Value at, ValueRange carried) {
      Sums sums(carried);
      for (int64_t step = 0; step < steps; ++step)
        sums = addProducts(builder_.add(builder_.add(begin, at), builder_.i64(step)), sums);
      return sums;
    });
  };

  SmallVector<Pieces, 2> pieces = evenPieces(depth, longest);
  int64_t registers = VectorUnit::productRegisters(rows, vectors) + rows * vectors;
  if (hasRuns && registers <= unit_.registers) {
    Sums sums = c.constant ? constant(*c.constant) : load(c);
    for (const Pieces &runs : pieces)
      sums =
          builder_.loop(runs.count * runs.size, runs.size, sums, [&](Value at, ValueRange before) {
            Value begin = builder_.add(at, builder_.i64(runs.begin));
            return join(before, sumRun(0, begin, runs.size));
          });
    return store(sums);
  }
  bool standsApart = c.constant || c.offset != result.offset;
  for (Pieces runs : pieces) {
    if (runs.begin == 0 && standsApart) {
      Sums first = sumRun(c.constant.value_or(0), builder_.i64(0), runs.size);
      store(c.constant ? first : join(load(c), first));
      runs = {runs.size, runs.size, runs.count - 1};
    }
    if (runs.count > 0)
      builder_.loop(builder_.i64(runs.begin), builder_.i64(runs.end()), runs.size,
                    [&](Value begin) {
                      Sums run = sumRun(0, begin, runs.size);
                      store(join(load(result), run));
                    });
  }
}

TileStorage KernelLowering::allocatePanels(int64_t rows, int64_t columns, Type element) {
  TileStorage storage;
  storage.rows = rows;
  storage.columns = columns;
  storage.element = element;
  storage.panel = unit_.widthFor(columns);
  return allocate(storage);
}

Value KernelLowering::panelIndex(const TileStorage &storage, Value row, Value column) {
  Value inPanel = arith::RemUIOp::create(builder_, column, builder_.i64(storage.panel));
  Value first = arith::SubIOp::create(builder_, column, inPanel);
  Value panel = builder_.multiply(first, builder_.i64(storage.rows));
  return builder_.add(panel, builder_.multiplyAdd(row, storage.panel, inPanel));
}

void KernelLowering::transposeSquare(MutableArrayRef<Value> lines) {
  int64_t width = lines.size();
  // Exchange the off-diagonal quarters of all 2d × 2d squares, for d = 1, 2, 4, ...
  for (int64_t d = 1; d < width; d *= 2)
    for (int64_t upper = 0; upper < width; ++upper) {
      if (upper & d)
        continue;
      SmallVector<int32_t> forUpper, forLower;
      for (int64_t index = 0; index < width; ++index) {
        forUpper.push_back(int32_t(index & d ? width + index - d : index));
        forLower.push_back(int32_t(index & d ? width + index : index + d));
      }
      Value a = lines[upper], b = lines[upper + d];
      lines[upper] = builder_.shuffle(a, b, forUpper);
      lines[upper + d] = builder_.shuffle(a, b, forLower);
    }
}

TileStorage KernelLowering::transpose(const TileStorage &source) {
  TileStorage result = allocatePanels(source.columns, source.rows, source.element);
  int64_t width = unit_.widthFor(std::gcd(source.rows, source.columns));
  builder_.loop(source.rows, width, [&](Value row) {
    builder_.loop(source.columns, width, [&](Value column) {
      SmallVector<Value> lines;
      for (int64_t line = 0; line < width; ++line) {
        Value at = builder_.add(row, builder_.i64(line));
        lines.push_back(loadTile(source,
                                 source.panel ? panelIndex(source, at, column)
                                              : builder_.multiplyAdd(at, source.columns, column),
                                 width));
      }
      transposeSquare(lines);
      for (int64_t line = 0; line < width; ++line)
        storeTile(lines[line], result,
                  panelIndex(result, builder_.add(column, builder_.i64(line)), row));
    });
  });
  return result;
}

} // namespace tesela
