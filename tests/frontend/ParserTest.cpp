//===- ParserTest.cpp - The variants that texts give ----------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/Parser.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>

using namespace tesela;

namespace {

Variant parsed(const std::string &text) {
  Result<Variant> variant = parseVariant(text, "test.attn");
  EXPECT_TRUE(variant.ok()) << (variant.ok() ? "" : variant.error().message());
  return variant.ok() ? *variant : Variant();
}

/// The node of `expression` as the score of a variant with some parameters.
Node scoreOf(const std::string &expression) {
  Variant variant =
      parsed("attention t(n: i32 = 1, x: f32 = 1, t: f32[H, 4], u: i32[P], on: bool[Sk, Sq], "
             "hf: f16[Sk], bf: bf16[Sk]) { score = " +
             expression + " }");
  return variant.nodes.empty() ? Node() : variant.nodes[variant.score];
}

/// Writes an expression with all its parentheses.
std::string shape(const Variant &variant, NodeId id) {
  const Node &node = variant.nodes[id];
  switch (node.op) {
  case Operator::constant:
    return node.type == ScalarType::f32 ? std::to_string(static_cast<int>(node.number))
                                        : std::to_string(node.integer);
  case Operator::index:
    return std::string(kIndexNames[node.integer]);
  case Operator::score:
    return "s";
  default:
    break;
  }
  std::string text = "(" + std::to_string(static_cast<int>(node.op));
  for (NodeId operand : node.operands)
    text += " " + shape(variant, operand);
  return text + ")";
}

std::string maskShape(const std::string &expression) {
  Variant variant = parsed("attention t { mask = " + expression + " }");
  return variant.nodes.empty() ? "" : shape(variant, variant.mask);
}

} // namespace

TEST(Parser, DefaultsAreWrittenOut) {
  Variant variant = parsed("attention plain() { }");
  EXPECT_EQ(variant.name, "plain");
  EXPECT_TRUE(variant.scoreIsIdentity());
  EXPECT_TRUE(variant.maskIsTrue());
}

TEST(Parser, IdentityIsSeenThroughTheText) {
  Variant variant = parsed("attention plain { let t = s\n mask = true; score = t }");
  EXPECT_TRUE(variant.scoreIsIdentity());
  EXPECT_TRUE(variant.maskIsTrue());
}

TEST(Parser, ParametersKeepOrderTypesAndDefaults) {
  Variant variant =
      parsed("attention t(a: i32 = -2147483648, b2: f32 = -0.5, c: f32 = 3, d: f32 = -inf,"
             " e: i32, f: f32[H], g: i32[B, 2*Sk+1, 3*P-2, 16],) {"
             " score = s + a + b2 + c + d + e + f[h] + g[0, 0, 0, 0] }");
  ASSERT_EQ(variant.parameters.size(), 7u);
  EXPECT_EQ(variant.parameters[0].defaultValue, -2147483648.0);
  EXPECT_EQ(variant.parameters[1].defaultValue, -0.5);
  EXPECT_EQ(variant.parameters[2].defaultValue, 3.0);
  EXPECT_EQ(variant.parameters[3].defaultValue, -std::numeric_limits<double>::infinity());
  EXPECT_FALSE(variant.parameters[4].defaultValue.has_value());
  EXPECT_TRUE(variant.parameters[5].isCapture);
  const Parameter &g = variant.parameters[6];
  EXPECT_EQ(g.type, ElementType::i32);
  ASSERT_EQ(g.extents.size(), 4u);
  EXPECT_EQ(g.extents[0].name, "B");
  EXPECT_EQ(g.extents[1].coefficient, 2);
  EXPECT_EQ(g.extents[1].name, "Sk");
  EXPECT_EQ(g.extents[1].offset, 1);
  EXPECT_EQ(g.extents[2].coefficient, 3);
  EXPECT_EQ(g.extents[2].name, "P");
  EXPECT_EQ(g.extents[2].offset, -2);
  EXPECT_EQ(g.extents[3].coefficient, 0);
  EXPECT_EQ(g.extents[3].offset, 16);
}

TEST(Parser, ADefaultF32IsTheNearestF32) {
  Variant variant = parsed("attention t(x: f32 = 0.1) { score = s * x }");
  EXPECT_EQ(variant.parameters[0].defaultValue, static_cast<double>(0.1f));
}

TEST(Parser, PrecedenceIsThatOfC) {
  EXPECT_EQ(maskShape("q + k * 2 - 1 == b"), maskShape("(((q + (k * 2)) - 1) == b)"));
  EXPECT_EQ(maskShape("q < k == (k < q)"), maskShape("((q < k) == (k < q))"));
  EXPECT_EQ(maskShape("q < 1 || k < 2 && b < 3"), maskShape("(q < 1) || ((k < 2) && (b < 3))"));
  EXPECT_EQ(maskShape("!(q < 1) && k < 2"), maskShape("(!(q < 1)) && (k < 2)"));
  EXPECT_EQ(maskShape("q < 1 ? k < 2 : b < 3 ? h < 4 : h < 5"),
            maskShape("(q < 1) ? (k < 2) : ((b < 3) ? (h < 4) : (h < 5))"));
  EXPECT_EQ(maskShape("q - k - b > 0"), maskShape("((q - k) - b) > 0"));
  EXPECT_EQ(maskShape("q / k % b > 0"), maskShape("((q / k) % b) > 0"));
  EXPECT_NE(maskShape("q - k - b > 0"), maskShape("(q - (k - b)) > 0"));
}

TEST(Parser, TypesFollowTheOperands) {
  EXPECT_EQ(scoreOf("s + n").op, Operator::add);
  EXPECT_EQ(scoreOf("n").op, Operator::toFloat); // a score is f32
  EXPECT_EQ(scoreOf("n + 1").op, Operator::toFloat);
  EXPECT_EQ(scoreOf("x + 1").type, ScalarType::f32);
  EXPECT_EQ(scoreOf("7").op, Operator::constant);
  EXPECT_EQ(scoreOf("7").number, 7.0f);
  EXPECT_EQ(scoreOf("t[h, k]").type, ScalarType::f32);
  EXPECT_EQ(scoreOf("int(x) + u[0]").op, Operator::toFloat);
  EXPECT_EQ(scoreOf("bf[k]").type, ScalarType::f32);
  EXPECT_EQ(scoreOf("hf[k] + bf[k]").op, Operator::add);
  EXPECT_EQ(scoreOf("on[k, q] ? n : x").op, Operator::select);
  EXPECT_EQ(scoreOf("exp(n)").op, Operator::exp);
  EXPECT_EQ(scoreOf("q > k ? n : x").op, Operator::select);
  EXPECT_EQ(scoreOf("q > k ? n : x").type, ScalarType::f32);
  EXPECT_EQ(scoreOf("-16777217").number, -16777216.0f); // rounded like the conversion
}

TEST(Parser, StatementsEndWithTheirLineOrASemicolon) {
  parsed("attention t { let a = q\n let b2 = a +\n k; mask = a > b2\n score = s\n * 2; }");
  parsed("attention t\n{\nmask\n=\nq\n>=\nk\n}");
}

TEST(Parser, OperandsComeBeforeTheirUsers) {
  Variant variant =
      parsed("attention t(t: f32[H]) { let a = t[h] * (k - q)\n mask = a > -1 || q == k\n"
             " score = s + a * a }");
  for (size_t id = 0; id < variant.nodes.size(); ++id)
    for (NodeId operand : variant.nodes[id].operands)
      EXPECT_LT(operand, static_cast<NodeId>(id));
  for (NodeId id : variant.nodesOf(variant.mask))
    EXPECT_FALSE(variant.nodes[id].dependsOnScore);
}

TEST(Parser, TheLibrarysVariantsParseWithoutAWord) {
  int count = 0;
  for (const auto &entry : std::filesystem::directory_iterator(TESELA_VARIANTS)) {
    std::ifstream file(entry.path());
    std::stringstream text;
    text << file.rdbuf();
    ParseOutcome outcome = parseWithDiagnostics(text.str(), entry.path().filename().string());
    EXPECT_EQ(outcome.rendered, "");
    ASSERT_TRUE(outcome.variant.has_value());
    EXPECT_EQ(outcome.variant->name, entry.path().stem().string())
        << "a file is named after its variant";
    EXPECT_NE(text.str().find("// Source:"), std::string::npos) << entry.path();
    ++count;
  }
  EXPECT_GE(count, 7);
}

// For all bytes, parsing ends with a variant or with diagnostics.
TEST(Parser, NoInputCrashesIt) {
  const std::string seed =
      "attention t(w: i32 = 4, t: f32[H, 2*Sk-1]) { let a = t[h, k] // c\n"
      " mask = q >= k && (q - k < w || !(k == 0))\n score = s > 1e2 ? s + a : -inf }";
  for (size_t length = 0; length <= seed.size(); ++length) {
    ParseOutcome outcome = parseWithDiagnostics(seed.substr(0, length), "f");
    EXPECT_EQ(outcome.variant.has_value(), length == seed.size()) << seed.substr(0, length);
    EXPECT_EQ(outcome.rendered.empty(), outcome.variant.has_value());
  }
  std::mt19937 random(1);
  const std::string letters =
      "attention(){}[]<>=!&|?:+-*/%,;. \n\t0123456789abhkqsSx\"\\\xff\xc3\x00";
  for (int round = 0; round < 20000; ++round) {
    std::string text = seed;
    for (int edit = 0; edit < 4; ++edit) {
      size_t at = random() % text.size();
      switch (random() % 3) {
      case 0:
        text[at] = letters[random() % letters.size()];
        break;
      case 1:
        text.erase(at, random() % 8);
        break;
      default:
        text.insert(at, text.substr(random() % text.size(), random() % 12));
      }
      if (text.empty())
        text = "x";
    }
    ParseOutcome outcome = parseWithDiagnostics(text, "f");
    if (!outcome.variant) {
      EXPECT_FALSE(outcome.rendered.empty());
    }
  }
}
