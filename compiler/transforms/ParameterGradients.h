//===- ParameterGradients.h - Gradients of parameters -----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// How the gradient of a scalar or a captured tensor is summed. Let dS be the gradient of a score,
// and t[i] an element that a pair reads. Then
//
//   dt[i] += dS · ∂score/∂t[i]
//
// Many pairs add to one element, and their work items run in any order. So each element has an
// exact sum (tile.collect), which does not depend on the order of additions. For a tensor with an
// element for each query and key, such as a bias [H, Sq, Sk], exact sums would take too much
// memory. It does not need them: one work item has all pairs that add to an element, and adds them
// in the order of its loops (tile.deposit).
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TRANSFORMS_PARAMETERGRADIENTS_H
#define TESELA_COMPILER_TRANSFORMS_PARAMETERGRADIENTS_H

#include "attn/Attn.h"

#include <string>

namespace tesela {

/// A parameter whose gradient is requested.
struct ParameterGradient {
  std::string name;
  bool isCapture = false;
  int64_t rank = 1; ///< the gradient of a scalar is [1]
  /// The score reads the parameter once, at [.., q, .., k, ..] in axes of extents Sq and Sk, so the
  /// pairs of an element differ only in batch and head.
  bool isDirect = false;
  bool sumsBatches = false, sumsHeads = false; ///< if isDirect
  /// If isDirect: each element of the tensor is read. An index that is a constant or a parameter
  /// leaves other elements unread; their gradients are 0.
  bool coversAll = false;
  /// If isDirect: each element is stored once, in the tensor's own type (tile-own-tiles).
  bool isOwned = false;
  bool isInScore = false, isInSink = false; ///< if neither, the gradient is 0

  /// The name of the kernel argument to which the gradient is added.
  std::string viewName() const { return "$" + name + (isDirect ? ".gradient" : ".sums"); }
};

/// The gradients of the parameters `names` of `variant`: f32 scalars and floating-point tensors.
/// `gradient` has their derivatives.
llvm::SmallVector<ParameterGradient> parameterGradients(attn::VariantOp variant,
                                                        attn::GradientOp gradient,
                                                        llvm::ArrayRef<std::string> names);

} // namespace tesela

#endif // TESELA_COMPILER_TRANSFORMS_PARAMETERGRADIENTS_H
