//===- ColumnWords.h - Conditions on columns as words of bits ---*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Of a row of a fragment a lane holds two neighbouring columns of each eight: 8·g + 2·(lane mod 4)
// and the next. A word has a bit for each of 32 of them, bit 2·g + 0 or 1: the words of a condition
// say for which of 128 columns of the tile it holds.
//
// A formula of bounds of the column (column < u, column >= u with u the same along the row), of
// conditions that repeat themselves along the row (PeriodicWords.h), of an any() or all() over
// rounds (MapReductions.cpp) and of truths of the row is computed on words, a few instructions for
// all elements of a row. An element then tests its bit: seven bits become predicates in one
// instruction (R2P).
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_COLUMNWORDS_H
#define TESELA_COMPILER_TARGETS_NVVM_COLUMNWORDS_H

#include "targets/nvvm/PtxInstructions.h"
#include "tile/Tile.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

#include <functional>
#include <optional>

namespace tesela::nvvm {

/// Whether `loop` is an any() or an all(), of which it joins one condition a round.
struct BooleanReduction {
  mlir::Value condition; ///< of a round
  bool isAny;
  static std::optional<BooleanReduction> of(mlir::scf::ForOp loop);
};

/// Which values of a map's body are the same along a row or a column, and which are formulas.
class ColumnWords {
public:
  static constexpr int64_t groupsOfWord = 16;

  explicit ColumnWords(tile::MapOp map);

  /// Whether `value` is from outside of the body, or the same for all columns of a row.
  bool isOfRow(mlir::Value value) const;
  /// Whether `value` follows from the column alone, or is the same for all elements.
  bool isOfColumn(mlir::Value value) const;
  /// Whether `op` makes one truth of several: AND, OR, XOR, a choice.
  static bool isJoin(mlir::Operation &op);
  /// The tile.phase that `value` follows from, where all else is the same for all elements; else
  /// null.
  tile::PhaseOp phaseOf(mlir::Value value) const { return phases.lookup(value); }
  /// Whether `value` is the same for all elements.
  bool isUniform(mlir::Value value) const { return isOfRow(value) && isOfColumn(value); }
  /// Whether `value` is an any() or all() whose rounds follow from the row and the column.
  bool isReduction(mlir::Value value) const { return reductions.contains(value); }
  /// Whether `value` is a formula that the columns of a row differ in.
  bool isFormula(mlir::Value value) const { return formulas.contains(value); }

  /// What `conditions` need of the row; nothing where they need an element of a source.
  std::optional<llvm::SetVector<mlir::Value>>
  neededOfRow(llvm::ArrayRef<mlir::Value> conditions) const;
  /// The elements of sources of rows that `value` follows from; nothing where it needs the row's
  /// number or an element of a tile, or nothing of the row.
  std::optional<llvm::SetVector<mlir::Value>> heldByRows(mlir::Value value) const;
  /// The results that follow from the column alone, and from which `value` follows.
  llvm::SmallVector<mlir::Value> neededOfColumn(mlir::Value value) const;

  /// The words of one row.
  class Row {
  public:
    using OfRow = std::function<mlir::Value(mlir::Value)>;
    using Periodic =
        std::function<mlir::Value(mlir::Value condition, int64_t index, mlir::Value start)>;

    using Reduced = std::function<mlir::Value(mlir::Value result, int64_t index)>;

    /// `ofRow` gives the row's lowered scalars, `periodic` the word of a condition that phaseOf()
    /// knows, where its phase begins with `start` (lowered), and `reduced` that of a reduction;
    /// `firstColumn` is the lane's, `begin` that of the columns which its warp has.
    Row(const ColumnWords &columns, mlir::OpBuilder &builder, mlir::Location loc,
        mlir::Value firstColumn, mlir::Value begin, OfRow ofRow, Periodic periodic, Reduced reduced)
        : columns(columns), builder(builder), loc(loc), firstColumn(firstColumn), begin(begin),
          ofRow(std::move(ofRow)), periodic(std::move(periodic)), reduced(std::move(reduced)) {}
    /// Word `index` of `value`: a formula, a truth of the row, or a join of these and of what is
    /// set.
    mlir::Value word(mlir::Value value, int64_t index);
    /// Word `index` of `value`, which is neither, is `word`.
    void set(mlir::Value value, int64_t index, mlir::Value word) { words[{value, index}] = word; }

  private:
    mlir::Value below(mlir::Value bound, int64_t index);
    mlir::Value joined(mlir::Operation &op, int64_t index);
    mlir::Value constant(int64_t value);

    const ColumnWords &columns;
    mlir::OpBuilder &builder;
    mlir::Location loc;
    mlir::Value firstColumn, begin;
    OfRow ofRow;
    Periodic periodic;
    Reduced reduced;
    llvm::DenseMap<std::pair<mlir::Value, int64_t>, mlir::Value> words;
  };

private:
  tile::PhaseOp findPhase(mlir::Operation &op) const;

  mlir::Block *body;
  mlir::Value row, column;
  llvm::DenseSet<mlir::Value> varying, formulas, ofColumn, reductions;
  llvm::DenseMap<mlir::Value, tile::PhaseOp> phases;
};

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_COLUMNWORDS_H
