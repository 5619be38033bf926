//===- Explain.h - Which tiles a kernel computes ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_EXPLAIN_H
#define TESELA_EXPLAIN_H

#include "tesela/Export.h"
#include "tesela/Kernel.h"
#include "tesela/TileMap.h"
#include "tesela/Variant.h"

#include <functional>

namespace tesela {

/// The progress of explain().
struct ExplainProgress {
  enum class Stage {
    tiles, ///< tiles are classified
    pairs  ///< pairs of partial tiles are evaluated to count the kept ones
  };
  Stage stage = Stage::tiles;
  double done = 0; ///< of the stage, in [0, 1]
};

/// The arguments of a launch that decide which tiles it computes.
struct ExplainArguments {
  int64_t batch = 1;
  int64_t heads = 1; ///< a multiple of kvHeads
  int64_t kvHeads = 1;
  int64_t length = 0;   ///< queries
  int64_t kvLength = 0; ///< keys
  /// Attention, or one of the two kernels of its gradients. For the gradients, the schedule is that
  /// of the algorithm "backward".
  TilePass pass = TilePass::forward;
  std::vector<ScalarArgument> scalars;   ///< those with a default may be left out
  std::vector<CaptureArgument> captures; ///< in host memory
  /// Called now and then, from any thread, but never from two at once. May be empty.
  std::function<void(const ExplainProgress &)> progress;
};

/// What a kernel does with the tiles of a launch.
struct Explanation {
  std::string variantName;
  std::string target;   ///< "host", "sm_90"
  std::string schedule; ///< the kernel's schedule as text
  TileMap map;
  /// Kept pairs (q, k) for each of map.heads. -1: not counted, because the partial tiles have more
  /// than 2^27 pairs or map.cell is not 1.
  std::vector<int64_t> keptPairs;
  /// map.lostProofs as text for people, each with file, line, column and caret.
  std::string lostProofs;
  /// Whether the mask keeps the pair (q, k) of (b, h), by the variant's text. Captures must outlive
  /// this function. May be called from any thread.
  std::function<bool(int32_t b, int32_t h, int32_t q, int32_t k)> keeps;
};

/// Finds the kind of each tile for the kernel that `options` give, from the kernel's own program.
/// `options.target` empty: "host". No GPU is needed. `threads`: how many do the work; 0: one for
/// each usable processor.
TESELA_EXPORT Result<Explanation> explain(const KernelOptions &options,
                                          const ExplainArguments &arguments, int threads = 0);

} // namespace tesela

#endif // TESELA_EXPLAIN_H
