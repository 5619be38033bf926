//===- DropoutTest.cpp - Which pairs a launch drops -----------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/Dropout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

using namespace tesela;

namespace {

using Words = Dropout::Words;

// The known answers (kat_vectors) of the authors' Random123.
TEST(Dropout, PhiloxIsThatOfThePaper) {
  constexpr uint32_t ones = 0xFFFFFFFF;
  EXPECT_EQ(Dropout::philox({0, 0, 0, 0}, 0, 10),
            (Words{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}));
  EXPECT_EQ(Dropout::philox({ones, ones, ones, ones}, ~uint64_t(0), 10),
            (Words{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}));
  EXPECT_EQ(
      Dropout::philox({0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}, 0x299F31D0A4093822, 10),
      (Words{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}));
  EXPECT_EQ(Dropout::philox({0, 0, 0, 0}, 0, 7),
            (Words{0x5F6FB709, 0x0D893F64, 0x4F121F81, 0x4F730A48}));
}

/// How far the count of `hits` among `trials` is from its mean, in standard deviations.
double deviations(int64_t hits, int64_t trials, double probability) {
  double deviation = std::sqrt(double(trials) * probability * (1 - probability));
  return (double(hits) - double(trials) * probability) / deviation;
}

constexpr uint32_t queries = 512, keys = 512, heads = 8;

// The number of dropped pairs among 2^21. A right generator exceeds 5 deviations once in 1.7
// million tests. For probabilities below 1/256 the bits that 16 pairs share must be used, too.
TEST(Dropout, DropsWithTheProbability) {
  for (float p : {0.5f, 0.1f, 0.9f, 0.3333f, 0.05f, 0.001f, 0.0001f, 0.9995f}) {
    Dropout dropout(p, /*seed=*/7, /*offset=*/3);
    int64_t dropped = 0;
    for (uint32_t h = 0; h < heads; ++h)
      for (uint32_t q = 0; q < queries; ++q)
        for (uint32_t k = 0; k < keys; ++k)
          dropped += dropout.drops(h, q, k);
    EXPECT_LT(std::abs(deviations(dropped, int64_t(heads) * queries * keys, p)), 5) << p;
  }
}

TEST(Dropout, EndsAreExact) {
  Dropout none(0, 1, 2), all(1, 1, 2);
  for (uint32_t q = 0; q < queries; ++q)
    for (uint32_t k = 0; k < keys; ++k) {
      ASSERT_FALSE(none.drops(0, q, k));
      ASSERT_TRUE(all.drops(0, q, k));
    }
  EXPECT_EQ(none.scale(), 1);
  EXPECT_EQ(all.scale(), 0);
}

// If neighbouring pairs, pairs of one call, or pairs at the same place of other heads, launches or
// batches were not independent, they would agree more or less often than expected.
TEST(Dropout, PairsAreIndependent) {
  constexpr float p = 0.3f;
  constexpr double agree = 0.3 * 0.3 + 0.7 * 0.7;
  Dropout dropout(p, 11, 0), nextOffset(p, 11, 1), nextSeed(p, 12, 0),
      farSeed(p, 11 + (1ull << 32), 0), farOffset(p, 11, 1ull << 32);
  struct Other {
    const Dropout &dropout;
    uint32_t h, q, k;
  };
  for (const Other &other : {Other{dropout, 0, 0, 1},
                             {dropout, 0, 0, 2},
                             {dropout, 0, 0, 8},
                             {dropout, 0, 0, 16},
                             {dropout, 0, 1, 0},
                             {dropout, 0, 2, 0},
                             {dropout, 0, 8, 0},
                             {dropout, 0, 9, 9},
                             {dropout, 0, 16, 0},
                             {dropout, 1, 0, 0},
                             {nextOffset, 0, 0, 0},
                             {nextSeed, 0, 0, 0},
                             {farSeed, 0, 0, 0},
                             {farOffset, 0, 0, 0}}) {
    int64_t agreed = 0;
    for (uint32_t h = 0; h < 4; ++h)
      for (uint32_t q = 0; q < queries; ++q)
        for (uint32_t k = 0; k < keys; ++k)
          agreed +=
              dropout.drops(h, q, k) == other.dropout.drops(h + other.h, q + other.q, k + other.k);
    EXPECT_LT(std::abs(deviations(agreed, int64_t(4) * queries * keys, agree)), 5)
        << other.h << " " << other.q << " " << other.k;
  }
}

// The sums over rows, columns and squares have the variance of independent pairs.
TEST(Dropout, SumsSpreadAsTheyShould) {
  constexpr double p = 0.25;
  Dropout dropout(float(p), 5, 5);
  for (auto [name, ofRow, ofColumn] :
       {std::tuple("rows", 1, 0), {"columns", 0, 1}, {"squares", 1, 1}}) {
    double squares = 0;
    int64_t sums = 0, trials = ofRow && ofColumn ? 256 : 512;
    for (uint32_t h = 0; h < heads; ++h)
      for (uint32_t i = 0; i < 512; ++i) {
        int64_t dropped = 0;
        for (uint32_t j = 0; j < trials; ++j) {
          uint32_t q = ofRow ? i : j, k = ofRow ? j : i;
          if (ofRow && ofColumn)
            q = i / 32 * 16 + j / 16, k = i % 32 * 16 + j % 16;
          dropped += dropout.drops(h, q, k);
        }
        squares += std::pow(deviations(dropped, trials, p), 2);
        ++sums;
      }
    // The mean of n squares of standard normal numbers has the standard deviation sqrt(2 / n).
    EXPECT_LT(std::abs(squares / double(sums) - 1), 5 * std::sqrt(2 / double(sums))) << name;
  }
}

} // namespace
