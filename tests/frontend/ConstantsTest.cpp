//===- ConstantsTest.cpp - Binding const parameters -----------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "Samples.h"

#include "frontend/Constants.h"

#include <gmock/gmock.h>

using namespace tesela;
using namespace tesela::samples;
using testing::HasSubstr;

namespace {

constexpr const char *kText =
    "attention t(a: i32, const w: i32 = 3, t: i32[N], const c: f32, z: f32 = 2) {\n"
    " mask = k < w + a && t[k] > w\n score = s * c + z\n}";

std::string messageOf(const std::vector<ConstantValue> &values) {
  Result<Variant> variant = parseVariant(kText, "t.attn", values);
  EXPECT_EQ(variant.code(), Code::invalidArgument);
  return variant.ok() ? "" : variant.error().message();
}

} // namespace

TEST(Constants, WhatIsLeftIsTheLaunchs) {
  Result<Variant> variant = parseVariant(kText, "t.attn", {{"w", 5}, {"c", 0.5}});
  ASSERT_TRUE(variant.ok()) << variant.error().message();
  ASSERT_EQ(variant->parameters.size(), 3u);
  EXPECT_EQ(variant->parameters[0].name, "a");
  EXPECT_EQ(variant->parameters[1].name, "t");
  EXPECT_EQ(variant->parameters[2].name, "z");
  std::vector<int32_t> t = {9, 5, 6, 7, 9, 9, 9, 9, 9, 9};
  Bindings bindings;
  bindings.extents = {1, 1, 1, 1, 10};
  bindings.parameters.resize(3);
  bindings.parameters[0].scalar = 3;
  bindings.parameters[1].capture = {t.data(), {10}, {1}};
  bindings.parameters[2].scalar = 7;
  Result<Interpreter> interpreter = Interpreter::create(*variant, bindings);
  ASSERT_TRUE(interpreter.ok());
  for (int32_t k = 0; k < 10; ++k)
    EXPECT_EQ(interpreter->mask({0, 0, 0, 0, k}), k < 8 && t[k] > 5) << k;
  EXPECT_EQ(interpreter->score(Point(), 4.0), 9.0);
}

TEST(Constants, DefaultsAndRounding) {
  Result<Variant> variant = parseVariant(kText, "t.attn", {{"c", 0.1}});
  ASSERT_TRUE(variant.ok());
  bool hasThree = false, hasTenth = false;
  for (const Node &node : variant->nodes) {
    hasThree |= node.op == Operator::constant && node.type == ScalarType::i32 && node.integer == 3;
    hasTenth |= node.op == Operator::constant && node.number == 0.1f;
  }
  EXPECT_TRUE(hasThree && hasTenth);
}

TEST(Constants, WhatDoesNotFitIsASentence) {
  EXPECT_THAT(messageOf({}), HasSubstr("'c' has no default: pass it among the kernel's constants"));
  EXPECT_THAT(messageOf({{"c", 1}, {"x", 1}}),
              HasSubstr("no const parameter 'x'; the variant has w, c"));
  EXPECT_THAT(messageOf({{"c", 1}, {"a", 1}}),
              HasSubstr("'a' is not const: pass it to the launch, or write 'const' before it"));
  EXPECT_THAT(messageOf({{"c", 1}, {"c", 2}}), HasSubstr("given twice"));
  EXPECT_THAT(messageOf({{"c", 1}, {"w", 0.5}}), HasSubstr("a whole number that fits 32 bits"));
  EXPECT_THAT(messageOf({{"c", 1e39}}), HasSubstr("it must fit f32"));
}

TEST(Constants, ABoundExtentStaysThatOfItsTensor) {
  Result<Variant> variant =
      parseVariant("attention t(const w: i32, a: i32, t: i32[2*M+1]) { mask = k < M * w + a }",
                   "t.attn", {{"w", 5}});
  ASSERT_TRUE(variant.ok()) << variant.error().message();
  Bindings bindings;
  bindings.extents = {1, 1, 1, 1, 40};
  bindings.parameters.resize(2);
  bindings.parameters[0].scalar = 1;
  bindings.parameters[1].capture = {bindings.parameters.data(), {7}, {1}};
  Result<Interpreter> interpreter = Interpreter::create(*variant, bindings);
  ASSERT_TRUE(interpreter.ok());
  for (int32_t k = 0; k < 40; ++k)
    EXPECT_EQ(interpreter->mask({0, 0, 0, 0, k}), k < 16) << k;
}

TEST(Constants, OthersAreAsTheyWere) {
  Result<Variant> variant = parseVariant("attention t { mask = q >= k }", "t.attn", {});
  EXPECT_TRUE(variant.ok());
}
