//===- ElementTypeTest.cpp ------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tesela/ElementType.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

using namespace tesela;

namespace {

TEST(ElementType, NamesReadBack) {
  for (ElementType type : {ElementType::f32, ElementType::f16, ElementType::bf16, ElementType::i32,
                           ElementType::boolean, ElementType::e4m3})
    EXPECT_EQ(parseElementType(elementTypeName(type)), type);
  EXPECT_FALSE(parseElementType("f64"));
  EXPECT_FALSE(parseElementType(""));
}

TEST(ElementType, EverySixteenBitValueSurvivesTheWayThroughF32) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    float half = f16ToFloat(uint16_t(bits));
    float brain = bf16ToFloat(uint16_t(bits));
    if (std::isnan(half))
      EXPECT_TRUE(std::isnan(f16ToFloat(floatToF16(half))));
    else
      EXPECT_EQ(floatToF16(half), bits);
    if (std::isnan(brain))
      EXPECT_TRUE(std::isnan(bf16ToFloat(floatToBf16(brain))));
    else
      EXPECT_EQ(floatToBf16(brain), bits);
  }
}

TEST(ElementType, EveryE4m3SurvivesTheWayThroughF32) {
  for (uint32_t bits = 0; bits < 0x100; ++bits) {
    float value = e4m3ToFloat(uint8_t(bits));
    EXPECT_EQ(std::isnan(value), (bits & 0x7f) == 0x7f);
    EXPECT_EQ(std::signbit(value), bits >= 0x80);
    EXPECT_EQ(floatToE4m3(value), bits);
  }
  EXPECT_EQ(e4m3ToFloat(0x01), 0x1p-9f);
  EXPECT_EQ(e4m3ToFloat(0x08), 0x1p-6f);
  EXPECT_EQ(e4m3ToFloat(0x38), 1.0f);
  EXPECT_EQ(e4m3ToFloat(0x7e), 448.0f);
}

TEST(ElementType, E4m3RoundsToNearestEvenAndStaysFinite) {
  for (uint32_t bits = 0; bits < 0x7e; ++bits) {
    float low = e4m3ToFloat(uint8_t(bits)), high = e4m3ToFloat(uint8_t(bits + 1));
    float middle = (low + high) / 2;
    EXPECT_EQ(floatToE4m3(middle), bits + (bits & 1)) << bits;
    EXPECT_EQ(floatToE4m3(std::nextafter(middle, low)), bits);
    EXPECT_EQ(floatToE4m3(std::nextafter(middle, high)), bits + 1);
    EXPECT_EQ(floatToE4m3(-middle), (bits + (bits & 1)) | 0x80);
  }
  EXPECT_EQ(roundTo(ElementType::e4m3, 449.0f), 448.0f);
  EXPECT_EQ(roundTo(ElementType::e4m3, -HUGE_VALF), -448.0f);
}

/// Rounding picks the nearer neighbour, and the even one halfway between.
template <typename Encode, typename Decode>
void checkRounding(Encode encode, Decode decode, uint32_t largestFinite) {
  for (uint32_t bits = 0; bits < largestFinite; ++bits) {
    float low = decode(uint16_t(bits)), high = decode(uint16_t(bits + 1));
    float middle = low + (high - low) / 2; // exact: f32 has more digits
    EXPECT_EQ(encode(middle), bits + (bits & 1)) << bits;
    EXPECT_EQ(encode(std::nextafter(middle, low)), bits);
    EXPECT_EQ(encode(std::nextafter(middle, high)), bits + 1);
    EXPECT_EQ(encode(-middle), (bits + (bits & 1)) | 0x8000);
  }
}

TEST(ElementType, F16RoundsToNearestEven) { checkRounding(floatToF16, f16ToFloat, 0x7bff); }
TEST(ElementType, Bf16RoundsToNearestEven) { checkRounding(floatToBf16, bf16ToFloat, 0x7f7f); }

TEST(ElementType, LargeValuesBecomeInfinite) {
  EXPECT_EQ(roundTo(ElementType::f16, 65519.996f), 65504.0f);
  EXPECT_TRUE(std::isinf(roundTo(ElementType::f16, 65520.0f)));
  EXPECT_TRUE(std::isinf(roundTo(ElementType::bf16, std::numeric_limits<float>::max())));
  EXPECT_EQ(roundTo(ElementType::f32, 1.1f), 1.1f);
}

} // namespace
