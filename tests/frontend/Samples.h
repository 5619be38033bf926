//===- Samples.h - Variants and launches that several tests share -*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The interpreter, the IR and the oracle each evaluate these samples and must agree.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_FRONTEND_SAMPLES_H
#define TESELA_TESTS_FRONTEND_SAMPLES_H

#include "frontend/Interpreter.h"
#include "frontend/Parser.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace tesela::samples {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr int32_t kLowest = std::numeric_limits<int32_t>::min();

/// Masks over w: i32, c: f32, slope: f32[H], table: i32[P, 4], none: f32[N], allowed: bool[Sq, Sk],
/// half: f16[Sk], brain: bf16[H, Sk], nothing: bool[E, M], least: f16[N], odd: f16[2*F-3].
inline constexpr std::array kMasks = {
    "true",
    "q >= k && q - k < w",
    "q + Sk - Sq >= k",
    "k < table[b, h] || q == k",
    "k / w == q / w",
    "(k - q) % w == 1 || (q - k) / (k - 3) > 1",
    "(-2147483647 - 1) / (k - 1) == -2147483647 - 1",
    "q * 1000003 * k > w",
    "abs(q - k) < w && !(k == 7)",
    "min(q, k) + max(q, w) != clamp(k, 2, 5)",
    "table[q * 2 - 9, k] > 3",
    "none[k] == 0.0",
    "(q < k) == (h == 0)",
    "(q < k) != (h == 0)",
    "q > k ? k > 2 : q > 2",
    "c * (q - k) < slope[h]",
    "int(c * q) == int(slope[h] * k)",
    "int(c / (k - k)) > 0 || int(0.0 / (q - q)) == 0",
    "floor(c * q) < k && sqrt(q * q) == q",
    "sqrt(c - k) >= 0.0",
    "0.0 / (q - q) != 0.0 / (q - q)",
    "min(c, 0.0 / (q - q)) == c && min(0.0 / (q - q), c) == c && max(0.0 / (q - q), c) == c",
    "abs(-c) == abs(c) && -c == 0.0 - c",
    "exp(c * (q - k)) < 1.5",
    "exp(c * (q - k) * 9) > 0.25",
    "log(1.0 * q * k) < c + k",
    "tanh(c * (q - k)) > slope[h] * 0.1",
    "sin(c * q) < cos(c * k)",
    "sin(1000.5 * k) + cos(0.25 * q) * exp(tanh(c)) > log(w + 0.5)",
    "clamp(c * k, -1.0, inf) < 2",
    "b == 0 && hkv == h / (H / Hkv) && B * H * Hkv > 0",
    "allowed[q, k]",
    "allowed[q, k] == allowed[k, q - 3] && !allowed[q + w, 0]",
    "half[k] < half[q] || half[k] != half[k]",
    "brain[h, k] * half[k - q] >= c",
    "nothing[q, k] || least[k] == 0.0 && !nothing[0, 0]",
    "any(i < 3: table[i, 1] == k) || all(i < w % 20: i != k)",
    "sum(i < B + 3: table[0, i] * (q - i)) % 5 < 2",
    "sum(i < 5: c * i + sum(j < Hkv: slope[j + i] * k)) < 0.5",
    "any(i < 4: all(j < 3: j > i || table[j, i] > k - q)) == any(i < w % 3 - 1: true)",
    "any(i < P: table[i, 0] == k) || F * k > q + M && N == E",
};

/// Scores over the same parameters.
inline constexpr std::array kScores = {
    "s",
    "s + slope[h] * (k - q)",
    "c * tanh(s / c)",
    "s > 0 ? s * 2 : exp(s)",
    "q >= k ? s : -inf",
    "int(s * 10) % 3 + floor(s) - abs(s) + min(s, c) - max(s, slope[h])",
    "sqrt(abs(s)) + log(abs(s) + 1) + sin(s) + cos(s)",
    "clamp(s, -0.5, 0.5) / (k - q)",
    "s * half[k] - brain[h, k] + (allowed[q, k] ? 1 : 0.5)",
    "sum(i < 3: s * slope[i]) + (any(i < 2: s > i) ? 1 : 0)",
    "sum(i < 3: table[0, i] + i) * s",
    "s * F + table[P - 1, min(k, M)] / P",
};

inline std::string withParameters(const std::string &body) {
  return "attention sample(w: i32, c: f32, slope: f32[H], table: i32[P, 4], none: f32[N],"
         " allowed: bool[Sq, Sk], half: f16[Sk], brain: bf16[H, Sk], nothing: bool[E, M],"
         " least: f16[N], odd: f16[2*F-3]) {\n" +
         body + "\n}\n";
}

inline Variant parsed(const std::string &text) {
  Result<Variant> variant = parseVariant(text, "sample.attn");
  EXPECT_TRUE(variant.ok()) << (variant.ok() ? "" : variant.error().message());
  return variant.ok() ? *variant : Variant();
}

/// A launch for these parameters, with the memory of its captured tensors. `table` is
/// transposed: its strides are {1, 3}. `brain` has negative strides.
struct SampleLaunch {
  std::vector<float> slope = {0.5f, 0.1f, -0.25f, 3.0f};
  std::vector<int32_t> table = {1, -2, 3, 4, 5, 60, 7, 8, 9, 10, 11, 12};
  std::vector<uint8_t> allowed; ///< a bool is false only where its byte is 0
  std::vector<uint16_t> half, brain;
  Bindings bindings;

  SampleLaunch(int32_t w, float c) {
    bindings.extents = {2, 4, 2, 12, 16};
    for (int i = 0; i < 12 * 16; ++i)
      allowed.push_back(i * 7 % 5 < 2 ? 0 : i % 3 == 0 ? 255 : 1 << i % 8);
    // Among plain numbers: subnormals, the largest, infinities, NaN, and zeros of both signs.
    half = {0x0001, 0x8003, 0x7bff, 0x7c00, 0xfc00, 0x7e01, 0x8000, 0x3555,
            0x3c00, 0xc200, 0x0400, 0x4d00, 0x03ff, 0xb400, 0x0000, 0x5640};
    for (int i = 0; i < 4 * 16; ++i)
      brain.push_back(floatToBf16(0.37f * float(i - 20)));
    brain[5] = 0x7f80;
    brain[9] = 0x0001;
    bindings.parameters.resize(11);
    bindings.parameters[0].scalar = w;
    bindings.parameters[1].scalar = c;
    bindings.parameters[2].capture = {slope.data(), {4}, {1}};
    bindings.parameters[3].capture = {table.data(), {3, 4}, {1, 3}};
    bindings.parameters[4].capture = {nullptr, {0}, {1}};
    bindings.parameters[5].capture = {allowed.data(), {12, 16}, {16, 1}};
    bindings.parameters[6].capture = {half.data(), {16}, {1}};
    bindings.parameters[7].capture = {brain.data() + brain.size() - 1, {4, 16}, {-16, -1}};
    bindings.parameters[8].capture = {nullptr, {0, 3}, {3, 1}};
    bindings.parameters[9].capture = {nullptr, {0}, {1}};
    bindings.parameters[10].capture = {half.data(), {5}, {1}};
  }
  SampleLaunch(const SampleLaunch &) = delete;

  /// Random pairs of the launch.
  std::vector<Point> points(int count) const {
    std::mt19937 random(7);
    const Extents &e = bindings.extents;
    std::vector<Point> result;
    for (int i = 0; i < count; ++i) {
      Point p;
      p.b = static_cast<int32_t>(random() % e.B);
      p.h = static_cast<int32_t>(random() % e.H);
      p.hkv = p.h / (e.H / e.Hkv);
      p.q = static_cast<int32_t>(random() % e.Sq);
      p.k = static_cast<int32_t>(random() % e.Sk);
      result.push_back(p);
    }
    return result;
  }
};

/// Values of w and c that are tested.
inline constexpr std::array kScalars = std::to_array<std::pair<int32_t, float>>(
    {{3, 0.37f}, {0, -1.5f}, {-4, 0.0f}, {kLowest, kInfinity}, {1000000007, 1e-30f}, {-1, -0.0f}});

/// Values of s that are tested.
inline constexpr std::array kLogits = {0.0f, -0.0f, 0.7f, -3.25f, 40.0f, kInfinity, -kInfinity};

} // namespace tesela::samples

#endif // TESELA_TESTS_FRONTEND_SAMPLES_H
