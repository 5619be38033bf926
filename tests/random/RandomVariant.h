//===- RandomVariant.h - A whole variant from a seed ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Masks are the same bit for bit on every target, so they are of anything: NaN, infinities, sines
// of huge numbers, i32 at its ends. A score is held to docs/numerics.md's rule, which supposes that
// the score itself is computed well; exp(exp(s)) is not, by any kernel. So each number of a score
// carries its running error bound (Numbers.h), and:
//
//   - the whole score is multiplied by the power of two that brings its bound below the rule's;
//   - floor, int and comparisons are of numbers that every order of f32 operations gives exactly
//     (few bits): else the reference in double and any kernel may fall on different sides;
//   - infinities and NaNs are selected last, by a condition: sums of them depend on their order.
//
// Some conditions compare `s` with a number that no product gives: a kernel's s lies on the other
// side of it once in some million pairs.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_RANDOM_RANDOMVARIANT_H
#define TESELA_TESTS_RANDOM_RANDOMVARIANT_H

#include "tesela/ElementType.h"

#include <cstdint>
#include <string>

namespace tesela {

/// The text of a variant over the whole language, for inputs of `inputType`. Parameters whose names
/// begin with "wild" may have any value; the others are small (RandomLaunch.h).
std::string randomVariant(uint64_t seed, ElementType inputType);

} // namespace tesela

#endif // TESELA_TESTS_RANDOM_RANDOMVARIANT_H
