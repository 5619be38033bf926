//===- RowSample.h - Which rows of a launch are verified --------*- C++ -*-===//
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

/// A sample of a launch's rows, as ascending numbers (b * H + h) * Sq + q; equal extents give equal
/// samples. It has the first and the last row, and random ones, up to half of them at the edge of a
/// block of queries. The reference has about 2^20 pairs, but there are at least 64 and at most 1024
/// rows, or all if there are fewer. Empty if no pair is computed.
std::vector<int64_t> sampleRows(const Extents &extents);

/// "b 0, h 3, q 17"
std::string rowText(int64_t row, int64_t heads, int64_t queries);

} // namespace tesela

#endif // TESELA_CHECK_ROWSAMPLE_H
