//===- MemoryTest.cpp - Loads, stores and reads on the host ------ -*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "HostLaunch.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace tesela;
using namespace tesela::test;

static const char *copyCore = R"(
!view = !tile.view<[?, ?, ?, {D}], {T}>
!rows = !tile.block<query, {M}>
!tile = !tile.tile<[{M}, {D}], {T}>
tile.kernel @copy(%q: !view, %o: !view)
    attributes {schedule = #tile.schedule<block_m = {M}, block_n = 16, stages = 1, warps = 1, q_in_registers = false>} {
  %rows = tile.work : !rows
  %x = tile.load %q[%rows] : !view[!rows] -> !tile
  tile.store %x, %o[%rows] : !tile, !view[!rows]
}
)";

static std::string copyOf(ElementType type, int rows, int d) {
  return substitute(copyCore, {{"M", std::to_string(rows)},
                               {"D", std::to_string(d)},
                               {"T", std::string(elementTypeName(type))}});
}

// Strides with gaps, lengths that no block divides, two batches and heads. The bytes between the
// rows and behind them must not change.
TEST(HostMemory, CopiesExistingRowsOnly) {
  for (ElementType type : {ElementType::f32, ElementType::f16, ElementType::bf16})
    for (int d : {1, 3, 8, 24, 64}) {
      auto kernel = HostKernelUnderTest::compile(copyOf(type, 16, d));
      ASSERT_TRUE(kernel);
      for (int length : {1, 15, 16, 17, 39}) {
        int64_t stride = d + 5, head = stride * length + 3, batch = head * 2 + 7;
        std::vector<float> values = randomValues(type, batch * 2, 4);
        std::vector<char> in = encode(type, values);
        std::vector<char> out = encode(type, std::vector<float>(values.size(), 42));
        HostArguments arguments;
        arguments.extents = {2, 2, 2, length, 1};
        arguments.tensors = {{"q", {in.data(), {batch, head, stride}, {}}},
                             {"o", {out.data(), {batch, head, stride}, {}}}};
        kernel->run(arguments);
        std::vector<float> expected(values.size(), 42);
        for (int b = 0; b < 2; ++b)
          for (int h = 0; h < 2; ++h)
            for (int row = 0; row < length; ++row)
              for (int x = 0; x < d; ++x) {
                int64_t at = b * batch + h * head + row * stride + x;
                expected[at] = values[at];
              }
        EXPECT_EQ(decode(type, out), expected) << "D " << d << ", length " << length;
      }
    }
}

TEST(HostMemory, KeepsEveryBitPatternOf16Bits) {
  std::vector<uint16_t> in(65536);
  for (size_t bits = 0; bits < in.size(); ++bits)
    in[bits] = uint16_t(bits);
  for (const VectorUnit &unit : vectorUnits())
    for (ElementType type : {ElementType::f16, ElementType::bf16}) {
      auto kernel = HostKernelUnderTest::compile(copyOf(type, 64, 64), unit);
      ASSERT_TRUE(kernel);
      std::vector<uint16_t> out(in.size());
      HostArguments arguments;
      arguments.extents = {1, 1, 1, 1024, 1};
      arguments.tensors = {{"q", contiguousRows(in.data(), 1024, 64)},
                           {"o", contiguousRows(out.data(), 1024, 64)}};
      kernel->run(arguments);
      auto value = type == ElementType::f16 ? f16ToFloat : bf16ToFloat;
      for (size_t bits = 0; bits < in.size(); ++bits) {
        if (std::isnan(value(uint16_t(bits))))
          EXPECT_TRUE(std::isnan(value(out[bits]))) << "bits " << bits;
        else
          EXPECT_EQ(out[bits], bits);
      }
    }
}

TEST(HostMemory, RowsBehindTheLimitLoadAsZeros) {
  // Sums the rows of a block of keys for each existing row of queries.
  auto kernel = HostKernelUnderTest::compile(R"(
!view = !tile.view<[?, ?, ?, 16], f32>
!rows = !tile.block<query, 16>
!keys = !tile.block<key, 16>
!tile = !tile.tile<[16, 16], f32>
tile.kernel @keys(%k: !view, %o: !view)
    attributes {schedule = #tile.schedule<block_m = 16, block_n = 16, stages = 1, warps = 1, q_in_registers = false>} {
  %rows = tile.work : !rows
  %second = arith.constant 16 : i32
  %keys = tile.block %second of %rows : !rows -> !keys
  %x = tile.load %k[%keys] : !view[!keys] -> !tile
  tile.store %x, %o[%rows] : !tile, !view[!rows]
}
)");
  ASSERT_TRUE(kernel);
  // Block 1 begins at key 16. With 20 keys it has 4 rows, with 10 keys it has none.
  for (int keys : {20, 10, 0}) {
    std::vector<float> in = randomValues(ElementType::f32, keys * 16, 5);
    std::vector<float> out(16 * 16, NAN);
    HostArguments arguments;
    arguments.extents = {1, 1, 1, 16, keys};
    arguments.tensors = {{"k", contiguousRows(in.data(), keys, 16)},
                         {"o", contiguousRows(out.data(), 16, 16)}};
    kernel->run(arguments);
    for (int row = 0; row < 16; ++row)
      for (int x = 0; x < 16; ++x)
        EXPECT_EQ(out[row * 16 + x], 16 + row < keys ? in[(16 + row) * 16 + x] : 0.0f);
  }
}

// o[i, j] = t[i + 7j - 20] + float(n[head, i])
static const char *readCore = R"(
!view = !tile.view<[?, ?, ?, 24], f32>
!rows = !tile.block<query, 16>
!tile = !tile.tile<[16, 24], f32>
tile.kernel @read(%o: !view, %$t: !tile.view<[?], f32>, %$n: !tile.view<[?, ?], i32>)
    attributes {schedule = #tile.schedule<block_m = 16, block_n = 16, stages = 1, warps = 1, q_in_registers = false>} {
  %rows = tile.work : !rows
  %b, %h, %kv, %first = tile.coordinates %rows : !rows
  %x = tile.map : () -> !tile {
  ^body(%i: i32, %j: i32):
    %seven = arith.constant 7 : i32
    %twenty = arith.constant 20 : i32
    %seven_j = arith.muli %j, %seven : i32
    %sum = arith.addi %i, %seven_j : i32
    %index = arith.subi %sum, %twenty : i32
    %t = tile.read %$t[%index] : !tile.view<[?], f32> -> f32
    %n = tile.read %$n[%h, %i] : !tile.view<[?, ?], i32> -> i32
    %nf = arith.sitofp %n : i32 to f32
    %y = arith.addf %t, %nf : f32
    tile.yield %y : f32
  }
  tile.store %x, %o[%rows] : !tile, !view[!rows]
}
)";

TEST(HostMemory, ReadsAreClampedAndEmptyTensorsGiveZero) {
  for (const VectorUnit &unit : vectorUnits()) {
    auto kernel = HostKernelUnderTest::compile(readCore, unit);
    ASSERT_TRUE(kernel);
    for (int count : {0, 1, 50})
      for (int columns : {0, 5}) {
        constexpr int64_t stride = 2, head = 11;
        std::vector<float> t = randomValues(ElementType::f32, count * stride, 6);
        std::vector<int32_t> n(head * 2 + columns);
        for (size_t i = 0; i < n.size(); ++i)
          n[i] = int32_t(i * i);
        std::vector<float> o(2 * 16 * 24, NAN);
        HostArguments arguments;
        arguments.extents = {1, 2, 1, 16, 1};
        arguments.tensors = {{"o", {o.data(), {0, 16 * 24, 24}, {}}},
                             {"$t", {count ? t.data() : nullptr, {stride}, {count}}},
                             {"$n", {columns ? n.data() : nullptr, {head, 1}, {2, columns}}}};
        kernel->run(arguments);
        for (int h = 0; h < 2; ++h)
          for (int i = 0; i < 16; ++i)
            for (int j = 0; j < 24; ++j) {
              float tValue = count ? t[std::clamp(i + 7 * j - 20, 0, count - 1) * stride] : 0.0f;
              float nValue = columns ? float(n[h * head + std::clamp(i, 0, columns - 1)]) : 0.0f;
              ASSERT_EQ(o[(h * 16 + i) * 24 + j], tValue + nValue)
                  << "h " << h << " i " << i << " j " << j;
            }
      }
  }
}
