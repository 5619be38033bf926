//===- Interface.h - The arguments of a plan's kernels ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_DRIVER_INTERFACE_H
#define TESELA_COMPILER_DRIVER_INTERFACE_H

#include "tesela/compiler/Artifact.h"
#include "tile/Tile.h"

#include <array>
#include <vector>

namespace tesela {

/// The arguments of all kernels of a template, as a launch plan has them.
struct Interface {
  std::vector<TensorArgument> tensors; ///< in the order in which the kernels name them
  std::vector<Workspace> workspaces;
  std::vector<Parameter> parameters; ///< the variant's, then the template's own ones
};

/// The extents B, H, Hkv, Sq and Sk of a launch in which the rows are the tokens of all sequences.
inline constexpr std::array<const char *, 5> tokenExtents = {"1", "H", "Hkv", "$query_positions.0",
                                                             "Sk"};

/// The interface of bound kernels. Arguments with the same name are one tensor. All kernels must
/// declare it alike, except that one may leave extents open. A tensor that one kernel writes and a
/// later one reads is an output of the plan. `variant`: the parameters of the variant in the hooks.
/// Code::invalidArgument if a declaration is incomplete.
Result<Interface> interfaceOf(llvm::ArrayRef<tile::KernelOp> kernels,
                              const std::vector<Parameter> &variant);

} // namespace tesela

#endif // TESELA_COMPILER_DRIVER_INTERFACE_H
