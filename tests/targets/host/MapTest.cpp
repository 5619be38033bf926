//===- MapTest.cpp - Maps and reductions on the host ------------- -*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "HostLaunch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

using namespace tesela;
using namespace tesela::test;

static const char *mapCore = R"(
!view = !tile.view<[?, ?, ?, {D}], f32>
!lseView = !tile.view<[?, ?, ?], f32, contiguous>
!rows = !tile.block<query, {M}>
!tile = !tile.tile<[{M}, {D}], f32>
!row = !tile.tile<[{M}], f32>
tile.kernel @map(%q: !view, %o: !view, %lse: !lseView, %scale: f32)
    attributes {schedule = #tile.schedule<block_m = {M}, block_n = 16, stages = 1, warps = 1, q_in_registers = false>} {
  %rows = tile.work : !rows
  %x = tile.load %q[%rows] : !view[!rows] -> !tile
  %r = tile.load %lse[%rows] : !lseView[!rows] -> !row
  // The rows' values: r + 0.25 · row.
  %s = tile.map %r : (!row) -> !row {
  ^body(%e: f32, %i: i32, %j: i32):
    %quarter = arith.constant 0.25 : f32
    %index = arith.addi %i, %j : i32
    %fi = arith.sitofp %index : i32 to f32
    %t = arith.mulf %fi, %quarter : f32
    %y = arith.addf %e, %t : f32
    tile.yield %y : f32
  }
  // j < i ? scale · x + s : s · s
  %y = tile.map %x, %s : (!tile, !row) -> !tile {
  ^body(%e: f32, %t: f32, %i: i32, %j: i32):
    %below = arith.cmpi slt, %j, %i : i32
    %scaled = arith.mulf %e, %scale : f32
    %sum = arith.addf %scaled, %t : f32
    %square = arith.mulf %t, %t : f32
    %z = arith.select %below, %sum, %square : f32
    tile.yield %z : f32
  }
  tile.store %y, %o[%rows] : !tile, !view[!rows]
  tile.store %s, %lse[%rows] : !row, !lseView[!rows]
}
)";

TEST(HostMap, AgreesWithALoop) {
  for (const VectorUnit &unit : vectorUnits())
    for (auto [m, d] : {std::pair<int, int>{16, 32}, {7, 5}, {12, 24}, {1, 16}, {16, 1}}) {
      auto kernel = HostKernelUnderTest::compile(
          substitute(mapCore, {{"M", std::to_string(m)}, {"D", std::to_string(d)}}), unit);
      ASSERT_TRUE(kernel);
      std::vector<float> q = randomValues(ElementType::f32, m * d, 10);
      std::vector<float> lse = randomValues(ElementType::f32, m, 11), r = lse;
      std::vector<float> o(m * d, NAN);
      HostArguments arguments;
      arguments.extents = {1, 1, 1, m, 1};
      arguments.tensors = {{"q", contiguousRows(q.data(), m, d)},
                           {"o", contiguousRows(o.data(), m, d)},
                           {"lse", {lse.data(), {}, {}}}};
      arguments.floats = {{"scale", 0.3f}};
      kernel->run(arguments);
      for (int i = 0; i < m; ++i) {
        float s = r[i] + float(i) * 0.25f;
        EXPECT_EQ(lse[i], s);
        for (int j = 0; j < d; ++j) {
          // Equal bit by bit: no multiplication and addition may be fused.
          volatile float scaled = q[i * d + j] * 0.3f;
          EXPECT_EQ(o[i * d + j], j < i ? scaled + s : s * s) << "row " << i << " column " << j;
        }
      }
    }
}

static const char *reduceCore = R"(
!view = !tile.view<[?, ?, ?, {D}], f32>
!lseView = !tile.view<[?, ?, ?], f32, contiguous>
!rows = !tile.block<query, 16>
!tile = !tile.tile<[16, {D}], f32>
!row = !tile.tile<[16], f32>
tile.kernel @reduce(%q: !view, %lse: !lseView)
    attributes {schedule = #tile.schedule<block_m = 16, block_n = 16, stages = 1, warps = 1, q_in_registers = false>} {
  %rows = tile.work : !rows
  %x = tile.load %q[%rows] : !view[!rows] -> !tile
  %start = tile.load %lse[%rows] : !lseView[!rows] -> !row
  %r = tile.reduce {R} %x from %start : !tile -> !row
  %t = tile.total %r : !row -> !row
  tile.store %t, %lse[%rows] : !row, !lseView[!rows]
}
)";

static void checkExtremes(const char *kind, float (*extreme)(float, float)) {
  for (const VectorUnit &unit : vectorUnits())
    for (int d : {64, 24, 5, 1}) {
      auto kernel = HostKernelUnderTest::compile(
          substitute(reduceCore, {{"D", std::to_string(d)}, {"R", kind}}), unit);
      ASSERT_TRUE(kernel);
      std::vector<float> q = randomValues(ElementType::f32, 16 * d, 12);
      std::vector<float> lse(16, -2.0f);
      for (int x = 0; x < d; ++x) {
        q[0 * d + x] = NAN;
        q[1 * d + x] = -HUGE_VALF;
        q[2 * d + x] = x == d - 1 ? HUGE_VALF : NAN;
      }
      q[3 * d] = NAN;
      lse[1] = -HUGE_VALF;
      lse[4] = NAN;
      std::vector<float> start = lse;
      HostArguments arguments;
      arguments.extents = {1, 1, 1, 16, 1};
      arguments.tensors = {{"q", contiguousRows(q.data(), 16, d)}, {"lse", {lse.data(), {}, {}}}};
      kernel->run(arguments);
      for (int i = 0; i < 16; ++i) {
        float expected = start[i];
        for (int x = 0; x < d; ++x)
          expected = extreme(expected, q[i * d + x]);
        EXPECT_EQ(lse[i], expected) << kind << " of row " << i << " of " << d << " columns";
      }
    }
}

TEST(HostReduce, ExtremesIgnoreNaN) {
  checkExtremes("max", fmaxf);
  checkExtremes("min", fminf);
}

TEST(HostReduce, Sums) {
  for (const VectorUnit &unit : vectorUnits())
    for (int d : {128, 24, 5, 1}) {
      auto kernel = HostKernelUnderTest::compile(
          substitute(reduceCore, {{"D", std::to_string(d)}, {"R", "add"}}), unit);
      ASSERT_TRUE(kernel);
      std::vector<float> q = randomValues(ElementType::f32, 16 * d, 13);
      std::vector<float> lse = randomValues(ElementType::f32, 16, 14), start = lse;
      HostArguments arguments;
      arguments.extents = {1, 1, 1, 16, 1};
      arguments.tensors = {{"q", contiguousRows(q.data(), 16, d)}, {"lse", {lse.data(), {}, {}}}};
      kernel->run(arguments);
      for (int i = 0; i < 16; ++i) {
        double sum = start[i], magnitude = std::fabs(start[i]);
        for (int x = 0; x < d; ++x) {
          sum += q[i * d + x];
          magnitude += std::fabs(q[i * d + x]);
        }
        EXPECT_NEAR(lse[i], sum, 0x1p-21 * magnitude) << "row " << i << " of " << d << " columns";
      }
    }
}
