//===- FreeColumns.cpp - Tiles whose columns may be permuted ----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/FreeColumns.h"

#include "targets/nvvm/ProductShares.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tesela::nvvm {

static bool isLoadedByPairs(tile::LoadOp load) {
  auto type = cast<tile::TileType>(load.getType());
  auto schedule = load->getParentOfType<tile::KernelOp>().getScheduleAttr();
  std::optional<int64_t> columns = load.getView().getType().getRank() == 4
                                       ? load.getView().getType().getStaticExtent(3)
                                       : std::nullopt;
  return type.getRank() == 2 && !type.isSingleRow() && columns &&
         *columns % freeColumnsOfRow == 0 && type.getElementType().getIntOrFloatBitWidth() == 16 &&
         !isInFragmentOrder(load.getView()) && schedule && !isCut(type, *schedule.operator->());
}

static bool asksForColumn(tile::MapOp map) {
  return !map.getBody().front().getArguments().back().use_empty();
}

/// Whether `tile` has one value for each row.
static bool isOfRows(Value tile) { return cast<tile::TileType>(tile.getType()).getRank() == 1; }

bool hasFreeColumns(tile::LoadOp load) {
  llvm::SetVector<Value> met;
  met.insert(load.getTile());
  auto meet = [&](tile::MapOp map) {
    for (Value operand : map->getOperands())
      if (!isOfRows(operand))
        met.insert(operand);
    met.insert(map.getResult());
    return !asksForColumn(map);
  };
  for (size_t at = 0; at < met.size(); ++at) {
    Operation *given = met[at].getDefiningOp();
    if (auto other = dyn_cast_or_null<tile::LoadOp>(given)) {
      if (!isLoadedByPairs(other))
        return false;
    } else if (auto convert = dyn_cast_or_null<tile::ConvertOp>(given)) {
      met.insert(convert.getSource());
    } else if (auto map = dyn_cast_or_null<tile::MapOp>(given); !map || !meet(map)) {
      return false;
    }
    for (Operation *user : met[at].getUsers()) {
      if (auto convert = dyn_cast<tile::ConvertOp>(user)) {
        met.insert(convert.getResult());
      } else if (auto map = dyn_cast<tile::MapOp>(user)) {
        if (!meet(map))
          return false;
      } else if (auto reduce = dyn_cast<tile::ReduceOp>(user);
                 !reduce || !isOfRows(reduce.getResult())) {
        return false;
      }
    }
  }
  return true;
}

} // namespace tesela::nvvm
