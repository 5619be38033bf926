//===- TileMap.h - What a kernel does with the tiles ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TILEMAP_H
#define TESELA_TILEMAP_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tesela {

/// What the analysis proved about a tile.
enum class TileKind : uint8_t {
  empty,   ///< no pair in it is kept: neither loaded nor computed
  partial, ///< not proved: computed, then masked pair by pair
  full,    ///< every pair in it is kept: computed without the mask
};

/// Which kernel the tiles belong to. The gradients (templates/backward.mlir) are two kernels with
/// different tiles.
enum class TilePass : uint8_t {
  forward, ///< attention: a block of queries walks over blocks of keys
  dq,      ///< the gradient of q: as in the forward pass
  dkdv,    ///< the gradients of k and v: a block of keys walks over blocks of queries
};

/// How a kernel finds the tiles that it computes.
enum class TileForm : uint8_t {
  everyTile, ///< it computes all tiles
  keyRanges, ///< it computes runs of keys (dkdv: of queries), by formulas in the other block
  classified ///< it tests each tile, or many at once
};

/// A part of a mask about which the analysis can prove nothing.
struct LostProof {
  int line = 1, column = 1; ///< in the variant's text, from 1; the column in bytes
  std::string reason;       ///< why, as half a sentence
  std::string remedy;       ///< how to write it so that the analysis can prove it; may be empty
};

/// How many tiles there are of each kind.
struct TileCounts {
  int64_t empty = 0, partial = 0, full = 0;
  int64_t all() const { return empty + partial + full; }
  bool operator==(const TileCounts &) const = default;
};

/// The tiles of one head, or of all heads if the mask treats them alike.
struct HeadTiles {
  int32_t batch = -1; ///< -1: every batch
  int32_t head = -1;  ///< the query head; -1: every head
  TileCounts counts;
  int64_t computedPairs = 0; ///< pairs (q, k) of the launch in tiles that are not empty
  /// The kind of each cell, TileMap::cellRows() × cellColumns(), row by row.
  std::vector<TileKind> kinds;
};

/// The tiles of a launch. Row r has the queries from r·blockM on. Column c has the keys from
/// c·blockN on.
struct TileMap {
  int64_t blockM = 0, blockN = 0;
  int64_t rows = 0, columns = 0;
  /// Tiles along each axis of a cell; 1, or more if there are too many tiles to list. A cell has
  /// one kind: that of its tiles, or partial if they differ.
  int64_t cell = 1;
  TileForm form = TileForm::everyTile;
  TilePass pass = TilePass::forward;
  int runs = 0; ///< the most runs of keys, or of queries; for TileForm::keyRanges
  std::vector<HeadTiles> heads;
  std::vector<LostProof> lostProofs; ///< in the order of the text

  int64_t cellRows() const { return (rows + cell - 1) / cell; }
  int64_t cellColumns() const { return (columns + cell - 1) / cell; }
  /// The kind of the cell that contains the tile.
  TileKind kind(const HeadTiles &tiles, int64_t row, int64_t column) const {
    return tiles.kinds[size_t(row / cell * cellColumns() + column / cell)];
  }
};

} // namespace tesela

#endif // TESELA_TILEMAP_H
