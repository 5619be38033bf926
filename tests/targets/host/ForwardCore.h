//===- ForwardCore.h - templates/forward.mlir as a core ---------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_TARGETS_HOST_FORWARDCORE_H
#define TESELA_TESTS_TARGETS_HOST_FORWARDCORE_H

#include "tesela/ElementType.h"

#include <cstdint>
#include <string>

namespace tesela::test {

/// Forward attention with a causal mask (q >= k) as the passes leave it: blocks are bound, hooks
/// are filled, and softmax steps are written out. `choices`: further fields of the schedule, such
/// as ", product_pairs = true".
std::string causalForwardCore(ElementType type, int64_t blockM, int64_t blockN, int64_t dQk,
                              int64_t dV, const std::string &choices = "");

} // namespace tesela::test

#endif // TESELA_TESTS_TARGETS_HOST_FORWARDCORE_H
