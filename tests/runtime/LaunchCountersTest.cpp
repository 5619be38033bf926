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

/// A driver of plain memory, whose streams are capturing where it is told so.
struct FakeDriver {
  cuda::DriverApi api;
  std::map<cuda::DevicePointer, std::unique_ptr<char[]>> allocations;
  std::set<CUstream_st *> capturing;
  /// Results to give instead of success.
  int allocate = 0, set = 0, synchronize = 0, isCapturing = 0, identify = 0;
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
    api.cuMemsetD8_v2 = [](cuda::DevicePointer address, unsigned char value, size_t bytes) {
      if (!driver->set)
        std::memset(reinterpret_cast<void *>(address), value, bytes);
      return driver->set;
    };
    api.cuStreamSynchronize = [](CUstream_st *) { return driver->synchronize; };
    api.cuStreamIsCapturing = [](CUstream_st *stream, int *status) {
      *status = driver->capturing.count(stream) > 0;
      return driver->isCapturing;
    };
    api.cuStreamGetId = [](CUstream_st *stream, unsigned long long *id) {
      *id = reinterpret_cast<uintptr_t>(stream) / 2; // two handles may name one stream
      return driver->identify;
    };
  }

  static CUstream_st *stream(uintptr_t number) {
    return reinterpret_cast<CUstream_st *>(2 * number);
  }
  /// The same stream under another handle.
  static CUstream_st *alias(uintptr_t number) {
    return reinterpret_cast<CUstream_st *>(2 * number + 1);
  }

  uint64_t of(CUstream_st *stream) {
    Result<uint64_t> counter = counters.of(stream);
    EXPECT_TRUE(counter.ok()) << counter.error().message();
    return counter.ok() ? *counter : 0;
  }

  FakeDriver fake;
  LaunchCounters counters{fake.api};
};

TEST_F(LaunchCountersTest, AStreamKeepsItsOwn) {
  ASSERT_TRUE(counters.create().ok());
  uint64_t first = of(stream(1)), second = of(stream(2)), standard = of(nullptr);
  EXPECT_EQ(std::set({first, second, standard}).size(), 3u);
  EXPECT_EQ(of(stream(1)), first);
  EXPECT_EQ(of(alias(1)), first);
  EXPECT_EQ(of(stream(2)), second);
  EXPECT_EQ(of(nullptr), standard);
}

TEST_F(LaunchCountersTest, ACapturedLaunchSharesNone) {
  ASSERT_TRUE(counters.create().ok());
  uint64_t outside = of(stream(1));
  fake.capturing = {stream(1)};
  uint64_t first = of(stream(1)), second = of(stream(1));
  EXPECT_EQ(std::set({outside, first, second}).size(), 3u);
  fake.capturing = {};
  EXPECT_EQ(of(stream(1)), outside);
}

// Also once more are allocated: each two zero u32 that no other overlaps.
TEST_F(LaunchCountersTest, AllAreZeroAndApart) {
  ASSERT_TRUE(counters.create().ok());
  std::set<uint64_t> all;
  for (uintptr_t number = 0; number < 3000; ++number) {
    uint64_t counter = of(stream(number));
    EXPECT_EQ(*reinterpret_cast<uint64_t *>(counter), 0u);
    EXPECT_TRUE(all.insert(counter).second) << number;
  }
  uint64_t last = 0;
  for (uint64_t counter : all) {
    EXPECT_GE(counter - last, sizeof(uint64_t));
    last = counter;
  }
  EXPECT_GT(fake.allocations.size(), 1u);
  counters.release();
  EXPECT_TRUE(fake.allocations.empty());
}

// A capture must not allocate; what its error advises helps, on a stream that is known too.
TEST_F(LaunchCountersTest, ACaptureTakesWhatIsPrepared) {
  ASSERT_TRUE(counters.create().ok());
  uint64_t outside = of(stream(1));
  fake.capturing = {stream(1)};
  Result<uint64_t> counter = counters.of(stream(1));
  for (int launch = 0; launch < 10000 && counter.ok(); ++launch)
    counter = counters.of(stream(1));
  ASSERT_FALSE(counter.ok());
  EXPECT_EQ(counter.code(), Code::outOfMemory);
  EXPECT_NE(counter.error().message().find("launch once outside of the capture"),
            std::string::npos);
  EXPECT_EQ(fake.allocations.size(), 1u);

  fake.capturing = {};
  EXPECT_EQ(of(stream(1)), outside);
  fake.capturing = {stream(1)};
  of(stream(1));
}

TEST_F(LaunchCountersTest, ADriversErrorIsNamedAndKeepsNothing) {
  struct {
    int *result;
    const char *call;
  } failures[] = {{&fake.allocate, "cuMemAlloc"},
                  {&fake.set, "cuMemsetD8"},
                  {&fake.synchronize, "cuStreamSynchronize"}};
  for (auto [result, call] : failures) {
    *result = cuda::errorOutOfMemory;
    Status status = counters.create();
    *result = 0;
    ASSERT_FALSE(status.ok()) << call;
    EXPECT_EQ(status.code(), Code::outOfMemory);
    EXPECT_NE(status.error().message().find(call), std::string::npos) << status.error().message();
    EXPECT_TRUE(fake.allocations.empty()) << call;
  }
  ASSERT_TRUE(counters.create().ok());
  for (int *result : {&fake.isCapturing, &fake.identify}) {
    *result = cuda::errorInvalidHandle;
    EXPECT_FALSE(counters.of(stream(1)).ok());
    *result = 0;
  }
  EXPECT_TRUE(counters.of(stream(1)).ok());
}

} // namespace
