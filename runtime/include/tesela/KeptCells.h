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
  /// Row after row: the work of a cell, summed over batches and heads. With n tiles along its side
  /// a full cell has 2n. A partial one has 1 to 2n, estimated by 16 of its pairs: tiles are
  /// computed whole. 0: no pair of it is kept, proved.
  std::vector<uint32_t> work;
};

/// The analysis of one variant's mask for cells of one size. Making it takes some milliseconds, a
/// count of a million tokens in a thousand cells likewise. From any threads; counts run one after
/// the other.
class KeptCells {
public:
  /// `options` give the text and its constants, nothing else. `cell`: queries, and keys, of a cell,
  /// at least 1; `tile`: likewise of a kernel's tile. `threads` count; 0: the hardware's.
  TESELA_EXPORT static Result<KeptCells> create(const KernelOptions &options, int64_t cell,
                                                int64_t tile, int threads = 0);
  TESELA_EXPORT KeptCells(KeptCells &&) noexcept;
  TESELA_EXPORT ~KeptCells();

  /// The parameters that the mask, or a score that can be -inf, is computed from: two launches that
  /// agree in these keep the same pairs.
  TESELA_EXPORT const std::vector<std::string> &deciding() const;

  /// Whether batches, or heads, may keep different pairs, or their number decides: then two
  /// launches that keep the same pairs agree in it, too.
  TESELA_EXPORT bool tellsBatches() const;
  TESELA_EXPORT bool tellsHeads() const;

  /// Of `arguments` the pass and the progress do not matter; captures lie in the host's memory.
  TESELA_EXPORT Result<CellCounts> count(const ExplainArguments &arguments);

private:
  struct State;
  explicit KeptCells(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

} // namespace tesela

#endif // TESELA_KEPTCELLS_H
