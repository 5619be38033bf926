//===- BackwardTest.cpp - Gradients on the host ---------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Compares templates/backward.mlir, after the compiler's passes, with its formulas in double
// precision. Scores and masks come from the interpreter, and ∂score/∂s from finite differences.
//
//===----------------------------------------------------------------------===//
#include "AttentionCase.h"

#include "../../GradientRule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace tesela;
using namespace tesela::test;

namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
using Problem = AttentionProblem;

/// Each gradient, and the sum of the magnitudes of its terms.
struct Gradients {
  Values dq, dk, dv, sizeOfDq, sizeOfDk, sizeOfDv;
};

/// `dL`: the gradient of L, one number for each row; rows without keys are ignored. `base`:
/// computed as a correct kernel would, with L and D in f32, and P and dS rounded before products.
Gradients gradientsOf(const AttentionCase &test, const Values &dO, const Values &dL, bool base) {
  const AttentionProblem &problem = test.problem;
  const Extents &e = test.e;
  float scale = test.scale;
  auto round = [&](double value) { return base ? rounded(problem.type, value) : value; };
  auto inFloat = [&](double value) { return base ? double(float(value)) : value; };
  Gradients g{Values(test.q.size()), Values(test.k.size()), Values(test.v.size()),
              Values(test.q.size()), Values(test.k.size()), Values(test.v.size())};
  for (int b = 0; b < e.B; ++b)
    for (int h = 0; h < e.H; ++h)
      for (int i = 0; i < e.Sq; ++i) {
        size_t ofQ = test.row(b, e.H, h, e.Sq, i, problem.dQk);
        size_t ofO = test.row(b, e.H, h, e.Sq, i, problem.dV);
        double delta = 0, sizeOfDelta = 0, L = inFloat(test.lse[test.row(b, e.H, h, e.Sq, i, 1)]);
        for (int x = 0; x < problem.dV; ++x) {
          delta += round(test.o[ofO + x]) * dO[ofO + x];
          sizeOfDelta += std::abs(test.o[ofO + x] * dO[ofO + x]);
        }
        double ofL = dL[test.row(b, e.H, h, e.Sq, i, 1)];
        delta = inFloat(inFloat(delta) - ofL);
        sizeOfDelta += std::abs(ofL);
        for (int j = 0; j < e.Sk; ++j) {
          Point at = test.point(b, h, i, j);
          if (!test.interpreter->mask(at))
            continue;
          size_t ofK = test.row(b, e.Hkv, at.hkv, e.Sk, j, problem.dQk);
          size_t ofV = test.row(b, e.Hkv, at.hkv, e.Sk, j, problem.dV);
          double s = scale * inFloat(test.product(b, h, i, j)), step = 1e-7, dP = 0,
                 size = sizeOfDelta;
          double slope =
              (test.interpreter->score(at, s + step) - test.interpreter->score(at, s - step)) /
              (2 * step);
          double score = test.interpreter->score(at, s), P = std::exp(inFloat(score) - L);
          // An absolute error of the score is a relative error of P.
          double weight = P * (1 + std::abs(score));
          for (int x = 0; x < problem.dV; ++x) {
            dP += dO[ofO + x] * test.v[ofV + x];
            size += std::abs(dO[ofO + x] * test.v[ofV + x]);
            g.dv[ofV + x] += round(P) * dO[ofO + x];
            g.sizeOfDv[ofV + x] += weight * std::abs(dO[ofO + x]);
          }
          size *= scale * weight * std::abs(slope);
          double ds = round(P * (dP - delta) * slope);
          for (int x = 0; x < problem.dQk; ++x) {
            g.dq[ofQ + x] += scale * ds * test.k[ofK + x];
            g.dk[ofK + x] += scale * ds * test.q[ofQ + x];
            g.sizeOfDq[ofQ + x] += size * std::abs(test.k[ofK + x]);
            g.sizeOfDk[ofK + x] += size * std::abs(test.q[ofQ + x]);
          }
        }
      }
  return g;
}

void expectGradient(const char *name, const Problem &problem, const std::vector<char> &out,
                    const GradientReference &reference, int dim) {
  std::string fault = gradientFault(decode(problem.type, out), reference, dim,
                                    [&](double value) { return rounded(problem.type, value); });
  EXPECT_EQ(fault, "") << name;
}

/// What the gradient of L is.
enum class OfLse {
  leftOut, ///< the launch has none
  random,  ///< as if partial results were merged; NaN where a row has no keys
  zLoss,   ///< that of the loss 0.5 · L² for each row
};

class Backward : public testing::TestWithParam<Problem> {
protected:
  /// `workers`: those among which query heads are dealt (tile.head_parts).
  void holdsTheRule(OfLse kind, int workers = 1);
};

TEST_P(Backward, HoldsTheRule) { holdsTheRule(OfLse::leftOut); }
TEST_P(Backward, HoldsTheRuleWithGradientOfLse) { holdsTheRule(OfLse::random); }
TEST_P(Backward, HoldsTheRuleWithZLoss) { holdsTheRule(OfLse::zLoss); }

// Each query head is a part of its key/value head; parts of several heads; and parts of different
// sizes (seven heads in two parts).
TEST_P(Backward, HoldsTheRuleWithPartsOfHeads) {
  holdsTheRule(OfLse::leftOut, /*workers=*/1000);
  holdsTheRule(OfLse::leftOut, /*workers=*/7);
  holdsTheRule(OfLse::leftOut, /*workers=*/17);
}

void Backward::holdsTheRule(OfLse kind, int workers) {
  const Problem &problem = GetParam();
  AttentionCase test(problem);
  const Extents &e = problem.extents;
  Values dOutput = test.randomTensor(e.H, e.Sq, problem.dV, 4);
  auto poisoned = [&](size_t count) {
    return encode(problem.type, std::vector<float>(count, nan));
  };
  std::vector<char> q = test.encoded(test.q), k = test.encoded(test.k), v = test.encoded(test.v),
                    dO = test.encoded(dOutput), o = test.encoded(test.o),
                    dq = poisoned(test.q.size()), dk = poisoned(test.k.size()),
                    dv = poisoned(test.v.size());
  std::vector<float> lse(test.lse.begin(), test.lse.end()), delta(lse.size(), nan),
      rowLse(lse.size(), nan);
  Values dLse = test.randomTensor(e.H, e.Sq, 1, 5);
  for (size_t row = 0; row < lse.size(); ++row)
    dLse[row] = kind == OfLse::leftOut                          ? 0
                : kind == OfLse::random && std::isinf(lse[row]) ? nan
                : kind == OfLse::random                         ? dLse[row]
                                                                : lse[row];
  std::vector<float> dlse(dLse.begin(), dLse.end());
  HostArguments arguments = test.arguments();
  auto add = [&](const char *name, const void *data, int64_t heads, int64_t length, int64_t dim) {
    arguments.tensors[name] = contiguousTensor(data, heads, length, dim);
  };
  add("q", q.data(), e.H, e.Sq, problem.dQk);
  add("k", k.data(), e.Hkv, e.Sk, problem.dQk);
  add("v", v.data(), e.Hkv, e.Sk, problem.dV);
  add("o", o.data(), e.H, e.Sq, problem.dV);
  add("do", dO.data(), e.H, e.Sq, problem.dV);
  add("dq", dq.data(), e.H, e.Sq, problem.dQk);
  add("dk", dk.data(), e.Hkv, e.Sk, problem.dQk);
  add("dv", dv.data(), e.Hkv, e.Sk, problem.dV);
  arguments.tensors["lse"] = {lse.data(), {}, {}};
  add("delta", delta.data(), e.H, e.Sq, 1);
  add("row_lse", rowLse.data(), e.H, e.Sq, 1);
  arguments.tensors["dlse"] = {kind == OfLse::leftOut ? nullptr : dlse.data(), {}, {}};
  // The sums of the parts, with room for as many parts as there are query heads.
  std::vector<float> dkParts(size_t(e.B) * e.H * e.Sk * problem.dQk, nan),
      dvParts(size_t(e.B) * e.H * e.Sk * problem.dV, nan);
  add("dk_parts", dkParts.data(), e.H, e.Sk, problem.dQk);
  add("dv_parts", dvParts.data(), e.H, e.Sk, problem.dV);
  std::string binding = "workers=" + std::to_string(workers);
  for (const char *name :
       {"backward_rows", "backward_keys", "backward_joined_keys", "backward_queries"}) {
    auto kernel = HostKernelUnderTest::compile(
        attentionCore("backward.mlir", name, problem,
                      name == std::string_view("backward_keys") ||
                              name == std::string_view("backward_joined_keys")
                          ? std::vector<std::string>{binding}
                          : std::vector<std::string>()));
    ASSERT_TRUE(kernel) << name;
    kernel->run(arguments);
  }
  Gradients reference = gradientsOf(test, dOutput, dLse, /*base=*/false),
            base = gradientsOf(test, dOutput, dLse, /*base=*/true);
  expectGradient("dq", problem, dq, {reference.dq, base.dq, reference.sizeOfDq}, problem.dQk);
  expectGradient("dk", problem, dk, {reference.dk, base.dk, reference.sizeOfDk}, problem.dQk);
  expectGradient("dv", problem, dv, {reference.dv, base.dv, reference.sizeOfDv}, problem.dV);
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
                    Problem{"seven_heads", causal, ElementType::f32, {1, 7, 1, 70, 100}},
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
