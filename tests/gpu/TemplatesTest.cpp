//===- TemplatesTest.cpp - Templates without attention --------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// templates/matmul.mlir and templates/merge.mlir through the public API, on the host and on a GPU,
// compared with plain loops. Compiled by name, launched with tensors by name.
//
//===----------------------------------------------------------------------===//
#include "ForwardCase.h"

#include "tesela/Bundle.h"
#include "tesela/Explain.h"
#include "tesela/Tune.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

using namespace tesela;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

void store(const Tensor &tensor, int64_t offset, float value) {
  if (tensor.type == ElementType::f32) {
    static_cast<float *>(tensor.data)[offset] = value;
    return;
  }
  static_cast<uint16_t *>(tensor.data)[offset] =
      tensor.type == ElementType::bf16 ? floatToBf16(value) : floatToF16(value);
}

float load(const Tensor &tensor, int64_t offset) {
  if (tensor.type == ElementType::f32)
    return static_cast<const float *>(tensor.data)[offset];
  uint16_t bits = static_cast<const uint16_t *>(tensor.data)[offset];
  return tensor.type == ElementType::bf16 ? bf16ToFloat(bits) : f16ToFloat(bits);
}

class TemplatesTest : public testing::TestWithParam<const char *> {
protected:
  const Context *context = nullptr;
  std::mt19937 random{7};

  void SetUp() override {
    std::string reason;
    context = testContext(GetParam(), reason);
    if (!context)
      GTEST_SKIP() << reason;
  }
  bool onGpu() const { return context->device().kind == Device::Kind::cuda; }

  /// Fills `tensor` with numbers that every type represents exactly.
  void fill(const Tensor &tensor) {
    std::uniform_int_distribution<int> uniform(-64, 64);
    size_t count = tensor.spanBytes() / elementSize(tensor.type);
    for (size_t i = 0; i < count; ++i)
      store(tensor, int64_t(i), float(uniform(random)) / 64);
  }

  std::optional<Kernel> compile(const KernelOptions &options) {
    Result<Kernel> kernel = context->compile(options);
    EXPECT_TRUE(kernel.ok()) << (kernel ? "" : kernel.error().message());
    return kernel ? std::optional<Kernel>(*kernel) : std::nullopt;
  }

  static KernelOptions productOptions(ElementType type, int columns, const std::string &schedule) {
    KernelOptions options;
    options.algorithm = "matmul";
    options.bindings = {"columns=" + std::to_string(columns)};
    options.inputType = type;
    options.schedule = schedule;
    return options;
  }

  void expectProducts(ElementType type, int columns, const std::string &schedule);
  void expectProduct(const Kernel &kernel, ElementType type, int columns, int rows, int depth);
  void expectMerge(ElementType partType, ElementType type, bool hasSink);
  std::string refusal(const KernelOptions &options);
};

/// C = A B in two panels of columns. Memory after A's columns is NaN.
void TemplatesTest::expectProduct(const Kernel &kernel, ElementType type, int columns, int rows,
                                  int depth) {
  SCOPED_TRACE(testing::Message() << rows << " rows, depth " << depth);
  constexpr int panels = 2;
  int width = columns * panels;
  int strideA = (depth + 15) / 8 * 8; // so that rows begin at multiples of 16 bytes
  Tensor a = Tensor::bhsd(nullptr, type, 1, 1, rows, strideA);
  TestTensor memoryA(*context, a);
  fill(memoryA.host());
  for (int row = 0; row < rows; ++row)
    for (int x = depth; x < strideA; ++x)
      store(memoryA.host(), row * strideA + x, NAN);
  Tensor b = Tensor::bshd(nullptr, type, 1, panels, depth, columns);
  TestTensor memoryB(*context, b),
      memoryO(*context, Tensor::bshd(nullptr, type, 1, panels, rows, columns));
  fill(memoryB.host());
  ASSERT_TRUE(memoryA.upload().ok() && memoryB.upload().ok() && memoryO.poison().ok());

  LaunchArguments arguments;
  Tensor viewA = memoryA.device(); // every panel reads the same rows
  viewA.extents = {1, panels, rows, depth};
  viewA.strides = {0, 0, strideA, 1};
  arguments.tensors = {{"a", viewA}, {"b", memoryB.device()}, {"o", memoryO.device()}};
  Status launched = kernel.launch(arguments);
  ASSERT_TRUE(launched.ok()) << launched.error().message();
  ASSERT_TRUE(context->synchronize().ok() && memoryO.download().ok());
  EXPECT_TRUE(memoryO.guardIsIntact());

  Tensor inA = memoryA.host(), inB = memoryB.host(), out = memoryO.host();
  double rounding = type == ElementType::f32 ? 0 : type == ElementType::bf16 ? 0x1p-8 : 0x1p-11;
  for (int row = 0; row < rows; ++row)
    for (int column = 0; column < width; ++column) {
      double sum = 0, size = 0;
      for (int x = 0; x < depth; ++x) {
        double term = double(load(inA, row * strideA + x)) * load(inB, x * width + column);
        sum += term;
        size += std::abs(term);
      }
      ASSERT_NEAR(load(out, row * width + column), sum,
                  rounding * std::abs(sum) + 0x1p-20 * size + 1e-30)
          << "row " << row << ", column " << column;
    }
}

void TemplatesTest::expectProducts(ElementType type, int columns, const std::string &schedule) {
  SCOPED_TRACE(testing::Message() << elementTypeName(type) << ", " << schedule);
  std::optional<Kernel> kernel = compile(productOptions(type, columns, schedule));
  if (!kernel)
    return;
  EXPECT_EQ(kernel->info().variantName, "matmul");
  for (int depth : {1, 31, 64, 200})
    for (int rows : {1, 128, 301}) {
      expectProduct(*kernel, type, columns, rows, depth);
      if (HasFatalFailure())
        return;
    }
}

TEST_P(TemplatesTest, MatmulIsAProduct) {
  if (!onGpu()) {
    for (ElementType type : {ElementType::f32, ElementType::bf16})
      for (const char *schedule :
           {"", "block_m = 16, block_n = 32", "vector_length = 1", "vector_length = 4"})
        expectProducts(type, 24, schedule);
    return;
  }
  for (ElementType type : {ElementType::bf16, ElementType::f16})
    for (const char *schedule : {"", "block_m = 128, block_n = 64, stages = 3, warps = 4"})
      expectProducts(type, 128, schedule);
  if (context->device().sm == 90)
    expectProducts(ElementType::bf16, 128,
                   "block_m = 128, block_n = 64, stages = 4, warps = 8, consumers = 2");
}

// For some rows one part has no keys, for others all parts have none. The results of such parts
// must be ignored. A sink counts once, for any number of parts, and alone if no part has keys.
void TemplatesTest::expectMerge(ElementType partType, ElementType type, bool hasSink) {
  constexpr int B = 2, H = 3, Sq = 101, D = 64, lines = B * H * Sq;
  KernelOptions options;
  options.algorithm = "merge";
  options.headDimV = D;
  options.bindings = {"part=" + std::string(elementTypeName(partType)),
                      "output=" + std::string(elementTypeName(type))};
  if (hasSink)
    options.variantText = "attention a(z: f32[B, H]) { sink = q % 5 == 0 ? -inf : z[b, h] - q }";
  std::optional<Kernel> kernel = compile(options);
  if (!kernel)
    return;
  TestTensor sinks(*context, Tensor::contiguous(nullptr, ElementType::f32, {B, H}));
  const float z[B * H] = {0, 10, -30, 5, 1, 2};
  std::memcpy(sinks.host().data, z, sizeof z);
  ASSERT_TRUE(sinks.upload().ok());
  for (int parts : {0, 1, 2, 7}) {
    SCOPED_TRACE(testing::Message() << parts << " parts");
    TestTensor oParts(*context, Tensor::bhsd(nullptr, partType, int64_t(parts) * B, H, Sq, D));
    TestTensor lseParts(*context,
                        Tensor::contiguous(nullptr, ElementType::f32, {int64_t(parts) * B, H, Sq}));
    TestTensor o(*context, Tensor::bhsd(nullptr, type, B, H, Sq, D));
    TestTensor lse(*context, Tensor::contiguous(nullptr, ElementType::f32, {B, H, Sq}));
    Tensor inO = oParts.host(), inLse = lseParts.host();
    fill(inO);
    fill(inLse);
    for (int part = 0; part < parts; ++part)
      for (int line = 0; line < lines; ++line) {
        int64_t place = part * lines + line;
        bool hasKeys = line % 7 != 0 && (line + part) % 3 != 0;
        // The weights of the parts are far apart.
        store(inLse, place, hasKeys ? 60 * load(inLse, place) : -infinity);
        for (int x = 0; x < D && !hasKeys; ++x)
          store(inO, place * D + x, NAN);
      }
    ASSERT_TRUE(oParts.upload().ok() && lseParts.upload().ok() && o.poison().ok() &&
                lse.poison().ok());
    LaunchArguments arguments;
    arguments.o = o.device();
    arguments.lse = lse.device();
    arguments.tensors = {{"o_parts", oParts.device()}, {"lse_parts", lseParts.device()}};
    arguments.scalars = {{"parts", double(parts)}};
    if (hasSink)
      arguments.captures = {{"z", sinks.device()}};
    Status launched = kernel->launch(arguments);
    ASSERT_TRUE(launched.ok()) << launched.error().message();
    ASSERT_TRUE(context->synchronize().ok() && o.download().ok() && lse.download().ok());
    Tensor outO = o.host(), outLse = lse.host();
    for (int line = 0; line < lines; ++line) {
      int q = line % Sq;
      double sink = hasSink && q % 5 != 0 ? double(z[line / Sq]) - q : -infinity;
      double largest = sink;
      for (int part = 0; part < parts; ++part)
        largest = std::max(largest, double(load(inLse, part * lines + line)));
      double sum = largest > -infinity ? std::exp(sink - largest) : 0;
      std::vector<double> expected(D, 0.0);
      for (int part = 0; part < parts && largest > -infinity; ++part) {
        int64_t place = part * lines + line;
        double weight = std::exp(load(inLse, place) - largest);
        sum += weight;
        for (int x = 0; x < D && weight > 0; ++x)
          expected[x] += weight * load(inO, place * D + x);
      }
      if (sum == 0) {
        ASSERT_EQ(load(outLse, line), -infinity) << "line " << line;
        for (int x = 0; x < D; ++x)
          ASSERT_EQ(load(outO, line * D + x), 0.0f) << "line " << line;
        continue;
      }
      ASSERT_NEAR(load(outLse, line), largest + std::log(sum), 1e-4) << "line " << line;
      for (int x = 0; x < D; ++x)
        ASSERT_NEAR(load(outO, line * D + x), expected[x] / sum,
                    0x1p-8 * std::abs(expected[x] / sum) + 1e-4)
            << "line " << line << ", column " << x;
    }
  }
}

TEST_P(TemplatesTest, MergeIsASoftmaxOverParts) {
  expectMerge(ElementType::f32, ElementType::bf16, /*hasSink=*/false);
  expectMerge(ElementType::f32, ElementType::f32, /*hasSink=*/false);
  expectMerge(ElementType::bf16, ElementType::bf16, /*hasSink=*/false);
}

TEST_P(TemplatesTest, MergeAddsASinkOnce) {
  expectMerge(ElementType::f32, ElementType::bf16, /*hasSink=*/true);
}

// The arguments are checked against what the template declares.
TEST_P(TemplatesTest, WrongTensorsAreSentences) {
  std::optional<Kernel> kernel = compile(productOptions(ElementType::bf16, 64, ""));
  ASSERT_TRUE(kernel);
  TestTensor memory(*context, Tensor::bhsd(nullptr, ElementType::bf16, 1, 2, 64, 64));
  auto says = [&](const std::vector<NamedTensor> &tensors, const std::string &part) {
    LaunchArguments arguments;
    arguments.tensors = tensors;
    Status status = kernel->launch(arguments);
    EXPECT_EQ(status.code(), Code::invalidArgument);
    EXPECT_NE(status.error().message().find(part), std::string::npos) << status.error().message();
  };
  Tensor good = memory.device(), wide = good, deep = good;
  wide.extents[3] = 32;
  deep.extents[2] = 32;
  says({{"a", good}, {"b", good}}, "the tensor 'o' is missing: pass it by name; the kernel's "
                                   "tensors are a, b, o");
  says({{"a", good}, {"b", good}, {"c", good}},
       "there is no tensor 'c'; the kernel's tensors are a, b, o");
  says({{"a", good}, {"b", wide}, {"o", good}},
       "b has the head dimension extent 32, the kernel has 64: they must agree");
  says({{"a", good}, {"b", deep}, {"o", good}}, "b has the length extent 32, a has 64");
}

std::string TemplatesTest::refusal(const KernelOptions &options) {
  Result<Kernel> kernel = context->compile(options);
  EXPECT_FALSE(kernel.ok());
  return kernel ? "" : kernel.error().message();
}

TEST_P(TemplatesTest, WhatCannotBeCompiledIsASentence) {
  auto expect = [](const std::string &message, const std::string &part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  KernelOptions options = productOptions(ElementType::bf16, 64, "");
  auto with = [&](const std::vector<std::string> &bindings) {
    KernelOptions changed = options;
    changed.bindings = bindings;
    return refusal(changed);
  };
  expect(with({}), "the parameter 'columns' of the template 'matmul' has no value: bind it");
  expect(with({"columns"}), "the binding 'columns' must have the form name=value");
  expect(with({"columns=wide"}), "the binding 'columns=wide' must have the form name=value");
  expect(with({"columns=64", "columns=64"}), "the parameter 'columns' is bound twice");
  expect(with({"colums=64"}), "the template 'matmul' has no parameter 'colums' to bind; did you "
                              "mean 'columns'?");
  expect(with({"rows=64"}),
         "the template 'matmul' has no parameter 'rows' to bind; it has columns");
  expect(with({"columns=64", "input=f16"}), "the parameter 'input' is set by the kernel's options");
  expect(with({"columns=0"}), "expected a tile with positive extents, got the extent 0");
  options.algorithm = "product";
  expect(refusal(options),
         "there is no template 'product'; there are backward, backward_fused, "
         "backward_in_parts, backward_parameters, exact_sums, forward, forward_in_parts, "
         "join_prefix, matmul, merge, summary, write_latents, write_pages");
  options.algorithm = "../templates/matmul";
  expect(refusal(options), "there is no template '../templates/matmul'");
  options = KernelOptions();
  options.bindings = {"columns=64"};
  options.variantText = "attention full() {}";
  expect(refusal(options),
         "the template 'forward' has no parameter 'columns' to bind; it has none");
  options = productOptions(ElementType::bf16, 64, "block_k = 3");
  expect(refusal(options), "schedule: 'block_k' is not a field of a schedule");
}

TEST_P(TemplatesTest, WhatIsOfAttentionAloneIsRefused) {
  KernelOptions options = productOptions(ElementType::bf16, 64, "");
  auto expect = [](const auto &result, const std::string &what) {
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.code(), Code::unsupported);
    EXPECT_EQ(
        result.error().message(),
        what + " is available only for the algorithm 'forward', not for 'matmul': use 'forward'");
  };
  expect(explain(options, {}), "the picture of a mask's tiles");
  expect(hostReference(options, {}), "a reference");
  Result<TuneReport> tuned = tune(*context, options, TuneShape());
  EXPECT_EQ(tuned.code(), Code::unsupported);
  EXPECT_EQ(
      tuned.error().message(),
      "tuning supports the algorithms 'forward' and 'backward', not 'matmul': use one of them");
}

INSTANTIATE_TEST_SUITE_P(Host, TemplatesTest, testing::Values("host"));
INSTANTIATE_TEST_SUITE_P(Gpu, TemplatesTest, testing::Values("cuda"));

} // namespace
