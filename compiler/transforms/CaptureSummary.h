//===- CaptureSummary.h - Least and largest elements by granule -*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A summary holds the least and the largest element of each granule of a captured tensor, so
// tile.bounds reads a few numbers and not all elements of a box. It has two levels, each an i32
// tensor without gaps in the launch's workspace, "$doc.summary0" and "$doc.summary1" for "$doc":
//
//   [2, leading axes…, rows, columns]     plane 0: least, plane 1: largest
//
// Boxes extend in one or two axes of the tensor. One of them is the column axis. If there is
// another (a matrix that is read at [q, k]), it is the row axis; otherwise the last of the other
// axes is. All remaining axes lead, in their order. A granule is
//
//   level 0   16 columns; 64 rows of a matrix, else 1 row
//   level 1   the granules of 32 columns of level 0: 512 columns
//
// Why 16 columns: blocks of keys and queries begin at multiples of 16, so each block consists of
// whole granules. Two numbers are an eighth of 16 elements: 0.5 MB for an i32[1, 2^20]. Why 512:
// a box of 32 blocks of 176 keys, the largest box that is tested, has 12 granules. Why 64 rows:
// blocks of queries begin at multiples of 64, and the summary has then 1/512 of the matrix's
// size.
//
// The numbers are keys: i32 that have the order of the elements, as tile.read gives them. An i32
// is its own key (a bool is its byte). The key of an f32 (also from f16 and bf16) is its bits; if
// the sign bit is set, the other bits are inverted. A granule with a NaN has the keys INT_MIN and
// INT_MAX, which are keys of NaNs and lie outside the keys of all numbers. A new element type needs
// a key in templates/summary.mlir and in LowerBounds.cpp.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TRANSFORMS_CAPTURESUMMARY_H
#define TESELA_TRANSFORMS_CAPTURESUMMARY_H

#include "tile/Tile.h"

#include "llvm/ADT/SmallVector.h"

#include <string>

namespace tesela {

/// Elements of a level-0 granule in the column axis, and level-0 granules in one of level 1.
inline constexpr int64_t granuleColumns = 16, granulesOfGroup = 32;
/// Elements of a granule in the row axis, if boxes extend in it.
inline constexpr int64_t granuleRows = 64;
/// The largest number of axes of a summarised view. Views with more axes have no bounds.
inline constexpr int64_t maxSummaryRank = 4;
/// The largest number of axes in which boxes may extend: the rows and columns of granules.
inline constexpr int64_t maxBoxAxes = 2;

/// A summary that a kernel reads instead of a captured tensor.
struct CaptureSummary {
  std::string capture;             ///< the kernel's argument: "$doc"
  llvm::SmallVector<int64_t> axes; ///< of the tensor: leading axes, row (if there is one), column
  int64_t rows = 1;                ///< elements of a granule in the row axis
  int64_t levels = 1;              ///< how many levels the kernel reads: 1 or 2
};

/// The name of the argument for one level: "$doc.summary0". With rows, or with axes in another
/// order than the tensor's: "$pairs.summary0.64", "$pairs.summary0.64.axes1_0". Kernels of one
/// template may read a tensor in boxes of different axes; then each of them has its own summary.
std::string summaryName(const CaptureSummary &summary, int64_t level);

/// The summaries that `tile-lower-bounds` recorded for `kernel`, in the order of its arguments.
std::vector<CaptureSummary> summariesOf(tile::KernelOp kernel);
void setSummaries(tile::KernelOp kernel, llvm::ArrayRef<CaptureSummary> summaries);

} // namespace tesela

#endif // TESELA_TRANSFORMS_CAPTURESUMMARY_H
