//===- CaptureSummary.h - Least and largest elements by granule -*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A summary holds the least and the largest element of each granule of a captured tensor, so that
// tile.bounds asks a few numbers instead of all elements of a box. It has two levels, each an i32
// tensor without gaps in the launch's workspace, "$doc.summary0" and "$doc.summary1" for "$doc":
//
//   [2, leading axes…, rows, columns]     plane 0: least, plane 1: largest
//
// The column axis is the axis that boxes extend in, whichever it is; another one that they extend
// in (a matrix that is read at [q, k]) is the row axis, else the last axis that is left is. All
// other axes lead, in their order. A granule is
//
//   level 0   16 columns; 64 rows of a matrix, else 1 row
//   level 1   the granules of 32 columns of level 0: 512 columns
//
// 16 columns: blocks of keys and queries begin at multiples of 16, so the granules of a block are
// the block exactly, and the pair of numbers is an eighth of 16 elements: 0.5 MB for an i32[1,
// 2^20]. 512: so a box of 32 blocks of 176 keys, the most that are tested together, has 12
// granules. 64 rows: blocks of queries begin at multiples of 64, and the summary is then 1/512 of
// the matrix.
//
// Numbers are keys in the order of the elements, as tile.read gives them: an i32 itself (a bool is
// its byte); of an f32 (also of f16 and bf16) the bits, those below the sign turned where it is
// set. A granule that holds a NaN has the keys INT_MIN and INT_MAX, which are the bits of NaNs and
// beyond those of all numbers. A type that is added needs keys of its own, in
// templates/summary.mlir and in LowerBounds.cpp.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TRANSFORMS_CAPTURESUMMARY_H
#define TESELA_TRANSFORMS_CAPTURESUMMARY_H

#include "tile/Tile.h"

#include "llvm/ADT/SmallVector.h"

#include <string>

namespace tesela {

/// Elements in the column axis of a granule of level 0, and granules of level 0 in one of level 1.
inline constexpr int64_t granuleColumns = 16, granulesOfGroup = 32;
/// Elements in the row axis, where boxes extend in it.
inline constexpr int64_t granuleRows = 64;
/// A view has so many axes at most; of one with more, no bound is known.
inline constexpr int64_t maxSummaryRank = 4;
/// And boxes extend in so many axes at most: the granules' rows and columns.
inline constexpr int64_t maxBoxAxes = 2;

/// The summary that a kernel reads of a captured tensor.
struct CaptureSummary {
  std::string capture;             ///< the kernel's argument: "$doc"
  llvm::SmallVector<int64_t> axes; ///< the tensor's: leading ones, row (where there is one), column
  int64_t rows = 1;                ///< elements of a granule in the row axis
  int64_t levels = 1;              ///< that are read: 1 or 2
};

/// The argument that a level comes as: "$doc.summary0"; with rows, or with axes in another order
/// than the tensor's, "$pairs.summary0.64", "$pairs.summary0.64.axes1_0". The kernels of a template
/// may read one tensor in boxes of different axes, and each has its own summary then.
std::string summaryName(const CaptureSummary &summary, int64_t level);

/// What `tile-lower-bounds` noted of `kernel`, in the order of its arguments.
std::vector<CaptureSummary> summariesOf(tile::KernelOp kernel);
void setSummaries(tile::KernelOp kernel, llvm::ArrayRef<CaptureSummary> summaries);

} // namespace tesela

#endif // TESELA_TRANSFORMS_CAPTURESUMMARY_H
