//===- RandomMask.h - Masks as text, from a seed ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_ANALYSIS_RANDOMMASK_H
#define TESELA_TESTS_ANALYSIS_RANDOMMASK_H

#include "frontend/Interpreter.h"

#include <deque>
#include <random>
#include <string>
#include <tuple>
#include <vector>

namespace tesela {

/// The parameters that a random mask may use. `id` is sorted, like document numbers or documents'
/// first keys; `g` mostly is.
inline constexpr const char *kMaskParameters =
    "p: i32, w: i32, x: f32, y: f32, t: i32[B], v: f32[H], id: i32[B, N], u: i32[M], m: i32[R, C], "
    "f: f32[L], g: f32[B, S], o: bool[Y, Z], d: f16[E], e: bf16[B, S]";

/// An integer near 0, near `extent`, or near an end of i32, where sums wrap.
int32_t randomInteger(std::mt19937 &random, int32_t extent);

/// A mask, with a `let` before it, over q, k, b, h, hkv, the extents and kMaskParameters, with all
/// operators. Half of the masks mostly use positions: sums of ± q, ± k and terms that are the same
/// for a block, which the analysis should understand. The others read captures or compute with f32.
std::string randomMask(std::mt19937 &random);

/// A score that is s, or -inf under conditions over the same names.
std::string randomScore(std::mt19937 &random);

/// Values of kMaskParameters: captures of any shape, strides of any sign, and values that include
/// the ends of i32, NaN, infinities and -0.
class RandomLaunch {
public:
  RandomLaunch(std::mt19937 &random, const Extents &extents);
  RandomLaunch(const RandomLaunch &) = delete;
  /// A description for failure messages.
  std::string text() const;

  Bindings bindings;

private:
  int32_t below(int64_t end) { return int32_t(random() % end); }
  template <typename T> void capture(std::vector<T> values, std::vector<int64_t> extents);
  /// Rows that are sorted, or mostly one number, or random.
  std::vector<int32_t> integers(int64_t rows, int64_t columns, bool sorted);
  std::vector<float> numbers(int64_t rows, int64_t columns);
  std::vector<uint16_t> rounded(const std::vector<float> &numbers, ElementType type);
  /// Bytes in which 0 means false: runs of both values, or random.
  std::vector<uint8_t> flags(int64_t rows, int64_t columns);

  std::mt19937 &random;
  template <typename T> using Tables = std::deque<std::vector<T>>;
  std::tuple<Tables<int32_t>, Tables<float>, Tables<uint16_t>, Tables<uint8_t>> tables;
};

} // namespace tesela

#endif // TESELA_TESTS_ANALYSIS_RANDOMMASK_H
