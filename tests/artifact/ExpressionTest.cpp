//===- ExpressionTest.cpp -------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tesela/compiler/Artifact.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

using namespace tesela;

namespace {

int64_t evaluate(const std::string &text, const Extents &extents = {2, 8, 4, 1000, 333}) {
  Result<Expression> expression = Expression::parse(text);
  EXPECT_TRUE(expression.ok()) << (expression ? "" : expression.error().message());
  return expression ? expression->evaluate(extents) : -1;
}

TEST(Expression, Values) {
  EXPECT_EQ(evaluate("17"), 17);
  EXPECT_EQ(evaluate("-17"), -17);
  EXPECT_EQ(evaluate("B"), 2);
  EXPECT_EQ(evaluate("H"), 8);
  EXPECT_EQ(evaluate("Hkv"), 4);
  EXPECT_EQ(evaluate("Sq"), 1000);
  EXPECT_EQ(evaluate("Sk"), 333);
  EXPECT_EQ(evaluate("(* (ceildiv Sq 128) (* B H))"), 8 * 16);
  EXPECT_EQ(evaluate(" ( +  Sk\n1 ) "), 334);
}

TEST(Expression, ExtentsOfCapturedTensors) {
  Result<Expression> expression = Expression::parse("(+ (* $doc.1 $a_b.0) (ceildiv $doc.1 16))");
  ASSERT_TRUE(expression.ok()) << expression.error().message();
  EXPECT_EQ(expression->captureAxes(),
            (std::vector<CaptureAxis>{{"$doc", 1}, {"$a_b", 0}})); // each once, as they come
  EXPECT_EQ(expression->evaluate({}, std::vector<int64_t>{33, 7}), 33 * 7 + 3);
  EXPECT_EQ(expression->evaluate({}), 0); // what is not known is 0
  int64_t large = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(expression->evaluate({}, std::vector<int64_t>{large, 2}), large);
}

TEST(Expression, CeilDivideRoundsUpAndDividesByNothing) {
  for (int64_t a : {-7, -4, -1, 0, 1, 3, 4, 5, 8})
    for (int64_t b : {1, 2, 3, 4})
      EXPECT_EQ(evaluate("(ceildiv " + std::to_string(a) + " " + std::to_string(b) + ")"),
                int64_t(std::ceil(double(a) / double(b))));
  EXPECT_EQ(evaluate("(ceildiv Sq 0)"), 0);
}

TEST(Expression, MaximumIsTheGreaterOne) {
  EXPECT_EQ(evaluate("(max Sq Sk)"), 1000);
  EXPECT_EQ(evaluate("(max 1 (+ -1 (ceildiv 3 Sk)))"), 1);
  EXPECT_EQ(evaluate("(max -3 -2)"), -2);
}

TEST(Expression, ComputesIn64BitsAndHoldsTheEnds) {
  int32_t large = std::numeric_limits<int32_t>::max();
  Extents extents{large, large, large, large, large};
  EXPECT_EQ(evaluate("(* B H)", extents), int64_t(large) * large);
  EXPECT_EQ(evaluate("(* Sq (* B H))", extents), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(evaluate("(* -1 (* Sq (* B (* B H))))", extents), -std::numeric_limits<int64_t>::max());
}

TEST(Expression, WrongTextsAreErrors) {
  for (const char *text :
       {"",          "(",           ")",       "()",  "(+ 1)", "(+ 1 2",
        "(+ 1 2 3)", "1 2",         "(- 1 2)", "Sx",  "12a",   "$doc",
        "$doc.",     "$doc.8",      "$doc.10", "$.1", "doc.1", "99999999999999999999",
        "(+ 1 2))",  "(ceildiv 1)", "(max 1)"}) {
    Result<Expression> expression = Expression::parse(text);
    ASSERT_FALSE(expression.ok()) << text;
    EXPECT_NE(expression.error().message().find(text), std::string::npos);
  }
}

TEST(Expression, DeepTextsAreErrorsAndNoOverflow) {
  std::string text;
  for (int i = 0; i < 100000; ++i)
    text += "(+ 1 ";
  EXPECT_FALSE(Expression::parse(text).ok());
}

/// A random expression beside its value, computed apart.
std::pair<std::string, int64_t> randomExpression(std::mt19937 &random, int depth) {
  if (depth == 0 || random() % 3 == 0) {
    int64_t value = int64_t(random() % 100) + 1;
    return {std::to_string(value), value};
  }
  auto [left, a] = randomExpression(random, depth - 1);
  auto [right, b] = randomExpression(random, depth - 1);
  switch (random() % 4) {
  case 0:
    return {"(+ " + left + " " + right + ")", a + b};
  case 1:
    return {"(* " + left + " " + right + ")", a * b};
  case 2:
    return {"(max " + left + " " + right + ")", std::max(a, b)};
  default:
    return {"(ceildiv " + left + " " + right + ")", (a + b - 1) / b};
  }
}

TEST(Expression, RandomOnesAgreeWithPlainArithmetic) {
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i) {
    auto [text, value] = randomExpression(random, 3);
    EXPECT_EQ(evaluate(text), value) << text;
  }
}

TEST(Expression, NamesAndNumbersAreKnown) {
  auto parse = [](const char *text) { return *Expression::parse(text); };
  EXPECT_EQ(parse("Hkv").extentIndex(), 2);
  EXPECT_EQ(parse("Hkv").constant(), std::nullopt);
  EXPECT_EQ(parse("64").constant(), 64);
  EXPECT_EQ(parse("64").extentIndex(), std::nullopt);
  EXPECT_EQ(parse("(* Sq 1)").extentIndex(), std::nullopt);
  EXPECT_EQ(parse("$doc.1").constant(), std::nullopt);
  EXPECT_TRUE(parse("Sq") == parse("Sq"));
  EXPECT_FALSE(parse("Sq") == parse("Sk"));
}

} // namespace
