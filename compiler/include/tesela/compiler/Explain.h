//===- Explain.h - What a kernel would do with the tiles --------*- C++ -*-===//
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
  /// Attention's, or for the other passes that of "backward".
  KernelSpecification specification;
  TilePass pass = TilePass::forward;
  /// The extents, and a value for each parameter of the variant; they fit it.
  Bindings bindings;
  /// Kinds that the map holds at most, of all heads together: TileMap::cell follows.
  int64_t mostCells = int64_t(1) << 28;
  /// Calls work(0) to work(items - 1), from any threads, and returns when all are done. Null: in
  /// their order, from this one.
  std::function<Status(int64_t items, const std::function<void(int64_t)> &work)> inParallel;
  /// Told which share of the tiles is done, by one thread at a time. May be null.
  std::function<void(double done)> progress;
};

struct ExplainedTiles {
  TileMap map;
  std::string schedule; ///< that the kernel has, as text
  /// TileMap::lostProofs, each as `file:line:column: note: …` with a caret.
  std::string renderedProofs;
};

/// What each tile of the launch is to the kernel: read from the kernel's own IR, for the blocks of
/// its schedule. Nothing is made for a GPU, none is needed.
Result<ExplainedTiles> explainTiles(const ExplainRequest &request);

} // namespace tesela

#endif // TESELA_COMPILER_EXPLAIN_H
