//===- KeptCells.h - Which cells of a mask keep pairs -----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_KEPTCELLS_H
#define TESELA_KEPTCELLS_H

#include "tesela/CellCounts.h"
#include "tesela/Explain.h"

#include <functional>
#include <memory>
#include <vector>

namespace tesela {

/// The analysis of one variant's mask for cells of one size. Creating it takes some milliseconds,
/// and so does counting a million tokens in a thousand cells. May be used from any thread; counts
/// run one after another.
class KeptCells {
public:
  /// `options` give only the text and its constants. `cell`: how many queries, and keys, a cell
  /// has; `tile`: the same for a kernel's tile; both at least 1. `threads` 0: those of the process,
  /// shared by all masks that pass 0: one for each usable processor, at most eight.
  TESELA_EXPORT static Result<KeptCells> create(const KernelOptions &options, int64_t cell,
                                                int64_t tile, int threads = 0);
  TESELA_EXPORT KeptCells(KeptCells &&) noexcept;
  TESELA_EXPORT ~KeptCells();

  /// The parameters that influence which pairs are kept, through the mask or through a score that
  /// can be -inf. Launches with equal values of these keep the same pairs.
  TESELA_EXPORT const std::vector<std::string> &deciding() const;

  /// Whether kept pairs can depend on the batch (or head) or on the number of batches (or heads).
  /// If so, launches must also agree in that number to keep the same pairs.
  TESELA_EXPORT bool tellsBatches() const;
  TESELA_EXPORT bool tellsHeads() const;

  /// Gives memory for the work of `cells` cells. Null: there is none.
  using Memory = std::function<uint32_t *(size_t cells)>;
  /// Writes the work of each cell into the memory, row by row, summed over batches and heads. A
  /// cell with n tiles along its side has 2n if it is full. If it is partial it has 1 to 2n,
  /// estimated from 16 of its pairs, because a kernel computes whole tiles. 0: it is proved that no
  /// pair is kept. `arguments`: pass and progress are ignored; captures lie in host memory.
  TESELA_EXPORT Result<CellCounts> count(const ExplainArguments &arguments, const Memory &memory);

private:
  struct State;
  explicit KeptCells(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

} // namespace tesela

#endif // TESELA_KEPTCELLS_H
