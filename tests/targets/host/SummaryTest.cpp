//===- SummaryTest.cpp - Summaries of captures on the host ------- -*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Compares templates/summary.mlir with plain loops: both levels, all vector widths, odd sizes,
// strides, the ends of i32, infinities, zeros of both signs and NaN.
//
//===----------------------------------------------------------------------===//
#include "HostLaunch.h"

#include "transforms/CaptureSummary.h"
#include "transforms/Passes.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

using namespace tesela;
using namespace tesela::test;

namespace {

constexpr int32_t least = std::numeric_limits<int32_t>::min();
constexpr int32_t most = std::numeric_limits<int32_t>::max();

std::unique_ptr<HostKernelUnderTest> compileSummary(std::vector<std::string> bindings,
                                                    const VectorUnit &unit) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<tile::TileDialect, mlir::arith::ArithDialect, mlir::math::MathDialect,
                      mlir::scf::SCFDialect>();
  auto module =
      mlir::parseSourceFile<mlir::ModuleOp>(TESELA_TEST_TEMPLATES "/summary.mlir", &context);
  EXPECT_TRUE(module);
  if (!module)
    return nullptr;
  mlir::Attribute schedule =
      mlir::parseAttribute("#tile.schedule<block_m = 16, block_n = 32, stages = 1, warps = 1, "
                           "q_in_registers = false>",
                           &context);
  module->walk([&](tile::KernelOp kernel) { kernel->setAttr("schedule", schedule); });
  TileBindOptions options;
  options.bindings.assign(bindings.begin(), bindings.end());
  mlir::PassManager passes(&context);
  passes.addPass(createTileBind(options));
  EXPECT_TRUE(mlir::succeeded(passes.run(*module)));
  std::string text;
  llvm::raw_string_ostream(text) << *module;
  return HostKernelUnderTest::compile(text, unit);
}

/// The number by which a summary orders an element.
int32_t keyOf(int32_t bits, bool isFloat, bool isLow) {
  if (!isFloat)
    return bits;
  if (std::isnan(std::bit_cast<float>(bits)))
    return isLow ? least : most;
  return bits < 0 ? bits ^ most : bits;
}

bool isFloat(ElementType type) { return type != ElementType::i32 && type != ElementType::boolean; }

/// Elements as kernels see them: an i32, a bool's byte, or the bits of a float as f32.
std::vector<int32_t> elements(size_t count, ElementType type, unsigned seed) {
  std::mt19937 generator(seed);
  std::vector<int32_t> values(count);
  const int32_t special[] = {least, most, 0, -1};
  const float specialFloats[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e-42f};
  for (int32_t &value : values) {
    bool isSpecial = generator() % 32 == 0;
    if (type == ElementType::boolean)
      value = isSpecial ? int32_t(generator() % 256) : 0;
    else if (type == ElementType::i32)
      value = isSpecial ? special[generator() % 4] : int32_t(generator());
    else
      value =
          std::bit_cast<int32_t>(roundTo(type, isSpecial ? specialFloats[generator() % 6]
                                                         : float(int32_t(generator())) * 0x1p-20f));
  }
  return values;
}

/// The same elements as they lie in memory.
std::vector<char> stored(const std::vector<int32_t> &values, ElementType type) {
  std::vector<char> bytes;
  for (int32_t value : values) {
    float number = std::bit_cast<float>(value);
    int32_t bits = type == ElementType::f16    ? floatToF16(number)
                   : type == ElementType::bf16 ? floatToBf16(number)
                                               : value;
    const char *begin = reinterpret_cast<const char *>(&bits);
    bytes.insert(bytes.end(), begin, begin + elementSize(type));
  }
  return bytes;
}

int64_t ceilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Compares a summary level of x[n0, n1, n2, n3] with loops, and returns the level.
struct Level {
  int64_t n[4];
  std::vector<int32_t> keys; ///< [2, n0, n1, n2, n3]
};

struct Source {
  const std::vector<int32_t> &elements;
  ElementType type;
  int64_t extents[5], strides[5]; ///< the first axis counts planes
};

Level check(HostKernelUnderTest &kernel, const Source &x, int64_t rows, int64_t columns) {
  Level level{{x.extents[1], x.extents[2], ceilDivide(x.extents[3], rows),
               ceilDivide(x.extents[4], columns)},
              {}};
  auto [n0, n1, n2, n3] = level.n;
  level.keys.assign(2 * n0 * n1 * n2 * n3, 12345);
  HostArguments arguments;
  arguments.extents = {int32_t(n0 * n1), int32_t(n2), 1, int32_t(n3), int32_t(n1)};
  std::vector<char> bytes = stored(x.elements, x.type);
  HostTensor source{bytes.data(), {}, {}};
  for (int axis = 0; axis < 5; ++axis) {
    source.strides.push_back(x.strides[axis]);
    source.extents.push_back(int32_t(x.extents[axis]));
  }
  arguments.tensors = {{"$x", source}, {"summary", {level.keys.data(), {}, {}}}};
  kernel.run(arguments);
  for (int64_t plane = 0; plane < 2; ++plane)
    for (int64_t a = 0; a < n0; ++a)
      for (int64_t b = 0; b < n1; ++b)
        for (int64_t r = 0; r < n2; ++r)
          for (int64_t g = 0; g < n3; ++g) {
            int32_t expected = plane == 0 ? most : least;
            for (int64_t i = r * rows; i < std::min((r + 1) * rows, x.extents[3]); ++i)
              for (int64_t j = g * columns; j < std::min((g + 1) * columns, x.extents[4]); ++j) {
                int32_t bits =
                    x.elements[std::min(plane, x.extents[0] - 1) * x.strides[0] + a * x.strides[1] +
                               b * x.strides[2] + i * x.strides[3] + j * x.strides[4]];
                int32_t key = keyOf(bits, isFloat(x.type), plane == 0);
                expected = plane == 0 ? std::min(expected, key) : std::max(expected, key);
              }
            int64_t at = (((plane * n0 + a) * n1 + b) * n2 + r) * n3 + g;
            EXPECT_EQ(level.keys[at], expected)
                << "plane " << plane << " at " << a << ", " << b << ", " << r << ", " << g;
          }
  return level;
}

TEST(HostSummary, AgreesWithLoops) {
  for (const VectorUnit &unit : vectorUnits())
    for (ElementType type : {ElementType::i32, ElementType::f32, ElementType::f16,
                             ElementType::bf16, ElementType::boolean})
      for (int64_t rows : {int64_t(1), granuleRows}) {
        SCOPED_TRACE(elementTypeName(type));
        std::string count = std::to_string(rows), name(elementTypeName(type));
        auto first = compileSummary({"rows=" + count, "columns=" + std::to_string(granuleColumns),
                                     "planes=0", "element=" + (name == "bool" ? "i8" : name),
                                     std::string("is_float=") + (isFloat(type) ? "1" : "0")},
                                    unit);
        auto second = compileSummary({"rows=1", "columns=" + std::to_string(granulesOfGroup),
                                      "planes=1", "element=i32", "is_float=0"},
                                     unit);
        ASSERT_TRUE(first && second);
        for (auto [n0, n1, n2, n3] : {std::array<int64_t, 4>{1, 1, 1, 1},
                                      {1, 1, 2, 16},
                                      {2, 3, 2, 17},
                                      {1, 2, 65, 31},
                                      {1, 1, 3, 1035}}) {
          // Gaps between rows, and columns that are not adjacent.
          int64_t s3 = 2, s2 = n3 * s3 + 3, s1 = n2 * s2, s0 = n1 * s1 + 1;
          std::vector<int32_t> x = elements(n0 * s0, type, unsigned(n3));
          Source source{x, type, {1, n0, n1, n2, n3}, {0, s0, s1, s2, s3}};
          Level level = check(*first, source, rows, granuleColumns);
          auto [m0, m1, m2, m3] = level.n;
          check(*second,
                {level.keys,
                 ElementType::i32,
                 {2, m0, m1, m2, m3},
                 {m0 * m1 * m2 * m3, m1 * m2 * m3, m2 * m3, m3, 1}},
                1, granulesOfGroup);
        }
      }
}

} // namespace
