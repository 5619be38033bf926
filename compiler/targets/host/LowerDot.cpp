//===- LowerDot.cpp - Matrix products on vectors ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// One kernel for both products: a register block of the result, rows × vectors,
// stays in registers while x runs; each x takes one element of `a` a row
// (broadcast) and a few vectors of `b`. A transposed `b` is transposed first, which
// costs as much as a few rows of the product; most stand transposed since they were loaded
// (LowerMemory.cpp).
//
//===----------------------------------------------------------------------===//
#include "targets/host/KernelLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;

namespace tesela {

/// So many products of f32 are summed before their sum joins the result: the rounding errors
/// of a long row stay those of a short one. Products of 16-bit numbers are held to a bound that
/// a run as long as the row keeps by far (docs/numerics.md).
static constexpr int64_t longestRun = 16;

namespace {
/// `count` pieces of `size`, from `begin`.
struct Pieces {
  int64_t begin, size, count;
  int64_t end() const { return begin + size * count; }
};
} // namespace

/// [0, extent) in pieces of at most `most`: as few as possible and as even as can be, the larger
/// ones first.
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
  if (op.getTransposed() && product.b.panel == 0)
    product.b = transpose(product.b);
  product.c = storageOf(op.getC());
  product.result = placeOver(op.getC(), op, op.getResult().getType());
  tiles_[op.getResult()] = product.result;
  product.isOfPairs = bool(pairProductOf(op.getA()));
  if (product.isOfPairs)
    product.a = asPairs(product.a);
  bool isExact = cast<tile::TileType>(op.getA().getType()).getElementType().isF32();
  product.run = isExact ? longestRun : product.a.columns;

  int64_t width = unit_.widthFor(product.result.columns);
  // The panel of `b` that one round of the outer loop reads stays in the cache.
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

/// The block of `rows` × `vectors` at (row, column). The first run begins with `c` where that is a
/// constant; every other run begins with zero and is added to what is there.
void KernelLowering::lowerProductBlock(const Product &product, Value row, Value column,
                                       int64_t rows, int64_t vectors, int64_t width) {
  const auto &[a, b, c, result, longest, isOfPairs] = product;
  auto columnOf = [&](int64_t v) { return builder_.add(column, builder_.i64(v * width)); };
  auto rowOf = [&](int64_t r) { return builder_.add(row, builder_.i64(r)); };

  Type vector = CodeBuilder::vectorOf(builder_.getF32Type(), width);
  auto loadRight = [&](Value x, Value at) {
    // A vector's column is a multiple of the panel's.
    Value index = b.panel ? builder_.add(builder_.multiply(at, builder_.i64(b.rows)),
                                         builder_.multiply(x, builder_.i64(b.panel)))
                          : builder_.multiplyAdd(x, b.columns, at);
    return loadTile(b, index, width);
  };
  auto sumRun = [&](Value begin, int64_t length, bool isFirst) {
    bool joins = !(isFirst && c.constant);
    SmallVector<Value> sums(rows * vectors, builder_.real(vector, joins ? 0.0f : *c.constant));
    sums = builder_.loop(length, 1, sums, [&](Value step, ValueRange carried) {
      Value x = builder_.add(begin, step);
      SmallVector<Value> factors, next;
      for (int64_t v = 0; v < vectors; ++v)
        factors.push_back(loadRight(x, columnOf(v)));
      for (int64_t r = 0; r < rows; ++r) {
        Value element = loadTile(a, builder_.multiplyAdd(rowOf(r), a.columns, x), 0);
        Value broadcast = builder_.splat(element, width);
        for (int64_t v = 0; v < vectors; ++v)
          next.push_back(isOfPairs ? multiplyPairs(broadcast, factors[v], carried[next.size()])
                                   : multiplyAdd(broadcast, factors[v], carried[next.size()]));
      }
      return next;
    });
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t v = 0; v < vectors; ++v) {
        Value index = builder_.multiplyAdd(rowOf(r), result.columns, columnOf(v));
        Value sum = sums[r * vectors + v];
        if (joins)
          sum = arith::AddFOp::create(builder_, loadTile(isFirst ? c : result, index, width), sum);
        storeTile(sum, result, index);
      }
  };
  bool standsApart = c.constant || c.offset != result.offset;
  for (Pieces runs : evenPieces(a.columns, longest)) {
    if (runs.begin == 0 && standsApart) {
      sumRun(builder_.i64(0), runs.size, /*isFirst=*/true);
      runs = {runs.size, runs.size, runs.count - 1};
    }
    if (runs.count > 0)
      builder_.loop(builder_.i64(runs.begin), builder_.i64(runs.end()), runs.size,
                    [&](Value begin) { sumRun(begin, runs.size, /*isFirst=*/false); });
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
  // Swap the off-diagonal quarters of all 2d × 2d squares, for d = 1, 2, 4, ...
  for (int64_t d = 1; d < width; d *= 2)
    for (int64_t upper = 0; upper < width; ++upper) {
      if (upper & d)
        continue;
      SmallVector<int32_t> forUpper, forLower;
      for (int64_t lane = 0; lane < width; ++lane) {
        forUpper.push_back(int32_t(lane & d ? width + lane - d : lane));
        forLower.push_back(int32_t(lane & d ? width + lane : lane + d));
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
        lines.push_back(loadTile(source, builder_.multiplyAdd(at, source.columns, column), width));
      }
      transposeSquare(lines);
      for (int64_t line = 0; line < width; ++line) {
        Value at = builder_.add(column, builder_.i64(line));
        storeTile(lines[line], result, panelIndex(result, at, row));
      }
    });
  });
  return result;
}

} // namespace tesela
