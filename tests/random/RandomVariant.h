//===- RandomVariant.h - A whole variant from a seed ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Masks have the same bits on every target, so they may contain anything: NaN, infinities, sines of
// huge numbers, i32 at its ends. A score is checked by docs/numerics.md's rule, which requires that
// the score itself is computed accurately. No kernel can do that for exp(exp(s)). So each number of
// a score carries its error bound (Numbers.h), and:
//
//   - the whole score is multiplied by a power of two that brings its bound below the rule's;
//   - floor, int and comparisons only take numbers that are exact for every order of f32 operations
//     (few bits); otherwise the reference in double and a kernel may give different results;
//   - infinities and NaNs are selected last, by a condition: sums of them depend on their order.
//
// Some conditions compare `s` with a number that no product gives. A kernel's s is on the other
// side of that number in about one of some million pairs.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_RANDOM_RANDOMVARIANT_H
#define TESELA_TESTS_RANDOM_RANDOMVARIANT_H

#include "tesela/ElementType.h"

#include <cstdint>
#include <string>

namespace tesela {

/// The text of a variant that uses the whole language, for inputs of `inputType`. Parameters whose
/// names begin with "wild" may have any value; the others are small (RandomLaunch.h).
std::string randomVariant(uint64_t seed, ElementType inputType);

} // namespace tesela

#endif // TESELA_TESTS_RANDOM_RANDOMVARIANT_H
