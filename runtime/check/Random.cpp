//===- Random.cpp ---------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "check/ElementRanges.h"
#include "check/Elements.h"
#include "frontend/ExactMath.h"
#include "tesela/Check.h"

#include <algorithm>
#include <cmath>

namespace tesela {

namespace {

/// A 64-bit hash of seed and index (splitmix64, Steele et al. 2014). Element i depends on no other,
/// so layout and order do not matter.
uint64_t mix(uint64_t seed, uint64_t index) {
  uint64_t z = seed * 0x9e3779b97f4a7c15u + (index + 1) * 0xd1b54a32d192ed03u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/// How many numbers are made together: enough to fill vectors, and few enough for the L1 cache.
constexpr int64_t atOnce = 256;

/// The normal numbers of `count` elements from `first` on, by Box and Muller's transform, in
/// arithmetic that gives the same on every machine.
void makeNormals(uint64_t seed, int64_t first, int64_t count, float *normals) {
  FloatArithmetic arithmetic;
  int32_t highBits[atOnce], lowBits[atOnce];
  float radii[atOnce];
  for (int64_t i = 0; i < count; ++i) {
    uint64_t bits = mix(seed, uint64_t(first + i));
    highBits[i] = int32_t(bits >> 41);
    lowBits[i] = int32_t(bits & 0x7fffff);
  }
  for (int64_t i = 0; i < count; ++i) {
    float uniform = (float(highBits[i]) + 0.5f) * 0x1p-23f; // in (0, 1)
    radii[i] = -2.0f * exactLog(arithmetic, uniform);
  }
  for (int64_t i = 0; i < count; ++i)
    radii[i] = std::sqrt(radii[i]);
  for (int64_t i = 0; i < count; ++i) {
    float angle = float(lowBits[i]) * 0x1p-23f * 6.2831853f; // in [0, 2 pi)
    normals[i] = radii[i] * exactCos(arithmetic, angle);
  }
}

} // namespace

void fillNormal(const Tensor &tensor, uint64_t seed) {
  forRanges(tensor, [&](int64_t begin, int64_t end) {
    float normals[atOnce];
    for (int64_t first = begin; first < end; first += atOnce) {
      int64_t last = std::min(first + atOnce, end);
      makeNormals(seed, first, last - first, normals);
      forElements(tensor, first, last, [&](int64_t index, int64_t offset) {
        storeFloat(tensor.data, tensor.type, offset, normals[index - first]);
      });
    }
  });
}

void fillUniform(const Tensor &tensor, uint64_t seed, int64_t low, int64_t high) {
  uint64_t range = uint64_t(high) - uint64_t(low) + 1;
  forRanges(tensor, [&](int64_t begin, int64_t end) {
    forElements(tensor, begin, end, [&](int64_t index, int64_t offset) {
      uint64_t bits = mix(seed, uint64_t(index));
      int64_t value = int64_t(uint64_t(low) + (range ? bits % range : bits));
      if (tensor.type == ElementType::boolean)
        static_cast<uint8_t *>(tensor.data)[offset] = uint8_t(value != 0);
      else
        static_cast<int32_t *>(tensor.data)[offset] = int32_t(value);
    });
  });
}

} // namespace tesela
