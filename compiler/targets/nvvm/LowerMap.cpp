//===- LowerMap.cpp - Maps on registers -------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "analysis/RowMap.h"
#include "analysis/UsedValues.h"
#include "targets/nvvm/ColumnsInPlace.h"
#include "targets/nvvm/MapElements.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace tesela::nvvm {

/// Lowers `op` of a map's body for the elements whose scalars `elements` maps.
void KernelLowering::emitInBody(Operation *op, ArrayRef<IRMapping *> elements) {
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return emitLoop(loop, elements);
  for (IRMapping *scalars : elements)
    scalars->map(op->getResult(0), emitScalar(op, *scalars));
}

/// Lowers a loop once for all elements. Its bounds are the same for all of them.
void KernelLowering::emitLoop(scf::ForOp loop, ArrayRef<IRMapping *> elements) {
  auto bound = [&](Value value) { return elements.front()->lookup(value); };
  Values start = {bound(loop.getLowerBound())};
  for (IRMapping *scalars : elements)
    start.push_back(scalars->lookup(loop.getInitArgs().front()));
  auto lowered = scf::WhileOp::create(
      builder, loc, ValueRange(start).getTypes(), start,
      [&](OpBuilder &, Location, ValueRange carried) {
        if (elements.size() > 1) // unrolling would take too many registers
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

KernelLowering::MapElements::MapElements(KernelLowering &lowering, tile::MapOp map,
                                         const IRMapping &outer)
    : lowering(lowering), builder(lowering.builder), loc(lowering.loc), map(map),
      body(map.getBody().front()), shape(cast<tile::TileType>(map.getType()), lowering.warps),
      isRow(cast<tile::TileType>(map.getType()).getRank() == 1),
      isWords(cast<tile::TileType>(map.getType()).getElementType().isInteger(1)),
      heads(headsOfRows(map)), outer(outer), firstRow(lowering.firstRowOf(shape)),
      firstColumn(lowering.firstColumnOf(shape)),
      begin(lowering.multiply(lowering.partOf(shape), lowering.constant(shape.columns))),
      positions(builder, map, outer, emitRowPlace(builder, loc, firstRow, heads).position,
                isRow ? lowering.constant(0) : firstColumn),
      columns(map), patterns(columns, builder, loc, lowering.lane, firstColumn, outer,
                             [this](Value value, IRMapping &scalars) {
                               return evaluate(value, scalars, scalars);
                             }) {}

Values KernelLowering::MapElements::emit() {
  Value yielded = body.getTerminator()->getOperand(0);
  for (int64_t strip = 0; strip < shape.strips; ++strip)
    for (int64_t half = 0; half < 2; ++half)
      addRow(strip, half);
  if (isRow)
    return llvm::map_to_vector<2>(rows, [&](Row &row) { return ofRow(row, yielded); });
  splitCondition(yielded);
  shareDiagonals();
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

void KernelLowering::MapElements::forEachSlice(
    llvm::function_ref<void(MutableArrayRef<Element>)> emitSome) {
  bool hasLoops = llvm::any_of(needed, llvm::IsaPred<scf::ForOp>);
  bool readsWords = llvm::any_of(map.getSources(), isOfWords);
  bool addsPairs = llvm::any_of(needed, [&](Operation *op) {
    auto deposit = dyn_cast<tile::DepositOp>(op);
    return deposit && addsByColumns(deposit);
  });
  int64_t slice = hasLoops ? groupsOfLoop : condition || isWords || readsWords ? groupsOfSlice : 1;
  for (int64_t strip = 0; strip < shape.strips; ++strip)
    for (int64_t first = 0; first < shape.groups(); first += slice) {
      SmallVector<Element> elements;
      for (int64_t half = 0; half < 2; ++half)
        for (int64_t group = first; group < std::min(first + slice, shape.groups()); ++group)
          for (int64_t odd = 0; odd < 2; ++odd)
            elements.push_back({rows[strip * 2 + half], group, odd, outer});
      MutableArrayRef<Element> left = elements;
      for (size_t count = hasLoops    ? left.size()
                          : addsPairs ? 2
                                      : 1;
           !left.empty(); left = left.drop_front(count))
        emitSome(left.take_front(count));
    }
}

void KernelLowering::MapElements::addRow(int64_t strip, int64_t half) {
  int64_t number = shape.firstRow(strip) + 8 * half;
  rows.push_back({number, number / heads, outer, std::nullopt, {}});
  for (auto [argument, source] : llvm::zip(body.getArguments(), map.getSources()))
    if (cast<tile::TileType>(source.getType()).getRank() == 1)
      rows.back().scalars.map(argument, lowering.valuesOf(source)[strip * 2 + half]);
  unsigned index = rows.size() - 1;
  rows.back().words.emplace(
      columns, builder, loc, firstColumn, begin,
      [this, index](Value value) { return ofRow(rows[index], value); },
      [this](Value value, int64_t word, Value start) { return patterns.word(value, word, start); },
      [this, index](Value result, int64_t word) { return reductionWord(result, word, index); });
}

Value KernelLowering::MapElements::ofRow(Row &row, Value value) {
  if (Value known = row.scalars.lookupOrNull(value))
    return known;
  Value result;
  if (const LanePosition *at = positions.find(value)) {
    result = moved(at->lane, at->row * row.position);
  } else if (value == rowArgument()) {
    result = lowering.add(firstRow, lowering.constant(row.number));
  } else if (value == columnArgument()) { // the only column of a tile of one extent
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

Value KernelLowering::MapElements::moved(Value lane, int64_t offset) {
  if (offset == 0)
    return lane;
  if (lane.getType().isF32())
    return arith::AddFOp::create(builder, loc, lane, lowering.number(float(offset)));
  return lowering.add(lane, lowering.constant(offset));
}

void KernelLowering::MapElements::findNeeded(Value value) {
  SmallVector<Value> worklist = {value};
  while (!worklist.empty()) {
    Value next = worklist.pop_back_val();
    Operation *op = next.getDefiningOp();
    if (!op || next == diagonal || columns.isOfRow(next) || positions.find(next) ||
        !needed.insert(op).second)
      continue;
    llvm::append_range(worklist, next == condition ? rest : valuesUsedBy(*op));
  }
}

int64_t KernelLowering::MapElements::indexOf(const Element &at) {
  int64_t row = &at.row - rows.data();
  return (row / 2 * shape.groups() + at.group) * 4 + row % 2 * 2 + at.odd;
}

bool KernelLowering::MapElements::isOfWords(Value source) {
  return cast<tile::TileType>(source.getType()).getElementType().isInteger(1);
}

Value KernelLowering::MapElements::elementOf(Value source, const Element &at) {
  if (isa<pipe::ColumnsAttr>(cast<tile::TileType>(source.getType()).getEncoding())) {
    const Values &registers = lowering.valuesOf(source);
    if (!readInPlace(source))
      return registers[2 * at.group + at.odd];
    HeldColumns &held = heldColumns[source];
    if (held.pair.empty() || held.group != at.group)
      held = {at.group, lowering.ptx().loadSharedPair(registers.front(), 32 * at.group)};
    return held.pair[at.odd];
  }
  if (!isOfWords(source))
    return lowering.valuesOf(source)[indexOf(at)];
  // Pinned: otherwise LLVM would take apart the bits of all elements in front of all maps that test
  // them, and hold each bit in a register. ptxas sees through the pin. So if another map of the
  // block has tested the words before, they are rotated by a byte, and no test is the same as
  // before. Otherwise ptxas would keep the predicates, and since there are only seven, it would
  // move them to registers and back by two instructions each.
  int64_t turn = 8 * llvm::count_if(source.getUsers(), [&](Operation *user) {
                   return isa<tile::MapOp>(user) && user->getBlock() == map->getBlock() &&
                          user->isBeforeInBlock(map);
                 });
  Values &words = heldWords[source];
  if (words.empty())
    words = llvm::map_to_vector<2>(lowering.valuesOf(source), [&](Value word) {
      return lowering.ptx().pinned(turn == 0
                                       ? word
                                       : LLVM::FshlOp::create(builder, loc, word.getType(), word,
                                                              word, lowering.constant(turn))
                                             .getResult());
    });
  int64_t row = &at.row - rows.data();
  return hasBit(words[row * shape.wordsOfRow() + wordOf(at)], (bitOf(at) + turn) % 32);
}

void KernelLowering::MapElements::emitElements(MutableArrayRef<Element> elements) {
  for (auto [index, source] : llvm::enumerate(map.getSources()))
    if (cast<tile::TileType>(source.getType()).getRank() == 2)
      for (Element &at : elements)
        at.scalars.map(body.getArgument(index), elementOf(source, at));
  if (diagonal)
    for (Element &at : elements)
      at.scalars.map(diagonal, diagonalOf(at));
  for (Operation &inner : body.without_terminator()) {
    if (!needed.contains(&inner))
      continue;
    for (Element &at : elements)
      prepareElement(at, inner);
    if (auto deposit = dyn_cast<tile::DepositOp>(inner); deposit && addsByColumns(deposit)) {
      depositPairs(deposit, elements);
      continue;
    }
    SmallVector<IRMapping *> left; // elements for which there is no shorter way
    for (Element &at : elements)
      if (!at.scalars.contains(inner.getResult(0)))
        left.push_back(&at.scalars);
    if (!left.empty())
      lowering.emitInBody(&inner, left);
  }
}

void KernelLowering::MapElements::prepareElement(Element &at, Operation &op) {
  Value result = op.getResult(0);
  if (result == condition) {
    at.scalars.map(result, keeps(at));
    return;
  }
  auto read = dyn_cast<tile::ReadOp>(op);
  if (read && read.getCovered()) {
    constexpr int64_t groupsOfChunk = 4;
    int64_t first = at.group / groupsOfChunk * groupsOfChunk;
    bool isChunked = read.getChunked() && first + groupsOfChunk <= shape.groups();
    Chunk &chunk = chunks[{read, &at.row - rows.data()}];
    int64_t inChunk = 2 * (at.group - first) + at.odd;
    if (isChunked && chunk.first == first) {
      at.scalars.map(result, chunk.elements[inChunk]);
      return;
    }
    Values lane;
    SmallVector<int64_t> offset;
    for (Value index : read.getIndices()) {
      const LanePosition *place = positions.find(index);
      lane.push_back(place ? place->lane : ofElement(at, index));
      offset.push_back(place ? offsetOf(*place, at) : 0);
    }
    if (isChunked) {
      // Move from the element back to the first column of the chunk.
      offset.back() -= 8 * (at.group - first) + at.odd;
      chunk = {first, lowering.emitCoveredChunk(read, lane, offset)};
      at.scalars.map(result, chunk.elements[inChunk]);
      return;
    }
    at.scalars.map(result, lowering.emitElement(read, lowering.coveredAddress(read, lane, offset)));
    return;
  }
  for (Value used : valuesUsedBy(op))
    if (!isa<tile::ViewType>(used.getType()))
      ofElement(at, used);
}

int64_t KernelLowering::MapElements::offsetOf(const LanePosition &place, const Element &at) {
  return place.at(at.row.position, at.column());
}

Value KernelLowering::MapElements::ofElement(Element &at, Value value) {
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

LogicalResult KernelLowering::lowerMap(tile::MapOp op) {
  auto type = cast<tile::TileType>(op.getType());
  Type element = type.getElementType();
  if (!element.isF32() && !element.isInteger(32) && !(element.isInteger(1) && type.getRank() == 2))
    return op.emitOpError() << "expected elements f32 or i32, or i1 of two extents, got "
                            << element;
  Block &body = op.getBody().front();
  // Look up each value from outside of the body once.
  IRMapping outer;
  for (Operation &inner : body) {
    if (&inner != body.getTerminator() &&
        ((inner.getNumRegions() != 0 && !isa<scf::ForOp>(inner)) || inner.getNumResults() != 1))
      return inner.emitOpError() << "cannot stand in the body of tile.map";
    for (Value used : valuesUsedBy(inner))
      if (used.getParentBlock() != &body && !isa<tile::ViewType>(used.getType()))
        outer.map(used, valueOf(used));
  }
  std::optional<Values> stored = MapElements::emitPuts(*this, op, outer);
  values[op] = stored ? *stored : MapElements(*this, op, outer).emit();
  return success();
}

} // namespace tesela::nvvm
