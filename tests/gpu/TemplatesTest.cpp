//===- TemplatesTest.cpp - Templates without attention on a GPU -----------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// templates/matmul.mlir and templates/combine.mlir against plain loops. The build has written them
// as artifacts (tests/targets/nvvm/WriteArtifacts.cpp) to a folder, which $TESELA_ARTIFACTS may
// name.
//
//===----------------------------------------------------------------------===//
#include "backend/Backend.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <random>

using namespace tesela;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// A view [B, H, S, D] of elements in the device's memory, as a kernel gets it.
struct View {
  void *data = nullptr;
  std::array<int64_t, 3> strides = {}; ///< of batch, head, position
  std::array<int64_t, 4> extents = {}; ///< for its tensor map
};

std::vector<float> randomValues(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(count);
  for (float &value : values)
    value = bf16ToFloat(floatToBf16(uniform(random)));
  return values;
}

std::vector<uint16_t> rounded(const std::vector<float> &values) {
  std::vector<uint16_t> bits;
  for (float value : values)
    bits.push_back(floatToBf16(value));
  return bits;
}

class Templates : public testing::Test {
protected:
  std::shared_ptr<Backend> backend;
  Artifact artifact;
  std::shared_ptr<const LoadedCode> code;
  bool entered = false; ///< the device is current, until the test ends
  std::vector<void *> allocations;

  void SetUp() override {
    Result<std::vector<Device>> devices = cudaDevices();
    if (!devices)
      GTEST_SKIP() << devices.error().message();
    Result<std::shared_ptr<Backend>> created = createCudaBackend(devices->front());
    ASSERT_TRUE(created.ok()) << created.error().message();
    backend = *created;
  }
  void TearDown() override {
    if (entered)
      code->leave();
    for (void *address : allocations)
      backend->release(address);
  }

  void load(const std::string &name) {
    const char *folder = std::getenv("TESELA_ARTIFACTS");
    std::ifstream file(std::string(folder ? folder : TESELA_TEST_ARTIFACTS) + "/" + name +
                           ".artifact",
                       std::ios::binary);
    Result<Artifact> read =
        Artifact::deserialize(std::string(std::istreambuf_iterator<char>(file), {}));
    ASSERT_TRUE(read.ok()) << read.error().message();
    Result<Artifact> assembled = backend->assemble(*read, {});
    ASSERT_TRUE(assembled.ok()) << assembled.error().message();
    artifact = *assembled;
    Result<std::shared_ptr<const LoadedCode>> loaded = backend->load(artifact);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message();
    code = *loaded;
    Result<bool> made = code->enter();
    ASSERT_TRUE(made.ok()) << made.error().message();
    entered = *made;
  }

  template <typename T> void *onDevice(const std::vector<T> &values) {
    size_t bytes = std::max<size_t>(values.size(), 1) * sizeof(T);
    Result<void *> address = backend->allocate(bytes);
    EXPECT_TRUE(address.ok()) << (address ? "" : address.error().message());
    allocations.push_back(*address);
    EXPECT_TRUE(
        backend->copyToDevice(*address, values.data(), values.size() * sizeof(T), nullptr).ok());
    return *address;
  }

  template <typename T> std::vector<T> fromDevice(const void *address, size_t count) {
    std::vector<T> values(count);
    EXPECT_TRUE(backend->copyToHost(values.data(), address, count * sizeof(T), nullptr).ok());
    return values;
  }

  void run(const Extents &extents, const std::map<std::string, View> &views,
           const std::map<std::string, int32_t> &integers) {
    using Kind = ArgumentSlot::Kind;
    const Launch &launch = artifact.launches.front();
    std::vector<uint64_t> values(launch.slots.size());
    std::vector<TensorMap> maps(launch.slots.size());
    std::vector<void *> pointers(launch.slots.size());
    const int32_t ofLaunch[] = {extents.B, extents.H, extents.Hkv, extents.Sq, extents.Sk};
    for (size_t i = 0; i < launch.slots.size(); ++i) {
      const ArgumentSlot &slot = launch.slots[i];
      pointers[i] = &values[i];
      switch (slot.kind) {
      case Kind::data:
        values[i] = reinterpret_cast<uintptr_t>(views.at(slot.name).data);
        break;
      case Kind::stride:
        values[i] = views.at(slot.name).strides[slot.axis];
        break;
      case Kind::coordinateStep:
        values[i] = views.at(slot.name).strides[slot.axis] != 0;
        break;
      case Kind::extent:
        values[i] = ofLaunch[slot.axis];
        break;
      case Kind::scalar:
        values[i] = uint32_t(integers.at(slot.name));
        break;
      case Kind::tensorMap:
        encode(views.at(slot.name), slot.axis, maps[i]);
        pointers[i] = &maps[i];
        break;
      default:
        FAIL() << "the template asks for a slot of kind " << int(slot.kind);
      }
    }
    Status launched = code->launch(0, launch.items.evaluate(extents), pointers.data(), nullptr);
    ASSERT_TRUE(launched.ok()) << launched.error().message();
    Status done = backend->synchronize(nullptr);
    ASSERT_TRUE(done.ok()) << done.error().message();
  }

  void encode(const View &view, int boxRows, TensorMap &map) {
    TensorTiling tiling{view.data, ElementType::bf16, {}, {}, uint32_t(boxRows)};
    tiling.extents[0] = view.extents[3];
    for (int axis = 0; axis < 3; ++axis) {
      bool moves = view.strides[axis] != 0;
      tiling.extents[3 - axis] = moves ? view.extents[axis] : 1;
      tiling.strideBytes[2 - axis] = 2 * (moves ? view.strides[axis] : 8);
    }
    Status status = code->encodeTensorMap(tiling, map);
    ASSERT_TRUE(status.ok()) << status.error().message();
  }

  /// C = A B in panels of 128 columns. What stands behind A's columns is NaN.
  void expectProduct(int rows, int depth) {
    SCOPED_TRACE(testing::Message() << rows << " rows, depth " << depth);
    constexpr int columns = 128, panels = 3, width = columns * panels;
    int strideA = (depth + 15) / 8 * 8; // rows begin at multiples of 16 bytes
    std::vector<float> a = randomValues(size_t(rows) * strideA, 7);
    std::vector<float> b = randomValues(size_t(depth) * width, 8);
    for (int row = 0; row < rows; ++row)
      for (int x = depth; x < strideA; ++x)
        a[row * strideA + x] = NAN;
    // One row more than the result has: it stays as it is.
    std::vector<uint16_t> untouched(size_t(rows + 1) * width, 0xffff);
    View viewA{onDevice(rounded(a)), {0, 0, strideA}, {1, panels, rows, depth}};
    View viewB{onDevice(rounded(b)), {0, columns, width}, {1, panels, depth, columns}};
    View viewO{onDevice(untouched), {0, columns, width}, {1, panels, rows, columns}};
    run({1, panels, panels, rows, depth}, {{"a", viewA}, {"b", viewB}, {"o", viewO}}, {});
    if (HasFatalFailure())
      return;
    std::vector<uint16_t> result = fromDevice<uint16_t>(viewO.data, untouched.size());
    for (int row = 0; row < rows; ++row)
      for (int column = 0; column < width; ++column) {
        double sum = 0, size = 0;
        for (int x = 0; x < depth; ++x) {
          double term = double(a[row * strideA + x]) * b[x * width + column];
          sum += term;
          size += std::abs(term);
        }
        // bf16 has 8 bits: rounding moves by 2^-8 of the value at most; f32's sums beside it.
        ASSERT_NEAR(bf16ToFloat(result[row * width + column]), sum,
                    0x1p-8 * std::abs(sum) + 0x1p-20 * size + 1e-30)
            << "row " << row << ", column " << column;
      }
    for (int column = 0; column < width; ++column)
      ASSERT_EQ(result[rows * width + column], 0xffff) << "behind the last row";
  }
};

TEST_F(Templates, MatmulIsAProduct) {
  load("matmul_stages");
  if (HasFatalFailure())
    return;
  for (int depth : {1, 31, 64, 200, 513})
    for (int rows : {1, 128, 301})
      expectProduct(rows, depth);
}

TEST_F(Templates, MatmulWithRolesIsAProduct) {
  if (backend->device().sm != 90)
    GTEST_SKIP() << backend->device().name << " has no warpgroup products: they need sm_90";
  load("matmul_roles");
  if (HasFatalFailure())
    return;
  for (int depth : {1, 31, 64, 200, 513})
    for (int rows : {1, 128, 301})
      expectProduct(rows, depth);
}

// One part without keys for some rows, all for others; what such a part left is NaN.
TEST_F(Templates, CombineIsASoftmaxOverParts) {
  load("combine");
  if (HasFatalFailure())
    return;
  constexpr int B = 2, H = 3, Sq = 101, D = 128;
  constexpr int lines = B * H * Sq;
  for (int parts : {0, 1, 2, 7}) {
    SCOPED_TRACE(testing::Message() << parts << " parts");
    std::vector<float> lse = randomValues(parts * lines, 9);
    std::vector<float> o = randomValues(size_t(parts) * lines * D, 10);
    for (int part = 0; part < parts; ++part)
      for (int line = 0; line < lines; ++line) {
        float &value = lse[part * lines + line];
        value *= 60; // the weights are far apart
        if (line % 7 == 0 || (line + part) % 3 == 0) {
          value = -infinity;
          std::fill_n(o.begin() + size_t(part * lines + line) * D, D, NAN);
        }
      }
    std::array<int64_t, 3> strides = {H * Sq * D, Sq * D, D};
    View viewO{onDevice(std::vector<uint16_t>(lines * D, 0xffff)), strides};
    View viewLse{onDevice(std::vector<float>(lines, NAN))};
    run({B, H, H, Sq, 1},
        {{"o_parts", {onDevice(o), strides}},
         {"lse_parts", {onDevice(lse)}},
         {"o", viewO},
         {"lse", viewLse}},
        {{"$parts", parts}});
    if (HasFatalFailure())
      return;
    std::vector<uint16_t> outO = fromDevice<uint16_t>(viewO.data, lines * D);
    std::vector<float> outLse = fromDevice<float>(viewLse.data, lines);
    for (int line = 0; line < lines; ++line) {
      double largest = -infinity, sum = 0;
      for (int part = 0; part < parts; ++part)
        largest = std::max(largest, double(lse[part * lines + line]));
      std::vector<double> expected(D, 0.0);
      for (int part = 0; part < parts && largest > -infinity; ++part) {
        double weight = std::exp(lse[part * lines + line] - largest);
        sum += weight;
        for (int x = 0; x < D && weight > 0; ++x)
          expected[x] += weight * o[size_t(part * lines + line) * D + x];
      }
      if (sum == 0) {
        ASSERT_EQ(outLse[line], -infinity) << "line " << line;
        for (int x = 0; x < D; ++x)
          ASSERT_EQ(bf16ToFloat(outO[line * D + x]), 0.0f) << "line " << line;
        continue;
      }
      ASSERT_NEAR(outLse[line], largest + std::log(sum), 1e-4) << "line " << line;
      for (int x = 0; x < D; ++x)
        ASSERT_NEAR(bf16ToFloat(outO[line * D + x]), expected[x] / sum,
                    0x1p-8 * std::abs(expected[x] / sum) + 1e-4)
            << "line " << line << ", column " << x;
    }
  }
}

} // namespace
