//===- DropoutRule.h - The pairs that dropout drops -------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_GPU_DROPOUTRULE_H
#define TESELA_TESTS_GPU_DROPOUTRULE_H

#include <cstdint>

namespace tesela {

/// A second implementation of the rule in docs/numerics.md: whether the launch drops the pair of
/// the head `head` = b * H + h.
bool isDropped(double probability, uint64_t seed, uint64_t offset, uint32_t head, uint32_t q,
               uint32_t k);

} // namespace tesela

#endif // TESELA_TESTS_GPU_DROPOUTRULE_H
