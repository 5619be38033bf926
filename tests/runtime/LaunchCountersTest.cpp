//===- LaunchCountersTest.cpp - Which launches share a counter ------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "backend/LaunchCounters.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <set>

using namespace tesela;

namespace {

/// A driver of plain memory.
struct FakeDriver {
  cuda::DriverApi api;
  std::map<cuda::DevicePointer, std::unique_ptr<char[]>> allocations;
  std::set<CUstream_st *> streams;
  /// Results to give instead of success.
  int allocate = 0, create = 0, set = 0, synchronize = 0;
} *driver;

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
    Result<LaunchCounter> counter = counters.of({stream, capture});
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
  uint64_t first = of(1, 7), second = of(1, 7);
  EXPECT_EQ(std::set({outside, first, second}).size(), 3u);
  EXPECT_EQ(of(1), outside);
}

// Also once more are allocated: each two zero u32 that no other overlaps.
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

// A program that makes and destroys streams needs no more and no more memory.
TEST_F(LaunchCountersTest, StreamsThatAreNotUsedGiveTheirsBack) {
  ASSERT_TRUE(counters.create().ok());
  uint64_t often = of(1);
  LaunchCounter held = counterOf(2);
  for (uint64_t number = 3; number < 20000; ++number) {
    of(number);
    EXPECT_EQ(of(1), often);
    EXPECT_LE(fake.allocations.size(), 4u); // for graphs, of 1 and 2, the last but one, the last
  }
  EXPECT_NE(of(2), held.address);
  counters.release();
  EXPECT_EQ(fake.allocations.size(), 1u); // of what a launch still holds
  held = {};
  EXPECT_TRUE(fake.allocations.empty());
}

// A capture must not allocate; what its error advises helps, on a stream that is known too.
TEST_F(LaunchCountersTest, ACaptureTakesWhatIsPrepared) {
  ASSERT_TRUE(counters.create().ok());
  uint64_t outside = of(1);
  size_t allocations = fake.allocations.size();
  Result<LaunchCounter> counter = counters.of({1, 7});
  for (int launch = 0; launch < 10000 && counter.ok(); ++launch)
    counter = counters.of({1, 7});
  ASSERT_FALSE(counter.ok());
  EXPECT_EQ(counter.code(), Code::outOfMemory);
  EXPECT_NE(counter.error().message().find("launch once outside of the capture"),
            std::string::npos);
  EXPECT_EQ(fake.allocations.size(), allocations);

  EXPECT_EQ(of(1), outside);
  uint64_t captured = of(1, 8);
  EXPECT_EQ(fake.allocations.size(), allocations + 1);
  EXPECT_EQ(*reinterpret_cast<uint64_t *>(captured), 0u);
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
  EXPECT_EQ(counters.of({2000, 0}).code(), Code::outOfMemory);
  of(5); // those that have one are not concerned
  fake.allocate = 0;
  of(2000);
}

} // namespace
