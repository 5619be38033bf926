//===- GradientSums.h - Launches for gradients of parameters ----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A kernel with the hook tile.score_partials sums gradients of parameters. Which, the bindings
// "gradient=slope" say; without one, all that the score and the sink have. The gradient of `slope`
// is the tensor d_slope: f32 without gaps, of the extents of slope, or [1] of a scalar.
//
// Exact sums lie in workspaces. They, and what is added to directly, are cleared before the
// template's kernels; exact sums are rounded behind them (templates/exact_sums.mlir).
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_DRIVER_GRADIENTSUMS_H
#define TESELA_COMPILER_DRIVER_GRADIENTSUMS_H

#include "tesela/compiler/Compile.h"
#include "tile/GradientOps.h"
#include "transforms/ParameterGradients.h"

#include "mlir/IR/BuiltinOps.h"

namespace tesela {

/// A binding that names a parameter whose gradient is asked for: "gradient=".
inline constexpr llvm::StringLiteral gradientBinding = "gradient=";

bool sumsGradients(llvm::ArrayRef<tile::KernelOp> kernels);

/// The gradients that `specification` asks of `op`, which has `parameters`.
Result<std::vector<ParameterGradient>> askedGradients(const KernelSpecification &specification,
                                                      attn::VariantOp op,
                                                      const std::vector<Parameter> &parameters);

struct GradientSums {
  std::vector<TensorArgument> tensors;
  std::vector<Workspace> workspaces;
  std::vector<Launch> before, behind; ///< the template's kernels
};

/// Puts the kernels of the template `source`, exact_sums.mlir, behind those of `module`.
/// `parameters`: the variant's.
mlir::FailureOr<GradientSums> addGradientSums(llvm::ArrayRef<ParameterGradient> gradients,
                                              llvm::ArrayRef<Parameter> parameters,
                                              mlir::ModuleOp module, mlir::ModuleOp source);

/// Names what the slots of a template's kernel are of: d_slope where the kernel says
/// "$slope.gradient".
void nameGradients(Launch &launch, llvm::ArrayRef<ParameterGradient> gradients);

} // namespace tesela

#endif // TESELA_COMPILER_DRIVER_GRADIENTSUMS_H
