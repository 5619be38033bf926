//===- ElementMultiplesTest.cpp - The algebra of linear forms -------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "analysis/ElementMultiples.h"

#include <gtest/gtest.h>

#include <limits>

namespace tesela {

const ElementMultiples forms[] = {{0, 0}, {1, 0}, {0, 1}, {3, -2}, {-5, -7}, {1024, -1024}};

TEST(ElementMultiples, SumsAreSumsOfEachElement) {
  for (const ElementMultiples &a : forms)
    for (const ElementMultiples &b : forms)
      for (int64_t i : {0, 1, 63})
        for (int64_t j : {0, 2, 127}) {
          EXPECT_EQ((a + b).at(i, j), a.at(i, j) + b.at(i, j));
          EXPECT_EQ((a - b).at(i, j), a.at(i, j) - b.at(i, j));
          EXPECT_EQ((a * -3).at(i, j), -3 * a.at(i, j));
        }
}

TEST(ElementMultiples, BoundsAreReachedAndNotLeft) {
  for (const ElementMultiples &form : forms)
    for (int64_t rows : {1, 2, 5})
      for (int64_t columns : {1, 3, 4}) {
        int64_t low = std::numeric_limits<int64_t>::max(), high = -low;
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t j = 0; j < columns; ++j) {
            low = std::min(low, form.at(i, j));
            high = std::max(high, form.at(i, j));
          }
        EXPECT_EQ(form.lowest(rows, columns), low);
        EXPECT_EQ(form.highest(rows, columns), high);
      }
}

TEST(ElementMultiples, SmallAndUniform) {
  EXPECT_TRUE(ElementMultiples().isUniform());
  EXPECT_FALSE((ElementMultiples{0, -1}).isUniform());
  EXPECT_TRUE((ElementMultiples{1024, -1024}).isSmall());
  EXPECT_FALSE((ElementMultiples{0, 1025}).isSmall());
  EXPECT_FALSE((ElementMultiples{-1025, 0}).isSmall());
}

} // namespace tesela
