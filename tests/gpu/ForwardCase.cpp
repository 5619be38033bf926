//===- ForwardCase.cpp ----------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "ForwardCase.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

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

const Context *testContext(const std::string &device, std::string &reason) {
  auto create = [](const char *name) {
    ContextOptions options;
    options.device = name;
    options.diskCache = false;
    return Context::create(options);
  };
  static const Result<Context> host = create("host");
  static const Result<Context> cuda = create("cuda");
  const Result<Context> &chosen = device == "host" ? host : cuda;
  if (!chosen)
    reason = chosen.error().message();
  return chosen ? &*chosen : nullptr;
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
  return shape.bshd ? Tensor::bshd(nullptr, type, shape.B, heads, length, headDim)
                    : Tensor::bhsd(nullptr, type, shape.B, heads, length, headDim);
}

/// The extent of a capture's axis; a name of its own is 16.
static int64_t captureExtent(const VariantExtent &extent, const ForwardShape &shape) {
  const std::pair<const char *, int64_t> names[] = {
      {"B", shape.B}, {"H", shape.H}, {"Hkv", shape.Hkv}, {"Sq", shape.Sq}, {"Sk", shape.Sk}};
  int64_t value = 16;
  for (const auto &[name, known] : names)
    if (extent.name == name)
      value = known;
  return std::max<int64_t>(extent.coefficient * value + extent.offset, 0);
}

ForwardCase::ForwardCase(const Context &context, const KernelOptions &options,
                         const ForwardShape &shape)
    : q(context, headView(shape, options.inputType, shape.H, shape.Sq, options.headDimQk)),
      k(context, headView(shape, options.inputType, shape.Hkv, shape.Sk, options.headDimQk)),
      v(context, headView(shape, options.inputType, shape.Hkv, shape.Sk, options.headDimV)),
      o(context, headView(shape, options.inputType, shape.H, shape.Sq, options.headDimV)),
      lse(context, Tensor::contiguous(nullptr, ElementType::f32, {shape.B, shape.H, shape.Sq})),
      context(context), options(options) {
  uint64_t seed = 1;
  for (TestTensor *tensor : {&q, &k, &v}) {
    fillNormal(tensor->host(), seed++);
    EXPECT_TRUE(tensor->upload().ok());
  }
  Result<VariantInfo> info = checkVariant(options.variantText, options.variantFile);
  EXPECT_TRUE(info.ok()) << (info ? "" : info.error().message());
  for (const VariantParameter &parameter :
       info ? info->parameters : std::vector<VariantParameter>()) {
    if (!parameter.isCapture) {
      // Values that matter at small lengths too: a window's default reaches over all of them.
      double value = parameter.type == ElementType::i32 ? double(shape.Sk / 3 + 1) : 3.0;
      scalars.push_back({parameter.name, value});
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
      // Small and positive, as slopes and biases are: large ones leave one key a row.
      auto *values = static_cast<float *>(tensor.host().data);
      for (int64_t i = 0; i < view.elementCount(); ++i)
        values[i] = std::abs(values[i]) / 8;
    } else {
      fillUniform(tensor.host(), seed++, 0, shape.Sk);
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

void ForwardCase::check(const Kernel &kernel) {
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
  Result<Reference> expected = reference();
  ASSERT_TRUE(expected.ok()) << expected.error().message();
  Result<Comparison> comparison = compare(*expected, o.host(), lse.host());
  ASSERT_TRUE(comparison.ok()) << comparison.error().message();
  EXPECT_TRUE(comparison->passed) << comparison->failure;
}

} // namespace tesela
