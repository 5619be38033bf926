//===- Shares.h - What each warpgroup has of a buffer -----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Sums leave by pipe.add_out: each warpgroup of the consumers writes and adds its own share of the
// buffer. An output may lie over them by shares: then its buffer has a stage for each warpgroup,
// and the stage lies in the share of that warpgroup. So no warpgroup waits for another one.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_DIALECTS_PIPE_SHARES_H
#define TESELA_DIALECTS_PIPE_SHARES_H

#include "pipe/Pipe.h"

namespace tesela::pipe {

/// Rows of a warpgroup's products.
inline constexpr int64_t rowsOfShare = 64;

/// Bytes of `sums` that each of `consumers` warpgroups writes and adds by itself. They lie one
/// behind the other from the begin of the buffer.
inline int64_t bytesOfShare(BufferType sums, int64_t consumers) {
  return sums.getRows() * sums.getColumns() * sums.getElementBytes() / consumers;
}

/// Whether each of `consumers` warpgroups has a stage of `buffer` for its own rows of a tile that
/// has `rows`.
inline bool isByShares(BufferType buffer, int64_t rows, int64_t consumers) {
  return consumers > 1 && buffer.getStages() == consumers && buffer.getRows() == rowsOfShare &&
         rows == consumers * rowsOfShare;
}

} // namespace tesela::pipe

#endif // TESELA_DIALECTS_PIPE_SHARES_H
