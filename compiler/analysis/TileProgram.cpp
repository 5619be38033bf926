//===- TileProgram.cpp - The blocks that a kernel visits --------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "analysis/TileProgram.h"

#include "analysis/LostProofs.h"
#include "attn/Arithmetic.h"
#include "attn/Attn.h"
#include "frontend/ExactMath.h"
#include "frontend/emit/Emit.h"
#include "transforms/CaptureSummary.h"
#include "transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/TypeSwitch.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

using namespace mlir;

namespace tesela {

/// The smallest kernel that masks.
static std::string kernelText(const TileBlocks &blocks) {
  std::string queryType =
      fmt::format("!tile.block<query, {}, {}>", blocks.queries * blocks.heads, blocks.heads);
  std::string keyType = fmt::format("!tile.block<key, {}>", blocks.keys);
  std::string tileType =
      fmt::format("!tile.tile<[{}, {}], f32>", blocks.queries * blocks.heads, blocks.keys);
  bool ofQueries = blocks.rows == tile::Axis::Query;
  const char *rows = ofQueries ? "%queries" : "%keys", *columns = ofQueries ? "%keys" : "%queries";
  const std::string &rowType = ofQueries ? queryType : keyType,
                    &columnType = ofQueries ? keyType : queryType;
  return fmt::format(R"(
tile.kernel @k(%scale: f32) {{
  {0} = tile.work : {2}
  %x = tile.constant 0.0 : {4}
  tile.blocks {1}, %partial of {0} : {2} -> {3} {{
    %s = tile.score %x scaled by %scale at %queries, %keys : {4}, {5}, {6}
    %t = tile.mask %s if %partial at %queries, %keys : {4}, {5}, {6}
  }}
}})",
                     rows, columns, rowType, columnType, tileType, queryType, keyType);
}

Result<std::unique_ptr<TileProgram>>
TileProgram::create(const Variant &variant, MLIRContext &context, const TileBlocks &blocks) {
  std::unique_ptr<TileProgram> program(new TileProgram(variant, blocks));
  if (Status status = program->lower(context); !status)
    return status.error();
  return program;
}

Status TileProgram::lower(MLIRContext &context) {
  std::string messages;
  ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    messages += diagnostic.str() + "; ";
    return success();
  });
  auto failure = [&] {
    return Error(Code::defect, variant.file + ": its tiles cannot be found: " + messages +
                                   "this is a defect of Tesela, please report it with the variant");
  };
  auto runPasses = [&](llvm::function_ref<void(OpPassManager &)> add) {
    PassManager passes(&context);
    add(passes);
    return succeeded(passes.run(*module));
  };

  module = emitVariant(variant, context);
  context.loadDialect<tile::TileDialect, math::MathDialect, scf::SCFDialect>();
  OwningOpRef<ModuleOp> templates = parseSourceString<ModuleOp>(kernelText(blocks), &context);
  if (!templates)
    return failure();
  kernel = *templates->getOps<tile::KernelOp>().begin();
  kernel->remove();
  module->push_back(kernel);

  if (!runPasses([](OpPassManager &passes) { passes.addPass(createTileInlineVariant()); }))
    return failure();
  lostProofs_ = findLostProofs(variant, *module);
  if (!runPasses([](OpPassManager &passes) {
        passes.nest<tile::KernelOp>().addPass(createTileKeyRanges());
      }))
    return failure();
  auto over = *kernel.getBodyBlock().getOps<tile::BlocksOp>().begin();
  if (over.getAmong()) {
    form_ = TileForm::classified;
    finding = over.getAmong().getDefiningOp<tile::FindBlocksOp>();
  } else if (!over.getRuns().empty() && !(variant.maskIsTrue() && !variant.scoreMayMask())) {
    form_ = TileForm::keyRanges;
    runs_ = int(over.getRuns().size() / 2);
    drops_ = int(over.getDrops().size() / 2);
  }

  if (!runPasses([](OpPassManager &passes) {
        passes.nest<tile::KernelOp>().addPass(createTileLowerBlocks());
      }))
    return failure();
  kernel.walk([&](tile::MaskOp op) { mask = op; });
  loop = mask->getParentOfType<scf::ForOp>();
  bool ofQueries = blocks.rows == tile::Axis::Query;
  columns = (ofQueries ? mask.getKeys() : mask.getRows()).getDefiningOp<tile::BlockAtOp>();
  return Status::success();
}

//===----------------------------------------------------------------------===//
// One block
//===----------------------------------------------------------------------===//

Result<int64_t> TileProgram::begin(const Bindings &launch, const Point &where, int32_t first) {
  bindings = &launch;
  place = where;
  firstRow = first;
  unknown.clear();
  values.clear();
  captures.clear();
  for (size_t number = 0; number < variant.parameters.size(); ++number) {
    const Binding &binding = launch.parameters[number];
    BlockArgument argument = kernel.getArgument("$" + variant.parameters[number].name);
    if (!argument)
      continue; // neither the score nor the mask uses it
    if (isa<tile::ViewType>(argument.getType()))
      captures[argument] = &binding.capture;
    else if (argument.getType().isF32())
      values[argument].number = float(binding.scalar);
    else
      values[argument].integer = int64_t(binding.scalar);
  }
  run(kernel.getBodyBlock());
  if (Status status = finished(); !status)
    return status.error();
  return std::max<int64_t>(integer(loop.getUpperBound()) - integer(loop.getLowerBound()), 0);
}

Result<VisitedBlock> TileProgram::block(int64_t number) {
  values[loop.getInductionVar()].integer = integer(loop.getLowerBound()) + number;
  run(*loop.getBody());
  if (Status status = finished(); !status)
    return status.error();
  return VisitedBlock{integer(columns.getIndex()), integer(mask.getPartial()) != 0};
}

Result<std::optional<VisitedBlock>> TileProgram::find(int64_t index) {
  if (finding) {
    std::optional<VisitedBlock> visited = classify(index);
    if (Status status = finished(); !status)
      return status.error();
    return visited;
  }
  int64_t low = 0, high = integer(loop.getUpperBound()) - integer(loop.getLowerBound());
  while (low < high) { // they ascend
    int64_t middle = low + (high - low) / 2;
    Result<VisitedBlock> visited = block(middle);
    if (!visited)
      return visited.error();
    if (visited->index == index)
      return std::optional(*visited);
    (visited->index < index ? low : high) = visited->index < index ? middle + 1 : middle;
  }
  return std::optional<VisitedBlock>();
}

Result<std::vector<VisitedBlock>> TileProgram::evaluate(const Bindings &launch, const Point &where,
                                                        int32_t first) {
  Result<int64_t> count = begin(launch, where, first);
  if (!count)
    return count.error();
  if (finding) {
    if (endCandidate - firstCandidate > mostCounted)
      listFound();
    if (Status status = finished(); !status)
      return status.error();
    return found;
  }
  std::vector<VisitedBlock> visited;
  for (int64_t number = 0; number < *count; ++number) {
    Result<VisitedBlock> next = block(number);
    if (!next)
      return next.error();
    visited.push_back(*next);
  }
  return visited;
}

Status TileProgram::finished() const {
  if (unknown.empty())
    return Status::success();
  return Error(Code::defect, variant.file + ": no tile can be told: '" + unknown +
                                 "' is not evaluated; this is a defect of Tesela, please report it "
                                 "with the variant");
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

void TileProgram::run(Block &block) {
  for (Operation &op : block.without_terminator())
    execute(op);
}

void TileProgram::assign(ValueRange to, ValueRange from) {
  // At once: some of `from` may be among `to`.
  SmallVector<Scalar> scalars;
  for (Value value : from)
    scalars.push_back(values.lookup(value));
  for (auto [value, scalar] : llvm::zip(to, scalars))
    values[value] = scalar;
}

void TileProgram::execute(Operation &op) {
  // Tiles and blocks have no value here; block() runs the loop over blocks.
  if (isa<tile::WorkOp, tile::ConstantOp, tile::BlockAtOp, tile::ScoreOp, tile::MaskOp>(op) ||
      &op == loop.getOperation())
    return;
  if (auto coordinates = dyn_cast<tile::CoordinatesOp>(op)) {
    values[coordinates.getBatch()].integer = place.b;
    values[coordinates.getHead()].integer = blocks.rows == tile::Axis::Query ? place.h : place.hkv;
    values[coordinates.getKvHead()].integer = place.hkv;
    values[coordinates.getFirst()].integer = firstRow;
    return;
  }
  if (auto find = dyn_cast<tile::FindBlocksOp>(op))
    return executeFind(find);
  if (auto bounds = dyn_cast<tile::BoundsOp>(op))
    return executeBounds(bounds);
  if (auto visited = dyn_cast<tile::FoundBlockOp>(op)) {
    const VisitedBlock &block = found[integer(visited.getNumber())];
    values[visited.getIndex()].integer = block.index;
    values[visited.getPartial()].integer = block.partial;
    return;
  }
  if (auto inner = dyn_cast<scf::ForOp>(op))
    return executeFor(inner);
  if (auto inner = dyn_cast<scf::WhileOp>(op))
    return executeWhile(inner);
  if (auto reduce = dyn_cast<attn::ReduceOp>(op))
    return executeReduce(reduce);
  if (auto branch = dyn_cast<scf::IfOp>(op)) {
    Region &region =
        integer(branch.getCondition()) ? branch.getThenRegion() : branch.getElseRegion();
    if (region.empty())
      return;
    run(region.front());
    return assign(op.getResults(), region.front().getTerminator()->getOperands());
  }
  Scalar value = valueOf(op);
  if (op.getNumResults() != 1)
    return;
  // Each operation wraps here.
  if (auto type = dyn_cast<IntegerType>(op.getResult(0).getType()))
    value.integer = type.getWidth() == 1    ? value.integer & 1
                    : type.getWidth() == 32 ? int64_t(int32_t(value.integer))
                                            : value.integer;
  values[op.getResult(0)] = value;
}

void TileProgram::executeFor(scf::ForOp inner) {
  int64_t end = integer(inner.getUpperBound()), step = integer(inner.getStep());
  assign(inner.getRegionIterArgs(), inner.getInitArgs());
  for (int64_t i = integer(inner.getLowerBound()); i < end && unknown.empty(); i += step) {
    values[inner.getInductionVar()].integer = i;
    run(*inner.getBody());
    assign(inner.getRegionIterArgs(), inner.getBody()->getTerminator()->getOperands());
  }
  assign(inner.getResults(), inner.getRegionIterArgs());
}

void TileProgram::executeReduce(attn::ReduceOp op) {
  Block &body = op.getBody().front();
  Scalar result{.integer = op.getKind() == attn::Reduction::All};
  if (op.getType().isF32())
    result.number = 0;
  for (int64_t i = 0; i < integer(op.getBound()) && unknown.empty(); ++i) {
    values[body.getArgument(0)].integer = i;
    run(body);
    Scalar each = values.lookup(body.getTerminator()->getOperand(0));
    if (op.getType().isF32())
      result.number += each.number;
    else if (op.getKind() == attn::Reduction::Any)
      result.integer |= each.integer;
    else if (op.getKind() == attn::Reduction::All)
      result.integer &= each.integer;
    else
      result.integer = attn::wrappingAdd(int32_t(result.integer), int32_t(each.integer));
  }
  values[op.getResult()] = result;
}

void TileProgram::executeWhile(scf::WhileOp inner) {
  assign(inner.getBeforeArguments(), inner.getInits());
  while (true) {
    run(*inner.getBeforeBody());
    scf::ConditionOp condition = inner.getConditionOp();
    if (!integer(condition.getCondition()) || !unknown.empty())
      return assign(inner.getResults(), condition.getArgs());
    assign(inner.getAfterArguments(), condition.getArgs());
    run(*inner.getAfterBody());
    assign(inner.getBeforeArguments(), inner.getYieldOp().getOperands());
  }
}

//===----------------------------------------------------------------------===//
// Blocks that are classified
//===----------------------------------------------------------------------===//

std::pair<bool, bool> TileProgram::test(Region &region, int64_t index, int64_t count) {
  int64_t rows = finding.getFound().getType().getRows();
  bool areKeys = blocks.rows == tile::Axis::Query;
  int64_t columns = areKeys ? bindings->extents.Sk : bindings->extents.Sq;
  int64_t first = index * rows, end = std::min((index + count) * rows, columns);
  values[region.getArgument(0)].integer = first;
  values[region.getArgument(1)].integer = end - 1;
  run(region.front());
  Operation *yield = region.front().getTerminator();
  bool isBroken = areKeys && (index + count) * rows > end;
  return {integer(yield->getOperand(0)) != 0, integer(yield->getOperand(1)) != 0 || isBroken};
}

std::optional<VisitedBlock> TileProgram::classify(int64_t index) {
  if (index < firstCandidate || index >= endCandidate)
    return std::nullopt;
  constexpr int64_t atOnce = tile::FindBlocksOp::blocksAtOnce;
  int64_t group = firstCandidate + (index - firstCandidate) / atOnce * atOnce;
  if (!test(finding.getMany(), group, atOnce).first)
    return std::nullopt;
  auto [keeps, drops] = test(finding.getOne(), index, 1);
  return keeps ? std::optional(VisitedBlock{index, drops}) : std::nullopt;
}

void TileProgram::listFound() {
  constexpr int64_t atOnce = tile::FindBlocksOp::blocksAtOnce;
  for (int64_t group = firstCandidate; group < endCandidate && unknown.empty(); group += atOnce) {
    if (!test(finding.getMany(), group, atOnce).first)
      continue;
    for (int64_t index = group; index < std::min(group + atOnce, endCandidate); ++index)
      if (auto [keeps, drops] = test(finding.getOne(), index, 1); keeps)
        found.push_back({index, drops});
  }
}

void TileProgram::executeFind(tile::FindBlocksOp op) {
  int64_t rows = op.getFound().getType().getRows();
  int64_t low = integer(op.getLow()), high = integer(op.getHigh());
  firstCandidate = low / rows;
  endCandidate = low < high ? (high + rows - 1) / rows : firstCandidate;
  found.clear();
  if (endCandidate - firstCandidate <= mostCounted)
    listFound();
  values[op.getCount()].integer = int64_t(found.size());
}

/// By looking at the whole box: the tightest bounds; none where no summary could tell them.
void TileProgram::executeBounds(tile::BoundsOp op) {
  const CaptureView &view = *captures.lookup(op.getView());
  if (llvm::count_if(op.getWithin(), [](int64_t within) { return within != 1; }) > maxBoxAxes ||
      view.extents.size() > maxSummaryRank) {
    bool isReal = op.getLeast().getType().isF32();
    Scalar least{.integer = std::numeric_limits<int32_t>::min()},
        largest{.integer = std::numeric_limits<int32_t>::max()};
    if (isReal)
      least.number = largest.number = std::numeric_limits<float>::quiet_NaN();
    values[op.getLeast()] = least;
    values[op.getLargest()] = largest;
    return;
  }
  SmallVector<int64_t> low, high;
  bool isEmpty = false;
  for (auto [axis, ends] : llvm::enumerate(llvm::zip(op.getLow(), op.getHigh()))) {
    int64_t last = view.extents[axis] - 1;
    isEmpty |= last < 0;
    if (integer(std::get<0>(ends)) > integer(std::get<1>(ends))) {
      unknown = "tile.bounds of a box that ends before it begins";
      return;
    }
    low.push_back(std::clamp<int64_t>(integer(std::get<0>(ends)), 0, std::max<int64_t>(last, 0)));
    high.push_back(std::clamp<int64_t>(integer(std::get<1>(ends)), 0, std::max<int64_t>(last, 0)));
  }
  Scalar least{.integer = 0}, largest{.integer = 0};
  bool isReal = op.getLeast().getType().isF32(), isFirst = true;
  SmallVector<int64_t> index(low);
  while (!isEmpty) {
    Scalar element = elementAt(op.getView(), index);
    if (isReal && std::isnan(element.number)) {
      least = largest = element;
      break;
    }
    bool isLess = isReal ? element.number < least.number : element.integer < least.integer;
    bool isMore = isReal ? element.number > largest.number : element.integer > largest.integer;
    if (isFirst || isLess)
      least = element;
    if (isFirst || isMore)
      largest = element;
    isFirst = false;
    size_t axis = index.size();
    while (axis > 0 && index[axis - 1] == high[axis - 1]) {
      index[axis - 1] = low[axis - 1];
      --axis;
    }
    if (axis == 0)
      break;
    ++index[axis - 1];
  }
  values[op.getLeast()] = least;
  values[op.getLargest()] = largest;
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

TileProgram::Scalar TileProgram::elementAt(Value argument, ArrayRef<int64_t> index) {
  const CaptureView &view = *captures.lookup(argument);
  Type type = cast<tile::ViewType>(argument.getType()).getElementType();
  int64_t offset = 0;
  for (auto [axis, at] : llvm::enumerate(index)) {
    if (view.extents[axis] == 0)
      return {.integer = 0};
    offset += std::clamp<int64_t>(at, 0, view.extents[axis] - 1) * view.strides[axis];
  }
  Scalar element{.integer = 0};
  if (type.isF32())
    element.number = static_cast<const float *>(view.data)[offset];
  else if (type.isF16())
    element.number = f16ToFloat(static_cast<const uint16_t *>(view.data)[offset]);
  else if (type.isBF16())
    element.number = bf16ToFloat(static_cast<const uint16_t *>(view.data)[offset]);
  else if (type.isInteger(8))
    element.integer = static_cast<const uint8_t *>(view.data)[offset];
  else
    element.integer = static_cast<const int32_t *>(view.data)[offset];
  return element;
}

TileProgram::Scalar TileProgram::read(tile::ReadOp op) {
  SmallVector<int64_t> index;
  for (Value at : op.getIndices())
    index.push_back(integer(at));
  return elementAt(op.getView(), index);
}

/// The value of a comparison, by its name without the letter for "signed" or "ordered". With NaN
/// all are false but "ne", which the language has unordered.
template <typename T> static bool compare(StringRef predicate, T a, T b) {
  return predicate == "eq"   ? a == b
         : predicate == "ne" ? a != b
         : predicate == "lt" ? a < b
         : predicate == "le" ? a <= b
         : predicate == "gt" ? a > b
                             : a >= b;
}

static int64_t extentOf(StringRef name, const Extents &extents) {
  return name == "B"     ? extents.B
         : name == "H"   ? extents.H
         : name == "Hkv" ? extents.Hkv
         : name == "Sq"  ? extents.Sq
                         : extents.Sk;
}

TileProgram::Scalar TileProgram::valueOf(Operation &op) {
  auto at = [&](unsigned index) { return values.lookup(op.getOperand(index)); };
  auto a = [&] { return at(0).integer; };
  auto b = [&] { return at(1).integer; };
  auto x = [&] { return at(0).number; };
  auto y = [&] { return at(1).number; };
  FloatArithmetic exact;
  auto whole = [](int64_t value) { return Scalar{.integer = value}; };
  auto wrapped = [](uint64_t value) { return Scalar{.integer = int64_t(value)}; };
  auto real = [](float value) {
    Scalar scalar{.integer = 0};
    scalar.number = value;
    return scalar;
  };
  return TypeSwitch<Operation *, Scalar>(&op)
      .Case([&](arith::ConstantOp constant) {
        if (auto number = dyn_cast<FloatAttr>(constant.getValue()))
          return real(number.getValue().convertToFloat());
        return whole(cast<IntegerAttr>(constant.getValue()).getValue().getSExtValue());
      })
      .Case([&](tile::ExtentOp extent) {
        return whole(extentOf(extent.getName(), bindings->extents));
      })
      .Case([&](tile::ViewExtentOp extent) {
        return whole(captures.lookup(extent.getView())->extents[extent.getAxis()]);
      })
      .Case([&](tile::ReadOp element) { return read(element); })
      // Integers
      .Case([&](arith::AddIOp) { return wrapped(uint64_t(a()) + uint64_t(b())); })
      .Case([&](arith::SubIOp) { return wrapped(uint64_t(a()) - uint64_t(b())); })
      .Case([&](arith::MulIOp) { return wrapped(uint64_t(a()) * uint64_t(b())); })
      .Case([&](arith::DivSIOp) { return whole(a() / b()); }) // by constants
      .Case([&](arith::DivUIOp) { return whole(uint32_t(a()) / uint32_t(b())); })
      .Case([&](arith::RemUIOp) { return whole(uint32_t(a()) % uint32_t(b())); })
      .Case([&](arith::MinSIOp) { return whole(std::min(a(), b())); })
      .Case([&](arith::MaxSIOp) { return whole(std::max(a(), b())); })
      .Case([&](arith::AndIOp) { return whole(a() & b()); })
      .Case([&](arith::OrIOp) { return whole(a() | b()); })
      .Case([&](arith::XOrIOp) { return whole(a() ^ b()); })
      .Case([&](arith::ShLIOp) { return wrapped(uint64_t(a()) << b()); })
      .Case([&](arith::ShRSIOp) { return whole(a() >> b()); })
      .Case([&](arith::ExtSIOp) { return whole(a()); })
      .Case([&](arith::ExtUIOp) { return whole(a()); }) // of i1 only
      .Case([&](arith::TruncIOp) { return whole(a()); })
      .Case([&](arith::SelectOp) { return a() ? at(1) : at(2); })
      .Case([&](arith::CmpIOp op) {
        StringRef predicate = arith::stringifyCmpIPredicate(op.getPredicate());
        if (predicate.front() == 'u')
          return whole(compare(predicate.drop_front(), uint32_t(a()), uint32_t(b())));
        return whole(compare(predicate.size() == 3 ? predicate.drop_front() : predicate, a(), b()));
      })
      .Case([&](attn::FloorDivOp) { return whole(attn::floorDivide(a(), b())); })
      .Case([&](attn::FloorModOp) { return whole(attn::floorRemainder(a(), b())); })
      // Floats
      .Case([&](arith::CmpFOp op) {
        if (op.getPredicate() == arith::CmpFPredicate::UNO)
          return whole(std::isnan(x()) || std::isnan(y()));
        StringRef predicate = arith::stringifyCmpFPredicate(op.getPredicate());
        return whole(compare(predicate.drop_front(), x(), y()));
      })
      .Case([&](arith::AddFOp) { return real(x() + y()); })
      .Case([&](arith::SubFOp) { return real(x() - y()); })
      .Case([&](arith::MulFOp) { return real(x() * y()); })
      .Case([&](arith::DivFOp) { return real(x() / y()); })
      .Case([&](arith::MinNumFOp) { return real(std::fmin(x(), y())); })
      .Case([&](arith::MaxNumFOp) { return real(std::fmax(x(), y())); })
      .Case([&](arith::NegFOp) { return real(-x()); })
      .Case([&](math::AbsFOp) { return real(std::fabs(x())); })
      .Case([&](math::SqrtOp) { return real(std::sqrt(x())); })
      .Case([&](math::FloorOp) { return real(std::floor(x())); })
      // Scores may have them; masks have been expanded.
      .Case([&](math::ExpOp) { return real(exactExp(exact, x())); })
      .Case([&](math::LogOp) { return real(exactLog(exact, x())); })
      .Case([&](math::TanhOp) { return real(exactTanh(exact, x())); })
      .Case([&](math::SinOp) { return real(exactSin(exact, x())); })
      .Case([&](math::CosOp) { return real(exactCos(exact, x())); })
      .Case([&](arith::SIToFPOp) { return real(float(a())); })
      .Case([&](attn::ToIntOp) { return whole(attn::saturatingInt(x())); })
      .Case([&](arith::BitcastOp op) {
        return op.getType().isF32() ? real(std::bit_cast<float>(int32_t(a())))
                                    : whole(std::bit_cast<int32_t>(x()));
      })
      .Default([&](Operation *other) {
        unknown = other->getName().getStringRef();
        return whole(0);
      });
}

} // namespace tesela
