//===- LanePositions.h - Linear values of a map -----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_LANEPOSITIONS_H
#define TESELA_COMPILER_TARGETS_NVVM_LANEPOSITIONS_H

#include "analysis/ElementMultiples.h"
#include "tile/Tile.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseMap.h"

namespace tesela::nvvm {

/// The value lane + row · i + column · j, in i32 or f32, for the lane's element in row i and column
/// j, counted from its first element.
struct LanePosition : ElementMultiples {
  explicit LanePosition(mlir::Value lane = {}, ElementMultiples multiples = {})
      : ElementMultiples(multiples), lane(lane) {}

  mlir::Value lane;
};

/// The values of a map's body that are linear in the row's position and in the column.
class LanePositions {
public:
  /// Writes the lanes' parts of these values at `builder`. `outer` gives the lowered values from
  /// outside of the body; `firstRow` is a position.
  LanePositions(mlir::OpBuilder &builder, tile::MapOp map, const mlir::IRMapping &outer,
                mlir::Value firstRow, mlir::Value firstColumn);

  /// Null if `value` is not linear.
  const LanePosition *find(mlir::Value value) const {
    auto found = known.find(value);
    return found == known.end() ? nullptr : &found->second;
  }

private:
  llvm::DenseMap<mlir::Value, LanePosition> known;
};

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_LANEPOSITIONS_H
