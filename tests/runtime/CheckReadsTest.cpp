//===- CheckReadsTest.cpp - Reads outside of captured tensors -------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "Problem.h"

#include <gtest/gtest.h>

using namespace tesela;

namespace {

/// 1 batch, 2 heads over 1, 5 queries, 7 keys; t: i32[7] and z: f32[2].
class CheckReads : public testing::Test {
protected:
  Problem problem;
  std::vector<int32_t> t = {0, 1, 2, 3, 4, 5, 60};
  std::vector<float> z = {1, 2};

  Result<std::vector<OutsideReads>> run(const std::string &body) {
    problem.H = 2;
    problem.Hkv = 1;
    problem.Sq = 5;
    problem.Sk = 7;
    problem.fill();
    problem.arguments.captures = {{"t", Tensor::contiguous(t.data(), ElementType::i32, {7})},
                                  {"z", Tensor::contiguous(z.data(), ElementType::f32, {2})}};
    KernelOptions options = problem.options();
    options.variantText = "attention reads(t: i32[N], z: f32[M]) {\n" + body + "\n}";
    return checkReads(options, problem.arguments, 2);
  }

  /// The reads outside of the only tensor that has any.
  OutsideReads one(const std::string &body) {
    Result<std::vector<OutsideReads>> reads = run(body);
    EXPECT_TRUE(reads.ok()) << (reads ? "" : reads.error().message());
    EXPECT_EQ(reads.ok() ? reads->size() : 0, 1u) << body;
    return reads.ok() && !reads->empty() ? reads->front() : OutsideReads();
  }

  void expectQuiet(const std::string &body) {
    Result<std::vector<OutsideReads>> reads = run(body);
    ASSERT_TRUE(reads.ok()) << reads.error().message();
    EXPECT_TRUE(reads->empty()) << body << ": index " << reads->front().index;
  }
};

} // namespace

TEST_F(CheckReads, TheFirstAndHowMany) {
  OutsideReads reads = one("mask = t[k + 2 - q] >= 0");
  EXPECT_EQ(reads.capture, "t");
  EXPECT_EQ(reads.axis, 0);
  EXPECT_EQ(reads.extent, 7);
  EXPECT_EQ(reads.index, 7); // q 0, k 5
  EXPECT_EQ(reads.b, 0);
  EXPECT_EQ(reads.h, 0);
  EXPECT_EQ(reads.q, 0);
  EXPECT_EQ(reads.k, 5);
  // Above the extent for q 0 and 1: 2 + 1 keys; below 0 for q 3 and 4: 1 + 2 keys; for two heads.
  EXPECT_EQ(reads.count, 2 * (2 + 1 + 1 + 2));
}

TEST_F(CheckReads, GuardsKeepThemQuiet) {
  expectQuiet("mask = k >= 2 && t[k - 2] > 0");
  expectQuiet("mask = k < 2 || t[k - 2] > 0");
  expectQuiet("mask = k >= 2 ? t[k - 2] > 0 : true");
  expectQuiet("mask = k >= 1\n score = s + t[k - 1]");
  expectQuiet("mask = t[clamp(k - 2, 0, 6)] > 0");
  expectQuiet("let before = t[k - 1]\n mask = k > 0 && before > 0");
  expectQuiet("mask = k > 0 && (k > 3 ? t[k] : t[k - 1]) + t[k] > 0");
  expectQuiet("sink = z[h]\n score = s + (k + h < 2 ? z[k + h] : 0)");
}

TEST_F(CheckReads, WhatGuardsDoNotCover) {
  EXPECT_EQ(one("mask = k >= 1 && t[k - 2] > 0").count, 2 * 5);
  EXPECT_EQ(one("let before = t[k - 1]\n mask = k > 0 && before > 0 || before < 0").count, 2 * 5);
  EXPECT_EQ(one("mask = k >= 1 && t[k] >= 0\n score = s + t[k + 1]").count, 2 * 5);
  EXPECT_EQ(one("mask = t[t[k]] >= 0").index, 60);
  EXPECT_EQ(one("mask = t[t[k]] >= 0").count, 2 * 5);
}

TEST_F(CheckReads, InReductions) {
  EXPECT_EQ(one("mask = any(i < 9: t[i] == k)").count, 2 * 2 * 5 * 7);
  expectQuiet("mask = any(i < 9: i < 7 && t[i] == k)");
  OutsideReads reads = one("score = s + sum(i < 3: sum(j < 3: i + j < 4 ? t[i + j + 4] : 0))");
  EXPECT_EQ(reads.index, 7);
  EXPECT_EQ(reads.count, 2 * 5 * 7 * 2); // only (1, 2) and (2, 1)
}

TEST_F(CheckReads, OfASinkOnceARow) {
  OutsideReads reads = one("sink = z[q - 1]");
  EXPECT_EQ(reads.capture, "z");
  EXPECT_EQ(reads.k, -1);
  EXPECT_EQ(reads.index, -1);
  EXPECT_EQ(reads.count, 2 * 3); // q 0, 3, 4
}

TEST_F(CheckReads, EveryTensorAndAxis) {
  Result<std::vector<OutsideReads>> reads = run("mask = t[q + 4] >= 0\n score = s + z[q]");
  ASSERT_TRUE(reads.ok());
  ASSERT_EQ(reads->size(), 2u);
  EXPECT_EQ((*reads)[0].capture, "t");
  EXPECT_EQ((*reads)[0].q, 3);
  EXPECT_EQ((*reads)[1].capture, "z");
  EXPECT_EQ((*reads)[1].q, 2);
}

TEST_F(CheckReads, OfATensorWithoutElements) {
  ASSERT_TRUE(run("mask = true").ok());
  problem.arguments.captures[0].tensor = Tensor::contiguous(nullptr, ElementType::i32, {0});
  KernelOptions options = problem.options();
  options.variantText = "attention reads(t: i32[N], z: f32[M]) { mask = t[0] >= 0 }";
  Result<std::vector<OutsideReads>> reads = checkReads(options, problem.arguments);
  ASSERT_TRUE(reads.ok()) << reads.error().message();
  ASSERT_EQ(reads->size(), 1u);
  EXPECT_EQ(reads->front().extent, 0);
  EXPECT_EQ(reads->front().count, 2 * 5 * 7);
}
