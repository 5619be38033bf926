//===- InterpreterTest.cpp - The interpreter follows the language ---------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "Samples.h"

#include <gmock/gmock.h>

#include <cmath>

using namespace tesela;
using namespace tesela::samples;

namespace {

/// The value of `expression` as a score at one point, with x: i32 and y: i32, or u: f32.
double valueOf(const std::string &expression, double x = 0, double y = 0, double u = 0) {
  Variant variant =
      parsed("attention t(x: i32, y: i32, u: f32) { score = 0.0 * s + (" + expression + ") }");
  Bindings bindings;
  bindings.extents = {1, 1, 1, 1, 1};
  bindings.parameters.resize(3);
  bindings.parameters[0].scalar = x;
  bindings.parameters[1].scalar = y;
  bindings.parameters[2].scalar = u;
  Result<Interpreter> interpreter = Interpreter::create(variant, bindings);
  EXPECT_TRUE(interpreter.ok());
  double exact = interpreter->score(Point(), 1.0);
  float single = interpreter->score(Point(), 1.0f);
  if (std::isnan(exact))
    EXPECT_TRUE(std::isnan(single));
  else
    EXPECT_EQ(static_cast<float>(exact), single) << expression;
  return exact;
}

constexpr double kLow = kLowest, kHigh = 2147483647.0;

} // namespace

TEST(Interpreter, DivisionRoundsDownAndIsTotal) {
  for (int x = -9; x <= 9; ++x)
    for (int y = -4; y <= 4; ++y) {
      double floor = y ? std::floor(double(x) / y) : 0;
      EXPECT_EQ(valueOf("x / y", x, y), floor);
      EXPECT_EQ(valueOf("x % y", x, y), y ? x - floor * y : 0);
    }
  EXPECT_EQ(valueOf("x / y", kLow, -1), kLow);
  EXPECT_EQ(valueOf("x % y", kLow, -1), 0);
  EXPECT_EQ(valueOf("x / y", kLow, 0), 0);
}

TEST(Interpreter, IntegersWrap) {
  EXPECT_EQ(valueOf("x + y", kHigh, 1), kLow);
  EXPECT_EQ(valueOf("x - y", kLow, 1), kHigh);
  EXPECT_EQ(valueOf("x * y", 65536, 65537), 65536);
  EXPECT_EQ(valueOf("-x", kLow), kLow);
  EXPECT_EQ(valueOf("abs(x)", kLow), kLow);
}

TEST(Interpreter, IntSaturates) {
  double nan = std::nan("");
  EXPECT_EQ(valueOf("int(u)", 0, 0, 3e9), kHigh);
  EXPECT_EQ(valueOf("int(u)", 0, 0, -3e9), kLow);
  EXPECT_EQ(valueOf("int(u)", 0, 0, -2.9), -2);
  EXPECT_EQ(valueOf("int(u)", 0, 0, INFINITY), kHigh);
  EXPECT_EQ(valueOf("int(u)", 0, 0, nan), 0);
}

TEST(Interpreter, MinimumAndMaximumDropNaN) {
  double nan = std::nan("");
  EXPECT_EQ(valueOf("min(u, 2.0)", 0, 0, nan), 2);
  EXPECT_EQ(valueOf("min(2.0, u)", 0, 0, nan), 2);
  EXPECT_EQ(valueOf("max(u, 2.0)", 0, 0, nan), 2);
  EXPECT_EQ(valueOf("clamp(u, -1, 1)", 0, 0, nan), -1);
  EXPECT_EQ(valueOf("clamp(x, 2, 5)", 9), 5);
  EXPECT_TRUE(std::isnan(valueOf("max(u, u)", 0, 0, nan)));
}

TEST(Interpreter, ReductionsGoThroughTheirIndices) {
  EXPECT_EQ(valueOf("sum(i < x: i * y)", 5, 3), 30);
  EXPECT_EQ(valueOf("sum(i < x: 0.5 * i)", 4), 3);
  EXPECT_EQ(valueOf("sum(i < x: 2147483647)", 2), -2);
  EXPECT_EQ(valueOf("any(i < x: i == y) ? 1 : 0", 5, 4), 1);
  EXPECT_EQ(valueOf("any(i < x: i == y) ? 1 : 0", 4, 4), 0);
  EXPECT_EQ(valueOf("all(i < x: i < y) ? 1 : 0", 4, 4), 1);
  EXPECT_EQ(valueOf("all(i < x: i < y) ? 1 : 0", 5, 4), 0);
  EXPECT_EQ(valueOf("sum(i < 3: sum(j < 4: i * 10 + j)) + sum(i < 2: i)"), 138 + 1);
  for (double bound : {0.0, -7.0}) {
    EXPECT_EQ(valueOf("any(i < x: true) ? 1 : 0", bound), 0);
    EXPECT_EQ(valueOf("all(i < x: false) ? 1 : 0", bound), 1);
    EXPECT_EQ(valueOf("sum(i < x: 7)", bound), 0);
  }
}

TEST(Interpreter, ASinkIsOfARow) {
  Variant variant = parsed("attention t(z: f32[H]) { sink = z[h] * q + b }");
  std::vector<float> z = {0.1f, 2};
  Bindings bindings;
  bindings.extents = {3, 2, 1, 4, 4};
  bindings.parameters.resize(1);
  bindings.parameters[0].capture = {z.data(), {2}, {1}};
  Result<Interpreter> interpreter = Interpreter::create(variant, bindings);
  ASSERT_TRUE(interpreter.ok());
  EXPECT_TRUE(interpreter->hasSink());
  EXPECT_EQ(interpreter->sink({2, 0, 0, 3, 0}), double(0.1f) * 3 + 2);
  EXPECT_EQ(interpreter->sinkInFloat({2, 0, 0, 3, 0}), 0.1f * 3 + 2);
  Result<Interpreter> without =
      Interpreter::create(parsed("attention t { }"), {{1, 1, 1, 1, 1}, {}});
  ASSERT_TRUE(without.ok());
  EXPECT_FALSE(without->hasSink());
}

TEST(Interpreter, NaNIsUnordered) {
  for (const char *comparison : {"u < u", "u <= u", "u > u", "u >= u", "u == u"})
    EXPECT_EQ(valueOf(std::string(comparison) + " ? 1 : 0", 0, 0, std::nan("")), 0);
  EXPECT_EQ(valueOf("u != u ? 1 : 0", 0, 0, std::nan("")), 1);
  EXPECT_EQ(valueOf("!(u < 1) ? 1 : 0", 0, 0, std::nan("")), 1);
}

TEST(Interpreter, ReadsAreClampedAndFollowStrides) {
  SampleLaunch launch(0, 0);
  Variant variant =
      parsed(withParameters("score = s + table[q - 5, k - 5] + none[q] + w * c + slope[h]"));
  Result<Interpreter> interpreter = Interpreter::create(variant, launch.bindings);
  ASSERT_TRUE(interpreter.ok());
  for (int q = 0; q < 12; ++q)
    for (int k = 0; k < 16; ++k) {
      int row = std::min(std::max(q - 5, 0), 2), column = std::min(std::max(k - 5, 0), 3);
      EXPECT_EQ(interpreter->score({0, 3, 1, q, k}, 0.0), launch.table[row + 3 * column] + 3.0);
    }
}

TEST(Interpreter, TheReferenceIsDoubleAndTheMaskIsNot) {
  // In f32 1 + 2^-30 is 1.
  Variant variant = parsed("attention t { let x = 1.0 + 0.000000000931322574615478515625\n"
                           " mask = x == 1.0\n score = x - 1.0 }");
  Result<Interpreter> interpreter = Interpreter::create(variant, Bindings());
  ASSERT_TRUE(interpreter.ok());
  EXPECT_EQ(interpreter->score(Point(), 0.0), 0x1p-30);
  EXPECT_EQ(interpreter->score(Point(), 0.0f), 0.0f);
  EXPECT_TRUE(interpreter->mask(Point()));
}

TEST(Interpreter, RoundoffsBoundTheErrorsOfF32) {
  int compared = 0;
  for (const char *expression :
       {"1 - exp(log(abs(s))) / abs(s)", "(s + 1000) * (s - 1000) - s * s", "s * s - s / 3",
        "exp(s) - exp(-s)", "sqrt(s * s + 1) - abs(s)", "tanh(s) - s", "sin(s) * cos(s / 7)",
        "sum(i < 9: s / (i + 1) - 2 * s)", "s > 0 ? exp(-s) : log(1 - s)",
        "min(s * 3, 1 / s) + max(s, 0.1) - floor(0.5)", "1.0 * (16777217 + k) - 16777216"}) {
    Result<Interpreter> interpreter = Interpreter::create(
        parsed(std::string("attention t { score = ") + expression + " }"), Bindings());
    ASSERT_TRUE(interpreter.ok());
    for (int n = -400; n <= 400; ++n) {
      float s = std::ldexp(float(n) + 0.3f, -5);
      RoundedNumber rounded = interpreter->roundedScore(Point(), double(s));
      double value = interpreter->score(Point(), double(s));
      float single = interpreter->score(Point(), s);
      ASSERT_EQ(rounded.value, value) << expression << " at " << s;
      ASSERT_LE(std::fabs(double(single) - value), rounded.roundoff) << expression << " at " << s;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 11 * 801);
}

// A read's operands are not slots.
TEST(Interpreter, ReadsAreExact) {
  std::vector<float> t = {0.5f, 3};
  Bindings bindings;
  bindings.extents = {1, 1, 1, 2, 2};
  bindings.parameters.resize(1);
  bindings.parameters[0].capture = {t.data(), {1, 1, 1, 2}, {2, 2, 2, 1}};
  Variant variant =
      parsed("attention t(t: f32[A, C, D, Sk]) { score = t[k, k, k, k] + t[b, b, b, b] }");
  Result<Interpreter> interpreter = Interpreter::create(variant, bindings);
  ASSERT_TRUE(interpreter.ok());
  RoundedNumber rounded = interpreter->roundedScore({0, 0, 0, 0, 1}, 0.25);
  EXPECT_EQ(rounded.value, 3.5);
  EXPECT_EQ(rounded.roundoff, 0x1p-24 * 3.5); // of the sum
}

TEST(Interpreter, RoundoffsAreLargeOnlyWhereTermsCancel) {
  auto roundoffOf = [](const char *expression, double s) {
    Variant variant = parsed(std::string("attention t { score = ") + expression + " }");
    Result<Interpreter> interpreter = Interpreter::create(variant, Bindings());
    EXPECT_TRUE(interpreter.ok());
    return interpreter->roundedScore(Point(), s).roundoff;
  };
  EXPECT_EQ(roundoffOf("s", 0.7), 0);
  EXPECT_EQ(roundoffOf("floor(s * 3)", 0.7), 0);
  EXPECT_EQ(roundoffOf("s > 0 ? 2.0 : exp(s)", 0.7), 0); // the other side was not computed
  EXPECT_LE(roundoffOf("s * 0.001", 0.7), 0x1p-24 * 0.001);
  double ofOne = roundoffOf("1 - exp(log(s)) / s", 0.7); // 0, from two numbers of 1
  EXPECT_GE(ofOne, 0x1p-22);
  EXPECT_LE(ofOne, 0x1p-20);
  EXPECT_TRUE(std::isinf(roundoffOf("1 / (s * 0.0)", 0.7)));
}

/// Calls `check` for each mask of the samples with each pair of scalars.
template <typename Check> void forEachMask(Check check) {
  for (const std::string &mask : kMasks)
    for (auto [w, c] : kScalars) {
      SampleLaunch launch(w, c);
      Variant variant = parsed(withParameters("mask = " + mask));
      Result<Interpreter> interpreter = Interpreter::create(variant, launch.bindings);
      ASSERT_TRUE(interpreter.ok()) << interpreter.error().message();
      check(mask, launch, *interpreter);
    }
}

// Values that all keys of a row share are evaluated once; the result must not change.
TEST(Interpreter, CountsTheKeptKeysOfARow) {
  forEachMask([](const std::string &mask, SampleLaunch &launch, const Interpreter &interpreter) {
    for (Point point : launch.points(20)) {
      int64_t keys = launch.bindings.extents.Sk - point.k, kept = 0;
      EXPECT_EQ(interpreter.keptKeys(point, 0), 0);
      int64_t counted = interpreter.keptKeys(point, keys);
      for (int64_t key = 0; key < keys; ++key, ++point.k)
        kept += interpreter.mask(point);
      EXPECT_EQ(counted, kept) << mask;
    }
  });
}

// Instructions run for 64 pairs at once.
TEST(Interpreter, TestsManyPairsTogether) {
  forEachMask([](const std::string &mask, SampleLaunch &launch, const Interpreter &interpreter) {
    std::vector<Point> points = launch.points(200);
    for (size_t count : {0, 1, 63, 64, 65, 128, 200}) {
      Point where = points[count / 2];
      std::vector<int32_t> queries, keys;
      for (size_t i = 0; i < count; ++i) {
        queries.push_back(points[i].q);
        keys.push_back(points[i].k);
      }
      std::vector<uint8_t> keeps(count + 1, 7);
      interpreter.keepsPairs(where, queries.data(), keys.data(), count, keeps.data());
      EXPECT_EQ(keeps[count], 7) << "it writes behind the last pair";
      for (size_t i = 0; i < count; ++i) {
        Point pair = where;
        pair.q = queries[i];
        pair.k = keys[i];
        ASSERT_EQ(keeps[i], interpreter.mask(pair)) << mask << ", pair " << i << " of " << count;
      }
    }
  });
}

TEST(Interpreter, LargeVariantsNeedMoreThanTheStack) {
  std::string sum = "s";
  for (int i = 0; i < 500; ++i)
    sum += " + 1.0";
  Variant variant = parsed("attention t { score = " + sum + " }");
  Result<Interpreter> interpreter = Interpreter::create(variant, Bindings());
  ASSERT_TRUE(interpreter.ok());
  EXPECT_EQ(interpreter->score(Point(), 0.0), 500.0);
}

TEST(Interpreter, BindingsAreChecked) {
  Variant variant = parsed("attention t(w: i32, t: f32[H]) { mask = w > k\n score = s + t[h] }");
  auto message = [&](const Bindings &bindings) {
    Result<Interpreter> interpreter = Interpreter::create(variant, bindings);
    EXPECT_EQ(interpreter.code(), Code::invalidArgument);
    return interpreter.ok() ? std::string() : interpreter.error().message();
  };
  float data = 1;
  Bindings good;
  good.parameters = {{3, {}}, {0, {&data, {1}, {1}}}};
  EXPECT_TRUE(Interpreter::create(variant, good).ok());

  Bindings bad = good;
  bad.parameters.pop_back();
  EXPECT_THAT(message(bad), testing::HasSubstr("has 2 parameters, but 1 values"));
  bad = good;
  bad.parameters[0].scalar = 0.5;
  EXPECT_THAT(message(bad), testing::HasSubstr("is i32, but its value is"));
  bad.parameters[0].scalar = 3e9;
  EXPECT_THAT(message(bad), testing::HasSubstr("is i32, but its value is"));
  bad = good;
  bad.parameters[1].capture.strides = {1, 1};
  EXPECT_THAT(message(bad), testing::HasSubstr("1 extents and 2 strides"));
  bad = good;
  bad.parameters[1].capture.extents = {-1};
  EXPECT_THAT(message(bad), testing::HasSubstr("an extent of -1"));
  bad = good;
  bad.parameters[1].capture.data = nullptr;
  EXPECT_THAT(message(bad), testing::HasSubstr("has no data"));
}
