//===- ControlFlowTest.cpp - Tiles through loops and branches ---- -*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Ops overwrite the buffers of tiles whose old values are not needed any more. These tests are
// cases in which the old values are still needed.
//
//===----------------------------------------------------------------------===//
#include "HostLaunch.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

using namespace tesela;
using namespace tesela::test;

static const char *prologue = R"(
!view = !tile.view<[?, ?, ?, 16], f32>
!rows = !tile.block<query, 16>
!tile = !tile.tile<[16, 16], f32>
tile.kernel @flow(%q: !view, %k: !view, %o: !view, %$n: i32, %$x: f32)
    attributes {schedule = #tile.schedule<block_m = 16, block_n = 16, stages = 1, warps = 1, q_in_registers = false>} {
  %rows = tile.work : !rows
  %a = tile.load %q[%rows] : !view[!rows] -> !tile
  %b = tile.load %k[%rows] : !view[!rows] -> !tile
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
)";
static const char *epilogue = R"(
  tile.store %r, %o[%rows] : !tile, !view[!rows]
}
)";

/// Runs `body`, which computes %r from %a, %b and the scalars %$n and %$x. Compares %r with
/// `expected` of the elements of a and b.
static void check(const std::string &body, int n, float x,
                  const std::function<float(float, float)> &expected) {
  auto kernel = HostKernelUnderTest::compile(prologue + body + epilogue);
  ASSERT_TRUE(kernel);
  std::vector<float> a = randomValues(ElementType::f32, 256, 15);
  std::vector<float> b = randomValues(ElementType::f32, 256, 16), o(256, NAN);
  HostArguments arguments;
  arguments.extents = {1, 1, 1, 16, 16};
  arguments.tensors = {{"q", contiguousRows(a.data(), 16, 16)},
                       {"k", contiguousRows(b.data(), 16, 16)},
                       {"o", contiguousRows(o.data(), 16, 16)}};
  arguments.integers = {{"$n", n}};
  arguments.floats = {{"$x", x}};
  kernel->run(arguments);
  for (int i = 0; i < 256; ++i)
    ASSERT_EQ(o[i], expected(a[i], b[i])) << "element " << i << " with n = " << n;
}

/// `%name = source · 2 + x`
static std::string doubled(const std::string &name, const std::string &source) {
  return substitute(R"(
  %{N} = tile.map %{S} : (!tile) -> !tile {
  ^body(%v: f32, %row: i32, %column: i32):
    %twice = arith.addf %v, %v : f32
    %y = arith.addf %twice, %$x : f32
    tile.yield %y : f32
  }
)",
                    {{"N", name}, {"S", source}});
}

static std::string sum(const std::string &name, const std::string &left, const std::string &right) {
  return substitute(R"(
  %{N} = tile.map %{L}, %{R} : (!tile, !tile) -> !tile {
  ^body(%v: f32, %w: f32, %row: i32, %column: i32):
    %y = arith.addf %v, %w : f32
    tile.yield %y : f32
  }
)",
                    {{"N", name}, {"L", left}, {"R", right}});
}

TEST(HostControlFlow, AValueNeededLaterIsKept) {
  check(doubled("c", "a") + sum("r", "c", "a"), 0, 1, [](float a, float) { return a * 2 + 1 + a; });
}

TEST(HostControlFlow, AValueFromOutsideALoopIsKept) {
  std::string body = R"(
  %r = scf.for %round = %zero to %$n step %one iter_args(%s = %b) -> (!tile) : i32 {
)" + doubled("c", "a") +
                     sum("t", "s", "c") + R"(
    scf.yield %t : !tile
  })";
  for (int n : {0, 1, 3})
    check(body, n, 0, [&](float a, float b) {
      for (int i = 0; i < n; ++i)
        b += 2 * a;
      return b;
    });
}

TEST(HostControlFlow, CarriedValuesAreSwapped) {
  std::string body = R"(
  %s, %r = scf.for %round = %zero to %$n step %one iter_args(%c = %a, %d = %b) -> (!tile, !tile) : i32 {
)" + doubled("e", "c") +
                     R"(
    scf.yield %d, %e : !tile, !tile
  })";
  for (int n : {0, 1, 2, 3})
    check(body, n, 1, [&](float a, float b) {
      for (int i = 0; i < n; ++i) {
        float e = 2 * a + 1;
        a = b;
        b = e;
      }
      return b;
    });
}

TEST(HostControlFlow, ScalarsAreCarriedBesideTiles) {
  std::string body = R"(
  %f, %r = scf.for %round = %zero to %$n step %one iter_args(%c = %$x, %d = %b) -> (f32, !tile) : i32 {
    %next = arith.addf %c, %$x : f32
    %e = tile.map %d : (!tile) -> !tile {
    ^body(%v: f32, %row: i32, %column: i32):
      %y = arith.addf %v, %c : f32
      tile.yield %y : f32
    }
    scf.yield %next, %e : f32, !tile
  })";
  check(body, 3, 0.5f, [](float, float b) { return b + 0.5f + 1.0f + 1.5f; });
}

TEST(HostControlFlow, BothSidesOfABranch) {
  std::string condition = "  %yes = arith.cmpi sgt, %$n, %zero : i32\n";
  // %a is not used after the branch: one side changes it in place, the other passes it on.
  std::string dies = condition + "%r = scf.if %yes -> (!tile) {" + doubled("c", "a") +
                     "scf.yield %c : !tile } else { scf.yield %a : !tile }";
  // %a is used after the branch.
  std::string lives = condition + "%s = scf.if %yes -> (!tile) {" + doubled("c", "a") +
                      "scf.yield %c : !tile } else { scf.yield %a : !tile }" + doubled("t", "s") +
                      sum("r", "t", "a");
  // A constant on one side, and the other tile on the other.
  std::string constant = condition + R"(
  %seven = tile.constant 7.0 : !tile
  %r = scf.if %yes -> (!tile) { scf.yield %seven : !tile } else { scf.yield %b : !tile })";
  // A scalar result beside the tile.
  std::string scalar = condition + R"(
  %f, %s = scf.if %yes -> (f32, !tile) { scf.yield %$x, %a : f32, !tile }
      else { %negative = arith.negf %$x : f32 scf.yield %negative, %b : f32, !tile }
  %r = tile.map %s : (!tile) -> !tile {
  ^body(%v: f32, %row: i32, %column: i32):
    %y = arith.addf %v, %f : f32
    tile.yield %y : f32
  })";
  for (int n : {0, 1}) {
    check(dies, n, 1, [&](float a, float) { return n ? 2 * a + 1 : a; });
    check(lives, n, 1, [&](float a, float) { return 2 * (n ? 2 * a + 1 : a) + 1 + a; });
    check(constant, n, 1, [&](float, float b) { return n ? 7 : b; });
    check(scalar, n, 0.5f, [&](float a, float b) { return n ? a + 0.5f : b - 0.5f; });
  }
}

TEST(HostControlFlow, AnUnknownOperationIsADefect) {
  testing::TestPartResultArray failures;
  {
    testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
    EXPECT_FALSE(HostKernelUnderTest::compile(
        prologue + std::string("%f = tile.exponent_factor %$x\n") + doubled("r", "a") + epilogue));
  }
  ASSERT_EQ(failures.size(), 1);
  EXPECT_NE(std::string(failures.GetTestPartResult(0).message()).find("tile.exponent_factor"),
            std::string::npos);
}
