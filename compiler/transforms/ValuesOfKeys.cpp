//===- ValuesOfKeys.cpp - tile-values-of-keys -------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tile/ColumnOps.h"
#include "tile/Extents.h"
#include "transforms/Passes.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_TILEVALUESOFKEYS
#include "transforms/Passes.h.inc"

namespace {

/// The tensors [B, heads, Sk, D] of the caller.
SmallVector<BlockArgument> tensorsOfKeys(tile::KernelOp kernel) {
  SmallVector<BlockArgument> tensors;
  for (BlockArgument argument : kernel.getBodyBlock().getArguments()) {
    auto view = dyn_cast<tile::ViewType>(argument.getType());
    if (!view || view.getRank() != 4 ||
        kernel.getArgumentRole(argument.getArgNumber()) != tile::Role::In)
      continue;
    auto symbol = dyn_cast<tile::SymbolAttr>(view.getExtents()[2]);
    if (symbol && symbol.getName() == "Sk")
      tensors.push_back(argument);
  }
  return tensors;
}

void eraseArgument(tile::KernelOp kernel, unsigned index) {
  auto without = [&](ArrayAttr all) {
    SmallVector<Attribute> rest(all.getValue());
    rest.erase(rest.begin() + index);
    return ArrayAttr::get(kernel.getContext(), rest);
  };
  kernel.getBodyBlock().eraseArgument(index);
  kernel.setArgumentNamesAttr(without(kernel.getArgumentNames()));
  if (std::optional<ArrayAttr> roles = kernel.getArgumentRoles())
    kernel.setArgumentRolesAttr(without(*roles));
}

struct TileValuesOfKeys : impl::TileValuesOfKeysBase<TileValuesOfKeys> {
  void runOnOperation() override {
    tile::KernelOp kernel = getOperation();
    SmallVector<BlockArgument> tensors = tensorsOfKeys(kernel);
    if (tensors.empty())
      return; // the kernel only joins results of other kernels
    if (tensors.size() != 2) {
      kernel.emitError() << "values=keys takes a kernel with keys and values, two tensors `in` of "
                            "rows Sk, got "
                         << tensors.size() << "; leave it out";
      return signalPassFailure();
    }
    BlockArgument keys = tensors[0], values = tensors[1];
    auto type = cast<tile::ViewType>(values.getType());
    auto ofKeys = cast<tile::ViewType>(keys.getType());
    if (*type.getStaticExtent(3) > *ofKeys.getStaticExtent(3)) {
      kernel.emitError() << "values=keys takes values that are the first columns of the keys: of "
                         << *ofKeys.getStaticExtent(3) << " columns there are no "
                         << *type.getStaticExtent(3) << " first ones";
      return signalPassFailure();
    }
    for (OpOperand &use : llvm::make_early_inc_range(values.getUses())) {
      OpBuilder builder(use.getOwner());
      use.set(tile::FirstColumnsOp::create(builder, use.getOwner()->getLoc(), type, keys));
    }
    eraseArgument(kernel, values.getArgNumber());
  }
};

} // namespace
} // namespace tesela
