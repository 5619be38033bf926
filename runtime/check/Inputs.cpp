//===- Inputs.cpp - Random q, k and v that are difficult -------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The first column sets the level of a score: q has a constant there, and k the value for the key's
// level. All other columns stay normal, so every row still has many keys with weight.
//
//===----------------------------------------------------------------------===//
#include "check/ElementRanges.h"
#include "check/Elements.h"
#include "launch/TensorSpan.h"
#include "tesela/Check.h"

#include <cmath>
#include <iterator>
#include <numbers>

namespace tesela {

namespace {

/// Multiplies by a power of two; exact, except for f16's subnormals.
void multiply(const Tensor &tensor, float factor) {
  forRanges(tensor, [&](int64_t first, int64_t end) {
    forElements(tensor, first, end, [&](int64_t, int64_t offset) {
      storeFloat(tensor.data, tensor.type, offset,
                 factor * loadFloat(tensor.data, tensor.type, offset));
    });
  });
}

/// q's first column in rows that use the keys' level unchanged. Levels of up to 400 then need at
/// most 300 in k, even with 256 columns.
constexpr double queryColumn = 16;

/// The factor of the keys' level in row `q`. It changes sign, so that one row has its maximum where
/// another has its minimum.
double rowFactor(InputKind kind, int64_t q) {
  constexpr double jumping[] = {1, -1, 0.5, -0.5};
  switch (kind) {
  case InputKind::jumping:
    return jumping[q % 4];
  case InputKind::far:
    return q % 2 == 0 ? -1 : 1;
  default:
    return 1;
  }
}

/// The level of the scores of key `k` of `count`, in base 2.
double keyLevel(InputKind kind, int64_t k, int64_t count) {
  constexpr double jumping[] = {-160, 0, -320, 160, -160, 320, 0, 320};
  double fromMiddle = double(k) - double(count) / 2;
  switch (kind) {
  case InputKind::rising:
    return fromMiddle * 12 / 64;
  case InputKind::creeping:
    return fromMiddle * 3 / 64;
  case InputKind::falling:
    return fromMiddle * -12 / 64;
  case InputKind::jumping:
    // Not at the end of a block: blocks have multiples of 16 keys, up to 256.
    return jumping[k / 50 % int64_t(std::size(jumping))];
  case InputKind::far:
    return 260;
  default:
    return 0;
  }
}

/// Sets element 0 of every row of `tensor` to value(position of the row).
template <typename Value> void setFirstColumn(const Tensor &tensor, Value value) {
  if (hasNoElements(tensor))
    return;
  for (int64_t b = 0; b < tensor.extents[0]; ++b)
    for (int64_t h = 0; h < tensor.extents[1]; ++h)
      for (int64_t s = 0; s < tensor.extents[2]; ++s)
        storeFloat(tensor.data, tensor.type,
                   b * tensor.strides[0] + h * tensor.strides[1] + s * tensor.strides[2],
                   float(value(s)));
}

void setLevels(InputKind kind, const Tensor &q, const Tensor &k) {
  double column = std::numbers::ln2 * std::sqrt(double(k.extents[3])) / queryColumn;
  setFirstColumn(q, [&](int64_t s) { return queryColumn * rowFactor(kind, s); });
  setFirstColumn(k, [&](int64_t s) { return column * keyLevel(kind, s, k.extents[2]); });
}

constexpr std::pair<InputKind, std::string_view> names[] = {
    {InputKind::normal, "normal"},   {InputKind::scaled, "scaled"},
    {InputKind::rising, "rising"},   {InputKind::creeping, "creeping"},
    {InputKind::falling, "falling"}, {InputKind::jumping, "jumping"},
    {InputKind::far, "far"},         {InputKind::wide, "wide"}};

} // namespace

std::string_view inputKindName(InputKind kind) {
  for (auto [each, name] : names)
    if (each == kind)
      return name;
  return "";
}

std::optional<InputKind> parseInputKind(std::string_view name) {
  for (auto [kind, each] : names)
    if (each == name)
      return kind;
  return std::nullopt;
}

std::vector<InputKind> inputKinds() {
  std::vector<InputKind> kinds;
  for (auto [kind, name] : names)
    kinds.push_back(kind);
  return kinds;
}

void fillInputs(InputKind kind, const Tensor &q, const Tensor &k, const Tensor &v, uint64_t seed) {
  for (const Tensor *tensor : {&q, &k, &v})
    fillNormal(*tensor, ++seed);
  switch (kind) {
  case InputKind::normal:
    return;
  case InputKind::scaled:
    for (const Tensor *tensor : {&q, &k, &v})
      multiply(*tensor, 4);
    return;
  case InputKind::wide:
    multiply(q, 32);
    multiply(k, 1.0f / 32);
    multiply(v, 8192);
    return;
  default:
    setLevels(kind, q, k);
  }
}

} // namespace tesela
