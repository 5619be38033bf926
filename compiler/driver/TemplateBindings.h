//===- TemplateBindings.h - Values of a template's parameters ---*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_DRIVER_TEMPLATEBINDINGS_H
#define TESELA_COMPILER_DRIVER_TEMPLATEBINDINGS_H

#include "tesela/compiler/Compile.h"
#include "tile/Tile.h"
#include "transforms/ParameterGradients.h"

#include <string>
#include <vector>

namespace tesela {

/// The options of tile-place-views and tile-narrow-keys, from the bindings that every template has.
/// templateBindings() reports wrong values.
struct Places {
  std::string queries = "dense", keys = "dense", positions = "begin";
  int64_t page = 0;
  std::string cache, scales = "head"; ///< cache: empty, or the element type of keys and values
  std::string prefix;                 ///< empty, or "shared"
  std::string values;                 ///< empty, or "keys"
};
Places placesOf(const KernelSpecification &specification);

/// `name=value` for the parameters of `kernels`, as tile-bind takes them: first those that follow
/// from the specification's fields and from the requested `gradients`, then its bindings. The
/// schedule gives block_m, block_n and heads. Code::invalidArgument if a parameter has no value, or
/// a binding names no parameter.
Result<std::vector<std::string>> templateBindings(const KernelSpecification &specification,
                                                  llvm::ArrayRef<tile::KernelOp> kernels,
                                                  llvm::ArrayRef<ParameterGradient> gradients);

} // namespace tesela

#endif // TESELA_COMPILER_DRIVER_TEMPLATEBINDINGS_H
