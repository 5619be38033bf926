//===- ViewPlace.cpp - Where the rows of a view lie -------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/common/ViewPlace.h"

#include "tile/ColumnOps.h"

#include <numeric>

using namespace mlir;

namespace tesela {

ViewPlace placeOf(Value view) {
  ViewPlace place;
  if (auto columns = view.getDefiningOp<tile::FirstColumnsOp>())
    view = columns.getView();
  place.ragged = view.getDefiningOp<tile::RaggedOp>();
  place.paged = view.getDefiningOp<tile::PagedOp>();
  if (place.ragged)
    view = place.ragged.getView();
  else if (place.paged)
    view = place.paged.getView();
  place.argument = cast<BlockArgument>(view);
  return place;
}

bool endsInside(Value view, tile::BlockType block) {
  ViewPlace place = placeOf(view);
  return (place.ragged || place.paged) && block.getAxis() == tile::Axis::Key;
}

int64_t rowsTogether(Value view, tile::BlockType block) {
  tile::PagedOp paged = placeOf(view).paged;
  if (!paged)
    return block.getRows();
  return std::gcd(block.getRows(), *paged.getView().getType().getStaticExtent(2));
}

SmallVector<Operation *> accessesOf(Value view) {
  SmallVector<Operation *> accesses;
  for (Operation *user : view.getUsers()) {
    if (isa<tile::RaggedOp, tile::FirstColumnsOp>(user) ||
        (isa<tile::PagedOp>(user) && cast<tile::PagedOp>(user).getView() == view))
      llvm::append_range(accesses, accessesOf(user->getResult(0)));
    else
      accesses.push_back(user);
  }
  return accesses;
}

} // namespace tesela
