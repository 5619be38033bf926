//===- KeptCells.h - The kept pairs of a sequence's cells -------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_KEPTCELLS_H
#define TESELA_COMPILER_KEPTCELLS_H

#include "frontend/Interpreter.h"
#include "tesela/CellCounts.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tesela {

/// The analysis of a variant's mask for parts of a sequence, not for a kernel's tiles. It divides
/// the square of queries and keys into cells of one size, each empty, full or partial. It is
/// created once for a variant and used for each launch, by one thread at a time.
class CellAnalysis {
public:
  /// A cell has `cell` queries and `cell` keys. Kernels have tiles of `tile` by `tile`. Fails only
  /// if there is a bug.
  static Result<std::unique_ptr<CellAnalysis>> create(const Variant &variant, int64_t cell,
                                                      int64_t tile);
  ~CellAnalysis();

  /// The numbers of the parameters on which the kept pairs depend.
  const std::vector<size_t> &deciding() const { return deciding_; }

  /// Whether the kept pairs may differ between batches, or between heads.
  bool tellsBatches() const { return tellsBatches_; }
  bool tellsHeads() const { return tellsHeads_; }

  /// Calls work(0) to work(items - 1), on any threads, and returns when all are done.
  using InParallel = std::function<Status(int64_t items, const std::function<void(int64_t)> &work)>;
  /// Gives memory for the work of `cells` cells. Null: there is none.
  using Memory = std::function<uint32_t *(size_t cells)>;
  /// For each cell, row after row of queries: the sum of its work over batches and heads, in the
  /// units of KeptCells::count.
  Status count(const Bindings &bindings, const InParallel &inParallel, const Memory &memory,
               CellCounts &counts);

private:
  struct State;
  explicit CellAnalysis(std::unique_ptr<State> state);

  std::unique_ptr<State> state;
  std::vector<size_t> deciding_;
  bool tellsBatches_ = false, tellsHeads_ = false;
};

} // namespace tesela

#endif // TESELA_COMPILER_KEPTCELLS_H
