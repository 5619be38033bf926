//===- ColumnWords.h - Conditions on columns as words of bits ---*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A lane holds, of each row of a fragment, two neighbouring columns of each eight: column
// 8·g + 2·(lane mod 4) and the next. A word has one bit for each of 32 such columns: bit 2·g, or
// 2·g + 1 for the next one. So the four lanes' words of a condition cover 128 columns of the tile.
//
// Some formulas are computed on words, with a few instructions for all elements of a row. Their
// terms are bounds of the column (column < u, column >= u with u the same along the row),
// conditions that repeat along the row (PeriodicWords.h), any() or all() over rounds
// (MapReductions.cpp), and truths of the row. An element then tests its bit: seven bits become
// predicates in one instruction (R2P).
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

/// Describes `loop` if it is an any() or an all(), which joins one condition per iteration.
struct BooleanReduction {
  mlir::Value condition; ///< of an iteration
  bool isAny;
  static std::optional<BooleanReduction> of(mlir::scf::ForOp loop);
};

/// Finds which values of a map's body are the same along a row or a column, and which are formulas.
class ColumnWords {
public:
  static constexpr int64_t groupsOfWord = 16;

  explicit ColumnWords(tile::MapOp map);

  /// Whether `value` comes from outside of the body or is the same for all columns of a row.
  bool isOfRow(mlir::Value value) const;
  /// Whether `value` depends on nothing but the column, or is the same for all elements.
  bool isOfColumn(mlir::Value value) const;
  /// Whether `op` joins truths to one truth: AND, OR, XOR, select.
  static bool isJoin(mlir::Operation &op);
  /// The tile.phase on which `value` depends, if all else on which it depends is the same for all
  /// elements; otherwise null.
  tile::PhaseOp phaseOf(mlir::Value value) const { return phases.lookup(value); }
  /// Whether `value` is the same for all elements.
  bool isUniform(mlir::Value value) const { return isOfRow(value) && isOfColumn(value); }
  /// Whether `value` is an any() or all() whose rounds depend on the row and the column.
  bool isReduction(mlir::Value value) const { return reductions.contains(value); }
  /// Whether `value` is a formula that differs between the columns of a row.
  bool isFormula(mlir::Value value) const { return formulas.contains(value); }

  /// The values of the row that `conditions` need; nothing if they need an element of a source.
  std::optional<llvm::SetVector<mlir::Value>>
  neededOfRow(llvm::ArrayRef<mlir::Value> conditions) const;
  /// The elements of row sources on which `value` depends. Nothing if it needs the row's number, an
  /// element of a tile, or no value of the row.
  std::optional<llvm::SetVector<mlir::Value>> heldByRows(mlir::Value value) const;
  /// Results that depend on the column alone and on which `value` depends.
  llvm::SmallVector<mlir::Value> neededOfColumn(mlir::Value value) const;

  /// The words of one row.
  class Row {
  public:
    using OfRow = std::function<mlir::Value(mlir::Value)>;
    using Periodic =
        std::function<mlir::Value(mlir::Value condition, int64_t index, mlir::Value start)>;

    using Reduced = std::function<mlir::Value(mlir::Value result, int64_t index)>;

    /// `ofRow` gives the row's lowered scalars. `periodic` gives the word of a condition that has a
    /// phaseOf(); its phase starts at `start` (lowered). `reduced` gives the word of a reduction.
    /// `firstColumn` is the lane's first column, `begin` the first column of its warp.
    Row(const ColumnWords &columns, mlir::OpBuilder &builder, mlir::Location loc,
        mlir::Value firstColumn, mlir::Value begin, OfRow ofRow, Periodic periodic, Reduced reduced)
        : columns(columns), builder(builder), loc(loc), firstColumn(firstColumn), begin(begin),
          ofRow(std::move(ofRow)), periodic(std::move(periodic)), reduced(std::move(reduced)) {}
    /// Word `index` of `value`: a formula, a truth of the row, or a join of these and of values
    /// that were set.
    mlir::Value word(mlir::Value value, int64_t index);
    /// Sets word `index` of a `value` that is none of these to `word`.
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
