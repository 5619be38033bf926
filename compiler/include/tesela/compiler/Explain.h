//===- Explain.h - The kinds of a launch's tiles ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_EXPLAIN_H
#define TESELA_COMPILER_EXPLAIN_H

#include "frontend/Interpreter.h"
#include "tesela/TileMap.h"
#include "tesela/compiler/Compile.h"

#include <functional>

namespace tesela {

/// A kernel and a launch of it.
struct ExplainRequest {
  /// The specification of attention, or of "backward" for the other passes.
  KernelSpecification specification;
  TilePass pass = TilePass::forward;
  /// The extents, and a value for each parameter of the variant. They must fit the variant.
  Bindings bindings;
  /// The largest number of cells of the map, of all heads together. It decides TileMap::cell.
  int64_t mostCells = int64_t(1) << 28;
  /// Calls work(0) to work(items - 1), on any threads, and returns when all are done. If null, they
  /// run in order on the caller's thread.
  std::function<Status(int64_t items, const std::function<void(int64_t)> &work)> inParallel;
  /// Gets the completed fraction of the tiles, from one thread at a time. May be null.
  std::function<void(double done)> progress;
};

struct ExplainedTiles {
  TileMap map;
  std::string schedule; ///< the kernel's schedule, as text
  /// TileMap::lostProofs, each as `file:line:column: note: …` with a caret.
  std::string renderedProofs;
};

/// Says what each tile of the launch is for the kernel: it evaluates the kernel's own IR for the
/// blocks of its schedule. It makes no code and needs no GPU.
Result<ExplainedTiles> explainTiles(const ExplainRequest &request);

} // namespace tesela

#endif // TESELA_COMPILER_EXPLAIN_H
