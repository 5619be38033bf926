//===- LowerMap.cpp - Maps on registers -------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A thread's elements stand at rows firstRow + i and columns firstColumn + j with constants i, j.
// So what is linear in row and column is the lane's part, computed once for a map, plus a constant
// of the element: an operand of the instruction, and the same for elements on one diagonal.
//
// What is the same along a row is computed once for each of a lane's rows, and conditions that
// are formulas of bounds of the column are words of bits (ColumnWords.h), as are whole tiles of i1.
// Where the map is seldom run, the words of any condition come from a loop over the lane's columns;
// so do the words of one that has loops itself, of which a copy for each element would be long and
// take many registers. Conditions of tiles of i1 on what rows and columns hold are asked by the
// warp together (WarpWords.h), those that repeat themselves are looked up (PeriodicWords.h).
//
// Where several heads share the rows (RowMap.h), that holds of the row's position: the bits of a
// lane's firstRow and of i are apart, so that (firstRow + i) / heads is firstRow / heads + i /
// heads.
//
//===----------------------------------------------------------------------===//
#include "analysis/RowMap.h"
#include "analysis/SeldomMap.h"
#include "analysis/UsedValues.h"
#include "targets/nvvm/ColumnWords.h"
#include "targets/nvvm/KernelLowering.h"
#include "targets/nvvm/LanePositions.h"
#include "targets/nvvm/MapPatterns.h"
#include "targets/nvvm/WarpWords.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace tesela::nvvm {

/// `op`, of the body of a map, for the elements whose scalars these are.
void KernelLowering::emitInBody(Operation *op, ArrayRef<IRMapping *> elements) {
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return emitLoop(loop, elements);
  for (IRMapping *scalars : elements)
    scalars->map(op->getResult(0), emitScalar(op, *scalars));
}

/// One loop for all of the elements: its bounds are the same for them.
void KernelLowering::emitLoop(scf::ForOp loop, ArrayRef<IRMapping *> elements) {
  auto bound = [&](Value value) { return elements.front()->lookup(value); };
  Values start = {bound(loop.getLowerBound())};
  for (IRMapping *scalars : elements)
    start.push_back(scalars->lookup(loop.getInitArgs().front()));
  auto lowered = scf::WhileOp::create(
      builder, loc, ValueRange(start).getTypes(), start,
      [&](OpBuilder &, Location, ValueRange carried) {
        if (elements.size() > 1) // several rounds of them at once would take too many registers
          ptx().keepLoop();
        Value more = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, carried.front(),
                                           bound(loop.getUpperBound()));
        scf::ConditionOp::create(builder, loc, more, carried);
      },
      [&](OpBuilder &, Location, ValueRange carried) {
        for (auto [scalars, joined] : llvm::zip(elements, carried.drop_front())) {
          scalars->map(loop.getInductionVar(), carried.front());
          scalars->map(loop.getRegionIterArg(0), joined);
        }
        for (Operation &inner : loop.getBody()->without_terminator())
          emitInBody(&inner, elements);
        Values next = {add(carried.front(), bound(loop.getStep()))};
        for (IRMapping *scalars : elements)
          next.push_back(scalars->lookup(loop.getBody()->getTerminator()->getOperand(0)));
        scf::YieldOp::create(builder, loc, next);
      });
  for (auto [scalars, result] : llvm::zip(elements, lowered.getResults().drop_front()))
    scalars->map(loop.getResult(0), result);
}

/// The elements of one map that a thread holds.
class KernelLowering::MapElements {
public:
  MapElements(KernelLowering &lowering, tile::MapOp map, const IRMapping &outer)
      : lowering(lowering), builder(lowering.builder), loc(lowering.loc), map(map),
        body(map.getBody().front()), shape(cast<tile::TileType>(map.getType()), lowering.warps),
        isRow(cast<tile::TileType>(map.getType()).getRank() == 1),
        isWords(cast<tile::TileType>(map.getType()).getElementType().isInteger(1)),
        heads(headsOfRows(map)), outer(outer),
        positions(builder, map, outer,
                  emitRowPlace(builder, loc, lowering.firstRow, heads).position,
                  isRow ? lowering.constant(0) : lowering.firstColumn),
        columns(map), patterns(columns, builder, loc, lowering.lane, lowering.firstColumn, outer,
                               [this](Value value, IRMapping &scalars) {
                                 return evaluate(value, scalars, scalars);
                               }) {}

  Values emit() {
    Value yielded = body.getTerminator()->getOperand(0);
    for (int64_t strip = 0; strip < shape.strips; ++strip)
      for (int64_t half = 0; half < 2; ++half)
        addRow(strip, half);
    if (isRow)
      return llvm::map_to_vector<2>(rows, [&](Row &row) { return ofRow(row, yielded); });
    splitCondition(yielded);
    if (isWords)
      return emitWords(yielded);
    findNeeded(yielded);
    Values results(shape.elements());
    forEachSlice([&](MutableArrayRef<Element> elements) {
      emitElements(elements);
      for (Element &at : elements)
        results[indexOf(at)] = ofElement(at, yielded);
    });
    return results;
  }

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
    IRMapping scalars;
    std::optional<ColumnWords::Row> words;
    Values looped; ///< the words of what a loop over the columns asks
  };
  struct Element {
    Row &row;
    int64_t group, odd;
    IRMapping scalars;

    int64_t column() const { return 8 * group + odd; }
  };

  /// Elements in the order of their registers; of words, a row's bits beside each other; a loop
  /// for a few rows and columns, which share what it reads.
  void forEachSlice(llvm::function_ref<void(MutableArrayRef<Element>)> emitSome) {
    bool hasLoops = llvm::any_of(needed, llvm::IsaPred<scf::ForOp>);
    bool readsWords = llvm::any_of(map.getSources(), isOfWords);
    int64_t slice = hasLoops                             ? groupsOfLoop
                    : condition || isWords || readsWords ? groupsOfSlice
                                                         : 1;
    for (int64_t strip = 0; strip < shape.strips; ++strip)
      for (int64_t first = 0; first < shape.groups(); first += slice) {
        SmallVector<Element> elements;
        for (int64_t half = 0; half < 2; ++half)
          for (int64_t group = first; group < std::min(first + slice, shape.groups()); ++group)
            for (int64_t odd = 0; odd < 2; ++odd)
              elements.push_back({rows[strip * 2 + half], group, odd, outer});
        MutableArrayRef<Element> left = elements;
        for (size_t count = hasLoops ? left.size() : 1; !left.empty();
             left = left.drop_front(count))
          emitSome(left.take_front(count));
      }
  }

  BlockArgument rowArgument() { return body.getArgument(map.getSources().size()); }
  BlockArgument columnArgument() { return body.getArgument(map.getSources().size() + 1); }

  void addRow(int64_t strip, int64_t half) {
    int64_t number = shape.firstRow(strip) + 8 * half;
    rows.push_back({number, number / heads, outer, std::nullopt, {}});
    for (auto [argument, source] : llvm::zip(body.getArguments(), map.getSources()))
      if (cast<tile::TileType>(source.getType()).getRank() == 1)
        rows.back().scalars.map(argument, lowering.valuesOf(source)[strip * 2 + half]);
    unsigned index = rows.size() - 1;
    rows.back().words.emplace(
        columns, builder, loc, lowering.firstColumn,
        [this, index](Value value) { return ofRow(rows[index], value); },
        [this](Value value, int64_t word, Value start) {
          return patterns.word(value, word, start);
        });
  }

  //===--- what is the same along a row -------------------------------------===//

  Value ofRow(Row &row, Value value) {
    if (Value known = row.scalars.lookupOrNull(value))
      return known;
    Value result;
    if (const LanePosition *at = positions.find(value)) {
      result = moved(at->lane, at->row * row.position);
    } else if (value == rowArgument()) {
      result = lowering.add(lowering.firstRow, lowering.constant(row.number));
    } else if (value == columnArgument()) { // of a tile of one extent
      result = lowering.constant(0);
    } else {
      Operation *op = value.getDefiningOp();
      for (Value used : valuesUsedBy(*op))
        if (!isa<tile::ViewType>(used.getType()))
          ofRow(row, used);
      lowering.emitInBody(op, &row.scalars);
      return row.scalars.lookup(value);
    }
    row.scalars.map(value, result);
    return result;
  }

  Value moved(Value lane, int64_t offset) {
    if (offset == 0)
      return lane;
    if (lane.getType().isF32())
      return arith::AddFOp::create(builder, loc, lane, lowering.number(float(offset)));
    return lowering.add(lane, lowering.constant(offset));
  }

  //===--- conditions as words ----------------------------------------------===//

  /// Splits what the map yields, of a tile of words, or else what its last select asks, into what
  /// words say and the rest.
  void splitCondition(Value yielded) {
    Value asked = yielded;
    if (!isWords) {
      auto select = yielded.getDefiningOp<arith::SelectOp>();
      if (!select || select->getBlock() != &body || columns.isOfRow(select.getCondition()) ||
          isa<BlockArgument>(select.getCondition()))
        return;
      asked = select.getCondition();
    }
    llvm::DenseSet<Value> seen;
    std::function<void(Value)> split = [&](Value value) {
      if (!seen.insert(value).second)
        return;
      auto both = value.getDefiningOp<arith::AndIOp>();
      if (columns.isFormula(value) || (columns.isOfRow(value) && (isWords || !parts.empty()))) {
        parts.push_back(value);
      } else if (both && both->getBlock() == &body) {
        split(both.getLhs());
        split(both.getRhs());
      } else {
        rest.push_back(value);
      }
    };
    bool hasLoops = llvm::any_of(body.getOps<scf::ForOp>(), [&](scf::ForOp loop) {
      return !columns.isOfRow(loop.getResult(0));
    });
    bool isLooped = isSeldom(map) || hasLoops;
    if (isWords && (!isLooped || isKnownByRow(asked)))
      return; // emitWords joins them
    if (isSeldom(map))
      rest.push_back(asked);
    else
      split(asked);
    if (isLooped)
      loopOverColumns();
    if (isWords)
      return;
    if (parts.empty() && looped.empty())
      rest.clear();
    else
      condition = asked;
  }

  //===--- tiles of words ---------------------------------------------------===//

  bool isKnownByRow(Value value) { return columns.isFormula(value) || columns.isOfRow(value); }

  /// The values for which words are joined: joins of truths of which a part is known by row.
  void findJoined() {
    for (Operation &op : body.without_terminator())
      if (op.getNumResults() == 1 && !isKnownByRow(op.getResult(0)) && ColumnWords::isJoin(op) &&
          llvm::any_of(op.getOperands(), [&](Value operand) {
            return isKnownByRow(operand) || joined.contains(operand);
          }))
        joined.insert(op.getResult(0));
  }

  /// What words do not say of `value`: asked by the warp, or of each element, and gathered bit by
  /// bit.
  void findGathered(Value value, llvm::DenseSet<Value> &seen) {
    if (isKnownByRow(value) || !seen.insert(value).second)
      return;
    if (joined.contains(value)) {
      llvm::for_each(value.getDefiningOp()->getOperands(),
                     [&](Value operand) { findGathered(operand, seen); });
      return;
    }
    if (std::optional<SetVector<Value>> held = columns.heldByRows(value);
        held && askedByWarp++ < mostAskedByWarp)
      return askByWarp(value, held->getArrayRef());
    gathered.insert({value, SmallVector<Values>(rows.size(),
                                                Values(shape.wordsOfRow(), lowering.constant(0)))});
    findNeeded(value);
  }

  void askByWarp(Value value, ArrayRef<Value> held) {
    WarpWords warp(builder, loc, lowering.lane, shape.columns);
    // What follows from a column is computed once, ahead of the rows.
    SmallVector<Value> columnsNeeded = columns.neededOfColumn(value);
    SmallVector<IRMapping> common(shape.wordsOfRow() * WarpWords::votes, outer);
    for (auto [index, scalars] : llvm::enumerate(common)) {
      scalars.map(columnArgument(),
                  warp.column(index / WarpWords::votes, index % WarpWords::votes));
      for (Value needed : columnsNeeded)
        evaluate(needed, scalars, scalars);
    }
    SmallVector<Values> ofRows;
    for (Row &row : rows)
      ofRows.push_back(
          llvm::map_to_vector<2>(held, [&](Value source) { return row.scalars.lookup(source); }));
    SmallVector<Values> words =
        warp.emit(ofRows, [&](int64_t word, int64_t vote, ValueRange values) {
          IRMapping &ofVote = common[word * WarpWords::votes + vote], scalars = ofVote;
          scalars.map(held, values);
          return evaluate(value, scalars, ofVote);
        });
    for (auto [row, ofRow] : llvm::zip(rows, words))
      for (auto [index, word] : llvm::enumerate(ofRow))
        row.words->set(value, index, word);
  }

  /// The words of a tile of i1.
  Values emitWords(Value yielded) {
    if (looped.empty()) {
      findJoined();
      llvm::DenseSet<Value> seen;
      findGathered(yielded, seen);
    }
    if (!gathered.empty())
      forEachSlice([&](MutableArrayRef<Element> elements) {
        emitElements(elements);
        for (Element &at : elements)
          for (auto &[value, words] : gathered) {
            Value &word = words[&at.row - rows.data()][wordOf(at)];
            word = lowering.ptx().withBitIf(word, bitOf(at), ofElement(at, value));
          }
      });
    Values results;
    for (auto [number, row] : llvm::enumerate(rows))
      for (int64_t index = 0; index < shape.wordsOfRow(); ++index) {
        for (auto &[value, words] : gathered)
          row.words->set(value, index, words[number][index]);
        results.push_back(looped.empty() ? row.words->word(yielded, index)
                                         : joinedWord(row, index));
      }
    return results;
  }

  /// Asks `rest` of one group of columns after the other, bit by bit into the words of all rows.
  void loopOverColumns() {
    std::optional<SetVector<Value>> beforehand = columns.neededOfRow(rest);
    if (!beforehand)
      return;
    looped = std::exchange(rest, {});
    for (Row &row : rows)
      for (Value value : *beforehand)
        ofRow(row, value);
    for (int64_t first = 0; first < shape.groups(); first += ColumnWords::groupsOfWord) {
      int64_t count = std::min(shape.groups() - first, ColumnWords::groupsOfWord);
      Values start(1 + rows.size(), lowering.constant(0));
      auto loop = scf::WhileOp::create(
          builder, loc, ValueRange(start).getTypes(), start,
          [&](OpBuilder &, Location, ValueRange carried) {
            lowering.ptx().keepLoop();
            Value more = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt,
                                               carried.front(), lowering.constant(count));
            scf::ConditionOp::create(builder, loc, more, carried);
          },
          [&](OpBuilder &, Location, ValueRange carried) {
            Values next(carried);
            addGroup(first, next.front(), MutableArrayRef(next).drop_front());
            next.front() = lowering.add(next.front(), lowering.constant(1));
            scf::YieldOp::create(builder, loc, next);
          });
      for (auto [row, word] : llvm::zip(rows, loop.getResults().drop_front()))
        row.looped.push_back(word);
    }
  }

  /// Adds the bits of the columns of group first + `group` to the rows' words.
  void addGroup(int64_t first, Value group, MutableArrayRef<Value> words) {
    for (int64_t odd = 0; odd < 2; ++odd) {
      Value column =
          lowering.add(lowering.multiply(group, lowering.constant(8)),
                       lowering.add(lowering.firstColumn, lowering.constant(8 * first + odd)));
      Value bit =
          lowering.add(lowering.multiply(group, lowering.constant(2)), lowering.constant(odd));
      IRMapping common = outer;
      common.map(columnArgument(), column);
      for (auto [row, word] : llvm::zip(rows, words)) {
        IRMapping scalars = row.scalars;
        scalars.map(columnArgument(), column);
        Value isKept;
        for (Value each : looped) {
          Value next = evaluate(each, scalars, common);
          isKept = isKept ? arith::AndIOp::create(builder, loc, isKept, next).getResult() : next;
        }
        isKept = arith::ExtUIOp::create(builder, loc, builder.getI32Type(), isKept);
        word = arith::OrIOp::create(builder, loc, word,
                                    arith::ShLIOp::create(builder, loc, isKept, bit));
      }
    }
  }

  /// `common` holds what the rows share of a column.
  Value evaluate(Value value, IRMapping &scalars, IRMapping &common) {
    if (Value known = scalars.lookupOrNull(value))
      return known;
    if (columns.isOfColumn(value) && &scalars != &common) {
      scalars.map(value, evaluate(value, common, common));
    } else {
      Operation *op = value.getDefiningOp();
      for (Value used : valuesUsedBy(*op))
        if (!isa<tile::ViewType>(used.getType()))
          evaluate(used, scalars, common);
      lowering.emitInBody(op, &scalars);
    }
    return scalars.lookup(value);
  }

  static int64_t wordOf(const Element &at) { return at.group / ColumnWords::groupsOfWord; }
  static int64_t bitOf(const Element &at) {
    return 2 * (at.group % ColumnWords::groupsOfWord) + at.odd;
  }

  Value hasBit(Value word, int64_t bit) {
    Value single = lowering.constant(int32_t(uint32_t(1) << bit));
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne,
                                 arith::AndIOp::create(builder, loc, word, single),
                                 lowering.constant(0));
  }

  /// Whether the words, and what is asked besides, keep the element.
  Value keeps(Element &at) {
    Value word = joinedWord(at.row, wordOf(at));
    return rest.empty() ? hasBit(word, bitOf(at))
                        : lowering.ptx().hasBitAnd(word, bitOf(at), keepsRest(at));
  }

  Value keepsRest(Element &at) {
    Value kept;
    for (Value other : rest)
      kept = kept ? lowering.ptx().both(kept, ofElement(at, other)) : ofElement(at, other);
    return kept;
  }

  Value joinedWord(Row &row, int64_t index) {
    Value word = looped.empty() ? Value() : row.looped[index];
    for (Value part : parts) {
      Value next = row.words->word(part, index);
      word = word ? arith::AndIOp::create(builder, loc, word, next).getResult() : next;
    }
    return word;
  }

  //===--- elements ---------------------------------------------------------===//

  /// The ops that stand in the way from the elements to `value`.
  void findNeeded(Value value) {
    SmallVector<Value> worklist = {value};
    while (!worklist.empty()) {
      Value next = worklist.pop_back_val();
      Operation *op = next.getDefiningOp();
      if (!op || columns.isOfRow(next) || positions.find(next) || !needed.insert(op).second)
        continue;
      llvm::append_range(worklist, next == condition ? rest : valuesUsedBy(*op));
    }
  }

  /// Its number among the registers of a fragment.
  int64_t indexOf(const Element &at) {
    int64_t row = &at.row - rows.data();
    return (row / 2 * shape.groups() + at.group) * 4 + row % 2 * 2 + at.odd;
  }

  static bool isOfWords(Value source) {
    return cast<tile::TileType>(source.getType()).getElementType().isInteger(1);
  }

  /// An element of `source`, of two extents.
  Value elementOf(Value source, const Element &at) {
    if (!isOfWords(source))
      return lowering.valuesOf(source)[indexOf(at)];
    // Pinned, or else the bits of all elements, of which other maps ask too, would be taken apart
    // ahead of both and held in a register each.
    Values &words = heldWords[source];
    if (words.empty())
      words = llvm::map_to_vector<2>(lowering.valuesOf(source),
                                     [&](Value word) { return lowering.ptx().pinned(word); });
    int64_t row = &at.row - rows.data();
    return hasBit(words[row * shape.wordsOfRow() + wordOf(at)], bitOf(at));
  }

  void emitElements(MutableArrayRef<Element> elements) {
    for (auto [index, source] : llvm::enumerate(map.getSources()))
      if (cast<tile::TileType>(source.getType()).getRank() == 2)
        for (Element &at : elements)
          at.scalars.map(body.getArgument(index), elementOf(source, at));
    for (Operation &inner : body.without_terminator()) {
      if (!needed.contains(&inner))
        continue;
      for (Element &at : elements)
        prepareElement(at, inner);
      SmallVector<IRMapping *> left; // those that have no shorter way
      for (Element &at : elements)
        if (!at.scalars.contains(inner.getResult(0)))
          left.push_back(&at.scalars);
      if (!left.empty())
        lowering.emitInBody(&inner, left);
    }
  }

  /// Computes what `op` uses, or its result where there is a shorter way to it.
  void prepareElement(Element &at, Operation &op) {
    Value result = op.getResult(0);
    if (result == condition) {
      at.scalars.map(result, keeps(at));
      return;
    }
    auto read = dyn_cast<tile::ReadOp>(op);
    if (read && read.getCovered()) {
      Values lane;
      SmallVector<int64_t> offset;
      for (Value index : read.getIndices()) {
        const LanePosition *place = positions.find(index);
        lane.push_back(place ? place->lane : ofElement(at, index));
        offset.push_back(place ? offsetOf(*place, at) : 0);
      }
      at.scalars.map(result, lowering.emitCoveredRead(read, lane, offset));
      return;
    }
    for (Value used : valuesUsedBy(op))
      if (!isa<tile::ViewType>(used.getType()))
        ofElement(at, used);
  }

  int64_t offsetOf(const LanePosition &place, const Element &at) {
    return place.row * at.row.position + place.column * at.column();
  }

  /// Positions are written where they are used.
  Value ofElement(Element &at, Value value) {
    if (Value known = at.scalars.lookupOrNull(value))
      return known;
    Value result;
    if (columns.isOfRow(value)) {
      result = ofRow(at.row, value);
    } else {
      const LanePosition *place = positions.find(value);
      result = moved(place->lane, offsetOf(*place, at));
    }
    at.scalars.map(value, result);
    return result;
  }

  KernelLowering &lowering;
  OpBuilder &builder;
  Location loc;
  tile::MapOp map;
  Block &body;
  FragmentShape shape;
  bool isRow, isWords;
  int64_t heads;
  const IRMapping &outer;
  LanePositions positions;
  ColumnWords columns;
  MapPatterns patterns;
  SmallVector<Row, 0> rows;
  /// What the last select asks, or a tile of words in whose map are loops: what formulas of words
  /// say, what words of a loop say, and what is asked of each element besides.
  Value condition;
  SmallVector<Value> parts, looped, rest;
  /// Of a tile of words: the words of what is asked of each element, by row; what words are joined
  /// for.
  llvm::MapVector<Value, SmallVector<Values>> gathered;
  llvm::DenseSet<Value> joined;
  int64_t askedByWarp = 0;
  llvm::DenseMap<Value, Values> heldWords; ///< of the sources that are tiles of words
  llvm::DenseSet<Operation *> needed;
};

LogicalResult KernelLowering::lowerMap(tile::MapOp op) {
  auto type = cast<tile::TileType>(op.getType());
  Type element = type.getElementType();
  if (!element.isF32() && !element.isInteger(32) && !(element.isInteger(1) && type.getRank() == 2))
    return op.emitOpError() << "expected elements f32 or i32, or i1 of two extents, got "
                            << element;
  Block &body = op.getBody().front();
  // Values from outside are looked up once.
  IRMapping outer;
  for (Operation &inner : body) {
    if (&inner != body.getTerminator() &&
        ((inner.getNumRegions() != 0 && !isa<scf::ForOp>(inner)) || inner.getNumResults() != 1))
      return inner.emitOpError() << "cannot stand in the body of tile.map";
    for (Value used : valuesUsedBy(inner))
      if (used.getParentBlock() != &body && !isa<tile::ViewType>(used.getType()))
        outer.map(used, valueOf(used));
  }
  values[op] = MapElements(*this, op, outer).emit();
  return success();
}

} // namespace tesela::nvvm
