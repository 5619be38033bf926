//===- Interface.h - What kernels ask of a launch ---------------*- C++ -*-===//
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

/// The arguments of a template's kernels together, as a launch plan has them.
struct Interface {
  std::vector<TensorArgument> tensors; ///< in the order in which the kernels name them
  std::vector<Workspace> workspaces;
  std::vector<Parameter> parameters; ///< the variant's, then the template's own
};

/// The extents B, H, Hkv, Sq and Sk of a launch whose rows are the tokens of all sequences.
inline constexpr std::array<const char *, 5> tokenExtents = {"1", "H", "Hkv", "$query_positions.0",
                                                             "Sk"};

/// The interface of bound kernels. Arguments of one name are one tensor, which all kernels declare
/// alike, but for extents that one of them leaves open; what one of them writes and a later one
/// reads, the caller gets. `variant`: the parameters of the variant in their hooks.
/// Code::invalidArgument where a declaration says too little.
Result<Interface> interfaceOf(llvm::ArrayRef<tile::KernelOp> kernels,
                              const std::vector<Parameter> &variant);

} // namespace tesela

#endif // TESELA_COMPILER_DRIVER_INTERFACE_H
