//===- GradientSums.h - Launches for gradients of parameters ----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A kernel with the hook tile.score_partials sums gradients. Bindings such as "gradient=slope" name
// parameters; without one, all parameters of the score and the sink have gradients. The gradient of
// `slope` is the tensor d_slope: f32, contiguous, with the extents of slope ([1] for a scalar).
//
// Exact sums lie in workspaces. They, and gradients to which kernels add directly, are cleared
// before the template's kernels; exact sums are rounded after them (templates/exact_sums.mlir).
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_DRIVER_GRADIENTSUMS_H
#define TESELA_COMPILER_DRIVER_GRADIENTSUMS_H

#include "tesela/compiler/Compile.h"
#include "tile/GradientOps.h"
#include "transforms/ParameterGradients.h"

#include "mlir/IR/BuiltinOps.h"

namespace tesela {

/// The prefix of bindings that name a parameter whose gradient is requested.
inline constexpr llvm::StringLiteral gradientBinding = "gradient=";

bool sumsGradients(llvm::ArrayRef<tile::KernelOp> kernels);

/// The gradients that `specification` requests. `op` is the variant and has `parameters`.
Result<std::vector<ParameterGradient>> askedGradients(const KernelSpecification &specification,
                                                      attn::VariantOp op,
                                                      const std::vector<Parameter> &parameters);

struct GradientSums {
  std::vector<TensorArgument> tensors;
  std::vector<Workspace> workspaces;
  std::vector<Launch> before, behind; ///< launches before and after the template's kernels
};

/// Adds the kernels of the template `source` (exact_sums.mlir) after those of `module`.
/// `parameters`: those of the variant.
mlir::FailureOr<GradientSums> addGradientSums(llvm::ArrayRef<ParameterGradient> gradients,
                                              llvm::ArrayRef<Parameter> parameters,
                                              mlir::ModuleOp module, mlir::ModuleOp source);

/// Sets the tensor names in the slots of a template's kernel: "$slope.gradient" becomes
/// d_slope.
void nameGradients(Launch &launch, llvm::ArrayRef<ParameterGradient> gradients);

} // namespace tesela

#endif // TESELA_COMPILER_DRIVER_GRADIENTSUMS_H
