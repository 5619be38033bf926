//===- CompileAheadTest.cpp -----------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tune/CompileAhead.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>

using namespace tesela;

namespace {

/// Counts the compilations that have begun. Every kernel fails, which makes no difference here.
struct Counter {
  std::atomic<int> begun = 0, running = 0;
  CompileAhead::Compile compile() {
    return [this](size_t) -> Result<Kernel> {
      ++begun;
      ++running;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      --running;
      return Error(Code::unsupported, "no kernel");
    };
  }
};

TEST(CompileAhead, GivesEachOnce) {
  for (bool quietly : {false, true}) {
    Counter counter;
    CompileAhead ahead(50, 3, quietly, counter.compile());
    std::set<size_t> taken;
    while (std::optional<CompileAhead::Made> made = ahead.take())
      EXPECT_TRUE(taken.insert(made->number).second);
    EXPECT_EQ(taken.size(), 50u);
    EXPECT_EQ(counter.begun, 50);
  }
}

TEST(CompileAhead, StaysAFewAhead) {
  Counter counter;
  CompileAhead ahead(1000, 2, false, counter.compile());
  ASSERT_TRUE(ahead.take());
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LE(counter.begun, 1 + 8 + 2);
}

// On the host, nothing is compiled while a kernel is timed.
TEST(CompileAhead, QuietlyNothingIsCompiledBesideWhatWasTaken) {
  Counter counter;
  CompileAhead ahead(40, 2, true, counter.compile());
  while (counter.begun < 3) // some of the first batch are done before the first take()
    std::this_thread::yield();
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(ahead.take());
    EXPECT_EQ(counter.running, 0);
    int begun = counter.begun;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_EQ(counter.begun, begun);
  }
  EXPECT_FALSE(ahead.take());
}

TEST(CompileAhead, LeavesTheRestOutWhenItGoes) {
  Counter counter;
  { CompileAhead ahead(1000, 2, false, counter.compile()); }
  EXPECT_LE(counter.begun, 10);
}

TEST(CompileAhead, OfNone) {
  Counter counter;
  CompileAhead ahead(0, 2, true, counter.compile());
  EXPECT_FALSE(ahead.take());
}

} // namespace
