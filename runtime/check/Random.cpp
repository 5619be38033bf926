//===- Random.cpp ---------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "check/Elements.h"
#include "frontend/ExactMath.h"
#include "tesela/Check.h"

#include <cmath>

namespace tesela {

namespace {

/// A good 64-bit mixture of seed and index (splitmix64, Steele et al. 2014): element
/// i needs no other, so layout and order do not matter.
uint64_t mix(uint64_t seed, uint64_t index) {
  uint64_t z = seed * 0x9e3779b97f4a7c15u + (index + 1) * 0xd1b54a32d192ed03u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/// Box and Muller's transform, in arithmetic that is the same on every machine.
float normal(uint64_t bits) {
  FloatArithmetic arithmetic;
  float uniform = (float(bits >> 41) + 0.5f) * 0x1p-23f;        // in (0, 1)
  float angle = float(bits & 0x7fffff) * 0x1p-23f * 6.2831853f; // in [0, 2 pi)
  float radius = std::sqrt(-2.0f * exactLog(arithmetic, uniform));
  return radius * exactCos(arithmetic, angle);
}

} // namespace

void fillNormal(const Tensor &tensor, uint64_t seed) {
  int64_t count = tensor.elementCount();
  for (int64_t i = 0; i < count; ++i)
    storeFloat(tensor.data, tensor.type, elementOffset(tensor, i), normal(mix(seed, uint64_t(i))));
}

void fillUniform(const Tensor &tensor, uint64_t seed, int64_t low, int64_t high) {
  int64_t count = tensor.elementCount();
  uint64_t range = uint64_t(high) - uint64_t(low) + 1;
  for (int64_t i = 0; i < count; ++i) {
    uint64_t bits = mix(seed, uint64_t(i));
    int64_t value = int64_t(uint64_t(low) + (range ? bits % range : bits));
    int64_t offset = elementOffset(tensor, i);
    if (tensor.type == ElementType::boolean)
      static_cast<uint8_t *>(tensor.data)[offset] = uint8_t(value != 0);
    else
      static_cast<int32_t *>(tensor.data)[offset] = int32_t(value);
  }
}

} // namespace tesela
