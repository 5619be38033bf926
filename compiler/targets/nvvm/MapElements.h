//===- MapElements.h - A thread's elements of a map -------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A thread's elements are in rows firstRow + i and columns firstColumn + j with constants i and j.
// So a value that is linear in row and column is the lane's part, computed once per map, plus a
// constant per element. That constant is an operand of the instruction, and the same for elements
// on one diagonal. A value that is the same along a row is computed once for each of a lane's rows.
// If several heads share the rows (RowMap.h), this holds for a row's position: firstRow and i have
// no bits in common, so (firstRow + i) / heads is firstRow / heads + i / heads.
//
// A condition is evaluated in one of these ways, each in the file that is named:
//
//   MapConditions.cpp   formulas of bounds of the column become words of bits (ColumnWords.h), and
//                       an element tests its bit; conditions that repeat along the row are looked
//                       up (MapPatterns.h)
//   MapReductions.cpp   an any() or all() over rounds joins the words of each round
//   MapColumnLoops.cpp  a loop over the lane's columns computes words. This is for maps
//                       that seldom run, and for maps that contain other loops: a copy of
//                       these for each element would make the code long and take many
//                       registers
//   MapWordTiles.cpp    whole tiles of i1 are words, too; conditions that compare what rows and
//                       columns hold are asked by the warp together (WarpWords.h)
//   LowerMap.cpp        all other conditions, element by element
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

  /// Writes the map and returns the registers of its result.
  Values emit();

  /// Stores the elements of a map with tile.put (MapPuts.cpp), which then has no result.
  static std::optional<Values> emitPuts(KernelLowering &lowering, tile::MapOp map,
                                        const mlir::IRMapping &outer);

private:
  /// How many groups of 8 columns of one row are written before those of the other row: a byte of
  /// a word.
  static constexpr int64_t groupsOfSlice = 4;
  /// How many groups go through a loop together: 8 elements, in two rows and four columns.
  static constexpr int64_t groupsOfLoop = 2;
  /// The warp asks at most this many conditions. Each needs code of its own; elements share code.
  static constexpr int64_t mostAskedByWarp = 4;

  struct Row {
    int64_t number, position; ///< relative to the lane's first row
    mlir::IRMapping scalars;
    std::optional<ColumnWords::Row> words;
    Values looped; ///< the words that a loop over the columns has computed
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
  /// Calls `emitSome` for all elements, in the order of their registers; for words, a row's bits
  /// one after the other; for a loop, a few rows and columns that share what it reads.
  void forEachSlice(llvm::function_ref<void(llvm::MutableArrayRef<Element>)> emitSome);
  /// Finds the ops that must be computed for each element to get `value`.
  void findNeeded(mlir::Value value);
  /// The element's number among the registers of a fragment.
  int64_t indexOf(const Element &at);
  static bool isOfWords(mlir::Value source);
  /// The element of `source`, a tile of two extents.
  mlir::Value elementOf(mlir::Value source, const Element &at);
  void emitElements(llvm::MutableArrayRef<Element> elements);
  /// Computes what `op` uses, or its result if there is a shorter way to get it.
  void prepareElement(Element &at, mlir::Operation &op);
  int64_t offsetOf(const LanePosition &place, const Element &at);
  /// The value at an element. Positions are computed only where they are used.
  mlir::Value ofElement(Element &at, mlir::Value value);

  // MapDiagonals.cpp
  /// Computes what each diagonal shares (DiagonalValues.h), if the map has such a value.
  void shareDiagonals();
  mlir::Value diagonalOf(const Element &at);

  // MapDeposits.cpp
  bool addsByColumns(tile::DepositOp deposit);
  void depositPairs(tile::DepositOp deposit, llvm::MutableArrayRef<Element> elements);

  // MapPuts.cpp
  /// The map's tile.put if the tile's rows are rows of the view; otherwise null.
  tile::PutOp storedByColumns();
  /// Whether the tile lies inside of the view, where lanes may store several elements at once.
  mlir::Value fitsStores(tile::PutOp put);
  void storeColumns(tile::PutOp put);

  // MapConditions.cpp
  /// Splits a condition into what words say and the rest. The condition is what the map yields, if
  /// that is a tile of words, or what its last select tests.
  void splitCondition(mlir::Value yielded);
  /// Whether an element of one of `conditions` needs a loop.
  bool asksLoops(llvm::ArrayRef<mlir::Value> conditions);
  mlir::Value hasBit(mlir::Value word, int64_t bit);
  /// Whether the words and the other conditions keep the element.
  mlir::Value keeps(Element &at);
  mlir::Value keepsRest(Element &at);
  mlir::Value joinedWord(Row &row, int64_t index);

  // MapReductions.cpp
  /// Word `index` of `result`, an any() or all() of the body, in row number `row`.
  mlir::Value reductionWord(mlir::Value result, int64_t index, unsigned row);
  llvm::SmallVector<Values> reductionWords(mlir::scf::ForOp loop);

  // MapColumnLoops.cpp
  using EvaluateCondition =
      llvm::function_ref<mlir::Value(mlir::IRMapping &scalars, mlir::IRMapping &common)>;
  /// Computes `rest` by a loop over the lane's columns; the results are then in `looped`.
  void loopOverColumns();
  /// The words of each row of a condition, one group of columns after the other and bit by bit.
  /// `ofRows` has the rows' values; `condition` is evaluated once for each row and column.
  llvm::SmallVector<Values> wordsByColumn(llvm::ArrayRef<mlir::IRMapping> ofRows,
                                          EvaluateCondition condition);
  /// Adds the bits of column 8 · (first + group) + `odd` of the lane to the rows' words.
  void addColumn(int64_t first, int64_t odd, llvm::ArrayRef<mlir::IRMapping> ofRows,
                 EvaluateCondition condition, llvm::MutableArrayRef<mlir::Value> groupAndWords);
  /// `value` of the body. `common` holds a column's values that the rows share.
  mlir::Value evaluate(mlir::Value value, mlir::IRMapping &scalars, mlir::IRMapping &common);

  // MapWordTiles.cpp
  /// Finds the values whose words are joined: joins of truths that are partly known by row.
  void findJoined();
  /// Finds the parts of `value` that words do not give. The warp asks for them, or each element
  /// does and the bits are gathered.
  void findGathered(mlir::Value value, llvm::DenseSet<mlir::Value> &seen);
  void askByWarp(mlir::Value value, llvm::ArrayRef<mlir::Value> held);
  /// Computes the words of a tile of i1.
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
  mlir::Value begin;                 ///< first column of the thread's warp
  LanePositions positions;
  ColumnWords columns;
  MapPatterns patterns;
  llvm::SmallVector<Row, 0> rows;
  /// The condition of the last select, or a tile of words whose map has loops; its terms that are
  /// formulas of words, those that a loop's words give, and those that each element computes.
  mlir::Value condition;
  llvm::SmallVector<mlir::Value> parts, looped, rest;
  /// For a tile of words: by row, the words of the terms that each element computes; the values
  /// whose words are joined.
  llvm::MapVector<mlir::Value, llvm::SmallVector<Values>> gathered;
  llvm::DenseSet<mlir::Value> joined;
  int64_t askedByWarp = 0;
  llvm::DenseMap<mlir::Value, Values> heldWords; ///< of sources that are tiles of words
  struct HeldColumns {
    int64_t group;
    Values pair;
  };
  llvm::DenseMap<mlir::Value, HeldColumns> heldColumns; ///< of sources that are read in place
  /// By reduction: the words of each row.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<Values>> reductions;
  llvm::DenseSet<mlir::Operation *> needed;
  mlir::Value diagonal;  ///< a value of the body that diagonals share, or null
  mlir::Value diagonals; ///< the address of this value for the lane's first element
  /// The last result of a chunked read in a row, for the groups from `first` on.
  struct Chunk {
    int64_t first = -1;
    Values elements;
  };
  llvm::DenseMap<std::pair<mlir::Operation *, int64_t>, Chunk> chunks; ///< by read and row
};

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_MAPELEMENTS_H
