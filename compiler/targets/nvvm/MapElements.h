//===- MapElements.h - The elements of a map that a thread holds *- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A thread's elements stand at rows firstRow + i and columns firstColumn + j with constants i, j.
// So what is linear in row and column is the lane's part, computed once for a map, plus a constant
// of the element: an operand of the instruction, and the same for elements on one diagonal. What is
// the same along a row is computed once for each of a lane's rows. Where several heads share the
// rows (RowMap.h), that holds of the row's position: the bits of a lane's firstRow and of i are
// apart, so that (firstRow + i) / heads is firstRow / heads + i / heads.
//
// A condition is evaluated in one of these ways, each in the file of its name:
//
//   MapConditions.cpp   formulas of bounds of the column are words of bits (ColumnWords.h), of
//   which
//                       an element tests its bit; those that repeat themselves are looked up
//                       (MapPatterns.h)
//   MapReductions.cpp   an any() or all() over rounds joins the words of each round
//   MapColumnLoops.cpp  where the map is seldom run, or has other loops, of which a copy for each
//                       element would be long and take many registers: words from a loop over the
//                       lane's columns
//   MapWordTiles.cpp    whole tiles of i1 are words, too; what compares what rows and columns hold
//                       is asked by the warp together (WarpWords.h)
//   LowerMap.cpp        all else, element by element
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_MAPELEMENTS_H
#define TESELA_COMPILER_TARGETS_NVVM_MAPELEMENTS_H

#include "targets/nvvm/ColumnWords.h"
#include "targets/nvvm/KernelLowering.h"
#include "targets/nvvm/LanePositions.h"
#include "targets/nvvm/MapPatterns.h"

namespace tesela::nvvm {

class KernelLowering::MapElements {
public:
  /// `outer` gives the lowered values from outside of the map's body.
  MapElements(KernelLowering &lowering, tile::MapOp map, const mlir::IRMapping &outer);

  /// The registers of the map's result.
  Values emit();

  /// Stores the elements of a map with tile.put (MapPuts.cpp): then there is no result.
  static std::optional<Values> emitPuts(KernelLowering &lowering, tile::MapOp map,
                                        const mlir::IRMapping &outer);

private:
  /// Groups of 8 columns whose elements of one row are written before the other row's: a byte of
  /// a word.
  static constexpr int64_t groupsOfSlice = 4;
  /// Groups whose elements go through a loop together: 8 elements, of two rows and four columns.
  static constexpr int64_t groupsOfLoop = 2;
  /// Each is written for itself; elements share what several conditions need.
  static constexpr int64_t mostAskedByWarp = 4;

  struct Row {
    int64_t number, position; ///< from the lane's first
    mlir::IRMapping scalars;
    std::optional<ColumnWords::Row> words;
    Values looped; ///< the words of what a loop over the columns asks
  };
  struct Element {
    Row &row;
    int64_t group, odd;
    mlir::IRMapping scalars;

    int64_t column() const { return 8 * group + odd; }
  };

  mlir::BlockArgument rowArgument() { return body.getArgument(map.getSources().size()); }
  mlir::BlockArgument columnArgument() { return body.getArgument(map.getSources().size() + 1); }
  static int64_t wordOf(const Element &at) { return at.group / ColumnWords::groupsOfWord; }
  static int64_t bitOf(const Element &at) {
    return 2 * (at.group % ColumnWords::groupsOfWord) + at.odd;
  }
  bool isKnownByRow(mlir::Value value) {
    return columns.isFormula(value) || columns.isOfRow(value);
  }

  // LowerMap.cpp: rows and elements
  void addRow(int64_t strip, int64_t half);
  mlir::Value ofRow(Row &row, mlir::Value value);
  mlir::Value moved(mlir::Value lane, int64_t offset);
  /// Elements in the order of their registers; of words, a row's bits beside each other; a loop
  /// for a few rows and columns, which share what it reads.
  void forEachSlice(llvm::function_ref<void(llvm::MutableArrayRef<Element>)> emitSome);
  /// The ops that stand in the way from the elements to `value`.
  void findNeeded(mlir::Value value);
  /// Its number among the registers of a fragment.
  int64_t indexOf(const Element &at);
  static bool isOfWords(mlir::Value source);
  /// An element of `source`, of two extents.
  mlir::Value elementOf(mlir::Value source, const Element &at);
  void emitElements(llvm::MutableArrayRef<Element> elements);
  /// Computes what `op` uses, or its result where there is a shorter way to it.
  void prepareElement(Element &at, mlir::Operation &op);
  int64_t offsetOf(const LanePosition &place, const Element &at);
  /// Positions are written where they are used.
  mlir::Value ofElement(Element &at, mlir::Value value);

  // MapDiagonals.cpp
  /// Computes what each diagonal shares (DiagonalValues.h), where the map has such a value.
  void shareDiagonals();
  mlir::Value diagonalOf(const Element &at);

  // MapDeposits.cpp
  bool addsByColumns(tile::DepositOp deposit);
  void depositPairs(tile::DepositOp deposit, llvm::MutableArrayRef<Element> elements);

  // MapPuts.cpp
  /// The map's tile.put, if rows of the tile are rows of the view; or null.
  tile::PutOp storedByColumns();
  /// Whether the tile is inside of the view, and where lanes store several elements at once.
  mlir::Value fitsStores(tile::PutOp put);
  void storeColumns(tile::PutOp put);

  // MapConditions.cpp
  /// Splits what the map yields, of a tile of words, or else what its last select asks, into what
  /// words say and the rest.
  void splitCondition(mlir::Value yielded);
  /// Whether an element of these goes through a loop.
  bool asksLoops(llvm::ArrayRef<mlir::Value> conditions);
  mlir::Value hasBit(mlir::Value word, int64_t bit);
  /// Whether the words, and what is asked besides, keep the element.
  mlir::Value keeps(Element &at);
  mlir::Value keepsRest(Element &at);
  mlir::Value joinedWord(Row &row, int64_t index);

  // MapReductions.cpp
  /// Word `index` of `result`, an any() or all() of the body, in the row with this number.
  mlir::Value reductionWord(mlir::Value result, int64_t index, unsigned row);
  llvm::SmallVector<Values> reductionWords(mlir::scf::ForOp loop);

  // MapColumnLoops.cpp
  using EvaluateCondition =
      llvm::function_ref<mlir::Value(mlir::IRMapping &scalars, mlir::IRMapping &common)>;
  /// Asks `rest` by a loop over the lane's columns; what it asks is then `looped`.
  void loopOverColumns();
  /// The words of each row of a condition, of one group of columns after the other and bit by bit.
  /// `ofRows` has what the rows know; `condition` is evaluated once for each row and column.
  llvm::SmallVector<Values> wordsByColumn(llvm::ArrayRef<mlir::IRMapping> ofRows,
                                          EvaluateCondition condition);
  /// Adds the bits of column 8 · (first + group) + `odd` of the lane to the rows' words.
  void addColumn(int64_t first, int64_t odd, llvm::ArrayRef<mlir::IRMapping> ofRows,
                 EvaluateCondition condition, llvm::MutableArrayRef<mlir::Value> groupAndWords);
  /// `value` of the body. `common` holds what the rows share of a column.
  mlir::Value evaluate(mlir::Value value, mlir::IRMapping &scalars, mlir::IRMapping &common);

  // MapWordTiles.cpp
  /// The values for which words are joined: joins of truths of which a part is known by row.
  void findJoined();
  /// What words do not say of `value`: asked by the warp, or of each element, and gathered bit by
  /// bit.
  void findGathered(mlir::Value value, llvm::DenseSet<mlir::Value> &seen);
  void askByWarp(mlir::Value value, llvm::ArrayRef<mlir::Value> held);
  /// The words of a tile of i1.
  Values emitWords(mlir::Value yielded);

  KernelLowering &lowering;
  mlir::OpBuilder &builder;
  mlir::Location loc;
  tile::MapOp map;
  mlir::Block &body;
  FragmentShape shape;
  bool isRow, isWords;
  int64_t heads;
  const mlir::IRMapping &outer;
  mlir::Value firstRow, firstColumn; ///< of the thread's first element
  mlir::Value begin;                 ///< the first column that its warp has
  LanePositions positions;
  ColumnWords columns;
  MapPatterns patterns;
  llvm::SmallVector<Row, 0> rows;
  /// What the last select asks, or a tile of words in whose map are loops: what formulas of words
  /// say, what words of a loop say, and what is asked of each element besides.
  mlir::Value condition;
  llvm::SmallVector<mlir::Value> parts, looped, rest;
  /// Of a tile of words: the words of what is asked of each element, by row; what words are joined
  /// for.
  llvm::MapVector<mlir::Value, llvm::SmallVector<Values>> gathered;
  llvm::DenseSet<mlir::Value> joined;
  int64_t askedByWarp = 0;
  llvm::DenseMap<mlir::Value, Values> heldWords; ///< of the sources that are tiles of words
  struct HeldColumns {
    int64_t group;
    Values pair;
  };
  llvm::DenseMap<mlir::Value, HeldColumns> heldColumns; ///< of the sources that are read in place
  /// By reduction: the words of each row.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<Values>> reductions;
  llvm::DenseSet<mlir::Operation *> needed;
  mlir::Value diagonal;  ///< a value of the body that diagonals share, or null
  mlir::Value diagonals; ///< where the lane's first element finds it
  /// What a chunked read gave last in a row, from group `first` on.
  struct Chunk {
    int64_t first = -1;
    Values elements;
  };
  llvm::DenseMap<std::pair<mlir::Operation *, int64_t>, Chunk> chunks; ///< by read and row
};

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_MAPELEMENTS_H
