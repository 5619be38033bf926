//===- CApiCudaTest.cpp - The C API on GPUs -------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "CudaProblem.h"
#include "DLPack.h"

#include "tesela/tesela.h"

#include <cstring>

namespace tesela {

namespace {

/// A launch of the fake kernel with tensors, on one of the stub's GPUs.
class CApiCuda : public CudaTest {
protected:
  static constexpr int64_t B = 1, H = 4, Hkv = 2, Sq = 64, Sk = 96, D = 64;
  tesela_context *context = nullptr;
  tesela_kernel *kernel = nullptr;
  tesela_buffer *memory = nullptr;
  size_t used = 0;
  tesela_tensor q = {}, k = {}, v = {}, o = {}, lse = {}, slope = {};
  tesela_parameter parameter = {};
  tesela_tensor_arguments arguments = {};

  void SetUp() override {
    CudaTest::SetUp();
    fake::setCudaFormat(CodeFormat::cubin); // otherwise the machine's ptxas would assemble it
    tesela_context_options contextOptions = {};
    contextOptions.size = sizeof contextOptions;
    contextOptions.device = "cuda:1";
    contextOptions.no_disk_cache = 1;
    ASSERT_EQ(tesela_context_create(&contextOptions, &context), TESELA_OK) << tesela_last_error();
    tesela_kernel_options options = {};
    options.size = sizeof options;
    options.variant = fake::variantText;
    options.input_type = TESELA_BF16;
    options.head_dim_qk = options.head_dim_v = int(D);
    ASSERT_EQ(tesela_compile(context, &options, &kernel), TESELA_OK) << tesela_last_error();
    ASSERT_EQ(tesela_buffer_create(context, size_t(1) << 20, &memory), TESELA_OK);
    q = tensor(TESELA_BF16, {B, H, Sq, D});
    k = tensor(TESELA_BF16, {B, Hkv, Sk, D});
    v = tensor(TESELA_BF16, {B, Hkv, Sk, D});
    o = tensor(TESELA_BF16, {B, H, Sq, D});
    lse = tensor(TESELA_F32, {B, H, Sq});
    slope = tensor(TESELA_F32, {H});
    parameter.name = "slope";
    parameter.tensor = &slope;
    arguments.size = sizeof arguments;
    arguments.q = &q;
    arguments.k = &k;
    arguments.v = &v;
    arguments.o = &o;
    arguments.lse = &lse;
    arguments.parameters = &parameter;
    arguments.parameter_count = 1;
  }
  void TearDown() override {
    tesela_buffer_destroy(memory);
    tesela_kernel_destroy(kernel);
    tesela_context_destroy(context);
    CudaTest::TearDown();
  }

  /// A tensor exported by another library, on GPU 1, as a view with the same extents.
  tesela_tensor tensor(tesela_type type, std::initializer_list<int64_t> extents) {
    std::vector<int64_t> shape = extents;
    DLTensor exported = {};
    exported.data = tesela_buffer_data(memory);
    exported.byte_offset = used;
    exported.device = {kDLCUDA, 1};
    exported.ndim = int32_t(shape.size());
    if (type == TESELA_F32)
      exported.dtype = {kDLFloat, 32, 1};
    else
      exported.dtype = {kDLBfloat, 16, 1};
    exported.shape = shape.data();
    tesela_tensor view = {};
    view.size = sizeof view;
    EXPECT_EQ(tesela_tensor_from_dl_tensor(&exported, &view), TESELA_OK) << tesela_last_error();
    size_t bytes = type == TESELA_F32 ? 4 : 2;
    for (int64_t extent : extents)
      bytes *= size_t(extent);
    used += (bytes + 255) / 256 * 256;
    return view;
  }

  void expectRefused(const char *part) {
    EXPECT_EQ(tesela_launch_tensors(kernel, &arguments, nullptr), TESELA_INVALID_ARGUMENT);
    EXPECT_NE(std::strstr(tesela_last_error(), part), nullptr) << tesela_last_error();
  }
};

TEST_F(CApiCuda, Devices) {
  tesela_devices *devices = nullptr;
  ASSERT_EQ(tesela_devices_create(TESELA_DEVICE_CUDA, &devices), TESELA_OK);
  ASSERT_EQ(tesela_devices_count(devices), 2u);
  tesela_device_info info = {};
  info.size = sizeof info;
  EXPECT_EQ(tesela_devices_describe(devices, 1, &info), TESELA_OK);
  EXPECT_EQ(info.kind, TESELA_DEVICE_CUDA);
  EXPECT_EQ(info.index, 1);
  EXPECT_EQ(info.sm, 90);
  EXPECT_STREQ(info.target, "sm_90");
  tesela_devices_destroy(devices);
  EXPECT_EQ(tesela_context_describe_device(context, &info), TESELA_OK);
  EXPECT_EQ(info.index, 1);
}

TEST_F(CApiCuda, LaunchesTensorsOfItsDevice) {
  TestStream stream(1);
  EXPECT_EQ(tesela_check_tensors(kernel, &arguments), TESELA_OK) << tesela_last_error();
  EXPECT_EQ(tesela_launch_tensors(kernel, &arguments, stream.get()), TESELA_OK)
      << tesela_last_error();
  EXPECT_EQ(tesela_synchronize(context, stream.get()), TESELA_OK);
  // Managed memory, and memory of unknown location, are accepted.
  q.memory = TESELA_MEMORY_MANAGED;
  k.memory = TESELA_MEMORY_UNKNOWN;
  EXPECT_EQ(tesela_check_tensors(kernel, &arguments), TESELA_OK) << tesela_last_error();
}

TEST_F(CApiCuda, RefusesTensorsOfAnotherDevice) {
  q.device_index = 0;
  expectRefused("q is in the memory of cuda:0, but it is used on cuda:1: copy it there");
  q.device_index = 1;
  o.memory = TESELA_MEMORY_HOST;
  expectRefused("o is in the host's memory, but it is used on cuda:1");
  o.memory = TESELA_MEMORY_CUDA;
  slope.memory = TESELA_MEMORY_PINNED;
  expectRefused("the captured tensor 'slope' is in the host's pinned memory");
}

TEST_F(CApiCuda, WorkspaceOfTheCaller) {
  size_t bytes = 0;
  ASSERT_EQ(tesela_kernel_workspace_bytes_of_tensors(kernel, &arguments, &bytes), TESELA_OK);
  ASSERT_GT(bytes, 0u) << "the fake plan has a summary";
  arguments.workspace = static_cast<char *>(tesela_buffer_data(memory)) + used;
  arguments.workspace_bytes = bytes - 1;
  expectRefused("the workspace has");
  arguments.workspace_bytes = bytes;
  EXPECT_EQ(tesela_launch_tensors(kernel, &arguments, nullptr), TESELA_OK) << tesela_last_error();
  arguments.workspace = static_cast<char *>(arguments.workspace) + 16;
  expectRefused("the workspace's address is 16 bytes past a multiple of 256");
}

TEST_F(CApiCuda, TellsOfACapture) {
  TestStream stream(1);
  int isCaptured = -1;
  EXPECT_EQ(tesela_kernel_is_captured(kernel, stream.get(), &isCaptured), TESELA_OK);
  EXPECT_EQ(isCaptured, 0);
  stub::beginCapture(stream.get());
  EXPECT_EQ(tesela_kernel_is_captured(kernel, stream.get(), &isCaptured), TESELA_OK);
  EXPECT_EQ(isCaptured, 1);
  EXPECT_TRUE(stub::endCapture(stream.get())) << "and leaves it as it is";
  EXPECT_EQ(tesela_kernel_is_captured(kernel, nullptr, &isCaptured), TESELA_OK);
  EXPECT_EQ(isCaptured, 0);
  EXPECT_EQ(tesela_kernel_is_captured(kernel, nullptr, nullptr), TESELA_INVALID_ARGUMENT);
  EXPECT_EQ(tesela_kernel_is_captured(nullptr, nullptr, &isCaptured), TESELA_INVALID_ARGUMENT);
}

TEST_F(CApiCuda, BeginsWithASimpleSchedule) {
  int isBest = 0;
  EXPECT_EQ(tesela_kernel_is_best(kernel, 0, &isBest), TESELA_OK);
  EXPECT_EQ(isBest, 1) << "it has one tier";
  EXPECT_EQ(tesela_kernel_is_best(kernel, 0, nullptr), TESELA_INVALID_ARGUMENT);
  fake::setSimpleSchedule("named simple");
  fake::setHeuristic(fake::Heuristic::waits);
  tesela_kernel_options options = {};
  options.size = sizeof options;
  options.variant = fake::variantText;
  options.input_type = TESELA_BF16;
  options.head_dim_qk = options.head_dim_v = 128;
  options.tiers = 1;
  tesela_kernel *tiered = nullptr;
  ASSERT_EQ(tesela_compile(context, &options, &tiered), TESELA_OK) << tesela_last_error();
  auto info = tesela_kernel_info();
  info.size = sizeof info;
  EXPECT_EQ(tesela_kernel_describe(tiered, &info), TESELA_OK);
  EXPECT_EQ(info.schedule_origin, TESELA_SCHEDULE_SIMPLE);
  EXPECT_EQ(tesela_kernel_is_best(tiered, 1, &isBest), TESELA_OK);
  EXPECT_EQ(isBest, 0);
  fake::setHeuristic(fake::Heuristic::fails);
  EXPECT_EQ(tesela_kernel_is_best(tiered, 60'000, &isBest), TESELA_UNSUPPORTED);
  EXPECT_NE(std::strstr(tesela_last_error(), "continue with the simple one"), nullptr);
  tesela_kernel_destroy(tiered);
  fake::setHeuristic(fake::Heuristic::compiles);
  fake::setSimpleSchedule("");
}

TEST_F(CApiCuda, BuffersAndTimes) {
  char there[] = "there", back[sizeof there] = "";
  EXPECT_EQ(tesela_buffer_write(memory, there, sizeof there), TESELA_OK);
  EXPECT_EQ(tesela_buffer_read(memory, back, sizeof back), TESELA_OK);
  EXPECT_STREQ(back, there);
  struct Work {
    const tesela_kernel *kernel;
    const tesela_tensor_arguments *arguments;
  } work = {kernel, &arguments};
  double milliseconds[2] = {-1, -1};
  EXPECT_EQ(tesela_measure(
                context,
                [](void *user) {
                  const Work &work = *static_cast<Work *>(user);
                  return tesela_launch_tensors(work.kernel, work.arguments, nullptr);
                },
                &work, 1, 2, nullptr, milliseconds),
            TESELA_OK)
      << tesela_last_error();
  EXPECT_GE(milliseconds[0], 0);
  EXPECT_GE(milliseconds[1], 0);
}

/// A failure of the driver has a code and a chain of causes.
TEST_F(CApiCuda, FailuresOfTheDriver) {
  stub::failCall("cuMemAlloc_v2", 1, 2); // CUDA_ERROR_OUT_OF_MEMORY
  tesela_buffer *buffer = nullptr;
  EXPECT_EQ(tesela_buffer_create(context, 4096, &buffer), TESELA_OUT_OF_MEMORY);
  EXPECT_EQ(buffer, nullptr);
  EXPECT_EQ(tesela_last_error_code(), TESELA_OUT_OF_MEMORY);
  EXPECT_NE(std::strstr(tesela_last_error(), "cuMemAlloc"), nullptr) << tesela_last_error();
}

} // namespace

} // namespace tesela
