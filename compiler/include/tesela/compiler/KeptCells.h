//===- KeptCells.h - What a mask keeps of a sequence ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_KEPTCELLS_H
#define TESELA_COMPILER_KEPTCELLS_H

#include "frontend/Interpreter.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tesela {

/// The analysis of a variant's mask for pieces of a sequence, not for a kernel's tiles: the square
/// of queries and keys in cells of one size, each empty, full or partial. It is made once for a
/// text, and asked for each launch. Not from several threads at once.
class CellAnalysis {
public:
  /// Cells are `cell` queries by `cell` keys, kernels have tiles of `tile` by `tile`. Fails only by
  /// a defect.
  static Result<std::unique_ptr<CellAnalysis>> create(const Variant &variant, int64_t cell,
                                                      int64_t tile);
  ~CellAnalysis();

  /// The numbers of the parameters that decide what is kept.
  const std::vector<size_t> &deciding() const { return deciding_; }

  /// Whether batches, or heads, may keep different pairs, or their number decides.
  bool tellsBatches() const { return tellsBatches_; }
  bool tellsHeads() const { return tellsHeads_; }

  /// Calls work(0) to work(items - 1), from any threads, and returns when all are done.
  using InParallel = std::function<Status(int64_t items, const std::function<void(int64_t)> &work)>;
  /// Of each cell, row after row of queries: the sum of its work over batches and heads, as
  /// CellCounts has it. `rows` and `columns` are how many cells there are.
  Status count(const Bindings &bindings, const InParallel &inParallel, int64_t &rows,
               int64_t &columns, std::vector<uint32_t> &work);

private:
  struct State;
  explicit CellAnalysis(std::unique_ptr<State> state);

  std::unique_ptr<State> state;
  std::vector<size_t> deciding_;
  bool tellsBatches_ = false, tellsHeads_ = false;
};

} // namespace tesela

#endif // TESELA_COMPILER_KEPTCELLS_H
