//===- UnusedArguments.h - A kernel without unused arguments ----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TRANSFORMS_UNUSEDARGUMENTS_H
#define TESELA_COMPILER_TRANSFORMS_UNUSEDARGUMENTS_H

#include "tile/Tile.h"

#include "llvm/ADT/BitVector.h"

namespace tesela {

/// Erases the arguments of `kernel` that no op uses, with their names and roles.
inline void eraseUnusedArguments(tile::KernelOp kernel) {
  llvm::BitVector erased(kernel.getBody().getNumArguments());
  llvm::SmallVector<mlir::Attribute> names, roles;
  for (mlir::BlockArgument argument : kernel.getBody().getArguments()) {
    unsigned index = argument.getArgNumber();
    erased[index] = argument.use_empty();
    if (erased[index])
      continue;
    names.push_back(kernel.getArgumentNames()[index]);
    if (std::optional<mlir::ArrayAttr> all = kernel.getArgumentRoles())
      roles.push_back((*all)[index]);
  }
  kernel.getBodyBlock().eraseArguments(erased);
  kernel.setArgumentNamesAttr(mlir::ArrayAttr::get(kernel.getContext(), names));
  if (kernel.getArgumentRoles())
    kernel.setArgumentRolesAttr(mlir::ArrayAttr::get(kernel.getContext(), roles));
}

} // namespace tesela

#endif // TESELA_COMPILER_TRANSFORMS_UNUSEDARGUMENTS_H
