//===- MaskRegions.cpp - Columns that a block of rows needs -----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "analysis/MaskRegions.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace tesela {
namespace {

// Larger than every key and query, and far from the ends of i64.
constexpr int64_t farAway = int64_t(1) << 40;
// More regions cost more tests than they save. The library's masks have at most four.
constexpr size_t mostRegions = 8;
// A loop can sort so many runs. With more runs, blocks are tested one by one.
constexpr size_t mostRuns = 4;

/// A condition of a hook that holds in a region.
struct Rest {
  BoxValues *values;
  Value condition;
  bool negated;
  bool operator==(const Rest &) const = default;
};

/// i64 bounds, inclusive; null means no bound.
struct Bounds {
  Value low, high;
};

struct Region {
  Bounds row, column, distance; ///< of x, of y, of x - y
  Value condition; ///< i1, the same for all columns: if false, the region is empty; null: true
  SmallVector<Rest, 1> rest;

  bool isUnbounded() const {
    return !row.low && !row.high && !column.low && !column.high && !distance.low && !distance.high;
  }
};

using Union = SmallVector<Region>;

/// Computes the regions in which a condition of a hook holds.
class Cover {
public:
  explicit Cover(BoxValues &values) : values(values), wide(values.wide) {}

  Union of(Value condition, bool negated);
  /// The regions in which a score is not -inf.
  Union ofScore(Value score);
  std::optional<Union> conjunction(ArrayRef<Region> a, ArrayRef<Region> b);

private:
  static Union everything() { return {Region()}; }
  Union asRest(Value condition, bool negated);
  Union all(const Union &a, Value left, bool leftNegated, const Union &b, Value right,
            bool rightNegated);
  static std::optional<Union> either(std::optional<Union> a, std::optional<Union> b);
  std::optional<Union> both(std::optional<Union> a, std::optional<Union> b);
  std::optional<Union> compare(arith::CmpIOp op, bool negated);
  std::optional<Union> atMost(Value left, Value right, int64_t plus);
  std::optional<Union> findAtMost(Value left, Value right, int64_t plus);
  Union atMostZero(LinearForm form);
  std::optional<Union> find(Value condition, bool negated);

  Value divideDown(Value x, int64_t divisor);
  Value divideUp(Value x, int64_t divisor) {
    return divisor == 1 ? x : wide.negate(divideDown(wide.negate(x), divisor));
  }

  BoxValues &values;
  WideArithmetic &wide;
  DenseMap<Value, Union> known[2]; ///< regions of a condition, and of its negation
  /// Regions of left + plus <= right. Nested minima ask for the same comparison again and again.
  DenseMap<std::tuple<Value, Value, int64_t>, std::optional<Union>> knownAtMost;
};

//===--- sets of regions ----------------------------------------------------===//

Union Cover::asRest(Value condition, bool negated) {
  Region region;
  region.rest.push_back({&values, condition, negated});
  return {region};
}

std::optional<Union> Cover::conjunction(ArrayRef<Region> a, ArrayRef<Region> b) {
  if (a.size() * b.size() > mostRegions)
    return std::nullopt;
  auto least = [&](Value x, Value y) { return !x ? y : !y ? x : wide.min(x, y); };
  auto most = [&](Value x, Value y) { return !x ? y : !y ? x : wide.max(x, y); };
  auto intersect = [&](Bounds x, Bounds y) {
    return Bounds{most(x.low, y.low), least(x.high, y.high)};
  };
  Union result;
  for (const Region &x : a)
    for (const Region &y : b) {
      Region region{intersect(x.row, y.row), intersect(x.column, y.column),
                    intersect(x.distance, y.distance), wide.both(x.condition, y.condition), x.rest};
      if (region.condition && matchPattern(region.condition, m_Zero()))
        continue;
      for (const Rest &part : y.rest) // a condition of both occurs once
        if (!llvm::is_contained(region.rest, part))
          region.rest.push_back(part);
      result.push_back(region);
    }
  return result;
}

std::optional<Union> Cover::both(std::optional<Union> a, std::optional<Union> b) {
  return a && b ? conjunction(*a, *b) : std::nullopt;
}

std::optional<Union> Cover::either(std::optional<Union> a, std::optional<Union> b) {
  if (!a || !b || a->size() + b->size() > mostRegions)
    return std::nullopt;
  llvm::append_range(*a, *b);
  return a;
}

/// The regions of left && right. If there are too many, the side with more regions becomes a rest.
Union Cover::all(const Union &a, Value left, bool leftNegated, const Union &b, Value right,
                 bool rightNegated) {
  if (std::optional<Union> result = conjunction(a, b))
    return *result;
  if (a.size() < b.size())
    return *conjunction(a, asRest(right, rightNegated));
  return *conjunction(asRest(left, leftNegated), b);
}

//===--- atoms --------------------------------------------------------------===//

Value Cover::divideDown(Value x, int64_t divisor) {
  if (divisor == 1)
    return x;
  Value isNegative = wide.lessEqual(x, wide.constant(-1));
  Value moved = wide.select(isNegative, wide.add(x, 1 - divisor), x);
  return arith::DivSIOp::create(wide.builder, wide.loc, moved, wide.constant(divisor));
}

/// The regions in which form <= 0 for some offset in its interval.
Union Cover::atMostZero(LinearForm form) {
  if (attn::FloorDivOp op = form.quotient) {
    if (form.column != 0) // y on both sides of the division
      return everything();
    LinearForm x = *values.linear(op.getLhs());
    Value divisor = wide.wide(values.hoist(op.getRhs()));
    // The other side of the comparison, clamped to the range of quotients of i32.
    Value rest = form.offset.low;
    if (form.row)
      rest = wide.add(rest, values.rowTerm(form.row).low);
    Value limit = wide.constant(int64_t(1) << 31);
    rest = wide.max(wide.min(rest, wide.add(limit, 1)), wide.negate(wide.add(limit, 1)));
    Value scaled = wide.multiply(rest, divisor);
    form.column = form.quotientSign * x.column;
    form.row = form.quotientSign * x.row;
    if (form.quotientSign > 0) // ⌊x/C⌋ + r <= 0  ⇔  x + C·r - C + 1 <= 0
      form.offset.low = wide.add(wide.subtract(wide.add(x.offset.low, scaled), divisor), 1);
    else // r <= ⌊x/C⌋  ⇔  C·r - x <= 0
      form.offset.low = wide.subtract(scaled, x.offset.high);
    form.quotient = {};
  }
  Value offset = form.offset.low;
  int64_t row = form.row, column = form.column;
  auto upper = [&](Value bound) { return wide.select(form.fits, bound, wide.constant(farAway)); };
  auto lower = [&](Value bound) { return wide.select(form.fits, bound, wide.constant(-farAway)); };
  Region region;
  if (row == 0 && column == 0) {
    region.condition = wide.lessEqual(offset, wide.constant(0));
    if (form.fits)
      region.condition = wide.either(region.condition, wide.inverse(form.fits));
  } else if (column == 0 && row > 0) { // x <= ⌊-u / a⌋
    region.row.high = upper(divideDown(wide.negate(offset), row));
  } else if (column == 0) {
    region.row.low = lower(divideUp(offset, -row));
  } else if (row == 1 && column == -1) { // x - y <= -u
    region.distance.high = upper(wide.negate(offset));
  } else if (row == -1 && column == 1) {
    region.distance.low = lower(offset);
  } else {
    Value least = row ? wide.add(offset, values.rowTerm(row).low) : offset;
    if (column > 0)
      region.column.high = upper(divideDown(wide.negate(least), column));
    else
      region.column.low = lower(divideUp(least, -column));
  }
  return {region};
}

/// The regions of left + plus <= right.
std::optional<Union> Cover::atMost(Value left, Value right, int64_t plus) {
  std::tuple comparison(left, right, plus);
  if (auto found = knownAtMost.find(comparison); found != knownAtMost.end())
    return found->second;
  std::optional<Union> result = findAtMost(left, right, plus);
  knownAtMost[comparison] = result;
  return result;
}

std::optional<Union> Cover::findAtMost(Value left, Value right, int64_t plus) {
  for (bool isLeft : {true, false}) {
    Value side = isLeft ? left : right;
    auto select = side.getDefiningOp<arith::SelectOp>();
    if (!select || !values.dependsOnColumn(side))
      continue;
    auto with = [&](Value value) {
      return isLeft ? atMost(value, right, plus) : atMost(left, value, plus);
    };
    if (std::optional<MinMax> extreme = matchMinMax(side)) {
      std::optional<Union> a = with(extreme->a), b = with(extreme->b);
      return extreme->isMin == isLeft ? either(a, b) : both(a, b);
    }
    return either(both(of(select.getCondition(), false), with(select.getTrueValue())),
                  both(of(select.getCondition(), true), with(select.getFalseValue())));
  }
  std::optional<LinearForm> a = values.linear(left), b = values.linear(right);
  std::optional<LinearForm> form;
  if (a && b)
    form = values.difference(*a, *b);
  if (!form)
    return std::nullopt;
  form->offset.low = wide.add(form->offset.low, plus);
  return atMostZero(*form);
}

std::optional<Union> Cover::compare(arith::CmpIOp op, bool negated) {
  using Predicate = arith::CmpIPredicate;
  Predicate predicate = negated ? arith::invertPredicate(op.getPredicate()) : op.getPredicate();
  Value left = op.getLhs(), right = op.getRhs();
  if (left.getType().isInteger(1)) {
    auto same = [&](bool leftNegated) {
      bool rightNegated = leftNegated != (predicate == Predicate::ne);
      return both(of(left, leftNegated), of(right, rightNegated));
    };
    return either(same(false), same(true));
  }
  switch (predicate) {
  case Predicate::sle:
    return atMost(left, right, 0);
  case Predicate::slt:
    return atMost(left, right, 1);
  case Predicate::sge:
    return atMost(right, left, 0);
  case Predicate::sgt:
    return atMost(right, left, 1);
  case Predicate::eq:
    return both(atMost(left, right, 0), atMost(right, left, 0));
  case Predicate::ne:
    return either(atMost(left, right, 1), atMost(right, left, 1));
  default: // the language has no unsigned comparison
    return std::nullopt;
  }
}

//===--- conditions ---------------------------------------------------------===//

Union Cover::of(Value condition, bool negated) {
  // Chains of && and || can have thousands of links, so they are visited without recursion.
  DenseMap<Value, Union> &found = known[negated];
  SmallVector<Value> pending = {condition};
  while (!found.contains(condition)) {
    Value next = pending.back();
    if (found.contains(next)) { // both sides of a link may be the same value
      pending.pop_back();
      continue;
    }
    Operation *op = next.getDefiningOp();
    size_t before = pending.size();
    if (op && isa<arith::AndIOp, arith::OrIOp>(op) && !values.isUniform(next))
      llvm::copy_if(op->getOperands(), std::back_inserter(pending),
                    [&](Value operand) { return !found.contains(operand); });
    if (pending.size() > before)
      continue;
    pending.pop_back();
    std::optional<Union> result = find(next, negated);
    Union regions = result ? *result : asRest(next, negated);
    found[next] = std::move(regions);
  }
  return found[condition];
}

std::optional<Union> Cover::find(Value condition, bool negated) {
  if (values.isUniform(condition)) {
    Region region;
    region.condition = values.hoist(condition);
    if (negated)
      region.condition = wide.inverse(region.condition);
    if (matchPattern(region.condition, m_Zero()))
      return Union();
    return Union{region};
  }
  Operation *op = condition.getDefiningOp();
  if (isa<arith::AndIOp, arith::OrIOp>(op)) {
    Value left = op->getOperand(0), right = op->getOperand(1);
    Union a = of(left, negated), b = of(right, negated);
    if (isa<arith::AndIOp>(op) != negated)
      return all(a, left, negated, b, right, negated);
    return either(a, b);
  }
  if (isa<arith::XOrIOp>(op)) {
    Value left = op->getOperand(0), right = op->getOperand(1);
    if (matchPattern(right, m_One()))
      return of(left, !negated);
    return either(both(of(left, false), of(right, !negated)),
                  both(of(left, true), of(right, negated)));
  }
  if (auto select = dyn_cast<arith::SelectOp>(op)) {
    Value test = select.getCondition();
    return either(both(of(test, false), of(select.getTrueValue(), negated)),
                  both(of(test, true), of(select.getFalseValue(), negated)));
  }
  if (auto comparison = dyn_cast<arith::CmpIOp>(op))
    if (std::optional<Union> result = compare(comparison, negated))
      return result;
  if (!values.dependsOnColumn(condition)) {
    BoxTruth truth = values.truth(condition, nullptr);
    Region region;
    region.condition = negated ? truth.mayBeFalse : truth.mayBeTrue;
    return Union{region};
  }
  return std::nullopt;
}

static bool isMinusInfinity(Value score) {
  if (auto negated = score.getDefiningOp<arith::NegFOp>())
    return matchPattern(negated.getOperand(), m_PosInfFloat());
  return matchPattern(score, m_NegInfFloat());
}

Union Cover::ofScore(Value score) {
  if (isMinusInfinity(score))
    return {};
  auto select = score.getDefiningOp<arith::SelectOp>();
  if (!select)
    return everything();
  Union whenTrue = ofScore(select.getTrueValue()), whenFalse = ofScore(select.getFalseValue());
  auto isEverything = [](const Union &regions) {
    return regions.size() == 1 && regions[0].isUnbounded() && !regions[0].condition &&
           regions[0].rest.empty();
  };
  if (isEverything(whenTrue) && isEverything(whenFalse))
    return whenTrue;
  std::optional<Union> result = either(both(of(select.getCondition(), false), whenTrue),
                                       both(of(select.getCondition(), true), whenFalse));
  return result ? *result : everything();
}

} // namespace

//===----------------------------------------------------------------------===//
// MaskRegions
//===----------------------------------------------------------------------===//

struct MaskRegions::Hook {
  Hook(OpBuilder &builder, Location loc, Block &body, const BoxFrame &frame)
      : values(builder, loc, body, frame), cover(values) {}
  BoxValues values;
  Cover cover;
};

struct MaskRegions::Regions {
  Union regions;
};

static BoxFrame frameOf(WideArithmetic &wide, Value rows) {
  OpBuilder &builder = wide.builder;
  auto place = tile::CoordinatesOp::create(builder, wide.loc, rows);
  auto extent = [&](StringRef name) -> Value {
    return tile::ExtentOp::create(builder, wide.loc, builder.getI32Type(), name);
  };
  auto block = cast<tile::BlockType>(rows.getType());
  bool areQueries = block.getAxis() == tile::Axis::Query;
  Value rowCount = extent(areQueries ? "Sq" : "Sk");
  Value columnCount = extent(areQueries ? "Sk" : "Sq");
  Value head = place.getHead(), lastHead;
  if (!areQueries || block.getHeadCount() > 1) {
    Value sharing =
        wide.wide(arith::DivUIOp::create(builder, wide.loc, extent("H"), extent("Hkv")));
    Value first = wide.multiply(wide.wide(place.getKvHead()), sharing);
    lastHead = wide.add(wide.add(first, sharing), -1); // of the key/value head
    if (areQueries)
      lastHead = wide.min(wide.add(wide.wide(head), block.getHeadCount() - 1), lastHead);
    else
      head = wide.narrow(first);
  }
  int64_t count = block.getPositions();
  Value first = wide.wide(place.getFirst());
  Value end = wide.min(wide.add(first, count), wide.wide(rowCount));
  return {.batch = place.getBatch(),
          .head = head,
          .kvHead = place.getKvHead(),
          .lastHead = lastHead,
          .axis = block.getAxis(),
          .firstRow = first,
          .lastRow = wide.add(end, -1),
          .columnCount = wide.wide(columnCount),
          .rows = count};
}

/// The region of all pairs if the block has keys beyond Sk: no mask keeps these keys.
static Region beyondTheKeys(WideArithmetic &wide, const BoxFrame &frame) {
  Region region;
  Value end = wide.add(frame.firstRow, frame.rows);
  region.condition = wide.inverse(wide.equal(wide.add(frame.lastRow, 1), end));
  return region;
}

/// The columns of a region's zone.
static ColumnRange project(WideArithmetic &wide, const BoxFrame &frame, const Region &region) {
  auto least = [&](Value x, Value y) { return x ? wide.min(x, y) : y; };
  auto most = [&](Value x, Value y) { return x ? wide.max(x, y) : y; };
  Value firstRow = most(region.row.low, frame.firstRow),
        lastRow = least(region.row.high, frame.lastRow);
  Value exists = region.condition;
  if (region.row.low || region.row.high)
    exists = wide.both(exists, wide.lessEqual(firstRow, lastRow));
  Bounds distance = region.distance;
  if (distance.low && distance.high)
    exists = wide.both(exists, wide.lessEqual(distance.low, distance.high));
  Value zero = wide.constant(0);
  Value low = most(region.column.low, zero);
  Value high = region.column.high ? wide.add(region.column.high, 1) : frame.columnCount;
  if (distance.high)
    low = wide.max(low, wide.subtract(firstRow, distance.high));
  if (distance.low)
    high = wide.min(high, wide.add(wide.subtract(lastRow, distance.low), 1));
  low = wide.min(low, frame.columnCount);
  high = wide.max(wide.min(high, frame.columnCount), zero);
  return {low, wide.select(exists, high, zero)};
}

MaskRegions::MaskRegions(OpBuilder &builder, tile::MaskOp maskOp, tile::ScoreOp scoreOp, Value rows)
    : kept(new Regions), dropped(new Regions), wide(builder, maskOp.getLoc()) {
  BoxFrame frame = frameOf(wide, rows);
  Block &body = maskOp.getBody().front();
  Value condition = body.getTerminator()->getOperand(0);
  mask = std::make_unique<Hook>(builder, maskOp.getLoc(), body, frame);
  kept->regions = mask->cover.of(condition, /*negated=*/false);
  dropped->regions = mask->cover.of(condition, /*negated=*/true);
  if (frame.axis == tile::Axis::Key)
    dropped->regions.push_back(beyondTheKeys(wide, frame));
  if (scoreOp) {
    Block &scoreBody = scoreOp.getBody().front();
    score = std::make_unique<Hook>(builder, scoreOp.getLoc(), scoreBody, frame);
    Union finite = score->cover.ofScore(scoreBody.getTerminator()->getOperand(0));
    if (std::optional<Union> meet = mask->cover.conjunction(kept->regions, finite))
      kept->regions = *meet;
  }
  for (const Region &region : kept->regions)
    keptRanges.push_back(project(wide, frame, region));
  for (const Region &region : dropped->regions)
    droppedRanges.push_back(project(wide, frame, region));
}

MaskRegions::~MaskRegions() = default;

bool MaskRegions::isClosed() const { return !restHasBounds && kept->regions.size() <= mostRuns; }

ColumnRange MaskRegions::hull() {
  Value zero = wide.constant(0), none = wide.constant(farAway);
  ColumnRange hull{none, zero};
  for (ColumnRange interval : keptRanges) {
    Value isEmpty = wide.lessEqual(interval.high, interval.low);
    hull.low = wide.min(hull.low, wide.select(isEmpty, none, interval.low));
    hull.high = wide.max(hull.high, wide.select(isEmpty, zero, interval.high));
  }
  return {wide.min(hull.low, mask->values.frame.columnCount), hull.high};
}

std::pair<Value, Value> MaskRegions::emitTest(OpBuilder &inner, Value first, Value last,
                                              int64_t count) {
  WideArithmetic at(inner, wide.loc);
  Value low = at.wide(first), high = at.wide(last);
  // One box for each hook, shared by regions without bounds on their columns.
  llvm::MapVector<BoxValues *, std::unique_ptr<ColumnBox>> shared;
  auto meets = [&](const Region &region, ColumnRange columns) -> Value {
    Value from = at.max(low, columns.low), to = at.min(high, at.add(columns.high, -1));
    Value result = at.lessEqual(from, to);
    bool isGuarded = region.column.low || region.column.high;
    llvm::MapVector<BoxValues *, std::unique_ptr<ColumnBox>> own;
    for (const Rest &rest : region.rest) {
      std::unique_ptr<ColumnBox> &box = (isGuarded ? own : shared)[rest.values];
      if (!box && isGuarded) { // if the interval misses the box, one column of it is tested
        Value guarded = at.min(from, high);
        box.reset(new ColumnBox{inner, guarded, at.max(to, guarded), count});
      } else if (!box) {
        box.reset(new ColumnBox{inner, low, high, count});
      }
      BoxTruth truth = rest.values->truth(rest.condition, box.get());
      Value holds = rest.negated ? truth.mayBeFalse : truth.mayBeTrue;
      if (holds && matchPattern(holds, m_One())) // always true: nothing to test
        continue;
      restHasBounds |= bool(holds);
      result = at.both(result, holds);
    }
    return result;
  };
  auto any = [&](ArrayRef<Region> regions, ArrayRef<ColumnRange> intervals) {
    Value result = at.truth(false);
    for (auto [region, columns] : llvm::zip(regions, intervals))
      result = at.either(result, meets(region, columns));
    return result;
  };
  Value mayKeep = any(kept->regions, keptRanges);
  return {mayKeep, any(dropped->regions, droppedRanges)};
}

SmallVector<LostBound> MaskRegions::lostBounds() const {
  SmallVector<LostBound> lost(mask->values.lost.begin(), mask->values.lost.end());
  if (score)
    llvm::append_range(lost, score->values.lost);
  return lost;
}

} // namespace tesela
