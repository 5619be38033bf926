//===- LaunchCountersTest.cpp - Which launches share a counter ------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "backend/LaunchCounters.h"
#include "tesela/compiler/Artifact.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <set>

using namespace tesela;

namespace {

/// A driver on plain memory.
struct FakeDriver {
  cuda::DriverApi api;
  std::map<cuda::DevicePointer, std::unique_ptr<char[]>> allocations;
  std::set<CUstream_st *> streams;
  /// Errors to return instead of success.
  int allocate = 0, create = 0, set = 0, synchronize = 0;
} * driver;

class LaunchCountersTest : public testing::Test {
protected:
  void SetUp() override {
    driver = &fake;
    cuda::DriverApi &api = fake.api;
    api.cuGetErrorName = [](int, const char **text) { return *text = "CUDA_ERROR_FAKE", 0; };
    api.cuGetErrorString = [](int, const char **text) { return *text = "it was told to", 0; };
    api.cuMemAlloc_v2 = [](cuda::DevicePointer *address, size_t bytes) {
      if (driver->allocate)
        return driver->allocate;
      auto memory = std::make_unique<char[]>(bytes);
      std::memset(memory.get(), 0xff, bytes);
      *address = reinterpret_cast<uintptr_t>(memory.get());
      driver->allocations[*address] = std::move(memory);
      return 0;
    };
    api.cuMemFree_v2 = [](cuda::DevicePointer address) {
      EXPECT_EQ(driver->allocations.erase(address), 1u);
      return 0;
    };
    api.cuThreadExchangeStreamCaptureMode = [](int *) { return 0; };
    api.cuStreamCreate = [](CUstream_st **stream, unsigned flags) {
      EXPECT_EQ(flags, unsigned(cuda::streamNonBlocking));
      *stream = reinterpret_cast<CUstream_st *>(16);
      bool isNew = driver->create || driver->streams.insert(*stream).second;
      EXPECT_TRUE(isNew);
      return driver->create;
    };
    api.cuStreamDestroy_v2 = [](CUstream_st *stream) {
      EXPECT_EQ(driver->streams.erase(stream), 1u);
      return 0;
    };
    api.cuMemsetD8Async = [](cuda::DevicePointer address, unsigned char value, size_t bytes,
                             CUstream_st *stream) {
      EXPECT_EQ(driver->streams.count(stream), 1u);
      if (!driver->set)
        std::memset(reinterpret_cast<void *>(address), value, bytes);
      return driver->set;
    };
    api.cuStreamSynchronize = [](CUstream_st *stream) {
      EXPECT_EQ(driver->streams.count(stream), 1u);
      return driver->synchronize;
    };
  }

  LaunchCounter counterOf(uint64_t stream, uint64_t capture = 0) {
    Result<LaunchCounter> counter = counters.of({stream, capture != 0, capture, nullptr});
    EXPECT_TRUE(counter.ok()) << counter.error().message();
    return counter.ok() ? *counter : LaunchCounter();
  }
  uint64_t of(uint64_t stream, uint64_t capture = 0) { return counterOf(stream, capture).address; }

  FakeDriver fake;
  LaunchCounters counters{fake.api};
};

TEST_F(LaunchCountersTest, AStreamKeepsItsOwn) {
  ASSERT_TRUE(counters.create().ok());
  uint64_t first = of(1), second = of(2), standard = of(0);
  EXPECT_EQ(std::set({first, second, standard}).size(), 3u);
  EXPECT_EQ(of(1), first);
  EXPECT_EQ(of(2), second);
  EXPECT_EQ(of(0), standard);
}

TEST_F(LaunchCountersTest, ACapturedLaunchSharesNone) {
  ASSERT_TRUE(counters.create().ok());
  uint64_t outside = of(1);
  LaunchCounter first = counterOf(1, 7), second = counterOf(1, 7);
  EXPECT_EQ(std::set({outside, first.address, second.address}).size(), 3u);
  EXPECT_EQ(first.address % 16, 1u) << "a table";
  EXPECT_EQ(of(1), outside);
}

// Each counter is two zero u32 that no other counter overlaps, also after more have been allocated.
TEST_F(LaunchCountersTest, AllAreZeroAndApart) {
  ASSERT_TRUE(counters.create().ok());
  std::set<uint64_t> all;
  std::vector<LaunchCounter> held;
  for (uint64_t number = 0; number < 3000; ++number) {
    LaunchCounter counter = held.emplace_back(counterOf(number));
    EXPECT_EQ(*reinterpret_cast<uint64_t *>(counter.address), 0u);
    EXPECT_TRUE(all.insert(counter.address).second) << number;
  }
  uint64_t last = 0;
  for (uint64_t counter : all) {
    EXPECT_GE(counter - last, sizeof(uint64_t));
    last = counter;
  }
  EXPECT_GT(fake.allocations.size(), 2u);
  held.clear();
  counters.release();
  EXPECT_TRUE(fake.allocations.empty());
}

// A program that makes and destroys streams does not need more and more memory.
TEST_F(LaunchCountersTest, StreamsThatAreNotUsedGiveTheirsBack) {
  ASSERT_TRUE(counters.create().ok());
  uint64_t often = of(1);
  LaunchCounter held = counterOf(2);
  for (uint64_t number = 3; number < 20000; ++number) {
    of(number);
    EXPECT_EQ(of(1), often);
    EXPECT_LE(fake.allocations.size(), 3u); // the blocks of 1 and 2, the last but one, and the last
  }
  EXPECT_NE(of(2), held.address);
  counters.release();
  EXPECT_EQ(fake.allocations.size(), 1u); // the block of the counter that a launch still holds
  held = {};
  EXPECT_TRUE(fake.allocations.empty());
}

// The supply is refilled before it is empty, also during a capture. Tables from graphs are cleared
// and used first.
TEST_F(LaunchCountersTest, TablesComeBack) {
  ASSERT_TRUE(counters.create().ok());
  auto bytesOf = [](const LaunchCounter &table) {
    return std::string(reinterpret_cast<const char *>(table.address - 1), CounterTable::bytes);
  };
  const std::string zeros(CounterTable::bytes, '\0');
  std::vector<LaunchCounter> graph;
  for (int launch = 0; launch < 3000; ++launch) {
    graph.push_back(counterOf(1, 7));
    EXPECT_EQ(bytesOf(graph.back()), zeros);
    std::memset(reinterpret_cast<void *>(graph.back().address - 1), 0x11, CounterTable::bytes);
  }
  std::set<uint64_t> addresses;
  for (const LaunchCounter &table : graph)
    EXPECT_TRUE(addresses.insert(table.address).second);
  size_t allocations = fake.allocations.size();
  for (int again = 0; again < 10; ++again) {
    size_t count = graph.size();
    graph.clear();
    while (graph.size() < count) {
      graph.push_back(counterOf(1, 8));
      EXPECT_EQ(bytesOf(graph.back()), zeros);
      std::memset(reinterpret_cast<void *>(graph.back().address - 1), 0x22, CounterTable::bytes);
    }
  }
  EXPECT_LE(fake.allocations.size(), allocations + 1);
  graph.clear();
  counters.release();
  EXPECT_TRUE(fake.allocations.empty());
}

// As long as there are tables, a launch does not fail because more cannot be allocated.
TEST_F(LaunchCountersTest, TheLastTablesServeWithoutMemory) {
  ASSERT_TRUE(counters.create().ok());
  std::vector<LaunchCounter> graph = {counterOf(1, 7)};
  fake.allocate = cuda::errorOutOfMemory;
  for (int launch = 1; launch < 256; ++launch)
    graph.push_back(counterOf(1, 7));
  EXPECT_EQ(counters.of({1, true, 7, nullptr}).code(), Code::outOfMemory);
  graph.pop_back();
  graph.push_back(counterOf(1, 7));
}

TEST_F(LaunchCountersTest, ADriversErrorIsNamedAndKeepsNothing) {
  struct {
    int *result;
    const char *call;
  } failures[] = {{&fake.allocate, "cuMemAlloc"},
                  {&fake.create, "cuStreamCreate"},
                  {&fake.set, "cuMemsetD8Async"},
                  {&fake.synchronize, "cuStreamSynchronize"}};
  for (auto [result, call] : failures) {
    *result = cuda::errorOutOfMemory;
    Status status = counters.create();
    *result = 0;
    ASSERT_FALSE(status.ok()) << call;
    EXPECT_EQ(status.code(), Code::outOfMemory);
    EXPECT_NE(status.error().message().find(call), std::string::npos) << status.error().message();
    EXPECT_TRUE(fake.allocations.empty()) << call;
    EXPECT_TRUE(fake.streams.empty()) << call;
  }
  ASSERT_TRUE(counters.create().ok());
  for (uint64_t number = 0; number < 1024; ++number)
    of(number);
  fake.allocate = cuda::errorOutOfMemory;
  EXPECT_EQ(counters.of({.stream = 2000}).code(), Code::outOfMemory);
  of(5); // streams that have a counter are not affected
  fake.allocate = 0;
  of(2000);
}

} // namespace
