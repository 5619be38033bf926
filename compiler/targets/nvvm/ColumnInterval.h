//===- ColumnInterval.h - Conditions on a column as an interval -*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A condition that joins comparisons of positions, as k < Sk && q >= k && q - k < window does, asks
// of an element at (row i, column j) of the lane's part of a tile, i counting positions, whether
//
//   lower(i) <= j < upper(i)
//
// and, where it joins more than such comparisons, the rest. The ends are computed once for each of
// a lane's rows; an element costs one comparison with a constant for each end.
//
// With L the lane's first element and c = a·i ± j, a comparison L + c ⋈ u is one of c with u - L.
// Exact: the positions q and k are in [0, 2^31) and their difference in (-2^31, 2^31), so neither
// wraps, and u - L is saturated, which changes no comparison with a c of a tile's size.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_COLUMNINTERVAL_H
#define TESELA_COMPILER_TARGETS_NVVM_COLUMNINTERVAL_H

#include "targets/nvvm/PtxInstructions.h"
#include "tile/Tile.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"

namespace tesela::nvvm {

/// The comparisons of positions that the condition of a map's last select joins.
class ColumnInterval {
public:
  /// `outer` gives the lowered values from outside the map; `firstRow`, a position, and
  /// `firstColumn` are the lane's.
  ColumnInterval(mlir::OpBuilder &builder, tile::MapOp map, const mlir::IRMapping &outer,
                 mlir::Value firstRow, mlir::Value firstColumn);

  /// The condition it stands for; null where there is none to gain from.
  mlir::Value condition() const { return joined; }
  /// What else the condition joins, values of the map's body.
  llvm::ArrayRef<mlir::Value> rest() const { return others; }
  /// Whether column `column` of the lane's row at position `row` is inside.
  mlir::Value contains(int64_t row, int64_t column);

private:
  /// lane + row · i + column · j, `column` being 1 or -1, compared with `bound`.
  struct Atom {
    mlir::arith::CmpIPredicate predicate;
    mlir::Value difference; ///< bound - lane, saturated
    int64_t row, column;
  };
  /// lane + row · i + column · j of positions, and whether it is one position or a difference of
  /// two.
  struct Place {
    mlir::Value lane;
    int64_t row = 0, column = 0;
  };
  std::optional<Place> placeOf(mlir::Value value);
  std::optional<Atom> atomOf(mlir::arith::CmpIOp compare);
  void join(mlir::Value value);
  mlir::Value constant(int64_t value);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  tile::MapOp map;
  const mlir::IRMapping &outer;
  mlir::Value firstRow, firstColumn;
  mlir::Value joined;
  llvm::SmallVector<Atom> atoms;
  llvm::SmallVector<mlir::Value> others;
  /// By row: (lower, upper), null where there is no such end.
  llvm::MapVector<int64_t, std::pair<mlir::Value, mlir::Value>> ends;
};

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_COLUMNINTERVAL_H
