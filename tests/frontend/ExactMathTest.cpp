//===- ExactMathTest.cpp - The errors of the shared functions -------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The bounds are those of ExactMath.h. The reference is the C library in double,
// whose error is far less than a millionth of the last place of an f32.
//
//===----------------------------------------------------------------------===//
#include "frontend/ExactMath.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

using namespace tesela;

namespace {

using Function = float (*)(FloatArithmetic &, float);
using Reference = double (*)(double);
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// |found - exact| in units in the last place of `exact` as an f32.
double unitsInTheLastPlace(float found, double exact) {
  if (std::isnan(exact))
    return std::isnan(found) ? 0 : kInfinity;
  if (std::fabs(exact) > std::numeric_limits<float>::max())
    return std::isinf(found) && (found < 0) == (exact < 0) ? 0 : kInfinity;
  double unit = std::fabs(exact) < 0x1p-126 ? 0x1p-149 : std::ldexp(1.0, std::ilogb(exact) - 23);
  return std::fabs(found - exact) / unit;
}

/// The largest error over f32 values in [-range, range], with all exponents and
/// both signs.
template <typename Error> double largestError(float range, Error error) {
  double largest = 0;
  for (uint64_t bits = 0; bits <= 0xffffffffu; bits += 997) {
    float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (std::fabs(x) <= range)
      largest = std::max(largest, error(x));
  }
  return largest;
}

double largestUnits(Function function, Reference reference, float range = kInfinity) {
  FloatArithmetic a;
  return largestError(range,
                      [&](float x) { return unitsInTheLastPlace(function(a, x), reference(x)); });
}

} // namespace

TEST(ExactMath, ErrorsStayWithinTheirBounds) {
  EXPECT_LE(largestUnits(exactExp<FloatArithmetic>, std::exp), 1.0);
  EXPECT_LE(largestUnits(exactLog<FloatArithmetic>, std::log), 1.0);
  EXPECT_LE(largestUnits(exactTanh<FloatArithmetic>, std::tanh), 1.5);
  constexpr float kQuarterPi = std::numbers::pi_v<float> / 4;
  EXPECT_LE(largestUnits(exactSin<FloatArithmetic>, std::sin, kQuarterPi), 1.0);
  EXPECT_LE(largestUnits(exactCos<FloatArithmetic>, std::cos, kQuarterPi), 1.0);
}

TEST(ExactMath, SineAndCosineHoldOverTheirRange) {
  FloatArithmetic a;
  EXPECT_LE(
      largestError(65536, [&](float x) { return std::fabs(exactSin(a, x) - std::sin(double(x))); }),
      0x1p-23);
  EXPECT_LE(
      largestError(65536, [&](float x) { return std::fabs(exactCos(a, x) - std::cos(double(x))); }),
      0x1p-23);
  EXPECT_EQ(exactSin(a, 1e30f), exactSin(a, 65536.0f));
  EXPECT_EQ(exactCos(a, -1e30f), exactCos(a, -65536.0f));
}

TEST(ExactMath, SpecialValues) {
  FloatArithmetic a;
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  for (Function function :
       {exactExp<FloatArithmetic>, exactLog<FloatArithmetic>, exactTanh<FloatArithmetic>,
        exactSin<FloatArithmetic>, exactCos<FloatArithmetic>})
    EXPECT_TRUE(std::isnan(function(a, kNaN)));
  EXPECT_EQ(exactExp(a, 0.0f), 1.0f);
  EXPECT_EQ(exactExp(a, kInfinity), kInfinity);
  EXPECT_EQ(exactExp(a, -kInfinity), 0.0f);
  EXPECT_EQ(exactExp(a, 88.8f), kInfinity);
  EXPECT_EQ(exactExp(a, -103.0f), 0x1p-149f); // denormal results are not flushed
  EXPECT_EQ(exactLog(a, 1.0f), 0.0f);
  EXPECT_EQ(exactLog(a, 0.0f), -kInfinity);
  EXPECT_EQ(exactLog(a, -0.0f), -kInfinity);
  EXPECT_EQ(exactLog(a, kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(exactLog(a, -1.0f)));
  EXPECT_NEAR(exactLog(a, 0x1p-149f), -103.27893f, 1e-5f);
  EXPECT_EQ(exactTanh(a, kInfinity), 1.0f);
  EXPECT_EQ(exactTanh(a, -kInfinity), -1.0f);
  EXPECT_TRUE(std::signbit(exactTanh(a, -0.0f)));
  EXPECT_TRUE(std::signbit(exactSin(a, -0.0f)));
  EXPECT_EQ(exactCos(a, 0.0f), 1.0f);
  EXPECT_TRUE(std::isnan(exactSin(a, kInfinity)));
  EXPECT_TRUE(std::isnan(exactCos(a, -kInfinity)));
}
