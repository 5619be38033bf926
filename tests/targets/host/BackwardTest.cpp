//===- BackwardTest.cpp - Gradients on the host ---------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// templates/backward.mlir through the compiler's passes, against its formulas in double precision.
// Scores and masks come from the interpreter, ∂score/∂s from its finite differences.
//
//===----------------------------------------------------------------------===//
#include "HostLaunch.h"

#include "frontend/Interpreter.h"
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
#include <limits>

using namespace tesela;
using namespace tesela::test;

namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

struct Problem {
  const char *name, *text;
  ElementType type = ElementType::bf16;
  Extents extents{2, 4, 2, 45, 70};
  int dQk = 24, dV = 40;
};

/// Printed by GoogleTest in place of bytes.
void PrintTo(const Problem &problem, std::ostream *stream) { *stream << problem.name; }

/// The core of the kernel `name`, in blocks of 16 queries and 32 keys.
std::string coreOf(const std::string &name, const Problem &problem) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  Result<Variant> variant = parseVariant(problem.text, problem.name);
  EXPECT_TRUE(variant.ok()) << (variant ? "" : variant.error().message());
  if (!variant)
    return "";
  context.loadDialect<tile::TileDialect, mlir::scf::SCFDialect>();
  mlir::OwningOpRef<mlir::ModuleOp> module = emitVariant(*variant, context);
  auto templates =
      mlir::parseSourceFile<mlir::ModuleOp>(TESELA_TEST_TEMPLATES "/backward.mlir", &context);
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
  mlir::PassManager passes(&context);
  passes.addPass(createTileBind(options));
  passes.addPass(createTileInlineVariant());
  auto &kernels = passes.nest<tile::KernelOp>();
  // What a captured tensor proves takes summaries, which are kernels of their own.
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

using Values = std::vector<double>;

Values widened(const std::vector<float> &values) { return Values(values.begin(), values.end()); }

double rounded(ElementType type, double value) {
  return decode(type, encode(type, {float(value)})).front();
}

/// And the sums of the magnitudes of what they add.
struct Gradients {
  Values dq, dk, dv, sizeOfDq, sizeOfDk, sizeOfDv;
};

/// The inputs of one problem, and what follows from them in double precision.
struct Case {
  const Problem &problem;
  Extents e;
  Values q, k, v, dO, o, lse;
  std::vector<int32_t> documents;
  std::optional<Interpreter> interpreter;
  float scale;

  explicit Case(const Problem &problem)
      : problem(problem), e(problem.extents), scale(1 / std::sqrt(float(problem.dQk))) {
    auto random = [&](int heads, int length, int dim, unsigned seed) {
      return widened(randomValues(problem.type, size_t(e.B) * heads * length * dim, seed));
    };
    q = random(e.H, e.Sq, problem.dQk, 1);
    k = random(e.Hkv, e.Sk, problem.dQk, 2);
    v = random(e.Hkv, e.Sk, problem.dV, 3);
    dO = random(e.H, e.Sq, problem.dV, 4);
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
    forward();
  }

  static const float *slopes() {
    static const float values[] = {0.5f, 0.25f, 0.125f, 0.0625f};
    return values;
  }

  size_t row(int b, int heads, int h, int length, int i, int dim) const {
    return ((size_t(b) * heads + h) * length + i) * dim;
  }

  Point point(int b, int h, int i, int j) const { return {b, h, h / (e.H / e.Hkv), i, j}; }

  double product(int b, int h, int i, int j) const {
    double sum = 0;
    for (int x = 0; x < problem.dQk; ++x)
      sum += q[row(b, e.H, h, e.Sq, i, problem.dQk) + x] *
             k[row(b, e.Hkv, h / (e.H / e.Hkv), e.Sk, j, problem.dQk) + x];
    return sum;
  }

  void forward() {
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

  /// `base`: as an honest kernel would, with L and D in f32, and P and dS rounded before products.
  Gradients gradients(bool base) const {
    auto round = [&](double value) { return base ? rounded(problem.type, value) : value; };
    auto inFloat = [&](double value) { return base ? double(float(value)) : value; };
    Gradients g{Values(q.size()), Values(k.size()), Values(v.size()),
                Values(q.size()), Values(k.size()), Values(v.size())};
    for (int b = 0; b < e.B; ++b)
      for (int h = 0; h < e.H; ++h)
        for (int i = 0; i < e.Sq; ++i) {
          size_t ofQ = row(b, e.H, h, e.Sq, i, problem.dQk);
          size_t ofO = row(b, e.H, h, e.Sq, i, problem.dV);
          double delta = 0, sizeOfDelta = 0, L = inFloat(lse[row(b, e.H, h, e.Sq, i, 1)]);
          for (int x = 0; x < problem.dV; ++x) {
            delta += round(o[ofO + x]) * dO[ofO + x];
            sizeOfDelta += std::abs(o[ofO + x] * dO[ofO + x]);
          }
          delta = inFloat(delta);
          for (int j = 0; j < e.Sk; ++j) {
            Point at = point(b, h, i, j);
            if (!interpreter->mask(at))
              continue;
            size_t ofK = row(b, e.Hkv, at.hkv, e.Sk, j, problem.dQk);
            size_t ofV = row(b, e.Hkv, at.hkv, e.Sk, j, problem.dV);
            double s = scale * inFloat(product(b, h, i, j)), step = 1e-7, dP = 0,
                   size = sizeOfDelta;
            double slope =
                (interpreter->score(at, s + step) - interpreter->score(at, s - step)) / (2 * step);
            double score = interpreter->score(at, s), P = std::exp(inFloat(score) - L);
            // An error of the score is one of P, relative to it.
            double weight = P * (1 + std::abs(score));
            for (int x = 0; x < problem.dV; ++x) {
              dP += dO[ofO + x] * v[ofV + x];
              size += std::abs(dO[ofO + x] * v[ofV + x]);
              g.dv[ofV + x] += round(P) * dO[ofO + x];
              g.sizeOfDv[ofV + x] += weight * std::abs(dO[ofO + x]);
            }
            size *= scale * weight * std::abs(slope);
            double ds = round(P * (dP - delta) * slope);
            for (int x = 0; x < problem.dQk; ++x) {
              g.dq[ofQ + x] += scale * ds * k[ofK + x];
              g.dk[ofK + x] += scale * ds * q[ofQ + x];
              g.sizeOfDq[ofQ + x] += size * std::abs(k[ofK + x]);
              g.sizeOfDk[ofK + x] += size * std::abs(q[ofQ + x]);
            }
          }
        }
    return g;
  }
};

/// Each row's error is no more than twice that of the honest kernel, twice what the result's
/// rounding leaves, and what sums in f32 leave: 4 units of what they add.
void expectGradient(const char *name, const Problem &problem, const std::vector<float> &out,
                    const Values &reference, const Values &base, const Values &sizes, int dim) {
  ASSERT_EQ(out.size(), reference.size());
  for (size_t first = 0; first < out.size(); first += dim) {
    double error = 0, honest = 0, rounding = 0, sums = 0;
    for (size_t i = first; i < first + dim; ++i) {
      ASSERT_FALSE(std::isnan(out[i])) << name << ", row " << first / dim;
      error += std::pow(out[i] - reference[i], 2);
      honest += std::pow(base[i] - reference[i], 2);
      rounding += std::pow(rounded(problem.type, reference[i] + 0.3) - 0.3 - reference[i], 2);
      sums += std::pow(4 * 0x1p-24 * sizes[i], 2);
    }
    ASSERT_LE(std::sqrt(error), 2 * std::sqrt(honest) + 2 * std::sqrt(rounding) + std::sqrt(sums))
        << name << ", row " << first / dim;
  }
}

class Backward : public testing::TestWithParam<Problem> {};

TEST_P(Backward, HoldsTheRule) {
  const Problem &problem = GetParam();
  Case test(problem);
  const Extents &e = problem.extents;
  auto encoded = [&](const Values &values) {
    return encode(problem.type, std::vector<float>(values.begin(), values.end()));
  };
  auto poisoned = [&](size_t count) {
    return encode(problem.type, std::vector<float>(count, nan));
  };
  std::vector<char> q = encoded(test.q), k = encoded(test.k), v = encoded(test.v),
                    dO = encoded(test.dO), o = encoded(test.o), dq = poisoned(test.q.size()),
                    dk = poisoned(test.k.size()), dv = poisoned(test.v.size());
  std::vector<float> lse(test.lse.begin(), test.lse.end()), delta(lse.size(), nan);
  auto tensor = [](const void *data, int64_t heads, int64_t length, int64_t dim) {
    return HostTensor{data, {heads * length * dim, length * dim, dim}, {}};
  };
  HostArguments arguments;
  arguments.extents = e;
  arguments.floats["scale"] = test.scale;
  arguments.tensors = {{"q", tensor(q.data(), e.H, e.Sq, problem.dQk)},
                       {"k", tensor(k.data(), e.Hkv, e.Sk, problem.dQk)},
                       {"v", tensor(v.data(), e.Hkv, e.Sk, problem.dV)},
                       {"o", tensor(o.data(), e.H, e.Sq, problem.dV)},
                       {"do", tensor(dO.data(), e.H, e.Sq, problem.dV)},
                       {"dq", tensor(dq.data(), e.H, e.Sq, problem.dQk)},
                       {"dk", tensor(dk.data(), e.Hkv, e.Sk, problem.dQk)},
                       {"dv", tensor(dv.data(), e.Hkv, e.Sk, problem.dV)},
                       {"lse", {lse.data(), {}, {}}},
                       {"delta", {delta.data(), {}, {}}},
                       {"$doc", {test.documents.data(), {1}, {e.Sk}}},
                       {"$slope", {Case::slopes(), {1}, {e.H}}}};
  Result<Variant> variant = parseVariant(problem.text, problem.name);
  for (const Parameter &parameter : variant->parameters)
    if (!parameter.isCapture && parameter.type == ElementType::i32)
      arguments.integers["$" + parameter.name] = int32_t(*parameter.defaultValue);
    else if (!parameter.isCapture)
      arguments.floats["$" + parameter.name] = float(*parameter.defaultValue);
  for (const char *name : {"backward_rows", "backward_keys", "backward_queries"}) {
    auto kernel = HostKernelUnderTest::compile(coreOf(name, problem));
    ASSERT_TRUE(kernel) << name;
    kernel->run(arguments);
  }
  Gradients reference = test.gradients(/*base=*/false), base = test.gradients(/*base=*/true);
  expectGradient("dq", problem, decode(problem.type, dq), reference.dq, base.dq, reference.sizeOfDq,
                 problem.dQk);
  expectGradient("dk", problem, decode(problem.type, dk), reference.dk, base.dk, reference.sizeOfDk,
                 problem.dQk);
  expectGradient("dv", problem, decode(problem.type, dv), reference.dv, base.dv, reference.sizeOfDv,
                 problem.dV);
}

constexpr const char *full = "attention full() {}";
constexpr const char *causal = "attention causal() { mask = q >= k }";
constexpr const char *window =
    "attention window(window: i32 = 19) { mask = q + 25 >= k && q + 25 - k < window }";
constexpr const char *documents =
    "attention documents(doc: i32[Sk]) { mask = doc[q + 7] == doc[k] }";
constexpr const char *alibi =
    "attention alibi(slope: f32[H]) { mask = q + 25 >= k\n score = s + slope[h] * (k - q) }";
constexpr const char *softcap = "attention softcap(cap: f32 = 1.5) { score = cap * tanh(s / cap) }";
constexpr const char *strided =
    "attention strided() { mask = (q - k) % 40 == 3 || q / 7 == k / 7 }";
constexpr const char *piecewise =
    "attention piecewise() { mask = q + b + h >= k\n score = max(s, 0.1 * s) + min(exp(s), 2) * "
    "sin(s) - sqrt(abs(s) + 1) / (2 + cos(0.5 * s)) + sum(i < 3: log(i + 2 + s * s)) }";

INSTANTIATE_TEST_SUITE_P(
    Host, Backward,
    testing::Values(Problem{"full", full}, Problem{"full_f32", full, ElementType::f32},
                    Problem{"full_f16", full, ElementType::f16}, Problem{"causal", causal},
                    Problem{"causal_f32", causal, ElementType::f32},
                    Problem{"causal_no_gqa", causal, ElementType::bf16, {1, 3, 3, 64, 64}, 64, 64},
                    Problem{"causal_more_queries", causal, ElementType::f32, {1, 4, 1, 70, 33}},
                    Problem{"one_pair", causal, ElementType::f32, {1, 1, 1, 1, 1}},
                    Problem{"window", window}, Problem{"window_f32", window, ElementType::f32},
                    Problem{"documents", documents},
                    Problem{"documents_f32", documents, ElementType::f32}, Problem{"alibi", alibi},
                    Problem{"alibi_f32", alibi, ElementType::f32}, Problem{"softcap", softcap},
                    Problem{"softcap_f32", softcap, ElementType::f32},
                    Problem{"strided_f32", strided, ElementType::f32},
                    Problem{"piecewise_f32", piecewise, ElementType::f32}),
    [](const auto &info) { return std::string(info.param.name); });

} // namespace
