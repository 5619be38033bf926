//===- LowerDot.cpp - Matrix products on vectors ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// One kernel for both products: a register block of the result, rows × vectors,
// stays in registers while x runs; each x takes one element of `a` a row
// (broadcast) and a few vectors of `b`. A transposed `b` is transposed first, which
// costs as much as a few rows of the product.
//
//===----------------------------------------------------------------------===//
#include "targets/host/KernelLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <numeric>

using namespace mlir;

namespace tesela {

/// The register block: 16 accumulators of AVX-512's 32 registers, 8 of the 16
/// that narrower vectors have. Either hides the latency of two units' additions.
static constexpr int64_t blockRows = 4;
static int64_t blockVectors(const VectorUnit &unit) { return unit.width == 16 ? 4 : 2; }

/// So many products are summed before their sum joins the result: the rounding errors
/// of a long row stay those of a short one.
static constexpr int64_t longestRun = 16;

void KernelLowering::lowerDot(tile::DotOp op) {
  TileStorage a = inMemory(storageOf(op.getA())), b = inMemory(storageOf(op.getB()));
  if (op.getTransposed())
    b = transpose(b);
  TileStorage result = placeOver(op.getC(), op, op.getResult().getType());
  copy(storageOf(op.getC()), result);
  tiles_[op.getResult()] = result;

  int64_t width = unit_.widthFor(result.columns);
  int64_t rows = std::gcd(result.rows, blockRows);
  int64_t vectors = std::gcd(result.columns / width, blockVectors(unit_));
  int64_t run = std::gcd(a.columns, longestRun);
  auto multiplyAdd = [&](Value x, Value y, Value sum) -> Value {
    if (unit_.fma)
      return math::FmaOp::create(builder_, x, y, sum);
    return arith::AddFOp::create(builder_, arith::MulFOp::create(builder_, x, y), sum);
  };

  // The panel of `b` that one round of the outer loop reads stays in the cache.
  builder_.loop(result.columns, vectors * width, [&](Value column) {
    builder_.loop(result.rows, rows, [&](Value row) {
      auto element = [&](int64_t r, int64_t v) {
        Value index = builder_.multiplyAdd(builder_.add(row, builder_.i64(r)), result.columns,
                                           builder_.add(column, builder_.i64(v * width)));
        return index;
      };
      Value zero = builder_.real(CodeBuilder::vectorOf(builder_.getF32Type(), width), 0.0f);
      builder_.loop(a.columns, run, [&](Value begin) {
        SmallVector<Value> sums(rows * vectors, zero);
        sums = builder_.loop(run, 1, sums, [&](Value step, ValueRange carried) {
          Value x = builder_.add(begin, step);
          SmallVector<Value> factors, next;
          for (int64_t v = 0; v < vectors; ++v)
            factors.push_back(loadTile(
                b,
                builder_.multiplyAdd(x, b.columns, builder_.add(column, builder_.i64(v * width))),
                width));
          for (int64_t r = 0; r < rows; ++r) {
            Value index = builder_.multiplyAdd(builder_.add(row, builder_.i64(r)), a.columns, x);
            Value broadcast = builder_.splat(loadTile(a, index, 0), width);
            for (int64_t v = 0; v < vectors; ++v)
              next.push_back(multiplyAdd(broadcast, factors[v], carried[next.size()]));
          }
          return next;
        });
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t v = 0; v < vectors; ++v) {
            Value index = element(r, v);
            Value before = loadTile(result, index, width);
            storeTile(arith::AddFOp::create(builder_, before, sums[r * vectors + v]), result,
                      index);
          }
      });
    });
  });
}

TileStorage KernelLowering::transpose(const TileStorage &source) {
  TileStorage shape;
  shape.rows = source.columns;
  shape.columns = source.rows;
  shape.element = source.element;
  TileStorage result = allocate(shape);
  int64_t width = unit_.widthFor(std::gcd(source.rows, source.columns));

  builder_.loop(source.rows, width, [&](Value row) {
    builder_.loop(source.columns, width, [&](Value column) {
      SmallVector<Value> lines;
      for (int64_t line = 0; line < width; ++line)
        lines.push_back(loadTile(
            source,
            builder_.multiplyAdd(builder_.add(row, builder_.i64(line)), source.columns, column),
            width));
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
      for (int64_t line = 0; line < width; ++line)
        storeTile(
            lines[line], result,
            builder_.multiplyAdd(builder_.add(column, builder_.i64(line)), result.columns, row));
    });
  });
  return result;
}

} // namespace tesela
