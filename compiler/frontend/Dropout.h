//===- Dropout.h - Which pairs a launch drops -------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The reference of dropout: says for a single pair whether every kernel must drop it. The rule is
// in docs/numerics.md. Kernels compute it as in `tile.bernoulli` and share no code with this file.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_FRONTEND_DROPOUT_H
#define TESELA_FRONTEND_DROPOUT_H

#include "tesela/compiler/Artifact.h"

#include <array>
#include <cstdint>
#include <vector>

namespace tesela {

/// The parameters of a launch with dropout. Their names have a dot, so no parameter of a variant
/// has such a name.
///
/// "dropout.p" is the probability. "dropout.seed" and "dropout.offset" are the lower 32 bits of two
/// 64-bit numbers, "dropout.seed_high" and "dropout.offset_high" the upper 32 bits. The offset and
/// the upper halves are 0 by default. "dropout.first_q" and "dropout.first_k" are the positions of
/// the launch's first query and key, multiples of 16, by default 0: a launch over a part of the
/// queries or keys drops the same pairs as a launch over all. "dropout.state" is an optional
/// captured tensor of 4 i32, which are combined by xor with the words of the seed and the offset,
/// lower halves first. With it each launch of a CUDA graph can drop other pairs.
std::vector<Parameter> dropoutParameters();
bool isDropoutParameter(const Parameter &parameter);
/// The number of scalars, which come first, and the number of words of the state.
inline constexpr size_t dropoutScalarCount = 7, dropoutStateWords = 4;

/// Which pairs a launch drops.
class Dropout {
public:
  /// `probability` in [0, 1].
  Dropout(float probability, uint64_t seed, uint64_t offset);

  /// The dropout of a launch with these scalars, in their order, and the words of a state.
  static Dropout ofScalars(const uint32_t *bits, const int32_t *state);

  /// Whether the pair (q, k) of the head `head` = b * H + h is dropped.
  bool drops(uint32_t head, uint32_t q, uint32_t k) const;
  /// The factor of kept pairs: 1 / (1 - p), or 0 if p is 1.
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
