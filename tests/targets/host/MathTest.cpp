//===- MathTest.cpp - Transcendental functions on the host ------- -*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "HostLaunch.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>

using namespace tesela;
using namespace tesela::test;

static const char *functionCore = R"(
!view = !tile.view<[?, ?, ?, 64], f32>
!rows = !tile.block<query, 64>
!tile = !tile.tile<[64, 64], f32>
tile.kernel @function(%q: !view, %o: !view)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 16, stages = 1, warps = 1, q_in_registers = false>} {
  %rows = tile.work : !rows
  %x = tile.load %q[%rows] : !view[!rows] -> !tile
  %y = tile.map %x : (!tile) -> !tile {
  ^body(%e: f32, %i: i32, %j: i32):
    %f = math.{F} %e : f32
    tile.yield %f : f32
  }
  tile.store %y, %o[%rows] : !tile, !view[!rows]
}
)";

/// Compares the function, for f32 bit patterns that are `step` apart, with `expected` in double
/// precision. Returns the largest error in units of the last place. Special values must agree.
/// Results below `least` may also be 0.
static double largestError(const std::string &name, const VectorUnit &unit,
                           const std::function<double(double)> &expected, uint32_t step,
                           double least = 0) {
  auto kernel = HostKernelUnderTest::compile(substitute(functionCore, {{"F", name}}), unit);
  if (!kernel)
    return HUGE_VAL;
  std::vector<float> in{0.0f,        -0.0f,      HUGE_VALF,  -HUGE_VALF, NAN,     1.0f,
                        0x1p-149f,   0x1p-126f,  -0x1p-149f, 128.0f,     -126.0f, -149.0f,
                        -149.9999f,  -150.0001f, 127.9999f,  0.5f,       -0.5f,   2.0f,
                        0.70710677f, 0.7071068f, 1.4142135f, 1.4142137f};
  for (uint64_t bits = 0; bits < (uint64_t(1) << 32); bits += step)
    in.push_back(std::bit_cast<float>(uint32_t(bits)));
  // Most bit patterns are outside of the range in which the functions have ordinary values.
  for (int i = 0; i < 200000; ++i)
    in.push_back((float(i) - 100000) * 0.0016f);
  in.resize((in.size() + 63) / 64 * 64, 1.0f);
  std::vector<float> out(in.size());
  int rows = int(in.size() / 64);
  HostArguments arguments;
  arguments.extents = {1, 1, 1, rows, 1};
  arguments.tensors = {{"q", contiguousRows(in.data(), rows, 64)},
                       {"o", contiguousRows(out.data(), rows, 64)}};
  kernel->run(arguments);
  double worst = 0;
  int failures = 0;
  for (size_t i = 0; i < in.size() && failures < 5; ++i) {
    double exact = expected(in[i]);
    float rounded = float(exact);
    bool special = std::isnan(rounded) || std::isinf(rounded);
    if (special && !(std::isnan(rounded) ? std::isnan(out[i]) : out[i] == rounded)) {
      ++failures;
      ADD_FAILURE() << name << "(" << in[i] << ") = " << out[i] << " instead of " << rounded;
    }
    if (special || (std::fabs(exact) < least && out[i] == 0))
      continue;
    int exponent = std::max(std::ilogb(exact == 0 ? 0x1p-149 : exact), -126);
    double error = std::fabs(out[i] - exact) / std::ldexp(1.0, exponent - 23);
    if (!(error <= worst))
      worst = std::isnan(error) ? HUGE_VAL : error;
  }
  return worst;
}

TEST(HostMath, Exp2) {
  for (const VectorUnit &unit : vectorUnits())
    EXPECT_LE(largestError(
                  "exp2", unit, [](double x) { return std::exp2(x); }, 4099, std::exp2(-125.5)),
              1.5);
}

TEST(HostMath, Log2) {
  for (const VectorUnit &unit : vectorUnits())
    EXPECT_LE(largestError(
                  "log2", unit, [](double x) { return std::log2(x); }, 4099),
              2.5);
}

TEST(HostMath, FunctionsOfTheLanguage) {
  VectorUnit unit = hostVectorUnit();
  EXPECT_LE(largestError(
                "exp", unit, [](double x) { return std::exp(x); }, 65539),
            2);
  EXPECT_LE(largestError(
                "log", unit, [](double x) { return std::log(x); }, 65539),
            2);
  EXPECT_LE(largestError(
                "tanh", unit, [](double x) { return std::tanh(x); }, 65539),
            3);
  EXPECT_LE(largestError(
                "sqrt", unit, [](double x) { return std::sqrt(x); }, 65539),
            0.5);
  EXPECT_LE(largestError(
                "floor", unit, [](double x) { return std::floor(x); }, 65539),
            0);
  EXPECT_LE(largestError(
                "absf", unit, [](double x) { return std::fabs(x); }, 65539),
            0);
}
