//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// What a GPU reads through the tensor maps of a launch: a kernel of a few lines of PTX copies every
// box of k to o. It takes the runtime's own way from an artifact to a launch.
//
//===----------------------------------------------------------------------===//
#include "../AttentionTensors.h"

#include "backend/Backend.h"
#include "launch/LaunchPlan.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace tesela;

namespace {

constexpr int64_t headDim = 128, boxRows = 64, boxColumns = 64;

/// A thread block copies the 64 rows of k of its work item, as two boxes of 64 columns, to shared
/// memory, and from there unchanged to o. The order of items: row block, head, batch.
constexpr const char *copyBoxes = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry copy_boxes(.param .align 64 .b8 map[128], .param .u64 o, .param .u32 rows,
                           .param .u32 heads, .param .u32 keys, .param .u32 batchStep,
                           .param .u32 headStep) {
  .reg .pred %p<4>;
  .reg .b32 %r<24>;
  .reg .b64 %rd<6>;
  .shared .align 1024 .b8 boxes[16384];
  .shared .align 8 .b64 barrier;
  ld.param.u32 %r1, [keys];
  setp.eq.u32 %p1, %r1, 0;
  @%p1 ret;
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  ld.param.u32 %r3, [rows];
  shr.u32 %r3, %r3, 6;
  rem.u32 %r4, %r2, %r3;
  shl.b32 %r4, %r4, 6;
  div.u32 %r5, %r2, %r3;
  ld.param.u32 %r6, [heads];
  rem.u32 %r7, %r5, %r6;
  div.u32 %r8, %r5, %r6;
  ld.param.u32 %r9, [headStep];
  mul.lo.u32 %r7, %r7, %r9;
  ld.param.u32 %r9, [batchStep];
  mul.lo.u32 %r8, %r8, %r9;
  mov.u32 %r10, boxes;
  mov.u32 %r11, barrier;
  setp.ne.u32 %p2, %r1, 0;
  @%p2 bra started;
  mbarrier.init.shared.b64 [%r11], 1;
  fence.proxy.async;
  mov.b64 %rd1, map;
  cvta.param.u64 %rd1, %rd1;
  mbarrier.arrive.expect_tx.shared.b64 _, [%r11], 16384;
  mov.u32 %r12, 0;
  cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
    [%r10], [%rd1, {%r12, %r4, %r7, %r8}], [%r11];
  mov.u32 %r12, 64;
  add.u32 %r13, %r10, 8192;
  cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
    [%r13], [%rd1, {%r12, %r4, %r7, %r8}], [%r11];
started:
  bar.sync 0;
arriving:
  mbarrier.try_wait.parity.shared.b64 %p3, [%r11], 0;
  @!%p3 bra arriving;
  // 128 threads, 128 bytes each.
  shl.b32 %r14, %r1, 7;
  add.u32 %r10, %r10, %r14;
  ld.param.u64 %rd2, [o];
  mul.wide.u32 %rd3, %r2, 16384;
  add.u64 %rd2, %rd2, %rd3;
  cvt.u64.u32 %rd4, %r14;
  add.u64 %rd2, %rd2, %rd4;
  mov.u32 %r15, 0;
copying:
  ld.shared.v4.u32 {%r16, %r17, %r18, %r19}, [%r10];
  st.global.v4.u32 [%rd2], {%r16, %r17, %r18, %r19};
  add.u32 %r10, %r10, 16;
  add.u64 %rd2, %rd2, 16;
  add.u32 %r15, %r15, 1;
  setp.lt.u32 %p1, %r15, 8;
  @%p1 bra copying;
  ret;
}
)";

Artifact copyArtifact(ElementType type) {
  using Kind = ArgumentSlot::Kind;
  Artifact artifact;
  artifact.variantName = "copy_boxes";
  artifact.target = {Target::Kind::cuda, 90};
  artifact.inputType = type;
  artifact.headDimQk = artifact.headDimV = headDim;
  artifact.tensors = test::attentionTensors(type, headDim, headDim);
  artifact.format = CodeFormat::ptx;
  artifact.code = copyBoxes;
  Launch launch;
  launch.kernel = "copy_boxes";
  launch.items = *Expression::parse("(* (ceildiv Sq 64) (* B H))");
  launch.threads = 128;
  launch.slots = {{Kind::tensorMap, "k", int(boxRows)},
                  {Kind::data, "o", 0},
                  {Kind::extent, "", 3},
                  {Kind::extent, "", 1},
                  {Kind::extent, "", 4},
                  {Kind::coordinateStep, "k", 0},
                  {Kind::coordinateStep, "k", 1}};
  artifact.launches = {launch};
  return artifact;
}

class TensorMapTest : public testing::Test {
protected:
  std::shared_ptr<Backend> backend;
  std::optional<LaunchPlan> plan;
  std::shared_ptr<const LoadedCode> code;
  std::vector<void *> allocations;

  void SetUp() override {
    Result<std::vector<Device>> devices = cudaDevices();
    if (!devices)
      GTEST_SKIP() << devices.error().message();
    if (devices->front().sm < 90)
      GTEST_SKIP() << devices->front().name << " has no tensor copies: they need sm_90";
    Result<std::shared_ptr<Backend>> created = createCudaBackend(devices->front());
    ASSERT_TRUE(created.ok()) << created.error().message();
    backend = *created;
  }
  void TearDown() override {
    for (void *address : allocations)
      backend->release(address);
  }

  void load(ElementType type) {
    Result<Artifact> artifact = backend->assemble(copyArtifact(type), {});
    ASSERT_TRUE(artifact.ok()) << artifact.error().message();
    Result<std::shared_ptr<const LoadedCode>> loaded = backend->load(*artifact);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message();
    code = *loaded;
    Result<LaunchPlan> created = LaunchPlan::create(*artifact);
    ASSERT_TRUE(created.ok()) << created.error().message();
    plan = std::move(*created);
  }

  Tensor onDevice(const Tensor &view) {
    Result<void *> address = backend->allocate(view.spanBytes());
    EXPECT_TRUE(address.ok());
    allocations.push_back(*address);
    EXPECT_TRUE(backend->fill(*address, 0xff, view.spanBytes(), nullptr).ok());
    return view.at(*address);
  }

  /// q and o have as many rows as k's boxes, so that o can hold every box.
  CheckedArguments arguments(ElementType type, const Tensor &k) {
    int64_t rows = std::max<int64_t>((k.extents[2] + boxRows - 1) / boxRows, 1) * boxRows;
    LaunchArguments given;
    given.k = given.v = k;
    given.q = given.o =
        onDevice(Tensor::bhsd(nullptr, type, k.extents[0], k.extents[1], rows, headDim));
    given.lse =
        onDevice(Tensor::contiguous(nullptr, ElementType::f32, {k.extents[0], k.extents[1], rows}));
    Result<CheckedArguments> checked = checkArguments(
        Signature::ofAttention(type, int(headDim), int(headDim), {}), given, {16, true});
    EXPECT_TRUE(checked.ok()) << (checked ? "" : checked.error().message());
    return *checked;
  }

  /// Copies `view`, filled with random bits, box by box, and compares every element.
  void expectCopies(Tensor view) {
    load(view.type);
    if (HasFatalFailure())
      return;
    std::vector<uint16_t> bits(view.spanBytes() / 2);
    uint32_t state = 1;
    for (uint16_t &element : bits)
      element = uint16_t((state = state * 1664525u + 1013904223u) >> 16);
    Tensor k = onDevice(view);
    ASSERT_TRUE(backend->copyToDevice(k.data, bits.data(), view.spanBytes(), nullptr).ok());
    CheckedArguments checked = arguments(view.type, k);
    Status launched = plan->launch(*code, checked, nullptr);
    ASSERT_TRUE(launched.ok()) << launched.error().message();
    Status done = backend->synchronize(nullptr);
    ASSERT_TRUE(done.ok()) << done.error().message();
    std::vector<uint16_t> boxes(checked.tensors[3].elementCount());
    ASSERT_TRUE(
        backend->copyToHost(boxes.data(), checked.tensors[3].data, boxes.size() * 2, nullptr).ok());

    int64_t rows = checked.extents.Sq;
    for (int64_t b = 0; b < view.extents[0]; ++b)
      for (int64_t h = 0; h < view.extents[1]; ++h)
        for (int64_t s = 0; s < rows; ++s)
          for (int64_t d = 0; d < headDim; ++d) {
            uint16_t expected = 0; // for rows outside of the tensor
            if (s < view.extents[2])
              expected = bits[b * view.strides[0] + h * view.strides[1] + s * view.strides[2] + d];
            int64_t item = (b * view.extents[1] + h) * (rows / boxRows) + s / boxRows;
            int64_t row = s % boxRows, column = d % boxColumns;
            int64_t chunk = (column / 8) ^ (row % 8); // the 128-byte swizzle, in chunks of 16 bytes
            int64_t box = item * 2 + d / boxColumns;
            uint16_t copied = boxes[(box * boxRows + row) * boxColumns + chunk * 8 + column % 8];
            ASSERT_EQ(copied, expected)
                << "batch " << b << " head " << h << " position " << s << " column " << d;
          }
  }
};

TEST_F(TensorMapTest, ByHeadsFirst) {
  expectCopies(Tensor::bhsd(nullptr, ElementType::bf16, 2, 3, 100, headDim));
}

TEST_F(TensorMapTest, ByPositionsFirst) {
  expectCopies(Tensor::bshd(nullptr, ElementType::f16, 2, 3, 100, headDim));
}

TEST_F(TensorMapTest, ExpandedHeadsAndBatches) {
  for (int axis : {0, 1}) {
    Tensor view = Tensor::bhsd(nullptr, ElementType::bf16, 2, 3, 130, headDim);
    view.strides[axis] = 0;
    expectCopies(view);
  }
}

TEST_F(TensorMapTest, ExtentsOf1) {
  expectCopies(Tensor::bshd(nullptr, ElementType::bf16, 1, 1, 1, headDim));
  expectCopies(Tensor::bhsd(nullptr, ElementType::f16, 1, 4, 1, headDim));
}

TEST_F(TensorMapTest, NoKeysStillLaunch) {
  load(ElementType::bf16);
  ASSERT_FALSE(HasFatalFailure());
  Tensor k = Tensor::bhsd(nullptr, ElementType::bf16, 2, 3, 0, headDim);
  Status launched = plan->launch(*code, arguments(ElementType::bf16, k), nullptr);
  ASSERT_TRUE(launched.ok()) << launched.error().message();
  EXPECT_TRUE(backend->synchronize(nullptr).ok());
}

} // namespace
