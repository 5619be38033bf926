//===- TileDefectsTest.cpp - No wrong tile passes the check ---------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Takes the result of an honest kernel and spoils one tile of 64 queries and 64 keys: it is left
// out, counted twice, or multiplied with another tile's values. In bf16, which has the widest
// tolerances, at every tile of the mask. Late in a causal row such an error is far smaller than the
// largest tolerance of one element, which the first rows determine.
//
//===----------------------------------------------------------------------===//
#include "check/Elements.h"
#include "tesela/Check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>

using namespace tesela;

namespace {

constexpr int64_t tileExtent = 64, headDim = 64;

struct DefectPoint {
  const char *name, *mask;
  bool (*keeps)(int64_t q, int64_t k, const std::vector<int32_t> &document);
  int64_t queries, keys;
};

constexpr auto full = [](int64_t, int64_t, const auto &) { return true; };
constexpr auto causal = [](int64_t q, int64_t k, const auto &) { return q >= k; };
constexpr auto last = [](int64_t q, int64_t k, const auto &) { return q + 1897 >= k; };
constexpr auto window = [](int64_t q, int64_t k, const auto &) { return q >= k && q - k < 300; };
constexpr auto documents = [](int64_t q, int64_t k, const auto &of) { return of[q] == of[k]; };
constexpr auto causalDocuments = [](int64_t q, int64_t k, const auto &of) {
  return q >= k && of[q] == of[k];
};

constexpr DefectPoint points[] = {
    {"full", "true", full, 512, 1024},
    {"causal", "q >= k", causal, 200, 200},
    {"causal", "q >= k", causal, 1000, 1000},
    {"causal", "q >= k", causal, 2048, 2048},
    {"last", "q + 1897 >= k", last, 3, 1900},
    {"window", "q >= k && q - k < 300", window, 500, 500},
    {"window", "q >= k && q - k < 300", window, 1024, 1024},
    {"documents", "document[q] == document[k]", documents, 1000, 1000},
    {"causal_documents", "q >= k && document[q] == document[k]", causalDocuments, 1500, 1500},
};

/// A problem, its reference, and the result of an honest kernel: base, rounded.
class TileDefects : public testing::TestWithParam<DefectPoint> {
protected:
  const int64_t queries = GetParam().queries, keys = GetParam().keys;
  std::vector<uint16_t> q, k, v, o;
  std::vector<float> lse;
  std::vector<int32_t> document;
  LaunchArguments arguments;
  Reference reference;
  /// [queries, key tiles]: the sum of the weights p / l of a tile's keys.
  std::vector<double> weights;
  /// [queries, key tiles, key tiles, headDim]: the first tile's weights times the second's values.

  void SetUp() override {
    auto bhsd = [](std::vector<uint16_t> &storage, int64_t length) {
      storage.assign(length * headDim, 0);
      return Tensor::bhsd(storage.data(), ElementType::bf16, 1, 1, length, headDim);
    };
    arguments.q = bhsd(q, queries);
    arguments.k = bhsd(k, keys);
    arguments.v = bhsd(v, keys);
    arguments.o = bhsd(o, queries);
    fillInputs(InputKind::normal, arguments.q, arguments.k, arguments.v, 7);
    lse.assign(queries, 0);
    arguments.lse = Tensor::contiguous(lse.data(), ElementType::f32, {1, 1, queries});
    // Five documents that end inside of tiles.
    for (int64_t i = 0; i < keys; ++i)
      document.push_back(int32_t((i + 13) * 5 / keys));
    arguments.captures = {
        {"document", Tensor::contiguous(document.data(), ElementType::i32, {keys})}};

    KernelOptions options;
    options.variantText =
        "attention defects(document: i32[N]) {\n mask = " + std::string(GetParam().mask) + "\n}\n";
    options.headDimQk = options.headDimV = headDim;
    Result<Reference> made = hostReference(options, arguments);
    ASSERT_TRUE(made.ok()) << made.error().message();
    reference = std::move(*made);
    for (int64_t i = 0; i < queries * headDim; ++i)
      o[i] = floatToBf16(float(reference.base[i]));
    std::copy(reference.lse.begin(), reference.lse.end(), lse.begin());
    findWeights();
  }

  static double at(const std::vector<uint16_t> &of, int64_t row, int64_t d) {
    return bf16ToFloat(of[row * headDim + d]);
  }

  /// p / l of each pair; 0 if it is masked.
  std::vector<double> pairs;
  void findWeights() {
    pairs.assign(queries * keys, 0);
    for (int64_t row = 0; row < queries; ++row)
      for (int64_t key = 0; key < keys; ++key) {
        if (!GetParam().keeps(row, key, document))
          continue;
        double s = 0;
        for (int64_t d = 0; d < headDim; ++d)
          s += at(q, row, d) * at(k, key, d);
        pairs[row * keys + key] = std::exp(s / 8 - reference.lse[row]);
      }
  }

  bool passes() {
    Result<Comparison> compared = compare(reference, arguments.o, arguments.lse);
    EXPECT_TRUE(compared.ok());
    return compared->passed;
  }

  /// A tile's part of a row: the sum of its weights, and the sum of weights times values of the
  /// tile `of`. Keys beyond the last one have no values.
  struct Part {
    double weight = 0;
    double o[headDim] = {};
  };
  Part part(int64_t row, int64_t keyTile, int64_t of) const {
    Part part;
    for (int64_t i = 0; i < tileExtent && keyTile * tileExtent + i < keys; ++i) {
      double p = pairs[row * keys + keyTile * tileExtent + i];
      int64_t from = of * tileExtent + i;
      part.weight += p;
      for (int64_t d = 0; d < headDim && from < keys && p != 0; ++d)
        part.o[d] += p * at(v, from, d);
    }
    return part;
  }

  /// Whether the check notices that `spoil` has changed o (in double) and lse in the rows of a
  /// tile.
  template <typename Spoil> bool finds(int64_t firstRow, Spoil spoil) {
    int64_t end = std::min(firstRow + tileExtent, queries);
    std::vector<uint16_t> honestO = o;
    std::vector<float> honestLse = lse;
    for (int64_t row = firstRow; row < end; ++row) {
      double values[headDim], logSumExp = reference.lse[row];
      std::copy_n(&reference.base[row * headDim], headDim, values);
      spoil(row, values, logSumExp);
      for (int64_t d = 0; d < headDim; ++d)
        o[row * headDim + d] = floatToBf16(float(values[d]));
      lse[row] = float(logSumExp);
    }
    bool found = !passes();
    // Copies into the same vectors, because the arguments point to them.
    std::copy(honestO.begin(), honestO.end(), o.begin());
    std::copy(honestLse.begin(), honestLse.end(), lse.begin());
    return found;
  }

  /// The tiles of keys in which the rows keep some pair.
  std::vector<int64_t> keptTiles(int64_t firstRow) const {
    std::vector<int64_t> kept;
    for (int64_t keyTile = 0; keyTile * tileExtent < keys; ++keyTile) {
      bool any = false;
      for (int64_t row = firstRow; row < std::min(firstRow + tileExtent, queries); ++row)
        any |= part(row, keyTile, keyTile).weight > 0;
      if (any)
        kept.push_back(keyTile);
    }
    return kept;
  }

  template <typename Visit> void forEachTile(Visit visit) {
    for (int64_t firstRow = 0; firstRow < queries; firstRow += tileExtent)
      for (int64_t keyTile : keptTiles(firstRow)) {
        SCOPED_TRACE("queries from " + std::to_string(firstRow) + ", keys from " +
                     std::to_string(keyTile * tileExtent));
        visit(firstRow, keyTile);
      }
  }
};

TEST_P(TileDefects, AnHonestResultPasses) { EXPECT_TRUE(passes()); }

TEST_P(TileDefects, ADroppedTileIsFound) {
  forEachTile([&](int64_t firstRow, int64_t keyTile) {
    // From the product only, and from all sums, as if the mask were another.
    EXPECT_TRUE(finds(firstRow, [&](int64_t row, double *values, double &) {
      Part lost = part(row, keyTile, keyTile);
      for (int64_t d = 0; d < headDim; ++d)
        values[d] -= lost.o[d];
    }));
    EXPECT_TRUE(finds(firstRow, [&](int64_t row, double *values, double &logSumExp) {
      Part lost = part(row, keyTile, keyTile);
      double left = std::max(1 - lost.weight, 0.0);
      for (int64_t d = 0; d < headDim; ++d)
        values[d] = left > 1e-9 ? (values[d] - lost.o[d]) / left : 0;
      logSumExp = left > 1e-9 ? logSumExp + std::log(left) : -HUGE_VAL;
    }));
  });
}

TEST_P(TileDefects, ADoubledTileIsFound) {
  forEachTile([&](int64_t firstRow, int64_t keyTile) {
    EXPECT_TRUE(finds(firstRow, [&](int64_t row, double *values, double &) {
      Part twice = part(row, keyTile, keyTile);
      for (int64_t d = 0; d < headDim; ++d)
        values[d] += twice.o[d];
    }));
    EXPECT_TRUE(finds(firstRow, [&](int64_t row, double *values, double &logSumExp) {
      Part twice = part(row, keyTile, keyTile);
      for (int64_t d = 0; d < headDim; ++d)
        values[d] = (values[d] + twice.o[d]) / (1 + twice.weight);
      logSumExp += std::log(1 + twice.weight);
    }));
  });
}

TEST_P(TileDefects, ASwappedPairOfTilesOfVIsFound) {
  for (int64_t firstRow = 0; firstRow < queries; firstRow += tileExtent) {
    std::vector<int64_t> kept = keptTiles(firstRow);
    auto expectFound = [&](int64_t one, int64_t other) {
      EXPECT_TRUE(finds(firstRow,
                        [&](int64_t row, double *values, double &) {
                          const Part parts[] = {part(row, one, one), part(row, other, other),
                                                part(row, one, other), part(row, other, one)};
                          for (int64_t d = 0; d < headDim; ++d)
                            values[d] +=
                                parts[2].o[d] + parts[3].o[d] - parts[0].o[d] - parts[1].o[d];
                        }))
          << "queries from " << firstRow << ", keys from " << one * tileExtent << " and "
          << other * tileExtent;
    };
    // Each tile with its neighbour and with the row's first one: two buffers are confused, or an
    // old copy is used.
    for (size_t i = 1; i < kept.size(); ++i) {
      expectFound(kept[i - 1], kept[i]);
      if (i > 1)
        expectFound(kept[0], kept[i]);
    }
  }
}

std::string nameOf(const DefectPoint &point) {
  return std::string(point.name) + "_" + std::to_string(point.queries) + "x" +
         std::to_string(point.keys);
}

/// Without this function GoogleTest prints the bytes, including addresses.
void PrintTo(const DefectPoint &point, std::ostream *stream) { *stream << nameOf(point); }

INSTANTIATE_TEST_SUITE_P(Check, TileDefects, testing::ValuesIn(points),
                         [](const auto &info) { return nameOf(info.param); });

} // namespace
