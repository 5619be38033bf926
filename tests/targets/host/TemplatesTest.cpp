//===- TemplatesTest.cpp - Templates without attention on the host --------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// templates/matmul.mlir and templates/combine.mlir through the passes of attention, against plain
// loops.
//
//===----------------------------------------------------------------------===//
#include "HostLaunch.h"

#include "frontend/Parser.h"
#include "frontend/emit/Emit.h"
#include "transforms/Passes.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace tesela;
using namespace tesela::test;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// The core that the template `name` becomes, in blocks of 16 x 32.
std::string coreOf(const std::string &name, const std::vector<std::string> &bindings,
                   const std::string &variant = "") {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<tile::TileDialect, mlir::arith::ArithDialect, mlir::math::MathDialect,
                      mlir::scf::SCFDialect>();
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(TESELA_TEST_TEMPLATES "/" + name, &context);
  EXPECT_TRUE(module);
  if (!module)
    return "";
  if (!variant.empty()) {
    Result<Variant> parsed = parseVariant(variant, name);
    EXPECT_TRUE(parsed.ok()) << (parsed ? "" : parsed.error().message());
    mlir::OwningOpRef<mlir::ModuleOp> emitted = emitVariant(*parsed, context);
    mlir::Operation *op = &emitted->getBody()->front();
    op->remove();
    module->push_back(op);
  }
  mlir::Attribute schedule =
      mlir::parseAttribute("#tile.schedule<block_m = 16, block_n = 32, stages = 1, warps = 1, "
                           "q_in_registers = false>",
                           &context);
  module->walk([&](tile::KernelOp kernel) { kernel->setAttr("schedule", schedule); });
  TileBindOptions options;
  options.bindings.assign(bindings.begin(), bindings.end());
  mlir::PassManager passes(&context);
  passes.addPass(createTileBind(options));
  if (!variant.empty())
    passes.addPass(createTileInlineVariant());
  passes.addNestedPass<tile::KernelOp>(createTileDecompose());
  passes.addNestedPass<tile::KernelOp>(createTileLowerBlocks());
  EXPECT_TRUE(mlir::succeeded(passes.run(*module)));
  std::string text;
  llvm::raw_string_ostream(text) << *module;
  return text;
}

// Depths that no block and no vector divides: what stands behind A's columns is NaN.
TEST(HostTemplates, MatmulIsAProduct) {
  constexpr int columns = 24, panels = 2;
  for (ElementType type : {ElementType::f32, ElementType::bf16})
    for (const VectorUnit &unit : vectorUnits()) {
      std::string element(elementTypeName(type));
      auto kernel = HostKernelUnderTest::compile(
          coreOf("matmul.mlir", {"columns=" + std::to_string(columns), "input=" + element}), unit);
      ASSERT_TRUE(kernel);
      for (int depth : {1, 31, 32, 45, 96}) {
        constexpr int rows = 21, width = columns * panels;
        int strideA = depth + 3;
        std::vector<float> a = randomValues(type, rows * strideA, 7);
        for (int row = 0; row < rows; ++row)
          for (int x = depth; x < strideA; ++x)
            a[row * strideA + x] = NAN;
        std::vector<float> b = randomValues(type, depth * width, 8);
        std::vector<char> inA = encode(type, a), inB = encode(type, b);
        std::vector<char> out = encode(type, std::vector<float>(rows * width, NAN));
        HostArguments arguments;
        arguments.extents = {1, panels, panels, rows, depth};
        arguments.tensors = {{"a", {inA.data(), {0, 0, strideA}, {}}},
                             {"b", {inB.data(), {0, columns, width}, {}}},
                             {"o", {out.data(), {0, columns, width}, {}}}};
        kernel->run(arguments);
        std::vector<float> c = decode(type, out);
        double tolerance = type == ElementType::f32 ? 1e-5 : 0x1p-8;
        for (int row = 0; row < rows; ++row)
          for (int column = 0; column < width; ++column) {
            double sum = 0, size = 0;
            for (int x = 0; x < depth; ++x) {
              double term = double(a[row * strideA + x]) * b[x * width + column];
              sum += term;
              size += std::abs(term);
            }
            ASSERT_NEAR(c[row * width + column], sum, tolerance * size)
                << element << ", depth " << depth << ", row " << row << ", column " << column;
          }
      }
    }
}

// One part without keys for some rows, all for others; what such a part left is NaN.
// A sink counts once, whatever the number of parts, and alone where no part has keys.
void expectCombination(bool hasSink) {
  constexpr int B = 2, H = 3, Sq = 21, D = 24;
  auto kernel = HostKernelUnderTest::compile(coreOf(
      "combine.mlir", {"d_v=24", "output=f32"},
      hasSink ? "attention a(z: f32[B, H]) { sink = q % 5 == 0 ? -inf : z[b, h] - q }" : ""));
  ASSERT_TRUE(kernel);
  std::vector<float> z = {0, 10, -30, 5, 1, 2};
  constexpr int lines = B * H * Sq;
  for (int parts : {0, 1, 2, 5}) {
    std::vector<float> lse = randomValues(ElementType::f32, parts * lines, 9);
    std::vector<float> o = randomValues(ElementType::f32, parts * lines * D, 10);
    for (int part = 0; part < parts; ++part)
      for (int line = 0; line < lines; ++line) {
        float &value = lse[part * lines + line];
        value *= 60; // the weights are far apart
        if (line % 7 == 0 || (line + part) % 3 == 0) {
          value = -infinity;
          std::fill_n(o.begin() + (part * lines + line) * D, D, NAN);
        }
      }
    std::vector<float> outO(lines * D, NAN), outLse(lines, NAN);
    HostArguments arguments;
    arguments.extents = {B, H, H, Sq, 1};
    arguments.tensors = {{"o_parts", {o.data(), {H * Sq * D, Sq * D, D}, {}}},
                         {"lse_parts", {lse.data(), {}, {}}},
                         {"o", {outO.data(), {H * Sq * D, Sq * D, D}, {}}},
                         {"lse", {outLse.data(), {}, {}}}};
    if (hasSink)
      arguments.tensors["$z"] = {z.data(), {H, 1}, {B, H}};
    arguments.integers = {{"$parts", parts}};
    kernel->run(arguments);
    for (int line = 0; line < lines; ++line) {
      int q = line % Sq;
      double sink = hasSink && q % 5 != 0 ? double(z[line / Sq]) - q : -infinity;
      double largest = sink, sum = sink > -infinity;
      for (int part = 0; part < parts; ++part)
        largest = std::max(largest, double(lse[part * lines + line]));
      sum *= std::exp(sink - largest);
      if (largest == -infinity)
        sum = 0; // not -inf less -inf
      std::vector<double> expected(D, 0.0);
      for (int part = 0; part < parts && largest > -infinity; ++part) {
        double weight = std::exp(lse[part * lines + line] - largest);
        sum += weight;
        for (int x = 0; x < D && weight > 0; ++x)
          expected[x] += weight * o[(part * lines + line) * D + x];
      }
      if (sum == 0) {
        EXPECT_EQ(outLse[line], -infinity) << "parts " << parts << ", line " << line;
        for (int x = 0; x < D; ++x)
          EXPECT_EQ(outO[line * D + x], 0.0f) << "parts " << parts << ", line " << line;
        continue;
      }
      ASSERT_NEAR(outLse[line], largest + std::log(sum), 1e-4);
      for (int x = 0; x < D; ++x)
        ASSERT_NEAR(outO[line * D + x], expected[x] / sum, 1e-4)
            << "parts " << parts << ", line " << line << ", column " << x;
    }
  }
}

TEST(HostTemplates, CombineIsASoftmaxOverParts) { expectCombination(/*hasSink=*/false); }

TEST(HostTemplates, CombineAddsASinkOnce) { expectCombination(/*hasSink=*/true); }

} // namespace
