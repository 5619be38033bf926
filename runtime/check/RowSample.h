//===- RowSample.h - Which rows of a launch are looked at -------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_CHECK_ROWSAMPLE_H
#define TESELA_CHECK_ROWSAMPLE_H

#include "tesela/compiler/Artifact.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tesela {

/// Rows of a launch, ascending, by the number (b * H + h) * Sq + q: the same for the same extents.
/// The first and the last; others at random, up to half of them at an edge of a block of queries.
/// So many that the reference has 2^20 pairs, but at least 64 and at most 1024; all where there are
/// fewer. None where no pair is computed.
std::vector<int64_t> sampleRows(const Extents &extents);

/// "b 0, h 3, q 17"
std::string rowText(int64_t row, int64_t heads, int64_t queries);

} // namespace tesela

#endif // TESELA_CHECK_ROWSAMPLE_H
