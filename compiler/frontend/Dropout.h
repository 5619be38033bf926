//===- Dropout.h - Which pairs a launch drops -------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The reference of dropout: the pairs that every kernel drops, one by one. docs/numerics.md has the
// rule; kernels compute it as `tile.bernoulli` says, and share no code with this.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_FRONTEND_DROPOUT_H
#define TESELA_FRONTEND_DROPOUT_H

#include "tesela/compiler/Artifact.h"

#include <array>
#include <cstdint>
#include <vector>

namespace tesela {

/// The parameters of a launch with dropout. No parameter of a variant has such a name: theirs have
/// no dot.
///
/// The probability "dropout.p"; "dropout.seed" and "dropout.offset", the lower halves of 64 bits
/// each, and "dropout.seed_high" and "dropout.offset_high", the upper ones, which have the default
/// 0 as the offset has; "dropout.first_q" and "dropout.first_k", the positions of the launch's
/// first query and key among those of all, multiples of 16, 0 by default: so a launch over a part
/// drops what one over everything drops there; and "dropout.state", a captured tensor that may be
/// left out: of 4 i32, which are exclusive-ored to the words of the seed and the offset, the lower
/// halves first. So launches of a graph can drop other pairs each time.
std::vector<Parameter> dropoutParameters();
bool isDropoutParameter(const Parameter &parameter);
/// So many of them are scalars, the first ones; the state has so many words.
inline constexpr size_t dropoutScalarCount = 7, dropoutStateWords = 4;

/// What a launch drops.
class Dropout {
public:
  /// `probability` in [0, 1].
  Dropout(float probability, uint64_t seed, uint64_t offset);

  /// The dropout of such scalars in their order, and of a state's words.
  static Dropout ofScalars(const uint32_t *bits, const int32_t *state);

  /// Whether the pair (q, k) of the head `head` = b * H + h is dropped.
  bool drops(uint32_t head, uint32_t q, uint32_t k) const;
  /// What kept pairs are multiplied by: 1 / (1 - p), 0 where p is 1.
  double scale() const;

  using Words = std::array<uint32_t, 4>;
  /// Philox4x32 (Salmon, Moraes, Dror and Shaw, SC'11).
  static Words philox(Words counter, uint64_t key, int rounds);

private:
  double probability;
  Words start;
  uint32_t firstQuery = 0, firstKey = 0; ///< added to q and k
  uint64_t threshold;                    ///< of 39 bits
};

} // namespace tesela

#endif // TESELA_FRONTEND_DROPOUT_H
