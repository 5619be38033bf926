//===- TileProgram.cpp - The blocks that a kernel visits --------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "visits/TileProgram.h"

#include "attn/Arithmetic.h"
#include "attn/Attn.h"
#include "frontend/emit/Emit.h"
#include "transforms/CaptureSummary.h"
#include "transforms/Passes.h"
#include "visits/LostProofs.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/CSE.h"
#include "llvm/ADT/TypeSwitch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

using namespace mlir;

namespace tesela {

/// The smallest kernel with a mask.
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

/// The values that depend on the first row of a block.
static llvm::DenseSet<Value> valuesOfRows(tile::KernelOp kernel) {
  llvm::DenseSet<Value> ofRows;
  for (Operation &op : kernel.getBodyBlock()) {
    if (auto coordinates = dyn_cast<tile::CoordinatesOp>(op)) {
      ofRows.insert(coordinates.getFirst());
      continue;
    }
    op.walk([&](Operation *inner) {
      if (llvm::any_of(inner->getOperands(), [&](Value value) { return ofRows.contains(value); }))
        ofRows.insert_range(op.getResults());
    });
  }
  return ofRows;
}

/// The operations of the kernel that are evaluated again for the next block of rows, in order.
static std::vector<Operation *> operationsOfRows(tile::KernelOp kernel) {
  llvm::DenseSet<Value> ofRows = valuesOfRows(kernel);
  std::vector<Operation *> operations;
  for (Operation &op : kernel.getBodyBlock().without_terminator()) {
    // The list of found blocks is not a value, so it is always made again.
    bool isOfRows = isa<tile::CoordinatesOp, tile::FindBlocksOp>(op);
    op.walk([&](Operation *inner) {
      isOfRows |=
          llvm::any_of(inner->getOperands(), [&](Value value) { return ofRows.contains(value); });
    });
    if (isOfRows)
      operations.push_back(&op);
  }
  return operations;
}

Status TileProgram::lower(MLIRContext &context) {
  std::string messages;
  ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    messages += diagnostic.str() + "; ";
    return success();
  });
  auto failure = [&] {
    return Error(Code::defect, variant->file + ": its tiles cannot be found: " + messages +
                                   "this is a defect of Tesela, please report it with the variant");
  };
  auto runPasses = [&](llvm::function_ref<void(OpPassManager &)> add) {
    PassManager passes(&context);
    add(passes);
    return succeeded(passes.run(**module));
  };

  module = std::make_shared<OwningOpRef<ModuleOp>>(emitVariant(*variant, context));
  context.loadDialect<tile::TileDialect, math::MathDialect, scf::SCFDialect>();
  OwningOpRef<ModuleOp> templates = parseSourceString<ModuleOp>(kernelText(blocks), &context);
  if (!templates)
    return failure();
  kernel = *templates->getOps<tile::KernelOp>().begin();
  kernel->remove();
  (*module)->push_back(kernel);

  if (!runPasses([](OpPassManager &passes) { passes.addPass(createTileInlineVariant()); }))
    return failure();
  lostProofs_ = findLostProofs(*variant, **module);
  if (!runPasses([](OpPassManager &passes) {
        passes.nest<tile::KernelOp>().addPass(createTileKeyRanges());
      }))
    return failure();
  auto over = *kernel.getBodyBlock().getOps<tile::BlocksOp>().begin();
  if (over.getAmong()) {
    form_ = TileForm::classified;
    finding = over.getAmong().getDefiningOp<tile::FindBlocksOp>();
    IRRewriter rewriter(&context);
    DominanceInfo dominance(kernel);
    eliminateCommonSubExpressions(rewriter, dominance, finding);
    llvm::DenseSet<Value> ofRows = valuesOfRows(kernel);
    testOfOne = std::make_shared<BoxTest>(finding.getOne(), BoxTest::drops, ofRows);
    testOfMany = std::make_shared<BoxTest>(finding.getMany(), BoxTest::keeps, ofRows);
  } else if (!over.getRuns().empty() && !(variant->maskIsTrue() && !variant->scoreMayMask())) {
    form_ = TileForm::keyRanges;
    runs_ = int(over.getRuns().size() / 2);
    drops_ = int(over.getDrops().size() / 2);
  }
  runEnds = over.getRuns();
  dropEnds = over.getDrops();

  if (!runPasses([](OpPassManager &passes) {
        passes.nest<tile::KernelOp>().addPass(createTileLowerBlocks());
      }))
    return failure();
  kernel.walk([&](tile::MaskOp op) { mask = op; });
  loop = mask->getParentOfType<scf::ForOp>();
  bool ofQueries = blocks.rows == tile::Axis::Query;
  columns = (ofQueries ? mask.getKeys() : mask.getQueries()).getDefiningOp<tile::BlockOp>();
  ofRows = operationsOfRows(kernel);
  return Status::success();
}

//===----------------------------------------------------------------------===//
// One block
//===----------------------------------------------------------------------===//

Result<int64_t> TileProgram::begin(const Bindings &launch, const Point &where, int32_t first) {
  bool isSameHead = isEvaluated && unknown.empty() && bindings == &launch && hasTables() &&
                    place.b == where.b && place.h == where.h && place.hkv == where.hkv;
  bindings = &launch;
  place = where;
  firstRow = first;
  unknown.clear();
  if (isSameHead) {
    for (Operation *op : ofRows)
      execute(*op);
  } else {
    beginHead();
    run(kernel.getBodyBlock());
    isEvaluated = true;
  }
  if (Status status = finished(); !status)
    return status.error();
  return std::max<int64_t>(integer(loop.getUpperBound()) - integer(loop.getLowerBound()), 0);
}

/// Forgets all values, and sets those of the parameters.
void TileProgram::beginHead() {
  testedBlocks.reset();
  testedGroups.reset();
  values.clear();
  captures.clear();
  for (size_t number = 0; number < variant->parameters.size(); ++number) {
    const Binding &binding = bindings->parameters[number];
    BlockArgument argument = kernel.getArgument("$" + variant->parameters[number].name);
    if (!argument)
      continue; // neither the score nor the mask uses it
    if (isa<tile::ViewType>(argument.getType()))
      captures[argument] = {&binding.capture,
                            hasTables() ? tables->ofParameters[number].get() : nullptr};
    else if (argument.getType().isF32())
      values[argument].number = float(binding.scalar);
    else
      values[argument].integer = int64_t(binding.scalar);
  }
}

void TileProgram::makeTables(const Bindings &launch) {
  auto made = std::make_shared<Tables>();
  made->bindings = &launch;
  for (auto [parameter, binding] : llvm::zip(variant->parameters, launch.parameters))
    made->ofParameters.push_back(
        parameter.isCapture ? std::make_unique<CaptureBounds>(binding.capture, parameter.type)
                            : nullptr);
  tables = std::move(made);
  isEvaluated = false; // the bindings may have changed
}

Result<VisitedBlock> TileProgram::block(int64_t number) {
  values[loop.getInductionVar()].integer = integer(loop.getLowerBound()) + number;
  run(*loop.getBody());
  if (Status status = finished(); !status)
    return status.error();
  int64_t index = integer(columns.getFirst()) / columns.getBlock().getType().getPositions();
  return VisitedBlock{index, integer(mask.getPartial()) != 0};
}

Status TileProgram::finished() const {
  if (unknown.empty())
    return Status::success();
  return Error(Code::defect, variant->file + ": no tile can be told: '" + unknown +
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
  // Read all before writing any: a value may be in both lists.
  SmallVector<Scalar> scalars;
  for (Value value : from)
    scalars.push_back(values.lookup(value));
  for (auto [value, scalar] : llvm::zip(to, scalars))
    values[value] = scalar;
}

void TileProgram::execute(Operation &op) {
  // Tiles and blocks have no value here. block() runs the loop over blocks.
  if (isa<tile::WorkOp, tile::ConstantOp, tile::BlockOp, tile::ScoreOp, tile::MaskOp>(op) ||
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
  if (isa<tile::BoundsOp, tile::HasElementOp>(op))
    return executeLook(op);
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
  if (op.getNumResults() == 1)
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
// Bounds of captured tensors
//===----------------------------------------------------------------------===//

/// The tightest bounds. No bounds if a summary could not have any.
void TileProgram::boundsOf(tile::BoundsOp op, const Scalar *const *low, const Scalar *const *high,
                           int64_t count, Scalar *least, Scalar *largest) {
  const Capture &capture = captures.find(op.getView())->second;
  size_t axes = capture.view->extents.size();
  if (llvm::count_if(op.getWithin(), [](int64_t within) { return within != 1; }) > maxBoxAxes ||
      axes > maxSummaryRank) {
    for (int64_t box = 0; box < count; ++box) {
      least[box].integer = std::numeric_limits<int32_t>::min();
      largest[box].integer = std::numeric_limits<int32_t>::max();
      if (op.getLeast().getType().isF32())
        least[box].number = largest[box].number = std::numeric_limits<float>::quiet_NaN();
    }
    return;
  }
  for (size_t axis = 0; axis < axes; ++axis)
    for (int64_t box = 0; box < count; ++box)
      if (low[axis][box].integer > high[axis][box].integer) {
        unknown = "tile.bounds of a box that ends before it begins";
        return;
      }
  if (capture.bounds)
    return capture.bounds->of(low, high, count, least, largest);
  for (int64_t box = 0; box < count; ++box)
    lookAt(op, low, high, box, least[box], largest[box]);
}

void TileProgram::lookAt(tile::BoundsOp op, const Scalar *const *low, const Scalar *const *high,
                         int64_t box, Scalar &least, Scalar &largest) {
  least.integer = largest.integer = 0;
  SmallVector<int64_t> from, to;
  for (auto [axis, extent] : llvm::enumerate(captures.find(op.getView())->second.view->extents)) {
    if (extent == 0)
      return;
    from.push_back(std::clamp<int64_t>(low[axis][box].integer, 0, extent - 1));
    to.push_back(std::clamp<int64_t>(high[axis][box].integer, 0, extent - 1));
  }
  bool isReal = op.getLeast().getType().isF32();
  SmallVector<int64_t> index(from);
  Scalar element = least = largest = elementAt(op.getView(), index);
  while (true) {
    if (isReal && std::isnan(element.number)) {
      least = largest = element;
      return;
    }
    if (isReal ? element.number < least.number : element.integer < least.integer)
      least = element;
    if (isReal ? element.number > largest.number : element.integer > largest.integer)
      largest = element;
    size_t axis = index.size();
    while (axis > 0 && index[axis - 1] == to[axis - 1]) {
      index[axis - 1] = from[axis - 1];
      --axis;
    }
    if (axis == 0)
      return;
    ++index[axis - 1];
    element = elementAt(op.getView(), index);
  }
}

void TileProgram::hasElement(tile::HasElementOp op, const Scalar *const *operands, int64_t count,
                             Scalar *result) {
  size_t axes = op.getLow().size();
  const Scalar *const *low = operands, *const *high = operands + axes;
  const Scalar *least = operands[2 * axes], *largest = operands[2 * axes + 1];
  SmallVector<int64_t> index(axes), extents(axes);
  for (int64_t box = 0; box < count; ++box) {
    int64_t elements = 1;
    for (size_t axis = 0; axis < axes; ++axis) {
      uint32_t further = uint32_t(high[axis][box].integer) - uint32_t(low[axis][box].integer);
      extents[axis] = std::min<int64_t>(further, op.mostElements) + 1;
      elements = std::min(elements * extents[axis], op.mostElements + 1);
    }
    bool found = elements > op.mostElements;
    for (int64_t element = 0; element < elements && !found; ++element) {
      int64_t rest = element;
      for (size_t axis = 0; axis < axes; ++axis) {
        index[axis] = low[axis][box].integer + rest % extents[axis];
        rest /= extents[axis];
      }
      int64_t value = elementAt(op.getView(), index).integer;
      found = least[box].integer <= value && value <= largest[box].integer;
    }
    result[box].integer = found;
  }
}

void TileProgram::look(Operation *op, const Scalar *const *operands, int64_t count, Scalar *first,
                       Scalar *second) {
  if (auto bounds = dyn_cast<tile::BoundsOp>(op))
    boundsOf(bounds, operands, operands + bounds.getLow().size(), count, first, second);
  else
    hasElement(cast<tile::HasElementOp>(op), operands, count, first);
}

void TileProgram::executeLook(Operation &op) {
  SmallVector<Scalar> operands;
  for (Value operand : op.getOperands().drop_front())
    operands.push_back(values.lookup(operand));
  SmallVector<const Scalar *> pointers;
  for (const Scalar &operand : operands)
    pointers.push_back(&operand);
  Scalar results[] = {{.integer = 0}, {.integer = 0}};
  look(&op, pointers.data(), 1, &results[0], &results[1]);
  for (auto [result, value] : llvm::zip(op.getResults(), results))
    values[result] = value;
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

Scalar TileProgram::elementAt(Value argument, ArrayRef<int64_t> index) {
  const CaptureView &view = *captures.find(argument)->second.view;
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

Scalar TileProgram::read(tile::ReadOp op) {
  SmallVector<int64_t> index;
  for (Value at : op.getIndices())
    index.push_back(integer(at));
  return elementAt(op.getView(), index);
}

static int64_t extentOf(StringRef name, const Extents &extents) {
  return name == "B"     ? extents.B
         : name == "H"   ? extents.H
         : name == "Hkv" ? extents.Hkv
         : name == "Sq"  ? extents.Sq
                         : extents.Sk;
}

Scalar TileProgram::valueOf(Operation &op) {
  auto whole = [](int64_t value) { return Scalar{.integer = value}; };
  return TypeSwitch<Operation *, Scalar>(&op)
      .Case([&](arith::ConstantOp constant) {
        if (auto number = dyn_cast<FloatAttr>(constant.getValue())) {
          Scalar scalar = whole(0);
          scalar.number = number.getValue().convertToFloat();
          return scalar;
        }
        bool isTruth = constant.getType().isInteger(1); // i1: sign extension would give -1
        int64_t value = cast<IntegerAttr>(constant.getValue()).getValue().getSExtValue();
        return whole(isTruth ? value & 1 : value);
      })
      .Case([&](tile::ExtentOp extent) {
        return whole(extentOf(extent.getName(), bindings->extents));
      })
      .Case([&](tile::ViewExtentOp extent) {
        return whole(captures.lookup(extent.getView()).view->extents[extent.getAxis()]);
      })
      .Case([&](tile::ReadOp element) { return read(element); })
      .Default([&](Operation *other) {
        Scalar result = whole(0);
        ElementFunction function = elementFunctionOf(*other);
        if (!function) {
          unknown = other->getName().getStringRef();
          return result;
        }
        SmallVector<Scalar, 3> operands;
        SmallVector<const Scalar *, 3> pointers;
        for (Value operand : other->getOperands())
          operands.push_back(values.lookup(operand));
        for (const Scalar &operand : operands)
          pointers.push_back(&operand);
        function(&result, pointers.data(), 1);
        return result;
      });
}

} // namespace tesela
