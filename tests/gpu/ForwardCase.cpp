//===- ForwardCase.cpp ----------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "ForwardCase.h"

#include "../TestContext.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>

namespace tesela {

std::string variantFolder() {
  if (const char *folder = std::getenv("TESELA_TEMPLATES"))
    return std::string(folder) + "/variants";
  return TESELA_TEST_VARIANTS;
}

std::vector<std::string> variantNames() {
  std::vector<std::string> names;
  std::error_code failure;
  for (const auto &entry : std::filesystem::directory_iterator(variantFolder(), failure))
    if (entry.path().extension() == ".attn")
      names.push_back(entry.path().stem());
  std::sort(names.begin(), names.end());
  return names;
}

std::string variantText(const std::string &name) {
  std::ifstream file(variantFolder() + "/" + name + ".attn");
  return std::string(std::istreambuf_iterator<char>(file), {});
}

const Context *testContext(const std::string &device, std::string &reason, bool verify) {
  static std::map<std::pair<std::string, bool>, Result<Context>> contexts;
  auto known = contexts.find({device, verify});
  if (known == contexts.end()) {
    ContextOptions options = testContextOptions(device);
    options.verify = verify;
    known = contexts.emplace(std::pair(device, verify), Context::create(options)).first;
  }
  const Result<Context> &chosen = known->second;
  if (!chosen)
    reason = chosen.error().message();
  return chosen ? &*chosen : nullptr;
}

std::string nameOf(const HeadDims &headDims) {
  std::string name = "d" + std::to_string(headDims.qk);
  return headDims.v == headDims.qk ? name : name + "x" + std::to_string(headDims.v);
}

static constexpr size_t guardBytes = 256;

TestTensor::TestTensor(const Context &context, const Tensor &view)
    : context(context), view(view), size(view.spanBytes()), bytes(size + guardBytes, 0xff) {
  Result<Buffer> allocated = context.allocate(bytes.size());
  EXPECT_TRUE(allocated.ok()) << (allocated ? "" : allocated.error().message());
  if (allocated)
    buffer = std::move(*allocated);
}

Status TestTensor::upload() { return context.copyToDevice(buffer, bytes.data(), bytes.size()); }
Status TestTensor::download() { return context.copyToHost(bytes.data(), buffer, bytes.size()); }
Status TestTensor::poison() { return context.fill(buffer, 0xff); }

bool TestTensor::guardIsIntact() const {
  return std::all_of(bytes.begin() + size, bytes.end(), [](unsigned char b) { return b == 0xff; });
}

static Tensor headView(const ForwardShape &shape, ElementType type, int64_t heads, int64_t length,
                       int64_t headDim) {
  int64_t row = headDim + shape.gap;
  Tensor view = shape.bshd ? Tensor::bshd(nullptr, type, shape.B, heads, length, row)
                           : Tensor::bhsd(nullptr, type, shape.B, heads, length, row);
  view.extents[3] = headDim;
  view.strides[0] += shape.batchGap;
  return view;
}

/// The extent of a capture's axis. Extents that the capture names itself are 16.
static int64_t captureExtent(const VariantExtent &extent, const ForwardShape &shape) {
  const std::pair<const char *, int64_t> names[] = {
      {"B", shape.B}, {"H", shape.H}, {"Hkv", shape.Hkv}, {"Sq", shape.Sq}, {"Sk", shape.Sk}};
  int64_t value = 16;
  for (const auto &[name, known] : names)
    if (extent.name == name)
      value = known;
  return std::max<int64_t>(extent.coefficient * value + extent.offset, 0);
}

/// Scalars are chosen so that they have an effect at small lengths too: a window's default might
/// cover all of them. Small defaults, such as a dilation, stay.
static double scalarValue(const VariantParameter &parameter, const ForwardShape &shape) {
  double value = parameter.type == ElementType::i32 ? double(shape.Sk / 3 + 1) : 3.0;
  return std::min(value, parameter.defaultValue.value_or(value));
}

/// A single number for a batch or head is a position or a length, in [0, Sk]. Numbers along another
/// axis are names, such as those of documents: eight runs with numbers below 16. Some are 0, which
/// may mean none.
static void fillIntegers(const Tensor &tensor, const VariantParameter &parameter, uint64_t seed,
                         const ForwardShape &shape) {
  bool isOfHeads = std::ranges::all_of(parameter.extents, [](const VariantExtent &extent) {
    return extent.name == "B" || extent.name == "H" || extent.name == "Hkv";
  });
  if (isOfHeads)
    return fillUniform(tensor, seed, 0, shape.Sk);
  fillUniform(tensor, seed, 0, 15);
  auto *values = static_cast<int32_t *>(tensor.data);
  int64_t length = tensor.extents[tensor.rank - 1];
  int64_t run = std::max<int64_t>(length / 8, 1);
  for (int64_t i = 0; i < tensor.elementCount(); ++i) {
    int64_t within = i % length % run;
    values[i] = i % length / run % 4 == 3 ? 0 : values[i - within];
  }
}

ForwardCase::ForwardCase(const Context &context, const KernelOptions &options,
                         const ForwardShape &shape, InputKind inputs)
    : q(context, headView(shape, options.inputType, shape.H, shape.Sq, options.headDimQk)),
      k(context, headView(shape, options.inputType, shape.Hkv, shape.Sk, options.headDimQk)),
      v(context, headView(shape, options.inputType, shape.Hkv, shape.Sk, options.headDimV)),
      o(context, headView(shape, options.inputType, shape.H, shape.Sq, options.headDimV)),
      lse(context, Tensor::contiguous(nullptr, ElementType::f32, {shape.B, shape.H, shape.Sq})),
      context(context), options(options) {
  fillInputs(inputs, q.host(), k.host(), v.host(), 0);
  for (TestTensor *tensor : {&q, &k, &v})
    EXPECT_TRUE(tensor->upload().ok());
  uint64_t seed = 4;
  Result<VariantInfo> info = checkVariant(options.variantText, options.variantFile);
  EXPECT_TRUE(info.ok()) << (info ? "" : info.error().message());
  for (const VariantParameter &parameter :
       info ? info->parameters : std::vector<VariantParameter>()) {
    if (parameter.isConstant)
      continue; // the kernel has its value
    if (!parameter.isCapture) {
      scalars.push_back({parameter.name, scalarValue(parameter, shape)});
      continue;
    }
    Tensor view;
    view.type = parameter.type;
    view.rank = int(parameter.extents.size());
    int64_t stride = 1;
    for (int axis = view.rank - 1; axis >= 0; --axis) {
      view.extents[axis] = captureExtent(parameter.extents[axis], shape);
      view.strides[axis] = stride;
      stride *= view.extents[axis];
    }
    TestTensor tensor(context, view);
    if (view.type == ElementType::f32) {
      fillNormal(tensor.host(), seed++);
      // Small and positive, as slopes and biases are. With large ones each row would depend on one
      // key.
      auto *values = static_cast<float *>(tensor.host().data);
      for (int64_t i = 0; i < view.elementCount(); ++i)
        values[i] = std::abs(values[i]) / 8;
    } else if (view.type == ElementType::f16 || view.type == ElementType::bf16) {
      fillNormal(tensor.host(), seed++);
    } else if (view.type == ElementType::boolean) {
      fillUniform(tensor.host(), seed++, 0, 1);
      // Every byte except 0 means true.
      auto *flags = static_cast<uint8_t *>(tensor.host().data);
      for (int64_t i = 0; i < view.elementCount(); ++i)
        flags[i] = uint8_t(flags[i] << i % 8);
    } else {
      fillIntegers(tensor.host(), parameter, seed++, shape);
    }
    EXPECT_TRUE(tensor.upload().ok());
    captures.emplace_back(parameter.name, std::move(tensor));
  }
}

LaunchArguments ForwardCase::arguments(bool onDevice) {
  auto where = [&](TestTensor &tensor) { return onDevice ? tensor.device() : tensor.host(); };
  LaunchArguments arguments;
  arguments.q = where(q);
  arguments.k = where(k);
  arguments.v = where(v);
  arguments.o = where(o);
  arguments.lse = where(lse);
  arguments.scalars = scalars;
  for (auto &[name, tensor] : captures)
    arguments.captures.push_back({name, where(tensor)});
  return arguments;
}

LaunchArguments ForwardCase::deviceArguments() { return arguments(true); }
LaunchArguments ForwardCase::hostArguments() { return arguments(false); }

Result<Reference> ForwardCase::reference() {
  if (context.device().kind == Device::Kind::cuda)
    return deviceReference(context, options, deviceArguments());
  return hostReference(options, hostArguments());
}

void ForwardCase::launch(const Kernel &kernel) {
  ASSERT_TRUE(o.poison().ok());
  ASSERT_TRUE(lse.poison().ok());
  Status launched = kernel.launch(deviceArguments());
  ASSERT_TRUE(launched.ok()) << launched.error().message();
  Status done = context.synchronize();
  ASSERT_TRUE(done.ok()) << done.error().message();
  ASSERT_TRUE(o.download().ok());
  ASSERT_TRUE(lse.download().ok());
  EXPECT_TRUE(o.guardIsIntact()) << "the kernel writes behind o";
  EXPECT_TRUE(lse.guardIsIntact()) << "the kernel writes behind lse";
}

void ForwardCase::compareWith(const Reference &expected) {
  Result<Comparison> comparison = compare(expected, o.host(), lse.host());
  ASSERT_TRUE(comparison.ok()) << comparison.error().message();
  EXPECT_TRUE(comparison->passed) << comparison->failure;
}

void ForwardCase::check(const Kernel &kernel) {
  launch(kernel);
  if (testing::Test::HasFatalFailure())
    return;
  Result<Reference> expected = reference();
  ASSERT_TRUE(expected.ok()) << expected.error().message();
  compareWith(*expected);
  checkWithoutLse(kernel);
}

/// Checks a launch without lse. Must follow a launch with it.
void ForwardCase::checkWithoutLse(const Kernel &kernel) {
  auto bytesOf = [](const Tensor &tensor) {
    return std::string(static_cast<const char *>(tensor.data), tensor.spanBytes());
  };
  std::string outputs = bytesOf(o.host()), sums = bytesOf(lse.host());
  ASSERT_TRUE(o.poison().ok());
  ASSERT_TRUE(lse.poison().ok());
  LaunchArguments without = deviceArguments();
  without.lse.data = nullptr;
  Status launched = kernel.launch(without);
  ASSERT_TRUE(launched.ok()) << launched.error().message();
  Status done = context.synchronize();
  ASSERT_TRUE(done.ok()) << done.error().message();
  ASSERT_TRUE(o.download().ok());
  ASSERT_TRUE(lse.download().ok());
  EXPECT_TRUE(bytesOf(o.host()) == outputs) << "another output without lse";
  std::string untouched = bytesOf(lse.host());
  EXPECT_TRUE(untouched == std::string(untouched.size(), char(0xff))) << "lse was written";
  // Restores the lse of the first launch for callers that compare with it.
  std::memcpy(lse.host().data, sums.data(), sums.size());
  ASSERT_TRUE(lse.upload().ok());
}

void ForwardCase::checkWithNaNRows(const Kernel &kernel) {
  launch(kernel);
  if (testing::Test::HasFatalFailure())
    return;
  Result<Reference> expected = reference();
  ASSERT_TRUE(expected.ok()) << expected.error().message();
  int64_t nanRows =
      std::ranges::count_if(expected->lse, [](double lse) { return std::isnan(lse); });
  EXPECT_GT(nanRows, 0) << "the case has no row that must be NaN";
  EXPECT_LT(nanRows, int64_t(expected->lse.size())) << "the case has no other row";
  compareWith(*expected);
}

void checkLengths(const std::string &device, const KernelOptions &options,
                  const std::vector<std::pair<int64_t, int64_t>> &lengths) {
  std::string reason;
  const Context *context = testContext(device, reason);
  if (!context)
    GTEST_SKIP() << reason;
  Result<Kernel> kernel = context->compile(options);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message();
  for (auto [queries, keys] : lengths) {
    ForwardShape shape;
    shape.B = 2;
    shape.Sq = queries;
    shape.Sk = keys;
    SCOPED_TRACE(std::to_string(queries) + "x" + std::to_string(keys));
    ForwardCase(*context, options, shape).check(*kernel);
    if (testing::Test::HasFatalFailure())
      return;
  }
}

} // namespace tesela
