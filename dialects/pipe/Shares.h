//===- Shares.h - The share of a buffer that a warpgroup has ----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// pipe.add_out adds sums to a workspace. Each warpgroup of the consumers writes and adds its own
// share of the buffer. An output may lie over these sums, with one stage for each warpgroup. The
// stage lies in the share of that warpgroup, so no warpgroup has to wait for another one.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_DIALECTS_PIPE_SHARES_H
#define TESELA_DIALECTS_PIPE_SHARES_H

#include "pipe/Pipe.h"

#include "llvm/Support/MathExtras.h"

namespace tesela::pipe {

/// The rows that one warpgroup has of a product (wgmma's M).
inline constexpr int64_t rowsOfShare = 64;

/// The columns that each of `parts` parts of the warps has of a tile of `columns` columns, if they
/// share the columns (#pipe.accumulator). Several parts divide a panel of 64 columns evenly, or
/// each has whole panels. Then the last part may have columns that the tile lacks.
inline int64_t columnsOfPart(int64_t columns, int64_t parts) {
  constexpr int64_t panel = 64;
  int64_t even = columns / parts;
  bool dividesPanel = columns % parts == 0 && even > 0 && panel % even == 0;
  return parts == 1 || dividesPanel ? even : llvm::alignTo(llvm::divideCeil(columns, parts), panel);
}

/// Whether each of these parts has two panels of 64 columns, of which the tile lacks the last one:
/// 192 columns in two parts. The last part computes the panel before twice.
inline bool lacksLastPanel(int64_t columns, int64_t parts) {
  constexpr int64_t panel = 64;
  int64_t own = columnsOfPart(columns, parts);
  return own == 2 * panel && parts * own == int64_t(llvm::alignTo(columns, panel)) + panel;
}

/// Bytes of `sums` that each of `consumers` warpgroups writes and adds. The shares lie one after
/// the other from the start of the buffer.
inline int64_t bytesOfShare(BufferType sums, int64_t consumers) {
  return sums.getRows() * sums.getColumns() * sums.getElementBytes() / consumers;
}

/// Whether each of `consumers` warpgroups adds its own columns of `sums`, instead of its own rows.
inline bool isSharedByColumns(BufferType sums, int64_t consumers) {
  return sums.getRows() < rowsOfShare * consumers;
}

/// The columns of `sums` that each of `consumers` warpgroups adds.
inline int64_t columnsOfShare(BufferType sums, int64_t consumers) {
  return isSharedByColumns(sums, consumers) ? sums.getColumns() / consumers : sums.getColumns();
}

/// Whether `buffer` has one stage for each of `consumers` warpgroups, and each stage has room for
/// the rows that a warpgroup has of a tile of `rows` rows.
inline bool isByShares(BufferType buffer, int64_t rows, int64_t consumers) {
  return consumers > 1 && buffer.getStages() == consumers && buffer.getRows() == rowsOfShare &&
         rows == consumers * rowsOfShare;
}

} // namespace tesela::pipe

#endif // TESELA_DIALECTS_PIPE_SHARES_H
