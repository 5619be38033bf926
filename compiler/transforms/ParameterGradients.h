//===- ParameterGradients.h - Gradients of parameters -----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// How the gradient of a scalar or a captured tensor is summed. With dS the gradient of a score, and
// t[i] what a pair reads,
//
//   dt[i] += dS · ∂score/∂t[i]
//
// Many pairs add to one element, and the work items that have them run in any order. So each
// element has an exact sum (tile.collect): the order of what is added does not matter. A tensor
// with an element for each query and key, such as a bias [H, Sq, Sk], is too large for that, and
// needs it not: one work item has all pairs that add to an element, and adds them in the order of
// its loops (tile.deposit).
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TRANSFORMS_PARAMETERGRADIENTS_H
#define TESELA_COMPILER_TRANSFORMS_PARAMETERGRADIENTS_H

#include "attn/Attn.h"

#include <string>

namespace tesela {

/// A parameter whose gradient is asked for.
struct ParameterGradient {
  std::string name;
  bool isCapture = false;
  int64_t rank = 1; ///< of a scalar: its gradient is [1]
  /// It is read once, at [.., q, .., k, ..] in axes of extents Sq and Sk: an element's pairs differ
  /// in batch and head alone.
  bool isDirect = false;
  bool sumsBatches = false, sumsHeads = false; ///< of what is direct
  /// Of what is direct: each element of the tensor is read. One at a constant index, or at a
  /// parameter's, leaves others, whose gradient is 0.
  bool coversAll = false;
  /// Of what is direct: each element is stored once, in the tensor's own type (tile-own-tiles).
  bool isOwned = false;
  bool isInScore = false, isInSink = false; ///< neither: it is 0

  /// What kernels call what they add to.
  std::string viewName() const { return "$" + name + (isDirect ? ".gradient" : ".sums"); }
};

/// The gradients of `names`, each an f32 scalar or a floating-point tensor of `variant`, whose
/// derivatives `gradient` holds.
llvm::SmallVector<ParameterGradient> parameterGradients(attn::VariantOp variant,
                                                        attn::GradientOp gradient,
                                                        llvm::ArrayRef<std::string> names);

} // namespace tesela

#endif // TESELA_COMPILER_TRANSFORMS_PARAMETERGRADIENTS_H
