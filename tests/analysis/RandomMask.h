//===- RandomMask.h - Masks as text, from a seed ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_ANALYSIS_RANDOMMASK_H
#define TESELA_TESTS_ANALYSIS_RANDOMMASK_H

#include <random>
#include <string>

namespace tesela {

/// The parameters that a random mask may use.
inline constexpr const char *kMaskParameters = "p: i32, w: i32, x: f32, t: i32[B]";

/// An integer near 0, near `extent`, or near an end of i32, where sums wrap.
int32_t randomInteger(std::mt19937 &random, int32_t extent);

/// A boolean expression over q, k, b, h, hkv, the extents and kMaskParameters. Most atoms compare
/// sums of ± q, ± k and terms that are the same for a block, which the analysis should understand;
/// some are products, quotients and the like, which it must not.
std::string randomMask(std::mt19937 &random);

} // namespace tesela

#endif // TESELA_TESTS_ANALYSIS_RANDOMMASK_H
