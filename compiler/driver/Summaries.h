//===- Summaries.h - The launches that compute summaries --------*- C++ -*-===//
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

/// The workspaces and launches that a plan needs for summaries.
struct SummaryPlan {
  std::vector<Workspace> workspaces;
  std::vector<Launch> launches; ///< in order; they run before the main launches
};

/// Whether one of `kernels` reads a summary (CaptureSummary.h).
bool needSummaries(llvm::ArrayRef<tile::KernelOp> kernels);

/// Adds a kernel after `kernels` for each level of each summary that they read. Each is a bound
/// copy of the tile.kernel of `source`, the parsed templates/summary.mlir. Fails with a
/// diagnostic.
mlir::FailureOr<SummaryPlan> addSummaries(llvm::ArrayRef<tile::KernelOp> kernels,
                                          mlir::ModuleOp source);

} // namespace tesela

#endif // TESELA_COMPILER_DRIVER_SUMMARIES_H
