//===- LowerLines.cpp - Sums of a tile's lines ------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Lowers tile.add_lines, which adds up the columns or the diagonals of a tile, and adds each sum to
// an element in memory.
//
// First a lane adds up its own elements of a line: it holds two rows of a strip, which are 8 apart.
// Then two lanes with neighbouring rows exchange half of their sums, so that each has every other
// line of the pair of rows. They write these sums to shared memory. There a thread adds up a line:
// one number for each pair of rows, always in the same order. Exchanging further would need more
// selects than it saves loads.
//
// A diagonal goes through two tiles of a row of tiles, and diagonals that are far apart may have
// the same element (a bucket of distances). So with roles a thread keeps the sum of a diagonal in
// shared memory until it gets a sum for another element. It looks up the element of a diagonal only
// once.
//
// Far from the diagonal, the sums of several lanes go to one element (a bucket of distances). These
// lanes first add up their sums, because additions to one address run one after the other.
//
//===----------------------------------------------------------------------===//
#include "analysis/UsedValues.h"
#include "targets/common/Additions.h"
#include "targets/common/ExactSums.h"
#include "targets/nvvm/KernelLowering.h"
#include "targets/nvvm/LinesPlace.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace tesela::nvvm {

static constexpr int64_t bytesOfElement = 4;
static constexpr int64_t banks = 32, rowsOfWarp = 16, pairsOfWarp = 4;

/// The lanes of a pair of rows write eight adjacent numbers. If the numbers of the pairs are 8
/// banks apart, the 32 lanes of a warp have no bank conflict.
static constexpr int64_t bankStep = 8;

/// The least stride of at least `numbers` whose remainder modulo the number of banks is
/// `remainder`.
static int64_t strideFor(int64_t numbers, int64_t remainder) {
  return numbers + (banks + remainder - numbers % banks) % banks;
}

LinesPlace::LinesPlace(tile::AddLinesOp op) {
  auto type = cast<tile::TileType>(op.getSource().getType());
  rows = type.getExtent(0);
  columns = type.getExtent(1);
  auto kernel = op->getParentOfType<tile::KernelOp>();
  tile::ScheduleAttr schedule = kernel ? kernel.getScheduleAttr() : tile::ScheduleAttr();
  constexpr int64_t rowsOfGroup = 64;
  if (op.getLines() == op.diagonals && schedule && rows == rowsOfGroup * schedule->consumers) {
    parts = schedule->consumers;
    rows = rowsOfGroup;
  }
  if (op.getLines() == op.elements) {
    lines = rows * columns;
    sets = rows;
    stride = columns + bankStep;
    return;
  }
  sets = rows / rowsOfWarp * pairsOfWarp;
  if (op.getLines() == op.columns) {
    lines = columns;
    stride = strideFor(columns, bankStep);
  } else {
    // In a diagonal, each pair's numbers begin two places before those of the pair above it. A warp
    // writes 16 numbers more than it has columns (Lines::writeDiagonals).
    lines = rows + columns - 1;
    stride = strideFor(columns + rows + 6, bankStep + 2);
  }
}

KeptLines::KeptLines(const LinesPlace &place)
    : parts(place.parts), slots(std::max<int64_t>(llvm::PowerOf2Ceil(place.lines), threads)) {}

/// Whether `value` is the same throughout a work item.
static bool isOfItem(Value value) {
  Operation *op = value.getDefiningOp();
  Operation *around = value.getParentBlock()->getParentOp();
  if (isa<tile::KernelOp>(around) || (op && isa<pipe::RolesOp>(around)))
    return true;
  return op && isMemoryEffectFree(op) && op->getNumRegions() == 0 &&
         !isa<tile::CoordinatesOp>(op) && llvm::all_of(op->getOperands(), isOfItem);
}

std::optional<SmallVector<int64_t>> keptValues(tile::AddLinesOp op) {
  Block &body = op.getBody().front();
  auto used = valuesUsedBy(*op);
  /// The position of the tile to which the body adds `argument`; null if the body has another form.
  auto firstOf = [&](BlockArgument argument) -> Value {
    for (auto sum : body.getOps<arith::AddIOp>()) {
      if (!llvm::is_contained(sum->getOperands(), argument))
        continue;
      Value first = sum.getLhs() == argument ? sum.getRhs() : sum.getLhs();
      auto place = first.getDefiningOp<tile::CoordinatesOp>();
      if (place && first == place.getFirst())
        return first;
    }
    return {};
  };
  Value query = firstOf(body.getArgument(1)), key = firstOf(body.getArgument(2));
  if (!query || !key)
    return std::nullopt;
  SmallVector<int64_t> numbers;
  for (Value first : {query, key})
    numbers.push_back(llvm::find(used, first) - used.begin());
  for (auto [number, value] : llvm::enumerate(used)) {
    if (isa<tile::ViewType, tile::TileType>(value.getType()) || value == query || value == key ||
        isOfItem(value))
      continue;
    if (!value.getType().isInteger(32))
      return std::nullopt;
    numbers.push_back(number);
  }
  if (numbers.size() > 2 + KeptLines::mostChanging)
    return std::nullopt;
  return numbers;
}

class KernelLowering::Lines {
public:
  Lines(KernelLowering &lowering, tile::AddLinesOp op)
      : lowering(lowering), builder(lowering.builder), loc(op.getLoc()), op(op), place(op),
        shape(cast<tile::TileType>(op.getSource().getType()), lowering.warps),
        source(lowering.valuesOf(op.getSource())) {}

  void emit() {
    base = lowering.add(lowering.sharedBase, constant(offsetOf(linesOffsetAttr)));
    for (Value used : valuesUsedBy(*op))
      if (used != op.getSource() && !isa<tile::ViewType>(used.getType()))
        outer.map(used, lowering.valueOf(used));
    if (isInParts())
      base =
          lowering.add(base, lowering.multiply(lowering.warpgroup, constant(place.bytesOfPart())));
    if (op.getLines() == op.diagonals)
      clear(linesOffsetAttr, place.bytes());
    if (op->hasAttr(keptOffsetAttr))
      clear(keptOffsetAttr, KeptLines(place).bytes());
    barrier(); // all threads have read what was there
    if (op.getLines() == op.elements)
      writeElements();
    else if (op.getLines() == op.columns)
      writeColumns();
    else
      writeDiagonals();
    if (op->hasAttr(keptOffsetAttr))
      return keepLines();
    barrier();
    // A warp without a line has nothing to do.
    Value warp = isInParts() ? warpOfPart() : lowering.warp;
    scf::ForOp::create(builder, loc, lowering.multiply(warp, constant(32)), constant(place.lines),
                       constant(threads()), ValueRange(),
                       [&](OpBuilder &, Location, Value first, ValueRange) {
                         addLine(lowering.add(first, lowering.lane));
                         scf::YieldOp::create(builder, loc);
                       });
  }

  /// Adds to memory what is still kept at the end.
  void addKept() {
    KeptLines kept(place);
    Value first = slotOfThread(kept);
    for (int64_t round = 0; round < kept.slots / kept.threads; ++round)
      addSlot(lowering.ptx().loadShared16Bytes(first, round * kept.threads * kept.bytesOfSlot));
  }

private:
  Value constant(int64_t value) { return lowering.constant(value); }
  Value subtract(Value a, Value b) { return arith::SubIOp::create(builder, loc, a, b); }
  Value bits(Value a, int64_t taken) {
    return arith::AndIOp::create(builder, loc, a, constant(taken));
  }
  Value isEqual(Value a, int64_t number) {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, a, constant(number));
  }
  Value select(Value condition, Value a, Value b) {
    return arith::SelectOp::create(builder, loc, condition, a, b);
  }
  /// a + b, where null stands for 0.
  Value sum(Value a, Value b) {
    if (!a || !b)
      return a ? a : b;
    return arith::AddFOp::create(builder, loc, a, b);
  }
  Value orZero(Value a) { return a ? a : lowering.number(0); }

  int64_t offsetOf(StringRef attribute) {
    return op->getAttrOfType<IntegerAttr>(attribute).getInt();
  }
  bool isInParts() { return lowering.consumers > 0 && op.getLines() == op.diagonals; }
  /// The number of threads that sum a part.
  int64_t threads() { return isInParts() ? KeptLines::threads : 32 * lowering.warps; }
  Value warpOfPart() { return bits(lowering.warp, KeptLines::threads / 32 - 1); }
  Value threadOfPart() { return bits(lowering.thread, KeptLines::threads - 1); }

  /// The barrier of all threads that sum a part. With roles it is that of lowerBarrier, without the
  /// fence for copies.
  void barrier() {
    if (isInParts())
      lowering.ptx().barrier(lowering.warpgroupBarrierId(), KeptLines::threads);
    else if (lowering.consumers > 0)
      lowering.ptx().barrier(constant(1 + 2 * lowering.consumers), 128 * lowering.consumers);
    else
      lowering.ptx().barrier();
  }

  /// A diagonal is summed over all pairs of rows, including those that it does not cross. Their
  /// numbers must be zero, and so must slots that keep nothing. All threads of the thread block
  /// write these zeros at the kernel's start, in front of the roles.
  void clear(StringRef attribute, int64_t bytes) {
    bool isFirst = true;
    lowering.kernel.walk([&](tile::AddLinesOp other) {
      if (other == op)
        return WalkResult::interrupt();
      isFirst &= other->getAttr(attribute) != op->getAttr(attribute);
      return WalkResult::advance();
    });
    if (!isFirst)
      return;
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointAfterValue(lowering.sharedBase);
    int64_t offset = offsetOf(attribute);
    Value first = NVVM::ThreadIdXOp::create(builder, loc, builder.getI32Type());
    Value end = lowering.add(lowering.sharedBase, constant(offset + bytes));
    Value start = lowering.add(lowering.sharedBase, constant(offset));
    start = lowering.add(start, lowering.multiply(first, constant(bytesOfElement)));
    auto loop =
        scf::ForOp::create(builder, loc, start, end, constant(lowering.threads * bytesOfElement));
    builder.setInsertionPointToStart(loop.getBody());
    lowering.ptx().storeShared(loop.getInductionVar(), 0, constant(0));
  }

  /// The lane's element; null outside of the tile.
  Value element(int64_t strip, int64_t group, int64_t half, int64_t odd) {
    if (group < 0 || group >= shape.groups())
      return {};
    return source[(strip * shape.groups() + group) * 4 + half * 2 + odd];
  }

  void store(Value address, int64_t number, Value value) {
    value = arith::BitcastOp::create(builder, loc, builder.getI32Type(), orZero(value));
    lowering.ptx().storeShared(address, number * bytesOfElement, value);
  }

  /// The address of number `number` in the first set of the lane's pair of rows.
  Value addressOf(Value number) {
    Value pair = bits(arith::ShRUIOp::create(builder, loc, lowering.lane, constant(3)), 3);
    Value warp = isInParts() ? warpOfPart() : lowering.warp;
    Value set = lowering.add(lowering.multiply(warp, constant(pairsOfWarp)), pair);
    Value index = lowering.add(lowering.multiply(set, constant(place.stride)), number);
    return lowering.add(base, lowering.multiply(index, constant(bytesOfElement)));
  }

  /// Whether the lane's rows are the second of their pairs.
  Value isSecond() { return isEqual(bits(lowering.lane, 4), 4); }

  /// Distance, in numbers, between the strips of a warp.
  int64_t stripStep() { return shape.warps * pairsOfWarp * place.stride; }

  void writeElements() {
    Value row = lowering.add(lowering.multiply(lowering.warp, constant(rowsOfWarp)),
                             arith::ShRUIOp::create(builder, loc, lowering.lane, constant(2)));
    Value index =
        lowering.add(lowering.multiply(row, constant(place.stride)), lowering.firstColumn);
    Value start = lowering.add(base, lowering.multiply(index, constant(bytesOfElement)));
    for (int64_t strip = 0; strip < shape.strips; ++strip)
      for (int64_t group = 0; group < shape.groups(); ++group)
        for (int64_t half = 0; half < 2; ++half) {
          int64_t number = (shape.firstRow(strip) + 8 * half) * place.stride + group * 8;
          lowering.ptx().storeSharedPair(start, number * bytesOfElement,
                                         element(strip, group, half, 0),
                                         element(strip, group, half, 1));
        }
  }

  /// In each pair of rows, the lanes of the first row take the even columns.
  void writeColumns() {
    Value second = isSecond();
    Value parity = bits(arith::ShRUIOp::create(builder, loc, lowering.lane, constant(2)), 1);
    Value start = addressOf(lowering.add(lowering.firstColumn, parity));
    for (int64_t strip = 0; strip < shape.strips; ++strip)
      for (int64_t group = 0; group < shape.groups(); ++group) {
        Value even = sum(element(strip, group, 0, 0), element(strip, group, 1, 0)),
              odd = sum(element(strip, group, 0, 1), element(strip, group, 1, 1));
        Value received = lowering.ptx().shuffleXor(select(second, even, odd), 4);
        store(start, strip * stripStep() + group * 8, sum(select(second, odd, even), received));
      }
  }

  /// Let i = lane / 4 and m = lane mod 4. The lane has rows i and i + 8 of its warp and columns 8 g
  /// + 2 m + o. Its elements of row i + 8 and group g + 1 are on the same diagonals as those of row
  /// i and group g. A lane keeps o = 0, which are the diagonals d = 8 g + 2 m - i. The first lane
  /// of a pair gets the second lane's values of o = 1 with the same m. The second lane gets the
  /// first lane's values in the column before its own: m - 1, or m = 3 of the group before. Line d
  /// + rows - 1 is number d - 16 warp + rows - 1.
  void writeDiagonals() {
    Value row = arith::ShRUIOp::create(builder, loc, lowering.lane, constant(2));
    Value m = bits(lowering.lane, 3), second = isSecond();
    Value before = subtract(bits(lowering.lane, 28), constant(4));
    before = lowering.add(before, bits(lowering.add(m, constant(3)), 3));
    Value giver = select(second, before, lowering.add(lowering.lane, constant(4)));
    Value givesLate =
        arith::AndIOp::create(builder, loc, isEqual(m, 3),
                              arith::XOrIOp::create(builder, loc, second, lowering.constant(1, 1)));
    Value number = subtract(lowering.firstColumn, row);
    Value warp = isInParts() ? warpOfPart() : lowering.warp;
    number = subtract(number, lowering.multiply(warp, constant(rowsOfWarp)));
    Value start = addressOf(lowering.add(number, constant(place.rows - 1)));
    for (int64_t strip = 0; strip < shape.strips; ++strip) {
      auto own = [&](int64_t group, int64_t odd) {
        return sum(element(strip, group, 0, odd), element(strip, group + 1, 1, odd));
      };
      Value oddBefore;
      for (int64_t group = -1; group <= shape.groups(); ++group) {
        Value odd = own(group, 1), given = select(givesLate, orZero(oddBefore), orZero(odd));
        oddBefore = odd;
        Value received = lowering.ptx().shuffleFrom(given, giver);
        store(start, strip * (stripStep() - shape.warps * rowsOfWarp) + group * 8,
              sum(own(group, 0), received));
      }
    }
  }

  Value pointerTo(Value number) {
    Value address = lowering.add(base, lowering.multiply(number, constant(bytesOfElement)));
    auto shared = LLVM::LLVMPointerType::get(builder.getContext(), /*addressSpace=*/3);
    return LLVM::IntToPtrOp::create(builder, loc, shared, address);
  }

  Value load(Value pointer, int64_t number) {
    Type f32 = builder.getF32Type();
    Value at = LLVM::GEPOp::create(builder, loc, pointer.getType(), f32, pointer,
                                   ArrayRef<LLVM::GEPArg>{int32_t(number)});
    return LLVM::LoadOp::create(builder, loc, f32, at);
  }

  /// The sum of `count` sets from `first` on at `pointer`, added pairwise.
  Value sumOfSets(Value pointer, int64_t first, int64_t count) {
    if (count == 1)
      return load(pointer, first * place.stride);
    Value low = sumOfSets(pointer, first, count / 2);
    return sum(low, sumOfSets(pointer, first + count / 2, count - count / 2));
  }

  void addLine(Value line) {
    Value exists =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, line, constant(place.lines));
    line = arith::MinSIOp::create(builder, loc, line, constant(place.lines - 1));
    Value row = constant(0), column = line, value;
    if (op.getLines() == op.elements) {
      row = arith::DivUIOp::create(builder, loc, line, constant(place.columns));
      column = subtract(line, lowering.multiply(row, constant(place.columns)));
      value =
          load(pointerTo(lowering.add(lowering.multiply(row, constant(place.stride)), column)), 0);
    } else {
      value = sumOfSets(pointerTo(line), 0, place.sets);
    }
    if (op.getLines() == op.diagonals)
      std::tie(row, column) = firstOf(line);
    value = select(exists, value, lowering.number(0));
    Values indices = indicesOf(value, row, column);
    if (op.getLines() != op.elements)
      value = joined(added, indices);
    else
      value = added;
    emitAddition(builder, loc, collect(), value, indices, lowering.constant(1, 1), addressing());
  }

  tile::CollectOp collect() { return *op.getBody().front().getOps<tile::CollectOp>().begin(); }
  Addressing addressing() {
    return {lowering.slots, lowering.viewOf(collect().getView()), "device"};
  }

  /// Row and column, in the tile, of the first element of the part's diagonal `line`.
  std::pair<Value, Value> firstOf(Value line) {
    Value d = subtract(line, constant(place.rows - 1)), zero = constant(0);
    Value row = arith::MaxSIOp::create(builder, loc, subtract(zero, d), zero);
    Value column = lowering.add(row, d);
    if (isInParts())
      row = lowering.add(row, lowering.multiply(lowering.warpgroup, constant(place.rows)));
    return {row, column};
  }

  /// The indices at which the body adds `value`, the sum of a line. Sets `added` to what it adds.
  Values indicesOf(Value value, Value row, Value column) {
    IRMapping scalars = outer;
    Block &body = op.getBody().front();
    scalars.map(body.getArguments(), ValueRange{value, row, column});
    for (Operation &inner : body)
      if (!isa<tile::CollectOp>(inner))
        lowering.emitInBody(&inner, {&scalars});
    Values indices;
    for (Value index : collect().getIndices())
      indices.push_back(scalars.lookup(index));
    added = scalars.lookup(collect().getValue());
    return indices;
  }

  //===--- what is kept -----------------------------------------------------===//

  Value wideOf(Value low, Value high) {
    Type i64 = builder.getI64Type();
    Value upper = arith::ShLIOp::create(
        builder, loc, arith::ExtUIOp::create(builder, loc, i64, high), lowering.constant(32, 64));
    return arith::OrIOp::create(builder, loc, arith::ExtUIOp::create(builder, loc, i64, low),
                                upper);
  }
  Value asInteger(Value number) {
    return arith::BitcastOp::create(builder, loc, builder.getI32Type(), number);
  }

  Value keptBase() {
    KeptLines kept(place);
    Value start = lowering.add(lowering.sharedBase, constant(offsetOf(keptOffsetAttr)));
    return lowering.add(start, lowering.multiply(lowering.warpgroup, constant(kept.bytesOfPart())));
  }
  /// The thread's first slot. Its other slots follow at distances of `threads`.
  Value slotOfThread(const KeptLines &kept) {
    return lowering.add(keptBase(), lowering.multiply(threadOfPart(), constant(kept.bytesOfSlot)));
  }

  /// Adds a slot's sum to memory.
  void addSlot(ArrayRef<Value> slot) {
    const ViewSlots &view = lowering.viewOf(collect().getView());
    Value address = wideOf(slot[2], slot[3]);
    Value exists = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, address,
                                         lowering.constant(0, 64));
    Value pointer =
        LLVM::IntToPtrOp::create(builder, loc, lowering.slots[view.data].getType(), address);
    Value sum = arith::BitcastOp::create(builder, loc, builder.getF32Type(), slot[1]);
    emitExactAddition(builder, loc, exists, sum, pointer, lowering.slots[view.strides.front()],
                      "device");
  }

  void keepLines() {
    KeptLines kept(place);
    auto used = valuesUsedBy(*op);
    auto numbers = op->getAttrOfType<DenseI64ArrayAttr>(keptValuesAttr).asArrayRef();
    Values values = llvm::map_to_vector(
        numbers, [&](int64_t number) { return lowering.valueOf(used[number]); });
    // The diagonal of the part's first line.
    Value diagonal = subtract(values[1], values[0]);
    diagonal = subtract(diagonal, lowering.multiply(lowering.warpgroup, constant(place.rows)));
    diagonal = subtract(diagonal, constant(place.rows - 1));
    Value start = keptBase(), first = slotOfThread(kept);
    // Compare the changing values with those of the tile before. They are read in front of the
    // barrier below and written behind it.
    values[1] = constant(1);
    auto changing = ArrayRef(values).drop_front();
    Value isOfOther = lowering.constant(0, 1);
    for (auto [number, value] : llvm::enumerate(changing)) {
      Value last = lowering.ptx().loadShared(start, kept.lastOffset() + 4 * int64_t(number));
      Value differs = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, last, value);
      isOfOther = arith::OrIOp::create(builder, loc, isOfOther, differs);
    }
    barrier();
    for (int64_t round = 0; round < kept.slots / kept.threads; ++round) {
      Value number = lowering.add(threadOfPart(), constant(round * kept.threads));
      Value line = bits(subtract(number, diagonal), kept.slots - 1);
      keepLine(line, lowering.add(diagonal, line), isOfOther, first,
               round * kept.threads * kept.bytesOfSlot);
    }
    auto branch =
        scf::IfOp::create(builder, loc, isEqual(threadOfPart(), 0), /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    for (auto [number, value] : llvm::enumerate(changing))
      lowering.ptx().storeShared(start, kept.lastOffset() + 4 * int64_t(number), value);
  }

  /// Adds line `line`, if it exists, to the slot at `first` + `offset`. If the slot holds a sum for
  /// another element, that sum first goes to memory. `isOfOther`: whether a value that changes has
  /// changed since the last tile.
  void keepLine(Value line, Value diagonal, Value isOfOther, Value first, int64_t offset) {
    Values slot = lowering.ptx().loadShared16Bytes(first, offset);
    Value exists =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, line, constant(place.lines));
    // No diagonal has this number.
    Value known = select(isOfOther, constant(std::numeric_limits<int32_t>::min()), slot[0]);
    Value isNew = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, known, diagonal);
    isNew = arith::AndIOp::create(builder, loc, isNew, exists);
    Value before = wideOf(slot[2], slot[3]);
    line = arith::MinSIOp::create(builder, loc, line, constant(place.lines - 1));
    Value value = sumOfSets(pointerTo(line), 0, place.sets);
    value = select(exists, value, lowering.number(0));
    auto branch = scf::IfOp::create(builder, loc, builder.getI64Type(), isNew,
                                    /*withElseRegion=*/true);
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(branch.elseBlock());
      scf::YieldOp::create(builder, loc, before);
      builder.setInsertionPointToStart(branch.thenBlock());
      auto [row, column] = firstOf(line);
      Values indices = indicesOf(value, row, column);
      scf::YieldOp::create(builder, loc, emitSumAddress(builder, loc, indices, addressing()));
    }
    Value address = branch.getResult(0);
    Value moves = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, address, before);
    auto flush = scf::IfOp::create(builder, loc, moves, /*withElseRegion=*/false);
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(flush.thenBlock());
      addSlot(slot);
    }
    Value sum = arith::BitcastOp::create(builder, loc, builder.getF32Type(), slot[1]);
    sum = this->sum(select(moves, lowering.number(0), sum), value);
    Type i32 = builder.getI32Type();
    Value upper = arith::ShRUIOp::create(builder, loc, address, lowering.constant(32, 64));
    lowering.ptx().storeShared16Bytes(first, offset,
                                      {select(exists, diagonal, known), asInteger(sum),
                                       arith::TruncIOp::create(builder, loc, i32, address),
                                       arith::TruncIOp::create(builder, loc, i32, upper)});
  }

  /// Returns `value`. If all lanes have the same indices, the first lane gets the sum of all values
  /// and the others get 0.
  Value joined(Value value, ArrayRef<Value> indices) {
    Value same = lowering.constant(1, 1), none = lowering.number(0);
    for (Value index : indices) {
      Value first = lowering.ptx().shuffleFrom(index, constant(0));
      Value equal = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, index, first);
      same = arith::AndIOp::create(builder, loc, same, equal);
    }
    Value all = isEqual(lowering.ptx().ballot(same), -1);
    auto branch = scf::IfOp::create(builder, loc, builder.getF32Type(), all,
                                    /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(builder, loc, value);
    builder.setInsertionPointToStart(branch.thenBlock());
    for (int64_t bits = 1; bits < 32; bits *= 2)
      value = sum(value, lowering.ptx().shuffleXor(value, bits));
    scf::YieldOp::create(builder, loc, select(isEqual(lowering.lane, 0), value, none));
    return branch.getResult(0);
  }

  KernelLowering &lowering;
  OpBuilder &builder;
  Location loc;
  tile::AddLinesOp op;
  LinesPlace place;
  FragmentShape shape;
  const Values &source;
  Value base, added;
  IRMapping outer;
};

void KernelLowering::lowerAddLines(tile::AddLinesOp op) { Lines(*this, op).emit(); }

/// All copies of an op, such as that of a loop's last iteration, keep their sums in one place.
void KernelLowering::lowerAddKept() {
  kernel.walk([&](tile::AddLinesOp op) {
    if (!op->hasAttr(keptOffsetAttr))
      return WalkResult::advance();
    Lines(*this, op).addKept();
    return WalkResult::interrupt();
  });
}

} // namespace tesela::nvvm
