//===- Summaries.h - The launches that make summaries -----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_DRIVER_SUMMARIES_H
#define TESELA_COMPILER_DRIVER_SUMMARIES_H

#include "tesela/compiler/Artifact.h"
#include "tile/Tile.h"

#include "mlir/IR/BuiltinOps.h"

#include <vector>

namespace tesela {

/// What a plan has beside its main launches.
struct SummaryPlan {
  std::vector<Workspace> workspaces;
  std::vector<Launch> launches; ///< in order, before the main ones
};

/// Whether one of `kernels` reads a summary (CaptureSummary.h).
bool needSummaries(llvm::ArrayRef<tile::KernelOp> kernels);

/// Puts a kernel behind `kernels` for each level of each summary that they read, made of the one
/// tile.kernel of `source`, the parsed templates/summary.mlir, whose parameters it binds. Fails
/// with a diagnostic.
mlir::FailureOr<SummaryPlan> addSummaries(llvm::ArrayRef<tile::KernelOp> kernels,
                                          mlir::ModuleOp source);

} // namespace tesela

#endif // TESELA_COMPILER_DRIVER_SUMMARIES_H
