//===- CellAnalysisTest.cpp - Cells counted by several threads ------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// What several threads count is compared with one thread. Whether one thread is right is tested in
// Python: tests/python/distributed_counts_test.py.
//
//===----------------------------------------------------------------------===//
#include "frontend/Parser.h"
#include "tesela/compiler/KeptCells.h"

#include <gmock/gmock.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using namespace tesela;

namespace {

constexpr int32_t length = 20'000;

/// Threads that take items one by one, like the runtime's.
Status inThreads(int64_t items, const std::function<void(int64_t)> &work) {
  constexpr size_t count = 4;
  std::atomic<int64_t> next = 0;
  std::vector<std::thread> threads;
  threads.reserve(count);
  for (size_t thread = 0; thread < count; ++thread)
    threads.emplace_back([&] {
      for (int64_t item; (item = next++) < items;)
        work(item);
    });
  for (std::thread &thread : threads)
    thread.join();
  return Status::success();
}

std::unique_ptr<CellAnalysis> analysisOf(const std::string &text, int64_t cell) {
  Result<Variant> variant = parseVariant(text, "mask.attn");
  EXPECT_TRUE(variant.ok()) << (variant.ok() ? "" : variant.error().message());
  Result<std::unique_ptr<CellAnalysis>> analysis = CellAnalysis::create(*variant, cell, 16);
  EXPECT_TRUE(analysis.ok()) << (analysis.ok() ? "" : analysis.error().message());
  return std::move(*analysis);
}

struct Counted {
  CellCounts counts;
  std::vector<uint32_t> work;
};

Counted countedBy(CellAnalysis &analysis, const Bindings &bindings,
                  const CellAnalysis::InParallel &inParallel) {
  Counted counted;
  auto memory = [&](size_t cells) {
    counted.work.assign(cells, 77); // the count must not rely on zeros
    return counted.work.data();
  };
  Status status = analysis.count(bindings, inParallel, memory, counted.counts);
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message());
  return counted;
}

/// Two sequences of documents, or of numbers in which their limits appear several times.
Bindings bindingsOf(std::vector<int32_t> &ids, int32_t of) {
  ids.resize(size_t(length) * 2);
  for (int32_t i = 0; i < 2 * length; ++i)
    ids[size_t(i)] = i / (of + i / length * 50);
  Bindings bindings;
  bindings.extents = {.B = 2, .H = 4, .Hkv = 2, .Sq = length, .Sk = length};
  bindings.parameters = {{0, {ids.data(), {2, length}, {length, 1}}}};
  return bindings;
}

TEST(CellAnalysis, CountsTheSameWithSeveralThreads) {
  for (const char *mask : {"q >= k && id[b, q] == id[b, k]", "id[0, k] % 3 == 0", "q - k < 300",
                           "id[b, q] == id[b, k] && (q + h) % 2 == 0"})
    for (int64_t cell : {64, 100}) {
      std::string text = "attention m(id: i32[B, Sk]) { mask = " + std::string(mask) + " }";
      std::unique_ptr<CellAnalysis> analysis = analysisOf(text, cell);
      std::vector<int32_t> ids;
      // The values change at the same address, as they may in a loop over batches.
      for (int32_t of : {700, 90, 2500}) {
        Bindings bindings = bindingsOf(ids, of);
        Counted several = countedBy(*analysis, bindings, inThreads);
        Counted one = countedBy(*analysis, bindings, nullptr);
        EXPECT_EQ(several.work, one.work) << text;
        EXPECT_EQ(several.counts.sums, one.counts.sums) << text;
        EXPECT_EQ(several.counts.needs, one.counts.needs) << text;
        EXPECT_EQ(one.counts.rows, (length + cell - 1) / cell);
      }
    }
}

TEST(CellAnalysis, SaysWhatToDoWithoutMemory) {
  std::unique_ptr<CellAnalysis> analysis = analysisOf("attention m { mask = q >= k }", 1);
  Bindings bindings;
  bindings.extents = {.B = 1, .H = 1, .Hkv = 1, .Sq = 3, .Sk = 70};
  CellCounts counts;
  Status status = analysis->count(
      bindings, nullptr, [](size_t) { return nullptr; }, counts);
  EXPECT_EQ(status.code(), Code::outOfMemory);
  EXPECT_THAT(status.error().message(), testing::HasSubstr("3 x 70 cells: use larger cells"));
  bindings.extents.Sq = bindings.extents.Sk = 1 << 14;
  status = analysis->count(
      bindings, nullptr, [](size_t) { return nullptr; }, counts);
  EXPECT_EQ(status.code(), Code::invalidArgument);
  EXPECT_THAT(status.error().message(), testing::HasSubstr("16384 x 16384 cells"));
}

} // namespace
