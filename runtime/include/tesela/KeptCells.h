//===- KeptCells.h - What a mask keeps of a sequence ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_KEPTCELLS_H
#define TESELA_KEPTCELLS_H

#include "tesela/Explain.h"

#include <memory>

namespace tesela {

/// The square of queries and keys in cells: what each of them holds, of all heads together. Whoever
/// splits a sequence over several devices asks which parts need which, and how much work there is.
struct CellCounts {
  int64_t rows = 0, columns = 0; ///< of cells; the last ones may be cut
  /// Row after row: the sum over batches and heads of 2 where a cell is full and 1 where it is
  /// partial. 0: no pair of it is kept, proved.
  std::vector<uint32_t> halves;
};

/// The analysis of one variant's mask for cells of one size. Making it takes some milliseconds, a
/// count of a million tokens in a thousand cells likewise. From any threads; counts run one after
/// the other.
class TESELA_EXPORT KeptCells {
public:
  /// `options` give the text and its constants, nothing else. `cell`: queries, and keys, of a cell,
  /// at least 1. `threads` count; 0: the hardware's.
  static Result<KeptCells> create(const KernelOptions &options, int64_t cell, int threads = 0);
  KeptCells(KeptCells &&) noexcept;
  ~KeptCells();

  /// The parameters that the mask, or a score that can be -inf, is computed from: two launches that
  /// agree in these keep the same pairs.
  const std::vector<std::string> &deciding() const;

  /// Whether batches, or heads, may keep different pairs, or their number decides: then two launches
  /// that keep the same pairs agree in it, too.
  bool tellsBatches() const;
  bool tellsHeads() const;

  /// Of `arguments` the pass and the progress do not matter; captures lie in the host's memory.
  Result<CellCounts> count(const ExplainArguments &arguments);

private:
  struct State;
  explicit KeptCells(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

} // namespace tesela

#endif // TESELA_KEPTCELLS_H
