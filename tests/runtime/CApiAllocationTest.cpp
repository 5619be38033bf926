//===- CApiAllocationTest.cpp - A launch from C allocates no memory -------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "FakeCompiler.h"
#include "api/CApiArguments.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <new>
#include <thread>

namespace {

thread_local int64_t allocations = 0;

} // namespace

void *operator new(size_t bytes) {
  ++allocations;
  if (void *memory = std::malloc(bytes ? bytes : 1))
    return memory;
  throw std::bad_alloc();
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }

namespace {

using namespace tesela;

int64_t allocationsOf(const std::function<void()> &work) {
  int64_t before = allocations;
  work();
  return allocations - before;
}

constexpr int headDim = 8;

/// A launch of the fake compiler's kernel: one query, one key.
class CApiAllocation : public testing::Test {
protected:
  tesela_context *context = nullptr;
  tesela_kernel *kernel = nullptr;
  float numbers[headDim] = {}, result[headDim] = {}, lse[1] = {}, slopes[1] = {};
  int64_t slopeExtents[1] = {1};
  tesela_tensor view = {}, lseView = {}, slopeView = {};
  tesela_parameter parameters[2] = {};
  tesela_launch_arguments arguments = {};
  tesela_tensor_arguments tensors = {};

  void SetUp() override {
    tesela_context_options contextOptions = {};
    contextOptions.size = sizeof contextOptions;
    contextOptions.device = "host";
    contextOptions.no_disk_cache = 1;
    contextOptions.threads = 1;
    ASSERT_EQ(tesela_context_create(&contextOptions, &context), TESELA_OK);
    tesela_kernel_options options = {};
    options.size = sizeof options;
    options.variant = fake::variantText;
    options.input_type = TESELA_F32;
    options.head_dim_qk = options.head_dim_v = headDim;
    ASSERT_EQ(tesela_compile(context, &options, &kernel), TESELA_OK) << tesela_last_error();

    parameters[0].name = "slope";
    parameters[0].data = slopes;
    parameters[0].rank = 1;
    parameters[0].extents = slopeExtents;
    parameters[1].name = "window";
    parameters[1].scalar = 5;
    arguments.size = sizeof arguments;
    arguments.batch = arguments.heads = arguments.kv_heads = 1;
    arguments.length = arguments.kv_length = 1;
    arguments.q.data = arguments.k.data = arguments.v.data = numbers;
    arguments.o.data = result;
    arguments.lse = lse;
    arguments.parameters = parameters;
    arguments.parameter_count = 2;

    int64_t extents[] = {1, 1, 1, headDim};
    view.size = lseView.size = slopeView.size = sizeof view;
    ASSERT_EQ(tesela_tensor_contiguous(numbers, TESELA_F32, 4, extents, &view), TESELA_OK);
    ASSERT_EQ(tesela_tensor_contiguous(lse, TESELA_F32, 3, extents, &lseView), TESELA_OK);
    ASSERT_EQ(tesela_tensor_contiguous(slopes, TESELA_F32, 1, slopeExtents, &slopeView), TESELA_OK);
    tensors.size = sizeof tensors;
    tensors.q = tensors.k = tensors.v = tensors.o = &view;
    tensors.lse = &lseView;
    tensors.parameters = parameters;
    tensors.parameter_count = 2;
  }
  void TearDown() override {
    tesela_kernel_destroy(kernel);
    tesela_context_destroy(context);
  }
};

TEST_F(CApiAllocation, LaunchesAllocateNothing) {
  auto byViews = [&] { EXPECT_EQ(tesela_launch(kernel, &arguments, nullptr), TESELA_OK); };
  auto byTensors = [&] { EXPECT_EQ(tesela_launch_tensors(kernel, &tensors, nullptr), TESELA_OK); };
  auto checks = [&] { EXPECT_EQ(tesela_check_arguments(kernel, &arguments), TESELA_OK); };
  for (int i = 0; i < 3; ++i) { // warm
    byViews();
    byTensors();
  }
  EXPECT_EQ(allocationsOf(byViews), 0);
  EXPECT_EQ(allocationsOf(checks), 0);
  parameters[0].tensor = &slopeView;
  EXPECT_EQ(allocationsOf(byTensors), 0);
  EXPECT_EQ(allocationsOf(byViews), 0);
  std::thread other([&] {
    byViews();
    byViews();
    EXPECT_EQ(allocationsOf(byViews), 0) << "each thread has its own";
  });
  other.join();
}

/// Names that do not fit into std::string itself, and launches with more and fewer parameters in
/// turn.
TEST_F(CApiAllocation, LongNamesAreKept) {
  std::string names[4] = {std::string(40, 'a'), std::string(100, 'b'), std::string(70, 'c'),
                          std::string(30, 'd')};
  tesela_parameter many[4] = {};
  for (int i = 0; i < 4; ++i) {
    many[i].name = names[i].c_str();
    many[i].scalar = i;
    if (i % 2)
      many[i].tensor = &slopeView;
  }
  auto convert = [&](size_t count) {
    c::ReusedArguments given;
    arguments.parameters = many;
    arguments.parameter_count = count;
    arguments.workspace = numbers;
    arguments.workspace_bytes = count;
    ASSERT_TRUE(given.read(&arguments, {}, Device()).ok());
    ASSERT_EQ(given.arguments.scalars.size(), (count + 1) / 2);
    ASSERT_EQ(given.arguments.captures.size(), count / 2);
    for (size_t i = 0; i < count; ++i) {
      if (i % 2)
        EXPECT_EQ(given.arguments.captures[i / 2].name, names[i]);
      else
        EXPECT_EQ(given.arguments.scalars[i / 2].value, double(i));
    }
    EXPECT_EQ(given.arguments.workspace.address, numbers);
    EXPECT_EQ(given.arguments.workspace.bytes, count);
  };
  for (int i = 0; i < 8; ++i)
    for (size_t count : {4, 1, 3, 2})
      convert(count);
  for (size_t count : {4, 1, 3, 2})
    EXPECT_EQ(allocationsOf([&] { convert(count); }), 0) << count;
}

/// A callback in a launch may launch.
TEST_F(CApiAllocation, OneLaunchInsideAnother) {
  c::ReusedArguments outer;
  ASSERT_TRUE(outer.read(&arguments, {}, Device()).ok());
  EXPECT_EQ(tesela_launch(kernel, &arguments, nullptr), TESELA_OK);
  ASSERT_EQ(outer.arguments.captures.size(), 1u);
  EXPECT_EQ(outer.arguments.captures[0].name, "slope");
  EXPECT_EQ(outer.arguments.captures[0].tensor.data, slopes);
}

} // namespace
