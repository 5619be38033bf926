//===- AttentionCase.cpp --------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "AttentionCase.h"

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
#include "mlir/Transforms/Passes.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tesela::test {

void PrintTo(const AttentionProblem &problem, std::ostream *stream) { *stream << problem.name; }

std::string attentionCore(const std::string &file, const std::string &name,
                          const AttentionProblem &problem,
                          const std::vector<std::string> &bindings) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  Result<Variant> variant = parseVariant(problem.text, problem.name);
  EXPECT_TRUE(variant.ok()) << (variant ? "" : variant.error().message());
  if (!variant)
    return "";
  context.loadDialect<tile::TileDialect, mlir::scf::SCFDialect>();
  mlir::OwningOpRef<mlir::ModuleOp> module = emitVariant(*variant, context);
  auto templates =
      mlir::parseSourceFile<mlir::ModuleOp>(TESELA_TEST_TEMPLATES "/" + file, &context);
  EXPECT_TRUE(templates);
  if (!templates)
    return "";
  mlir::Operation *kernel = mlir::SymbolTable::lookupSymbolIn(*templates, name);
  kernel->remove();
  kernel->setAttr("schedule",
                  mlir::parseAttribute("#tile.schedule<block_m = 16, block_n = 32, stages = 1, "
                                       "warps = 1, q_in_registers = false>",
                                       &context));
  module->push_back(kernel);
  TileBindOptions options;
  auto padded = [](int dim) { return std::to_string((dim + 15) / 16 * 16); };
  options.bindings = {"d_qk=" + std::to_string(problem.dQk), "d_v=" + std::to_string(problem.dV),
                      "padded_qk=" + padded(problem.dQk), "padded_v=" + padded(problem.dV),
                      "input=" + std::string(elementTypeName(problem.type))};
  for (const std::string &binding : bindings)
    options.bindings.push_back(binding);
  mlir::PassManager passes(&context);
  passes.addPass(createTileBind(options));
  passes.addPass(createTileInlineVariant());
  auto &kernels = passes.nest<tile::KernelOp>();
  kernels.addPass(createTileLowerDropout()); // no test here has dropout
  // Summaries of captured tensors are kernels of their own, which these tests do not run.
  bool hasCaptures =
      llvm::any_of(variant->parameters, [](const Parameter &p) { return p.isCapture; });
  if (!hasCaptures)
    kernels.addPass(createTileKeyRanges());
  kernels.addPass(createTileLowerScores());
  kernels.addPass(createTileLowerMasks());
  kernels.addPass(createTileLowerBlocks());
  kernels.addPass(createTileLowerBounds());
  kernels.addPass(createTileDecompose());
  kernels.addPass(mlir::createCSEPass());
  EXPECT_TRUE(mlir::succeeded(passes.run(*module)));
  std::string text;
  llvm::raw_string_ostream(text) << *module;
  return text;
}

double rounded(ElementType type, double value) {
  return decode(type, encode(type, {float(value)})).front();
}

static const float *slopes() {
  static const float values[] = {0.5f, 0.25f, 0.125f, 0.0625f};
  return values;
}

Values AttentionCase::randomTensor(int heads, int length, int dim, unsigned seed) const {
  std::vector<float> values = randomValues(problem.type, size_t(e.B) * heads * length * dim, seed);
  return Values(values.begin(), values.end());
}

AttentionCase::AttentionCase(const AttentionProblem &problem)
    : problem(problem), e(problem.extents), scale(1 / std::sqrt(float(problem.dQk))) {
  q = randomTensor(e.H, e.Sq, problem.dQk, 1);
  k = randomTensor(e.Hkv, e.Sk, problem.dQk, 2);
  v = randomTensor(e.Hkv, e.Sk, problem.dV, 3);
  for (int i = 0; i < e.Sk; ++i)
    documents.push_back(i / 13);
  Result<Variant> variant = parseVariant(problem.text, problem.name);
  Bindings bindings{e, {}};
  for (const Parameter &parameter : variant->parameters) {
    Binding &binding = bindings.parameters.emplace_back();
    if (parameter.isCapture && parameter.type == ElementType::i32)
      binding.capture = {documents.data(), {e.Sk}, {1}};
    else if (parameter.isCapture)
      binding.capture = {slopes(), {e.H}, {1}};
    else
      binding.scalar = *parameter.defaultValue;
  }
  Result<Interpreter> made = Interpreter::create(*variant, bindings);
  EXPECT_TRUE(made.ok()) << (made ? "" : made.error().message());
  interpreter = *made;
  computeForward();
}

double AttentionCase::product(int b, int h, int i, int j) const {
  double sum = 0;
  for (int x = 0; x < problem.dQk; ++x)
    sum += q[row(b, e.H, h, e.Sq, i, problem.dQk) + x] *
           k[row(b, e.Hkv, h / (e.H / e.Hkv), e.Sk, j, problem.dQk) + x];
  return sum;
}

void AttentionCase::computeForward() {
  o.assign(size_t(e.B) * e.H * e.Sq * problem.dV, 0);
  lse.assign(size_t(e.B) * e.H * e.Sq, -INFINITY);
  for (int b = 0; b < e.B; ++b)
    for (int h = 0; h < e.H; ++h)
      for (int i = 0; i < e.Sq; ++i) {
        Values s(e.Sk, -INFINITY);
        double most = -INFINITY, sum = 0;
        for (int j = 0; j < e.Sk; ++j)
          if (Point at = point(b, h, i, j); interpreter->mask(at))
            most = std::max(most, s[j] = interpreter->score(at, scale * product(b, h, i, j)));
        if (most == -INFINITY)
          continue;
        for (double value : s)
          sum += std::exp(value - most);
        lse[row(b, e.H, h, e.Sq, i, 1)] = most + std::log(sum);
        for (int j = 0; j < e.Sk; ++j)
          for (int x = 0; x < problem.dV; ++x)
            o[row(b, e.H, h, e.Sq, i, problem.dV) + x] +=
                std::exp(s[j] - most) / sum *
                v[row(b, e.Hkv, h / (e.H / e.Hkv), e.Sk, j, problem.dV) + x];
      }
}

std::vector<char> AttentionCase::encoded(const Values &values) const {
  return encode(problem.type, std::vector<float>(values.begin(), values.end()));
}

HostTensor contiguousTensor(const void *data, int64_t heads, int64_t length, int64_t dim) {
  return {data, {heads * length * dim, length * dim, dim}, {}};
}

HostArguments AttentionCase::arguments() const {
  HostArguments arguments;
  arguments.extents = e;
  arguments.floats["scale"] = scale;
  Result<Variant> variant = parseVariant(problem.text, problem.name);
  for (const Parameter &parameter : variant->parameters) {
    std::string name = "$" + parameter.name;
    bool isInteger = parameter.type == ElementType::i32;
    if (parameter.isCapture && isInteger)
      arguments.tensors[name] = {documents.data(), {1}, {e.Sk}};
    else if (parameter.isCapture)
      arguments.tensors[name] = {slopes(), {1}, {e.H}};
    else if (isInteger)
      arguments.integers[name] = int32_t(*parameter.defaultValue);
    else
      arguments.floats[name] = float(*parameter.defaultValue);
  }
  return arguments;
}

} // namespace tesela::test
