//===- LowerMasks.cpp - tile-lower-masks ------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "analysis/RowMap.h"
#include "analysis/SeldomMap.h"
#include "analysis/UsedValues.h"
#include "attn/Attn.h"
#include "tile/EmptyRange.h"
#include "transforms/MaskTranslation.h"
#include "transforms/Passes.h"
#include "transforms/TileEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <functional>

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_TILELOWERMASKS
#include "transforms/Passes.h.inc"

namespace {

/// Lowers one mask, with the loop over blocks in which it stands.
class MaskLowering {
public:
  explicit MaskLowering(tile::MaskOp mask)
      : mask(mask), loc(mask.getLoc()), type(cast<tile::TileType>(mask.getType())),
        heads(mask.getRows().getType().getHeadCount()),
        loop(isa<tile::BlocksOp, scf::ForOp>(mask->getParentOp()) ? mask->getParentOp() : mask),
        hook(mask.getBody().empty() ? nullptr : &mask.getBody().front()),
        rowIndex(mask.rowsAreKeys() ? 4 : 3), columnIndex(mask.rowsAreKeys() ? 3 : 4) {
    // If the loop gives these blocks, nothing about them is known before the loop.
    for (Value block : {mask.getQueries(), mask.getRows()})
      if (loop->isAncestor(block.getParentBlock()->getParentOp()))
        loop = mask;
    tile::ScheduleAttr schedule = mask->getParentOfType<tile::KernelOp>().getScheduleAttr();
    auto blocks = dyn_cast<tile::BlocksOp>(mask->getParentOp());
    isFound = blocks && blocks.getAmong();
    hasRoles = schedule && schedule->consumers > 0;
    isAhead = isFound && hasRoles && schedule->overlap && loop != mask;
  }

  void run() {
    OpBuilder outside(loop);
    query = tile::CoordinatesOp::create(outside, loc, mask.getQueries());
    row = mask.rowsAreKeys() ? tile::CoordinatesOp::create(outside, loc, mask.getKeys()) : query;
    if (hook) {
      hoistUniforms(outside);
      hoistRows(outside);
    }
    OpBuilder builder(mask);
    Value masked = mask.getSource();
    auto emitHere = [&](OpBuilder &inner) {
      if (loop == mask) // before the branch into which `inner` writes
        outside.setInsertionPoint(inner.getInsertionBlock()->getParentOp());
      auto column = tile::CoordinatesOp::create(inner, loc, mask.getColumns());
      Value limit =
          tile::ExtentOp::create(inner, loc, inner.getI32Type(), mask.rowsAreKeys() ? "Sq" : "Sk");
      return emitMasking(inner, outside, column.getFirst(), limit);
    };
    if (isAhead) {
      OpBuilder ahead(placeAhead());
      Value keeps = emitBranch(ahead, mask.getPartial(), truths(), emitHere,
                               [&](OpBuilder &inner) { return emitAllKept(inner); });
      masked = emitBranch(
          builder, mask.getPartial(), type,
          [&](OpBuilder &inner) { return emitChoice(inner, keeps); },
          [&](OpBuilder &) { return mask.getSource(); });
    } else {
      masked = emitBranch(builder, mask.getPartial(), type, emitHere,
                          [&](OpBuilder &) { return mask.getSource(); });
    }
    mask.replaceAllUsesWith(masked);
    mask.erase();
  }

private:
  using Emit = llvm::function_ref<Value(OpBuilder &)>;

  /// A branch that is the same for the whole block.
  Value emitBranch(OpBuilder &builder, Value condition, Type result, Emit one, Emit other) {
    auto branch = scf::IfOp::create(builder, loc, result, condition, /*withElseRegion=*/true);
    OpBuilder then = branch.getThenBodyBuilder(), otherwise = branch.getElseBodyBuilder();
    scf::YieldOp::create(then, loc, one(then));
    scf::YieldOp::create(otherwise, loc, other(otherwise));
    return branch.getResult(0);
  }

  /// Where to compute which elements are kept: directly after the product that gives the scores, so
  /// that the product need not wait. If the mask's operands are not known there, at the mask.
  Operation *placeAhead() {
    for (auto dot : mask->getBlock()->getOps<tile::DotOp>()) {
      bool isKnown = dot->isBeforeInBlock(mask) && llvm::none_of(valuesUsedBy(*mask), [&](Value v) {
                       Operation *op = v.getDefiningOp();
                       return v != mask.getSource() && op && op->getBlock() == dot->getBlock() &&
                              dot->isBeforeInBlock(op);
                     });
      return isKnown ? dot->getNextNode() : mask;
    }
    return mask;
  }

  Value emitAllKept(OpBuilder &builder) {
    return emitterAt(builder).map(
        truths(), {}, [](TileEmitter::Scalars s, ValueRange, Value, Value) {
          return arith::ConstantIntOp::create(s.builder, s.loc, 1, 1).getResult();
        });
  }

  Value emitChoice(OpBuilder &builder, Value keeps) {
    return emitterAt(builder).map(type, {mask.getSource(), keeps},
                                  [](TileEmitter::Scalars s, ValueRange x, Value, Value) {
                                    return s.select(x[1], x[0], s.minusInfinity());
                                  });
  }

  TileEmitter emitterAt(OpBuilder &builder) {
    TileEmitter emit(mask);
    emit.builder = builder;
    return emit;
  }

  /// The type of a tile of i1 that says which elements are kept.
  tile::TileType truths() { return type.withElementType(IntegerType::get(type.getContext(), 1)); }

  //===--- values that do not depend on the column --------------------------===//

  /// Computes values that are the same for all rows and columns before the loop.
  void hoistUniforms(OpBuilder &outside) {
    uniforms.map(hook->getArgument(0), query.getBatch());
    if (heads == 1)
      uniforms.map(hook->getArgument(1), query.getHead());
    uniforms.map(hook->getArgument(2), query.getKvHead());
    auto isUniform = [&](Value value) {
      return value.getParentBlock() != hook || uniforms.contains(value);
    };
    for (Operation &op : hook->without_terminator())
      if (llvm::all_of(valuesUsedBy(op), isUniform))
        outside.clone(op, uniforms);
  }

  /// Computes values that depend only on the row before the loop, as tiles of rows, if they cost
  /// more than a sum or a comparison.
  void hoistRows(OpBuilder &outside) {
    DenseSet<Value> ofRow, costly;
    for (unsigned argument : {1u, rowIndex})
      ofRow.insert(hook->getArgument(argument));
    auto isOfRow = [&](Value value) {
      return value.getParentBlock() != hook || uniforms.contains(value) || ofRow.contains(value);
    };
    for (Operation &op : hook->without_terminator()) {
      SmallVector<Value> used = valuesUsedBy(op);
      if (op.getNumResults() != 1 || uniforms.contains(op.getResult(0)) ||
          !llvm::all_of(used, isOfRow))
        continue;
      ofRow.insert(op.getResult(0));
      bool isCheap = isa<arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::CmpIOp, arith::AndIOp,
                         arith::OrIOp, arith::XOrIOp, arith::SelectOp>(op);
      if (!isCheap || llvm::any_of(used, [&](Value v) { return costly.contains(v); }))
        costly.insert(op.getResult(0));
    }
    for (Operation &op : hook->without_terminator()) {
      if (op.getNumResults() != 1 || !costly.contains(op.getResult(0)))
        continue;
      bool isLast = llvm::any_of(op.getUsers(), [&](Operation *user) {
        user = hook->findAncestorOpInBlock(*user);
        return user->getNumResults() != 1 || !ofRow.contains(user->getResult(0));
      });
      auto remainder = dyn_cast<attn::FloorModOp>(op);
      if (isLast && remainder && hasQuotient(op))
        remainders.push_back(remainder);
      else if (isLast)
        rows.push_back({op.getResult(0), emitRows(outside, op.getResult(0))});
    }
  }

  /// Whether the remainder `op` divides the row's index by a value that all rows share, and the
  /// quotient is a tile of rows already. Then the remainder costs a product and a difference, and
  /// no tile of its own.
  bool hasQuotient(Operation &op) {
    Value divisor = op.getOperand(1);
    bool isShared = divisor.getParentBlock() != hook || uniforms.contains(divisor);
    return isShared && op.getOperand(0) == hook->getArgument(rowIndex) &&
           quotientOf(op) != rows.end();
  }

  SmallVector<std::pair<Value, Value>>::iterator quotientOf(Operation &op) {
    return llvm::find_if(rows, [&](const std::pair<Value, Value> &row) {
      auto division = row.first.getDefiningOp<attn::FloorDivOp>();
      return division && division->getOperands() == op.getOperands();
    });
  }

  Value emitRows(OpBuilder &outside, Value value) {
    Type i32 = outside.getI32Type();
    bool isFlag = value.getType().isInteger(1);
    SmallVector<Attribute> extents(type.getExtents().take_front(1));
    auto rowsType = tile::TileType::get(type.getContext(), extents, isFlag ? i32 : value.getType(),
                                        Attribute());
    auto map = tile::MapOp::create(outside, loc, rowsType, ValueRange());
    Block &block = map.getBody().emplaceBlock();
    Value row = block.addArgument(i32, loc);
    block.addArgument(i32, loc);
    OpBuilder body = OpBuilder::atBlockEnd(&block);
    IRMapping mapping = uniforms;
    mapRow(body, row, [&](Value index, Value translated) { mapping.map(index, translated); });
    std::function<void(Value)> copy = [&](Value needed) {
      if (needed.getParentBlock() != hook || mapping.contains(needed))
        return;
      llvm::for_each(valuesUsedBy(*needed.getDefiningOp()), copy);
      body.clone(*needed.getDefiningOp(), mapping);
    };
    copy(value);
    Value result = mapping.lookup(value);
    if (isFlag)
      result = arith::ExtUIOp::create(body, loc, i32, result);
    tile::YieldOp::create(body, loc, result);
    return map.getResult();
  }

  /// Maps the hook's indices that depend on the row, for row `index`.
  void mapRow(OpBuilder &body, Value index, llvm::function_ref<void(Value, Value)> map) {
    RowPlace place = emitRowPlace(body, loc, index, heads);
    if (place.head)
      map(hook->getArgument(1), arith::AddIOp::create(body, loc, query.getHead(), place.head));
    map(hook->getArgument(rowIndex),
        arith::AddIOp::create(body, loc, row.getFirst(), place.position));
  }

  //===--- the map ----------------------------------------------------------===//

  Value emitMasking(OpBuilder &inner, OpBuilder &outside, Value firstColumn, Value limit) {
    MaskTraits traits, periodic;
    SmallVector<MaskTranslation::PeriodicDivisor> divisors;
    bool mayWrap = false;
    if (hook) {
      MaskTranslation scan(hook, inner, inner, Value(), columns(), traits);
      prepare(scan, firstColumn);
      traits.large = scan.divisors();
      divisors = scan.periodicDivisors();
      mayWrap = scan.mayWrap();
    }
    Value isLarge, isCommon;                                               // divisors; all else
    auto require = [&](OpBuilder &builder, Value &all, Value a, Value b) { // a >= b
      Value one = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sge, a, b);
      all = all ? arith::AndIOp::create(builder, loc, all, one).getResult() : one;
    };
    for (Value divisor : traits.large) {
      require(outside, isLarge, divisor, arith::ConstantIntOp::create(outside, loc, columns(), 32));
      if (isFound)
        traits.reciprocals[divisor] = emitReciprocal(outside, divisor);
    }
    // If the mask compares values that are read, the comparison with the limit would be another
    // instruction for each element.
    bool isInside = readsByColumn();
    if (!isLarge && !isInside && !mayWrap)
      return emitMap(inner, firstColumn, limit, MaskTraits());
    // Several versions are written. All but the last may assume that numbers are small.
    if (isFound || mayWrap)
      requireSmall(outside, traits,
                   [&](OpBuilder &builder, Value a, Value b) { require(builder, isCommon, a, b); });
    if (isInside)
      require(inner, isCommon, arith::SubIOp::create(inner, loc, limit, firstColumn),
              arith::ConstantIntOp::create(inner, loc, columns(), 32));
    if (!isLarge && !isCommon) // all conditions are constants: no test at run time
      return emitMap(inner, firstColumn, limit, MaskTraits());
    Value inside = isInside ? Value() : limit;
    auto both = [&](OpBuilder &builder, Value a) {
      return bothOf(isInside ? builder : outside, a, isCommon);
    };
    auto emitSide = [&](const MaskTraits &known) {
      return [&, known](OpBuilder &builder) -> Value {
        return emitMap(builder, firstColumn, inside, known);
      };
    };
    auto emitGeneral = [&](OpBuilder &builder) -> Value {
      tile::MapOp general = emitMap(builder, firstColumn, limit, MaskTraits());
      setSeldom(general);
      return general;
    };
    auto emitOthers = [&](OpBuilder &builder) -> Value {
      Value isPeriodic = emitPeriods(outside, divisors, traits, periodic);
      if (!isPeriodic)
        return emitGeneral(builder);
      return emitSides(builder, both(builder, isPeriodic), emitSide(periodic), emitGeneral);
    };
    return emitSides(inner, both(inner, isLarge), emitSide(traits), emitOthers);
  }

  /// a && b. One of them may be null.
  Value bothOf(OpBuilder &builder, Value a, Value b) {
    return !a ? b : !b ? a : arith::AndIOp::create(builder, loc, a, b).getResult();
  }

  Value emitSides(OpBuilder &builder, Value condition, Emit one, Emit other) {
    return emitBranch(builder, condition, isAhead ? truths() : type, one, other);
  }

  /// The narrowest tile for which three versions are written, if the schedule has roles. Narrower
  /// blocks have the widest output beside them and no registers left for a third version
  /// (AssemblyTest). Their products take long enough to hide divisions.
  static constexpr int64_t narrowestOfThreeSides = 64;

  /// A condition for a version that uses periods: the divisors of remainders are less than the
  /// number of columns, and divisors that occur only in quotients are not; if there are only
  /// quotients, all divisors are. Writes what then holds to `periodic`. Returns null if there are
  /// no such divisors.
  Value emitPeriods(OpBuilder &outside, ArrayRef<MaskTranslation::PeriodicDivisor> divisors,
                    const MaskTraits &traits, MaskTraits &periodic) {
    int64_t largest = MaskTraits::largestDivisor(columns());
    if (largest < 1 || (hasRoles && columns() < narrowestOfThreeSides))
      return Value();
    auto constant = [&](int64_t value) -> Value {
      return arith::ConstantIntOp::create(outside, loc, value, 32);
    };
    bool hasRemainders = llvm::any_of(
        divisors, [](const MaskTranslation::PeriodicDivisor &each) { return each.ofRemainder; });
    Value result;
    for (auto [divisor, ofRemainder] : divisors) {
      if (hasRemainders && !ofRemainder)
        continue;
      periodic.periods[divisor] = MaskTraits::periodOf(
          outside, loc, divisor, traits.reciprocals.lookup(divisor), columns());
      Value less = arith::SubIOp::create(outside, loc, divisor, constant(1));
      result = bothOf(
          outside, result,
          arith::CmpIOp::create(outside, loc, arith::CmpIPredicate::ult, less, constant(largest)));
    }
    if (!result)
      return Value();
    periodic.small = traits.small;
    periodic.reciprocals = traits.reciprocals;
    for (Value divisor : traits.large) {
      if (periodic.periods.contains(divisor))
        continue;
      periodic.large.push_back(divisor);
      result = bothOf(outside, result,
                      arith::CmpIOp::create(outside, loc, arith::CmpIPredicate::sge, divisor,
                                            constant(columns())));
    }
    return result;
  }

  /// ⌊(2^32 - 1) / divisor⌋; unspecified if the divisor is 0, in which case it is not used.
  Value emitReciprocal(OpBuilder &outside, Value divisor) {
    Value one = arith::ConstantIntOp::create(outside, loc, 1, 32),
          most = arith::ConstantIntOp::create(outside, loc, -1, 32);
    return arith::DivUIOp::create(outside, loc, most,
                                  arith::MaxUIOp::create(outside, loc, divisor, one));
  }

  using Require = llvm::function_ref<void(OpBuilder &, Value, Value)>;

  /// Requires that extents, divisors and all other uniform operands of sums and comparisons are
  /// small. Requires nothing if the mask adds only indices.
  void requireSmall(OpBuilder &outside, MaskTraits &traits, Require require) {
    auto isUniform = [&](Value value) {
      return value.getParentBlock() != hook || uniforms.contains(value);
    };
    auto isSum = [](Operation *op) {
      return isa<arith::AddIOp, arith::SubIOp, arith::SelectOp>(op) &&
             op->getResult(0).getType().isInteger(32);
    };
    auto isOrdered = [](arith::CmpIPredicate predicate) {
      return predicate != arith::CmpIPredicate::eq && predicate != arith::CmpIPredicate::ne;
    };
    llvm::SetVector<Value> found;
    for (Operation &op : hook->without_terminator()) {
      auto compare = dyn_cast<arith::CmpIOp>(op);
      if (!isSum(&op) && !(compare && isOrdered(compare.getPredicate())))
        continue;
      for (Value operand : op.getOperands()) {
        Operation *source = operand.getDefiningOp();
        bool isKnown = source && (source->hasTrait<OpTrait::ConstantLike>() || isSum(source));
        if (operand.getType().isInteger(32) && isUniform(operand) && !isKnown)
          found.insert(operand);
      }
    }
    if (found.empty())
      return;
    auto constant = [&](int64_t value) -> Value {
      return arith::ConstantIntOp::create(outside, loc, value, 32);
    };
    for (Value value : found) {
      Value translated = uniforms.lookupOrDefault(value);
      require(outside, translated, constant(-MaskTraits::smallEnd));
      require(outside, constant(MaskTraits::smallEnd - 1), translated);
      traits.small.insert(value);
    }
    for (Value divisor : traits.large)
      require(outside, constant(MaskTraits::smallEnd - 1), divisor);
    for (const char *name : {"Sq", "Sk"})
      require(outside, constant(MaskTraits::smallEnd),
              tile::ExtentOp::create(outside, loc, outside.getI32Type(), name));
  }

  bool readsByColumn() {
    if (!hook)
      return false;
    DenseSet<Value> byColumn;
    byColumn.insert(hook->getArgument(columnIndex));
    for (Operation &op : hook->without_terminator())
      if (llvm::any_of(valuesUsedBy(op), [&](Value value) { return byColumn.contains(value); })) {
        if (isa<tile::ReadOp>(op))
          return true;
        byColumn.insert_range(op.getResults());
      }
    return false;
  }

  int64_t columns() { return type.getExtent(1); }

  /// Tells `translation` which values are linear.
  void prepare(MaskTranslation &translation, Value firstColumn) {
    for (auto [value, translated] : uniforms.getValueMap())
      translation.setOfRow(value, translated);
    // The map has no rows yet, so any value stands for a value that is constant along a row.
    for (unsigned argument : {1u, rowIndex})
      if (!uniforms.contains(hook->getArgument(argument)))
        translation.setByRow(hook->getArgument(argument), row.getFirst());
    for (auto [value, tile] : rows)
      translation.setByRow(value, tile);
    for (attn::FloorModOp remainder : remainders)
      translation.setByRow(remainder, row.getFirst());
    translation.setRowIndex(hook->getArgument(rowIndex));
    translation.setColumnIndex(hook->getArgument(columnIndex), firstColumn);
  }

  /// `limit` is null if all columns of the tile are less than it.
  tile::MapOp emitMap(OpBuilder &builder, Value firstColumn, Value limit,
                      const MaskTraits &traits) {
    SmallVector<Value> sources;
    if (!isAhead)
      sources.push_back(mask.getSource());
    unsigned firstOfRows = sources.size();
    for (auto [value, tile] : rows)
      sources.push_back(tile);
    auto map = tile::MapOp::create(builder, loc, isAhead ? truths() : type, sources);
    OpBuilder before(map);
    Block &block = map.getBody().emplaceBlock();
    for (Value source : sources)
      block.addArgument(cast<tile::TileType>(source.getType()).getElementType(), loc);
    Value row = block.addArgument(builder.getI32Type(), loc);
    Value column = block.addArgument(builder.getI32Type(), loc);
    OpBuilder body = OpBuilder::atBlockEnd(&block);
    MaskTranslation translation(hook, before, body, column, columns(), traits);
    if (hook) {
      prepare(translation, firstColumn);
      mapRow(body, row,
             [&](Value index, Value translated) { translation.setOfRow(index, translated); });
      for (auto [index, hoisted] : llvm::enumerate(rows))
        translation.setOfRow(hoisted.first,
                             flagOf(body, hoisted.first, block.getArgument(firstOfRows + index)));
      for (attn::FloorModOp remainder : remainders)
        translation.setOfRow(remainder, emitRemainder(body, remainder, translation));
    } else {
      translation.setColumnIndex(Value(), firstColumn);
    }
    Value result = translation.condition(limit);
    if (!isAhead) {
      TileEmitter::Scalars scalars{body, loc};
      result = scalars.select(result, block.getArgument(0), scalars.minusInfinity());
    }
    tile::YieldOp::create(body, loc, result);
    return map;
  }

  /// x - quotient · C, or 0 if C is 0.
  Value emitRemainder(OpBuilder &body, attn::FloorModOp remainder, MaskTranslation &translation) {
    Value quotient = translation.ofRowOf(quotientOf(*remainder)->first);
    Value dividend = translation.ofRowOf(remainder.getLhs());
    Value divisor = uniforms.lookupOrDefault(remainder.getRhs());
    Value zero = arith::ConstantIntOp::create(body, loc, 0, 32);
    Value product = arith::MulIOp::create(body, loc, quotient, divisor);
    Value rest = arith::SubIOp::create(body, loc, dividend, product);
    Value isZero = arith::CmpIOp::create(body, loc, arith::CmpIPredicate::eq, divisor, zero);
    return arith::SelectOp::create(body, loc, isZero, zero, rest);
  }

  /// The value of a hoisted row. An i1 is stored as an i32 in a tile of rows.
  Value flagOf(OpBuilder &body, Value value, Value held) {
    if (!value.getType().isInteger(1))
      return held;
    Value zero = arith::ConstantIntOp::create(body, loc, 0, 32);
    return arith::CmpIOp::create(body, loc, arith::CmpIPredicate::ne, held, zero);
  }

  tile::MaskOp mask;
  Location loc;
  tile::TileType type;
  int64_t heads;
  bool isFound;    ///< blocks are tested one by one, and many may be partial: a shorter mask is
                   ///< worth additional registers before the loop
  bool hasRoles;   ///< the schedule has roles
  bool isAhead;    ///< which elements are kept is a tile of its own, computed beside the product
  Operation *loop; ///< the loop around the mask, or the mask itself
  Block *hook;     ///< null if the mask is true
  unsigned rowIndex, columnIndex; ///< arguments of the hook: the index of rows, and of columns
  tile::CoordinatesOp query, row; ///< coordinates of the block of queries, and of the rows
  IRMapping uniforms;             ///< values of the hook that are computed before the loop
  SmallVector<std::pair<Value, Value>> rows; ///< values of the hook that are tiles of rows
  SmallVector<attn::FloorModOp> remainders;  ///< of the row; their quotients are in `rows`
};

struct TileLowerMasks : impl::TileLowerMasksBase<TileLowerMasks> {
  void runOnOperation() override {
    SmallVector<tile::MaskOp> masks;
    getOperation().walk([&](tile::MaskOp mask) { masks.push_back(mask); });
    for (tile::MaskOp mask : masks) {
      if (auto loop = dyn_cast<tile::BlocksOp>(mask->getParentOp()))
        loop->setAttr(tile::dropsEmptyAttr, UnitAttr::get(&getContext()));
      MaskLowering(mask).run();
    }
  }
};

} // namespace
} // namespace tesela
