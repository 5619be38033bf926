//===- VerifyTest.cpp - The first launch of each kernel is verified -------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "Problem.h"
#include "check/RowReference.h"
#include "check/RowSample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <thread>

using namespace tesela;

namespace {

class VerifyTest : public testing::Test {
protected:
  Problem problem;
  std::mutex mutex;
  std::vector<Event> verifications;
  std::vector<std::string> warnings;
  Context context = makeContext(true);

  Context makeContext(bool verify) {
    ContextOptions options;
    options.device = "host";
    options.threads = 2;
    options.diskCache = false;
    options.verify = verify;
    options.events = [this](const Event &event) {
      std::lock_guard lock(mutex);
      if (event.kind == Event::Kind::verified)
        verifications.push_back(event);
      if (event.kind == Event::Kind::warning)
        warnings.push_back(event.text);
    };
    Result<Context> created = Context::create(options);
    EXPECT_TRUE(created.ok());
    return *created;
  }
  Kernel kernel(const Context &of, const std::string &schedule = "") {
    KernelOptions options = problem.options();
    options.schedule = schedule;
    Result<Kernel> compiled = of.compile(options);
    EXPECT_TRUE(compiled.ok()) << (compiled ? "" : compiled.error().message());
    return *compiled;
  }
  Kernel kernel(const std::string &schedule = "") { return kernel(context, schedule); }
};

TEST_F(VerifyTest, OnceAKernel) {
  problem.fill();
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(kernel().launch(problem.arguments).ok());
  ASSERT_EQ(verifications.size(), 1u);
  EXPECT_EQ(verifications[0].variant, "sliding_alibi");
  EXPECT_EQ(verifications[0].target, "host");
  EXPECT_EQ(verifications[0].text, "132 of 132 rows");
  EXPECT_FALSE(verifications[0].failure);
  // Another schedule is another kernel, and so is the kernel of another context.
  EXPECT_TRUE(kernel("launches = 2").launch(problem.arguments).ok());
  EXPECT_EQ(verifications.size(), 2u);
  EXPECT_TRUE(kernel(makeContext(true)).launch(problem.arguments).ok());
  EXPECT_EQ(verifications.size(), 3u);
  EXPECT_TRUE(warnings.empty());
}

TEST_F(VerifyTest, AWrongResultIsAFailureOfTheLaunchAndOfLaterOnes) {
  problem.fill();
  Kernel wrong = kernel("wrong"); // it writes nothing, so NaN stays
  Status launched = wrong.launch(problem.arguments);
  EXPECT_EQ(launched.code(), Code::defect);
  EXPECT_TRUE(launched.error().isDefect());
  const std::string message = launched.error().message();
  for (const char *part :
       {"the first launch of 'sliding_alibi' (host, f32, head dimensions 32 and 32)",
        "at B 1, H 4, Hkv 2, Sq 33, Sk 47", "is NaN at b 0, h 0, q 0", "please report it"})
    EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
  ASSERT_EQ(verifications.size(), 1u);
  ASSERT_TRUE(verifications[0].failure);
  EXPECT_EQ(verifications[0].failure->message(), message);
  Status again = wrong.launch(problem.arguments);
  EXPECT_EQ(again.code(), Code::defect);
  EXPECT_EQ(again.error().message(), message);
  EXPECT_EQ(verifications.size(), 1u);
  // Another kernel of the variant is not affected.
  EXPECT_TRUE(kernel().launch(problem.arguments).ok());
}

TEST_F(VerifyTest, OffByDefault) {
  EXPECT_FALSE(ContextOptions().verify);
  problem.fill();
  EXPECT_TRUE(kernel(makeContext(false), "wrong").launch(problem.arguments).ok());
  EXPECT_TRUE(verifications.empty());
}

TEST_F(VerifyTest, WhatLaunchesNothingIsNotTheFirstLaunch) {
  Kernel wrong = kernel("wrong");
  problem.fill();
  LaunchArguments refused = problem.arguments;
  refused.captures.clear();
  EXPECT_EQ(wrong.launch(refused).code(), Code::invalidArgument);
  for (auto [queries, keys] : {std::pair(0, 47), {33, 0}}) {
    Problem empty;
    empty.Sq = queries;
    empty.Sk = keys;
    empty.fill();
    EXPECT_TRUE(wrong.launch(empty.arguments).ok());
  }
  EXPECT_TRUE(verifications.empty());
  EXPECT_EQ(wrong.launch(problem.arguments).code(), Code::defect);
}

TEST_F(VerifyTest, ItWaitsForNumbersThatAResultCanBeHeldAgainst) {
  problem.fill();
  std::vector<float> values = problem.v;
  std::fill(problem.v.begin(), problem.v.end(), HUGE_VALF); // like uninitialised memory
  Kernel right = kernel();
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(right.launch(problem.arguments).ok());
  EXPECT_TRUE(verifications.empty());
  std::copy(values.begin(), values.end(), problem.v.begin());
  EXPECT_TRUE(right.launch(problem.arguments).ok());
  ASSERT_EQ(verifications.size(), 1u);
  EXPECT_FALSE(verifications[0].failure);
  EXPECT_TRUE(warnings.empty());
}

TEST_F(VerifyTest, ItDoesNotWaitForever) {
  problem.fill();
  std::fill(problem.v.begin(), problem.v.end(), HUGE_VALF);
  Kernel wrong = kernel("wrong");
  for (int i = 0; i < 20; ++i)
    EXPECT_TRUE(wrong.launch(problem.arguments).ok());
  EXPECT_TRUE(verifications.empty());
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("'sliding_alibi' is not verified: the reference is inf"),
            std::string::npos)
      << warnings[0];
}

TEST_F(VerifyTest, ResultsInThePlaceOfInputsAreNotVerified) {
  problem.Sk = problem.Sq;
  problem.Hkv = problem.H;
  problem.fill();
  problem.arguments.o.data = problem.q.data();
  EXPECT_TRUE(kernel().launch(problem.arguments).ok());
  EXPECT_TRUE(verifications.empty());
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("its outputs overlap its inputs in memory"), std::string::npos);
}

TEST_F(VerifyTest, OneCheckForAllThreads) {
  Kernel right = kernel(), wrong = kernel("wrong");
  std::atomic<int> failures = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread)
    threads.emplace_back([&] {
      Problem own, other;
      own.fill();
      other.fill();
      for (int i = 0; i < 20; ++i) {
        EXPECT_TRUE(right.launch(own.arguments).ok());
        failures += !wrong.launch(other.arguments).ok();
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(verifications.size(), 2u);
  EXPECT_GT(failures, 0);
  problem.fill();
  EXPECT_FALSE(wrong.launch(problem.arguments).ok());
}

TEST(RowSample, AllRowsWhereTheyAreFew) {
  std::vector<int64_t> rows = sampleRows({2, 3, 3, 100, 128});
  EXPECT_EQ(rows.size(), 600u);
  EXPECT_EQ(rows.front(), 0);
  EXPECT_EQ(rows.back(), 599);
}

TEST(RowSample, SoManyAsTheReferenceHasTimeFor) {
  EXPECT_TRUE(sampleRows({0, 4, 4, 10, 10}).empty());
  EXPECT_TRUE(sampleRows({1, 4, 4, 0, 10}).empty());
  EXPECT_TRUE(sampleRows({1, 4, 4, 10, 0}).empty());
  for (auto [keys, count] : {std::pair(64, 1024), {4096, 256}, {1 << 20, 64}}) {
    Extents extents{2, 8, 2, 5000, keys};
    std::vector<int64_t> rows = sampleRows(extents);
    EXPECT_EQ(rows.size(), size_t(count));
    EXPECT_EQ(std::ranges::adjacent_find(rows, std::ranges::greater_equal()), rows.end());
    EXPECT_EQ(rows.front(), 0);
    EXPECT_EQ(rows.back(), 79999);
    EXPECT_EQ(rows, sampleRows(extents));
    std::set<int64_t> heads;
    int64_t first = 0, last = 0;
    for (int64_t row : rows) {
      heads.insert(row / 5000);
      first += row % 5000 % 64 == 0;
      last += row % 5000 % 64 == 63;
    }
    EXPECT_EQ(heads.size(), 16u);
    EXPECT_GT(first, count / 8);
    EXPECT_GT(last, count / 8);
  }
}

TEST(RowSample, RowsAreNamed) {
  EXPECT_EQ(rowText(5 * 4 * 33 + 2 * 33 + 7, 4, 33), "b 5, h 2, q 7");
}

TEST(RowReference, IsThatOfTheWholeLaunch) {
  Problem problem;
  problem.B = 2;
  problem.fill();
  problem.arguments.scalars = {{"window", 9}};
  Result<Reference> all = hostReference(problem.options(), problem.arguments, 2);
  ASSERT_TRUE(all.ok());
  std::vector<int64_t> rows = {0, 1, 32, 33, 40, 41, 42, 130, 131, 132, 200, 263};
  for (int64_t row = 50; row < 100; ++row)
    rows.push_back(row);
  std::ranges::sort(rows);
  Result<Reference> some = hostReferenceOf(rows, problem.options(), problem.arguments, 2);
  ASSERT_TRUE(some.ok());
  EXPECT_EQ(some->B * some->H, 1);
  ASSERT_EQ(some->Sq, int64_t(rows.size()));
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(some->lse[i], all->lse[rows[i]]);
    EXPECT_EQ(some->termNorm[i], all->termNorm[rows[i]]);
    for (int64_t d = 0; d < all->Dv; ++d) {
      size_t at = i * all->Dv + d, atAll = rows[i] * all->Dv + d;
      EXPECT_EQ(some->ref[at], all->ref[atAll]);
      EXPECT_EQ(some->base[at], all->base[atAll]);
      EXPECT_EQ(some->magnitude[at], all->magnitude[atAll]);
    }
  }
}

} // namespace
