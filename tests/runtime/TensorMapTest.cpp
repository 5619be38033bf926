//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// From a launch's arguments to the driver's encoding call and the kernel's parameters. tests/gpu
// checks that a GPU reads the right elements through the maps.
//
//===----------------------------------------------------------------------===//
#include "../AttentionTensors.h"

#include "driver/EncodeTensorMap.h"
#include "driver/KnownTensorMaps.h"
#include "launch/LaunchPlan.h"
#include "launch/TensorTiling.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <vector>

using namespace tesela;

namespace {

using Kind = ArgumentSlot::Kind;
using Extents4 = std::array<uint64_t, 4>;
using Strides3 = std::array<uint64_t, 3>;

alignas(16) char memory[64];

LaunchArguments tensors(bool bshd, int64_t batch, int64_t heads, int64_t kvHeads, int64_t queries,
                        int64_t keys) {
  auto view = bshd ? Tensor::bshd : Tensor::bhsd;
  LaunchArguments arguments;
  arguments.q = view(memory, ElementType::bf16, batch, heads, queries, 64);
  arguments.k = view(memory + 16, ElementType::bf16, batch, kvHeads, keys, 64);
  arguments.v = view(memory + 32, ElementType::bf16, batch, kvHeads, keys, 128);
  arguments.o = view(memory + 48, ElementType::bf16, batch, heads, queries, 128);
  arguments.lse = Tensor::contiguous(memory, ElementType::f32, {batch, heads, queries});
  return arguments;
}

CheckedArguments checked(const LaunchArguments &arguments) {
  Result<CheckedArguments> result =
      checkArguments(Signature::ofAttention(ElementType::bf16, 64, 128, {}), arguments, {16, true});
  EXPECT_TRUE(result.ok()) << (result ? "" : result.error().message());
  return *result;
}

enum Index { q, k, v, o };
constexpr uint64_t zeros = 4096; // where rows of zeros would be

TEST(TensorTiling, BothLayouts) {
  Result<TensorTiling> tiling =
      tensorTiling(checked(tensors(false, 2, 6, 3, 5, 7)), v, "v", 64, 1, zeros);
  ASSERT_TRUE(tiling.ok());
  EXPECT_EQ(tiling->address, memory + 32);
  EXPECT_EQ(tiling->extents, (Extents4{128, 7, 3, 2}));
  EXPECT_EQ(tiling->strideBytes, (Strides3{256, 7 * 256, 3 * 7 * 256}));
  EXPECT_EQ(tiling->boxRows, 64u);
  tiling = tensorTiling(checked(tensors(true, 2, 6, 3, 5, 7)), q, "q", 128, 1, zeros);
  ASSERT_TRUE(tiling.ok());
  EXPECT_EQ(tiling->extents, (Extents4{64, 5, 6, 2}));
  EXPECT_EQ(tiling->strideBytes, (Strides3{6 * 128, 128, 5 * 6 * 128}));
}

TEST(TensorTiling, AnAxisOfStrideZeroHasOneIndex) {
  LaunchArguments arguments = tensors(false, 2, 6, 3, 5, 7);
  arguments.k.strides[1] = 0;
  CheckedArguments fits = checked(arguments);
  Result<TensorTiling> tiling = tensorTiling(fits, k, "k", 64, 1, zeros);
  ASSERT_TRUE(tiling.ok());
  EXPECT_EQ(tiling->extents, (Extents4{64, 7, 1, 2}));
  EXPECT_EQ(tiling->strideBytes, (Strides3{128, 128, 3 * 7 * 128}));
  EXPECT_EQ(coordinateStep(fits.tensors[k], 1), 0);
  EXPECT_EQ(coordinateStep(fits.tensors[k], 0), 1);
  EXPECT_EQ(coordinateStep(fits.tensors[v], 1), 1);
}

TEST(TensorTiling, ExtentsOf1NeedNoStride) {
  Result<TensorTiling> tiling =
      tensorTiling(checked(tensors(true, 1, 1, 1, 1, 1)), v, "v", 64, 1, zeros);
  ASSERT_TRUE(tiling.ok());
  EXPECT_EQ(tiling->extents, (Extents4{128, 1, 1, 1}));
  EXPECT_EQ(tiling->strideBytes, (Strides3{256, 256, 256}));
}

TEST(TensorTiling, HeadsOfABoxShareAKeyHead) {
  CheckedArguments fits = checked(tensors(true, 2, 6, 2, 5, 7));
  Result<TensorTiling> tiling = tensorTiling(fits, q, "q", 16, 4, zeros);
  ASSERT_TRUE(tiling.ok());
  EXPECT_EQ(tiling->extents, (Extents4{64, 5, 6, 2}));
  EXPECT_EQ(tiling->boxRows, 16u);
  EXPECT_EQ(tiling->boxHeads, 4u);
  EXPECT_EQ(tiling->sharing, 3u);
  // If heads share one place in memory, there is no box of several heads; boxes of one head work.
  LaunchArguments arguments = tensors(false, 2, 6, 2, 5, 7);
  arguments.q.strides[1] = 0;
  tiling = tensorTiling(checked(arguments), q, "q", 16, 4, zeros);
  ASSERT_FALSE(tiling.ok());
  EXPECT_EQ(tiling.error().message(), "q's head stride is 0 bytes, copies of several heads need "
                                      "at least 16 bytes between heads: copy the tensor");
  arguments = tensors(false, 2, 6, 6, 5, 7);
  arguments.q.strides[1] = 0;
  tiling = tensorTiling(checked(arguments), q, "q", 16, 4, zeros);
  ASSERT_TRUE(tiling.ok());
  EXPECT_EQ(tiling->extents, (Extents4{64, 5, 1, 2}));
  EXPECT_EQ(tiling->sharing, 1u);
  // The stride between key/value heads counts, too.
  arguments = tensors(false, 1, 6, 2, 5, 7);
  arguments.q.strides[1] = int64_t(1) << 38;
  EXPECT_TRUE(tensorTiling(checked(arguments), q, "q", 16, 1, zeros).ok());
  EXPECT_EQ(tensorTiling(checked(arguments), q, "q", 16, 4, zeros).code(), Code::unsupported);
}

TEST(TensorTiling, NoKeysStillHaveAMap) {
  LaunchArguments arguments = tensors(false, 2, 6, 3, 5, 0);
  arguments.k.data = nullptr;
  arguments.k.strides = {3, 3, 3, 3};
  Result<TensorTiling> tiling = tensorTiling(checked(arguments), k, "k", 64, 1, zeros);
  ASSERT_TRUE(tiling.ok());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tiling->address), zeros);
  EXPECT_EQ(tiling->extents, (Extents4{64, 1, 1, 1}));
  EXPECT_EQ(tiling->strideBytes, (Strides3{128, 128, 128}));
}

TEST(TensorTiling, WhatAMapCannotSayIsASentence) {
  LaunchArguments arguments = tensors(false, 2, 6, 3, 5, 7);
  arguments.k.strides[2] = 0;
  Result<TensorTiling> tiling = tensorTiling(checked(arguments), k, "k", 64, 1, zeros);
  ASSERT_FALSE(tiling.ok());
  EXPECT_EQ(tiling.code(), Code::unsupported);
  EXPECT_EQ(tiling.error().message(), "k's length stride is 0 bytes, tensor copies need at least "
                                      "16 bytes between positions: copy the tensor");
  arguments = tensors(false, 2, 6, 3, 5, 7);
  arguments.v.strides[0] = int64_t(1) << 39;
  tiling = tensorTiling(checked(arguments), v, "v", 64, 1, zeros);
  ASSERT_FALSE(tiling.ok());
  EXPECT_EQ(tiling.error().message(), "v's batch stride is 1099511627776 bytes, tensor copies need "
                                      "less than 2^40 bytes: copy the tensor");
  arguments.v.strides[0] -= 8;
  EXPECT_TRUE(tensorTiling(checked(arguments), v, "v", 64, 1, zeros).ok());
}

/// The parameters of the driver's last call.
struct DriverCall {
  int type, interleave, swizzle, promotion, fill;
  uint32_t rank;
  void *address;
  std::array<uint64_t, 5> extents;
  std::array<uint64_t, 4> strideBytes;
  std::array<uint32_t, 5> box, elementStrides;
} driverCall;

cuda::DriverApi recordingDriver() {
  cuda::DriverApi api;
  api.cuGetErrorName = [](int, const char **) { return 1; };
  api.cuGetErrorString = [](int, const char **) { return 1; };
  api.cuTensorMapEncodeTiled = [](CUtensorMap_st *map, int type, uint32_t rank, void *address,
                                  const uint64_t *extents, const uint64_t *strideBytes,
                                  const uint32_t *box, const uint32_t *elementStrides,
                                  int interleave, int swizzle, int promotion, int fill) {
    driverCall = {type, interleave, swizzle, promotion, fill, rank, address, {}, {}, {}, {}};
    std::copy_n(extents, rank, driverCall.extents.begin());
    std::copy_n(strideBytes, int(rank) - 1, driverCall.strideBytes.begin());
    std::copy_n(box, rank, driverCall.box.begin());
    std::copy_n(elementStrides, rank, driverCall.elementStrides.begin());
    std::memset(static_cast<void *>(map), 0x5a, sizeof(TensorMap));
    return address ? 0 : 1;
  };
  return api;
}

TEST(EncodeTensorMap, TheDriverIsTold) {
  cuda::DriverApi api = recordingDriver();
  TensorTiling tiling{memory, ElementType::f16, {128, 7, 3, 2}, {256, 512, 1024}, 96};
  TensorMap map;
  ASSERT_TRUE(cuda::encodeTensorMap(api, tiling, map).ok());
  EXPECT_EQ(map.bytes[127], std::byte(0x5a));
  EXPECT_EQ(driverCall.type, cuda::tensorMapFloat16);
  EXPECT_EQ(driverCall.rank, 4u);
  EXPECT_EQ(driverCall.address, memory);
  EXPECT_EQ(driverCall.extents, (std::array<uint64_t, 5>{128, 7, 3, 2}));
  EXPECT_EQ(driverCall.strideBytes, (std::array<uint64_t, 4>{256, 512, 1024}));
  EXPECT_EQ(driverCall.box, (std::array<uint32_t, 5>{64, 96, 1, 1}));
  EXPECT_EQ(driverCall.elementStrides, (std::array<uint32_t, 5>{1, 1, 1, 1}));
  EXPECT_EQ(driverCall.swizzle, cuda::tensorMapSwizzle128B);
  EXPECT_EQ(driverCall.promotion, cuda::tensorMapPromotion256B);
  EXPECT_EQ(driverCall.interleave, cuda::tensorMapInterleaveNone);
  EXPECT_EQ(driverCall.fill, cuda::tensorMapFillZeros);
  tiling.type = ElementType::bf16;
  ASSERT_TRUE(cuda::encodeTensorMap(api, tiling, map).ok());
  EXPECT_EQ(driverCall.type, cuda::tensorMapBfloat16);
  tiling.type = ElementType::e4m3; // elements are bytes, so a row of 128 bytes has twice as many
  ASSERT_TRUE(cuda::encodeTensorMap(api, tiling, map).ok());
  EXPECT_EQ(driverCall.type, cuda::tensorMapUint8);
  EXPECT_EQ(driverCall.box, (std::array<uint32_t, 5>{128, 96, 1, 1}));
  tiling.address = nullptr;
  Status status = cuda::encodeTensorMap(api, tiling, map);
  EXPECT_EQ(status.code(), Code::driver);
  EXPECT_NE(status.error().message().find("cuTensorMapEncodeTiled"), std::string::npos);
}

int encodings; ///< by the driver below

/// A driver whose maps contain the number of maps that were encoded before.
cuda::DriverApi countingDriver() {
  cuda::DriverApi api = recordingDriver();
  api.cuTensorMapEncodeTiled = [](CUtensorMap_st *map, int, uint32_t, void *address,
                                  const uint64_t *, const uint64_t *, const uint32_t *,
                                  const uint32_t *, int, int, int, int) {
    std::memset(static_cast<void *>(map), ++encodings, sizeof(TensorMap));
    return address ? 0 : 1;
  };
  return api;
}

TEST(KnownTensorMaps, AnotherNumberIsAnotherMap) {
  cuda::DriverApi api = countingDriver();
  auto known = std::make_unique<cuda::KnownTensorMaps>();
  TensorTiling tiling{memory, ElementType::bf16, {128, 7, 3, 2}, {256, 512, 1024}, 96};
  encodings = 0;
  auto find = [&](uint64_t owner, const TensorTiling &wanted) {
    TensorMap map = {};
    EXPECT_TRUE(known->find(api, owner, wanted, map).ok());
    return int(map.bytes[127]);
  };
  EXPECT_EQ(find(1, tiling), 1);
  EXPECT_EQ(find(1, tiling), 1) << "it was known";
  std::vector<TensorTiling> others(9, tiling);
  others[0].address = memory + 16;
  others[1].type = ElementType::f16;
  others[2].extents[0] = 64;
  others[3].extents[3] = 5;
  others[4].strideBytes[0] = 272;
  others[5].strideBytes[2] = 4096;
  others[6].boxRows = 64;
  others[7].boxHeads = 3;
  others[8].sharing = 3;
  for (size_t i = 0; i < others.size(); ++i) {
    EXPECT_EQ(find(1, others[i]), encodings) << i;
    EXPECT_EQ(encodings, int(i) + 2) << "nothing that differs is taken for it: " << i;
  }
  EXPECT_EQ(find(2, tiling), int(others.size()) + 2) << "each owner has its own";
}

TEST(KnownTensorMaps, OfMoreThanThereIsRoomForAllAreRight) {
  cuda::DriverApi api = recordingDriver();
  api.cuTensorMapEncodeTiled = [](CUtensorMap_st *map, int, uint32_t, void *address,
                                  const uint64_t *, const uint64_t *, const uint32_t *,
                                  const uint32_t *, int, int, int, int) {
    ++encodings;
    std::memcpy(static_cast<void *>(map), &address, sizeof address);
    return 0;
  };
  auto known = std::make_unique<cuda::KnownTensorMaps>();
  auto findAll = [&](uintptr_t count, uintptr_t step) {
    encodings = 0;
    for (uintptr_t i = 1; i <= count; ++i) {
      auto *address = reinterpret_cast<void *>(i * step);
      TensorTiling tiling{address, ElementType::bf16, {128, 7, 3, 2}, {256, 512, 1024}, 96};
      TensorMap map = {};
      ASSERT_TRUE(known->find(api, 1, tiling, map).ok());
      ASSERT_EQ(std::memcmp(&map, &address, sizeof address), 0) << i;
    }
  };
  for (int again = 0; again < 2; ++again)
    findAll(10000, 512);
  // Addresses of an allocator spread over the places.
  for (uintptr_t step : {512, 1 << 20, 2 << 20, 3 << 21}) {
    findAll(128, step);
    findAll(128, step);
    EXPECT_LT(encodings, 100) << "of 128, many have a place of their own: " << step;
  }
}

TEST(KnownTensorMaps, AFailureIsNotKept) {
  cuda::DriverApi api = countingDriver();
  auto known = std::make_unique<cuda::KnownTensorMaps>();
  TensorTiling tiling{nullptr, ElementType::bf16, {128, 7, 3, 2}, {256, 512, 1024}, 96};
  TensorMap map;
  for (int again = 0; again < 2; ++again)
    EXPECT_EQ(known->find(api, 1, tiling, map).code(), Code::driver);
}

TEST(EncodeTensorMap, PackedHeadsLieInsideOfPositions) {
  cuda::DriverApi api = recordingDriver();
  TensorTiling tiling{memory, ElementType::bf16, {128, 7, 6, 2}, {256, 512, 4096}, 16, 4, 3};
  TensorMap map;
  ASSERT_TRUE(cuda::encodeTensorMap(api, tiling, map).ok());
  EXPECT_EQ(driverCall.rank, 5u);
  EXPECT_EQ(driverCall.extents, (std::array<uint64_t, 5>{128, 3, 7, 2, 2}));
  EXPECT_EQ(driverCall.strideBytes, (std::array<uint64_t, 4>{512, 256, 3 * 512, 4096}));
  EXPECT_EQ(driverCall.box, (std::array<uint32_t, 5>{64, 4, 16, 1, 1}));
  EXPECT_EQ(driverCall.elementStrides, (std::array<uint32_t, 5>{1, 1, 1, 1, 1}));
}

/// Code that writes the number of earlier encodings into a map's first byte, and keeps the
/// parameters.
class RecordingCode : public LoadedCode {
public:
  mutable std::vector<TensorTiling> tilings;
  mutable std::vector<std::vector<uint8_t>> parameters;
  std::vector<size_t> sizes;

  Status encodeTensorMap(const TensorTiling &tiling, TensorMap &map) const override {
    map.bytes[0] = std::byte(tilings.size());
    tilings.push_back(tiling);
    return Status::success();
  }
  Status launch(size_t, int64_t, void **arguments, void *, bool) const override {
    for (size_t i = 0; i < sizes.size(); ++i) {
      auto *bytes = static_cast<const uint8_t *>(arguments[i]);
      parameters.emplace_back(bytes, bytes + sizes[i]);
    }
    return Status::success();
  }
};

Artifact artifactWith(std::vector<ArgumentSlot> slots) {
  Artifact artifact;
  artifact.variantName = "copies";
  artifact.target = {Target::Kind::cuda, 90};
  artifact.headDimQk = 64;
  artifact.headDimV = 128;
  artifact.tensors = test::attentionTensors(ElementType::bf16, 64, 128);
  Launch launch;
  launch.kernel = "copy";
  launch.items = *Expression::parse("(* B H)");
  launch.slots = std::move(slots);
  artifact.launches = {launch};
  return artifact;
}

TEST(LaunchPlan, TensorMapsAreParametersByValue) {
  Result<LaunchPlan> plan = LaunchPlan::create(artifactWith({{Kind::tensorMap, "q", 32, 4},
                                                             {Kind::coordinateStep, "k", 1},
                                                             {Kind::tensorMap, "k", 64},
                                                             {Kind::coordinateStep, "k", 0},
                                                             {Kind::extent, "", 4}}));
  ASSERT_TRUE(plan.ok()) << plan.error().message();
  LaunchArguments arguments = tensors(true, 2, 6, 3, 5, 7);
  arguments.k.strides[1] = 0;
  RecordingCode code;
  code.sizes = {128, 4, 128, 4, 4};
  ASSERT_TRUE(plan->launch(code, checked(arguments), nullptr).ok());
  ASSERT_EQ(code.tilings.size(), 2u);
  EXPECT_EQ(code.tilings[0].boxRows, 32u);
  EXPECT_EQ(code.tilings[0].boxHeads, 4u);
  EXPECT_EQ(code.tilings[1].boxHeads, 1u);
  EXPECT_EQ(code.tilings[1].extents, (Extents4{64, 7, 1, 2}));
  EXPECT_EQ(code.parameters[0][0], 0);
  EXPECT_EQ(code.parameters[2][0], 1);
  EXPECT_EQ(code.parameters[1], (std::vector<uint8_t>{0, 0, 0, 0}));
  EXPECT_EQ(code.parameters[3], (std::vector<uint8_t>{1, 0, 0, 0}));
  EXPECT_EQ(code.parameters[4], (std::vector<uint8_t>{7, 0, 0, 0}));
}

TEST(LaunchPlan, ACounterIsThatOfTheLaunchsStream) {
  struct : RecordingCode {
    Result<StreamUse> streamUse(void *stream, bool) const override {
      return StreamUse{.stream = reinterpret_cast<uintptr_t>(stream)};
    }
    Result<LaunchCounter> counter(const StreamUse &use) const override {
      if (!use.stream)
        return Error(Code::outOfMemory, "no counters");
      return LaunchCounter{use.stream + 64, nullptr};
    }
  } counting;
  Result<LaunchPlan> plan =
      LaunchPlan::create(artifactWith({{Kind::extent, "", 4}, {Kind::counter, "", 0}}));
  ASSERT_TRUE(plan.ok()) << plan.error().message();
  CheckedArguments arguments = checked(tensors(true, 2, 6, 3, 5, 7));
  counting.sizes = {4, 8};
  char stream;
  ASSERT_TRUE(plan->launch(counting, arguments, &stream).ok());
  uint64_t address = 0;
  ASSERT_EQ(counting.parameters.size(), 2u);
  std::memcpy(&address, counting.parameters[1].data(), sizeof(address));
  EXPECT_EQ(address, reinterpret_cast<uintptr_t>(&stream) + 64);
  EXPECT_EQ(plan->launch(counting, arguments, nullptr).code(), Code::outOfMemory);
  EXPECT_EQ(counting.parameters.size(), 2u);
  // The host has no counters.
  EXPECT_EQ(plan->launch(RecordingCode(), arguments, &stream).code(), Code::defect);
}

TEST(LaunchPlan, AGridBeyondTheDevicesIsRefused) {
  Artifact artifact = artifactWith({}); // B * H work items
  Result<LaunchPlan> plan = LaunchPlan::create(artifact);
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(plan->checkItems({1, 2147483647, 1, 1, 1}).ok());
  Status status = plan->checkItems({1 << 16, 1 << 15, 1, 1, 1});
  EXPECT_EQ(status.code(), Code::unsupported);
  EXPECT_EQ(status.error().message(), "the launch has 2147483648 work items, this device takes "
                                      "2147483647: split the batch, the heads or the queries over "
                                      "several launches");
  artifact.target = {Target::Kind::host, 0};
  artifact.launches[0].items = *Expression::parse("(* (* B H) (* Sq Sk))");
  plan = LaunchPlan::create(artifact);
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(plan->checkItems({1 << 16, 1 << 15, 1, 1, 1}).ok());
  EXPECT_FALSE(plan->checkItems({1 << 16, 1 << 15, 1, 1 << 16, 1 << 16}).ok());
}

TEST(LaunchPlan, ARefusedTilingIsTheLaunchsError) {
  Result<LaunchPlan> plan = LaunchPlan::create(artifactWith({{Kind::tensorMap, "k", 64}}));
  ASSERT_TRUE(plan.ok());
  LaunchArguments arguments = tensors(false, 2, 6, 3, 5, 7);
  arguments.k.strides[2] = 0;
  RecordingCode code;
  EXPECT_EQ(plan->launch(code, checked(arguments), nullptr).code(), Code::unsupported);
  EXPECT_TRUE(code.parameters.empty());
}

TEST(LaunchPlan, SlotsThatCannotBeAreDefects) {
  for (const ArgumentSlot &slot :
       {ArgumentSlot{Kind::tensorMap, "lse", 64}, ArgumentSlot{Kind::tensorMap, "q", 0},
        ArgumentSlot{Kind::tensorMap, "q", 257}, ArgumentSlot{Kind::tensorMap, "q", 64, 0},
        ArgumentSlot{Kind::tensorMap, "q", 1, 257}, ArgumentSlot{Kind::tensorMap, "k", 16, 4},
        ArgumentSlot{Kind::tensorMap, "", 64}, ArgumentSlot{Kind::tensorMap, "$table", 1},
        ArgumentSlot{Kind::coordinateStep, "q", 2}, ArgumentSlot{Kind::coordinateStep, "lse", 0},
        ArgumentSlot{Kind::coordinateStep, "$table", 0}}) {
    Artifact artifact = artifactWith({slot});
    artifact.parameters = {
        {"table", ElementType::f32, true, false, {{1, "H", 0}, {1, "H", 0}}, {}}};
    Result<LaunchPlan> plan = LaunchPlan::create(artifact);
    ASSERT_FALSE(plan.ok()) << slot.name << " " << slot.axis;
    EXPECT_EQ(plan.code(), Code::defect);
  }
  Artifact single = artifactWith({{Kind::tensorMap, "q", 64}});
  single.tensors = test::attentionTensors(ElementType::f32, 64, 128);
  EXPECT_EQ(LaunchPlan::create(single).code(), Code::defect);
  std::vector<ArgumentSlot> many(9, {Kind::tensorMap, "q", 64});
  EXPECT_EQ(LaunchPlan::create(artifactWith(many)).code(), Code::defect);
}

TEST(LaunchPlan, TensorsThatCannotBeAreDefects) {
  auto refusal = [](const std::function<void(Artifact &)> &change) {
    Artifact artifact = artifactWith({});
    change(artifact);
    Result<LaunchPlan> plan = LaunchPlan::create(artifact);
    EXPECT_EQ(plan.code(), Code::defect);
    return plan ? "" : plan.error().message();
  };
  auto has = [](const std::string &message, const std::string &part) {
    return message.find(part) != std::string::npos;
  };
  EXPECT_TRUE(has(refusal([](Artifact &a) { a.tensors.push_back(a.tensors[0]); }),
                  "declares the tensor 'q' twice"));
  EXPECT_TRUE(has(refusal([](Artifact &a) { a.tensors[1].extents.clear(); }),
                  "declares the tensor 'k' with 0 axes"));
  EXPECT_TRUE(has(refusal([](Artifact &a) { a.tensors[1].extents.resize(9); }), "with 9 axes"));
  EXPECT_TRUE(
      has(refusal([](Artifact &a) { a.tensors[0].extents[2] = *Expression::parse("$t.0"); }),
          "with the extent '$t.0'"));
  EXPECT_TRUE(has(refusal([](Artifact &a) {
                    a.workspaces = {{"sums", {*Expression::parse("Sq")}, ElementType::bf16}};
                  }),
                  "the workspace sums holds bf16, not i32 or f32"));
  EXPECT_TRUE(has(refusal([](Artifact &a) {
                    a.launches[0].slots = {{Kind::stride, "x", 0}};
                  }),
                  "for 'x', axis 0, which it does not have"));
}

} // namespace
