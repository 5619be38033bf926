//===- SplitTest.cpp - Forward attention over parts of the keys -----------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// templates/forward_split.mlir and combine.mlir through the compiler's passes, against attention in
// double precision.
//
//===----------------------------------------------------------------------===//
#include "AttentionCase.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace tesela;
using namespace tesela::test;

namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

class Split : public testing::TestWithParam<AttentionProblem> {};

// More parts than blocks leave some of them empty.
TEST_P(Split, PartsMakeTheWhole) {
  const AttentionProblem &problem = GetParam();
  AttentionCase test(problem);
  const Extents &e = problem.extents;
  std::vector<char> q = test.encoded(test.q), k = test.encoded(test.k), v = test.encoded(test.v);
  auto combine = HostKernelUnderTest::compile(
      attentionCore("combine.mlir", "combine", problem,
                    {"output=" + std::string(elementTypeName(problem.type))}));
  ASSERT_TRUE(combine);
  for (int parts : {1, 2, 3, 7, 128}) {
    SCOPED_TRACE(std::to_string(parts) + " parts");
    auto split = HostKernelUnderTest::compile(attentionCore(
        "forward_split.mlir", "forward_split", problem, {"parts=" + std::to_string(parts)}));
    ASSERT_TRUE(split);
    std::vector<float> oParts(parts * test.o.size(), nan), lseParts(parts * test.lse.size(), nan),
        lse(test.lse.size(), nan);
    std::vector<char> o = encode(problem.type, std::vector<float>(test.o.size(), nan));
    HostArguments arguments = test.arguments();
    auto add = [&](const char *name, const void *data, int64_t heads, int64_t length, int64_t dim) {
      arguments.tensors[name] = contiguousTensor(data, heads, length, dim);
    };
    add("q", q.data(), e.H, e.Sq, problem.dQk);
    add("k", k.data(), e.Hkv, e.Sk, problem.dQk);
    add("v", v.data(), e.Hkv, e.Sk, problem.dV);
    add("o_parts", oParts.data(), e.H, e.Sq, problem.dV);
    add("o", o.data(), e.H, e.Sq, problem.dV);
    arguments.tensors["lse_parts"] = {lseParts.data(), {}, {}};
    arguments.tensors["lse"] = {lse.data(), {}, {}};
    arguments.integers["$parts"] = parts;
    split->run(arguments);
    combine->run(arguments);

    std::vector<float> out = decode(problem.type, o);
    double unit = problem.type == ElementType::bf16  ? 0x1p-8
                  : problem.type == ElementType::f16 ? 0x1p-11
                                                     : 0x1p-20;
    for (size_t i = 0; i < out.size(); ++i)
      ASSERT_NEAR(out[i], test.o[i], 2 * unit * (std::abs(test.o[i]) + 1)) << "element " << i;
    for (size_t i = 0; i < lse.size(); ++i)
      if (std::isinf(test.lse[i]))
        ASSERT_EQ(lse[i], float(test.lse[i])) << "row " << i;
      else
        ASSERT_NEAR(lse[i], test.lse[i], 1e-3 + 1e-6 * std::abs(test.lse[i])) << "row " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Host, Split,
    testing::Values(
        AttentionProblem{"full", "attention full() {}"},
        AttentionProblem{"full_f32", "attention full() {}", ElementType::f32, {1, 2, 1, 19, 300}},
        AttentionProblem{"causal", "attention causal() { mask = q >= k }"},
        AttentionProblem{
            "window_f16",
            "attention window(window: i32 = 60) { mask = q + 250 >= k && q + 250 - k < window }",
            ElementType::f16,
            {2, 4, 2, 45, 300}},
        AttentionProblem{"sinks_and_window",
                         "attention sinks(window: i32 = 40) { mask = k < 4 || q + 250 >= k && q + "
                         "250 - k < window }",
                         ElementType::bf16,
                         {1, 2, 2, 45, 300}},
        AttentionProblem{"strided_f32",
                         "attention strided() { mask = (q - k) % 40 == 3 || q / 7 == k / 7 }",
                         ElementType::f32,
                         {2, 4, 2, 45, 300}},
        AttentionProblem{"documents",
                         "attention documents(doc: i32[Sk]) { mask = doc[q + 7] == doc[k] }"},
        AttentionProblem{"alibi", "attention alibi(slope: f32[H]) { mask = q + 25 >= k\n score = s "
                                  "+ slope[h] * (k - q) }"},
        AttentionProblem{"softcap",
                         "attention softcap(cap: f32 = 1.5) { score = cap * tanh(s / cap) }"}),
    [](const auto &info) { return std::string(info.param.name); });

} // namespace
