//===- AlgorithmCApiTest.cpp - Templates from C ---------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Kernels of other templates through the C API: a template without a variant, and attention over
// sequences of different lengths.
//
//===----------------------------------------------------------------------===//
#include "tesela/tesela.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace {

template <typename T> T zeroed() {
  T value{};
  value.size = sizeof value;
  return value;
}

tesela_tensor tensorOf(void *data, tesela_type type, const std::vector<int64_t> &extents) {
  auto tensor = zeroed<tesela_tensor>();
  EXPECT_EQ(tesela_tensor_contiguous(data, type, int(extents.size()), extents.data(), &tensor),
            TESELA_OK);
  return tensor;
}

/// Only on the host: the C API's part is the same on every device.
class AlgorithmCApi : public testing::TestWithParam<const char *> {
protected:
  tesela_context *context = nullptr;
  tesela_kernel *kernel = nullptr;

  void SetUp() override {
    auto options = zeroed<tesela_context_options>();
    options.device = GetParam();
    ASSERT_EQ(tesela_context_create(&options, &context), TESELA_OK) << tesela_last_error();
  }
  void TearDown() override {
    tesela_kernel_destroy(kernel);
    tesela_context_destroy(context);
  }

  void expectError(tesela_code code, const std::string &part) {
    EXPECT_EQ(code, TESELA_INVALID_ARGUMENT);
    EXPECT_NE(std::string(tesela_last_error()).find(part), std::string::npos)
        << tesela_last_error();
  }
};

TEST_P(AlgorithmCApi, AProductNeedsNoVariant) {
  constexpr int rows = 5, depth = 7, columns = 8;
  const char *binding = "columns=8";
  auto options = zeroed<tesela_kernel_options>();
  options.algorithm = "matmul";
  options.input_type = TESELA_F32;
  options.bindings = &binding;
  expectError(tesela_compile(context, &options, &kernel),
              "the parameter 'columns' of the template 'matmul' has no value: bind it");
  options.binding_count = 1;
  ASSERT_EQ(tesela_compile(context, &options, &kernel), TESELA_OK) << tesela_last_error();

  std::vector<float> a(rows * 8), b(depth * columns), o(rows * columns, NAN);
  for (size_t i = 0; i < a.size(); ++i)
    a[i] = float(i % 5) - 2;
  for (size_t i = 0; i < b.size(); ++i)
    b[i] = float(i % 7) - 3;
  tesela_tensor tensorA = tensorOf(a.data(), TESELA_F32, {1, 1, rows, 8});
  tensorA.extents[3] = depth; // rows begin at multiples of 16 bytes
  tesela_tensor tensorB = tensorOf(b.data(), TESELA_F32, {1, 1, depth, columns}),
                tensorO = tensorOf(o.data(), TESELA_F32, {1, 1, rows, columns});
  tesela_named_tensor tensors[] = {{"a", &tensorA}, {"b", &tensorB}, {"o", &tensorO}};
  auto arguments = zeroed<tesela_tensor_arguments>();
  arguments.tensors = tensors;
  arguments.tensor_count = 2;
  expectError(tesela_launch_tensors(kernel, &arguments, nullptr), "the tensor 'o' is missing");
  arguments.tensor_count = 3;
  ASSERT_EQ(tesela_launch_tensors(kernel, &arguments, nullptr), TESELA_OK) << tesela_last_error();
  for (int row = 0; row < rows; ++row)
    for (int column = 0; column < columns; ++column) {
      float sum = 0;
      for (int x = 0; x < depth; ++x)
        sum += a[row * 8 + x] * b[x * columns + column];
      EXPECT_EQ(o[row * columns + column], sum) << row << ", " << column;
    }

  tensors[1].name = nullptr;
  expectError(tesela_check_tensors(kernel, &arguments), "tensor 1 has no name");
  arguments.tensors = nullptr;
  expectError(tesela_check_tensors(kernel, &arguments), "tensors is NULL, but tensor_count is 3");
}

// Each sequence attends only to its own first key, so o is that key's value.
TEST_P(AlgorithmCApi, SequencesHaveExtentsOfTheirOwn) {
  constexpr int tokens = 9, heads = 2, dim = 8;
  auto options = zeroed<tesela_kernel_options>();
  options.variant = "attention first() { mask = k == 0 }";
  const char *bindings[] = {"queries=ragged", "keys=ragged", "positions=given"};
  options.bindings = bindings, options.binding_count = 3;
  options.input_type = TESELA_F32;
  options.head_dim_qk = options.head_dim_v = dim;
  ASSERT_EQ(tesela_compile(context, &options, &kernel), TESELA_OK) << tesela_last_error();

  std::vector<float> q(heads * tokens * dim, 1), v(q), o(q.size(), NAN), lse(heads * tokens);
  for (size_t i = 0; i < v.size(); ++i)
    v[i] = float(i);
  std::vector<int32_t> starts = {0, 4, 9}, offsets = {0, 0};
  auto tokensOf = [&](std::vector<float> &data) {
    return tensorOf(data.data(), TESELA_F32, {1, heads, tokens, dim});
  };
  tesela_tensor tensorQ = tokensOf(q), tensorV = tokensOf(v), tensorO = tokensOf(o),
                tensorLse = tensorOf(lse.data(), TESELA_F32, {1, heads, tokens}),
                tensorStarts = tensorOf(starts.data(), TESELA_I32, {3}),
                tensorOffsets = tensorOf(offsets.data(), TESELA_I32, {2});
  tesela_named_tensor tensors[] = {
      {"starts_q", &tensorStarts}, {"starts_k", &tensorStarts}, {"offsets", &tensorOffsets}};
  auto arguments = zeroed<tesela_tensor_arguments>();
  arguments.q = arguments.k = &tensorQ;
  arguments.v = &tensorV, arguments.o = &tensorO, arguments.lse = &tensorLse;
  arguments.tensors = tensors, arguments.tensor_count = 3;
  expectError(tesela_launch_tensors(kernel, &arguments, nullptr), "the extent Sq is missing");
  tesela_named_extent extents[] = {{"Sq", 5}, {"Sk", 5}};
  arguments.extents = extents, arguments.extent_count = 2;
  ASSERT_EQ(tesela_launch_tensors(kernel, &arguments, nullptr), TESELA_OK) << tesela_last_error();
  for (int head = 0; head < heads; ++head)
    for (int token = 0; token < tokens; ++token)
      for (int x = 0; x < dim; ++x)
        EXPECT_EQ(o[(head * tokens + token) * dim + x],
                  v[(head * tokens + (token < 4 ? 0 : 4)) * dim + x])
            << head << ", " << token;
  extents[1].name = nullptr;
  expectError(tesela_check_tensors(kernel, &arguments), "extent 1 has no name");
}

INSTANTIATE_TEST_SUITE_P(Host, AlgorithmCApi, testing::Values("host"));

} // namespace
