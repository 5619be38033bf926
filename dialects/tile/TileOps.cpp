//===- TileOps.cpp - Verifiers ----------------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tile/CustomExtent.h"
#include "tile/Tile.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace tesela::tile;

#define GET_OP_CLASSES
#include "tile/TileOps.cpp.inc"

/// The terminator that parsers add to a region without results.
void YieldOp::build(OpBuilder &, OperationState &) {}

static bool isElement(Type type, Type expected) {
  return type == expected || isa<ElementParamType>(type) || isa<ElementParamType>(expected);
}

static LogicalResult verifyExtents(Operation *op, StringRef what, ArrayRef<Attribute> came,
                                   ArrayRef<Attribute> expected) {
  bool equal = came.size() == expected.size();
  for (size_t axis = 0; equal && axis < came.size(); ++axis)
    equal = mayBeEqual(came[axis], expected[axis]);
  if (equal)
    return success();
  auto print = [](ArrayRef<Attribute> extents) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    llvm::interleave(
        extents, stream,
        [&](Attribute extent) {
          if (std::optional<int64_t> number = staticExtent(extent))
            stream << *number;
          else
            stream << extent;
        },
        " x ");
    return text;
  };
  return op->emitOpError() << what << ": expected extents " << print(expected) << ", got "
                           << print(came);
}

static LogicalResult verifyF32(Operation *op, StringRef what, TileType tile) {
  if (tile.getElementType().isF32())
    return success();
  return op->emitOpError() << what << ": expected elements f32, got " << tile.getElementType()
                           << "; convert them with tile.convert";
}

//===----------------------------------------------------------------------===//
// ExtentOp, loads and stores
//===----------------------------------------------------------------------===//

LogicalResult ExtentOp::verify() {
  if (llvm::is_contained({"B", "H", "Hkv", "Sq", "Sk"}, getName()))
    return success();
  return emitOpError() << "expected one of the extents B, H, Hkv, Sq and Sk of a launch, got \""
                       << getName() << '"';
}

//===----------------------------------------------------------------------===//
// Sequences of different lengths
//===----------------------------------------------------------------------===//

LogicalResult SequenceOp::verify() {
  if (getRows().getType().getAxis() == Axis::Query)
    return success();
  return emitOpError() << "expected a block of queries, got " << getRows().getType();
}

static LogicalResult verifyPlaced(Operation *op, ViewType view, ViewType result) {
  int64_t rank = view.getRank();
  bool isSame = result.getRank() == rank && result.getElementType() == view.getElementType() &&
                !view.getContiguous() && !result.getContiguous();
  if (isSame && rank == 4)
    isSame = mayBeEqual(view.getExtents()[3], result.getExtents()[3]);
  if (isSame)
    return success();
  return op->emitOpError() << "expected a result of the same rank, elements and columns as the "
                              "view, neither of them contiguous, got "
                           << view << " and " << result;
}

/// Query heads are dealt to parts only where work items are blocks of keys.
static LogicalResult verifyDealt(Operation *op, BlockType block, Attribute workers) {
  if (!workers)
    return success();
  if (block.getAxis() != Axis::Key)
    return op->emitOpError() << "expected a block of keys, whose query heads are dealt to work "
                                "items, got "
                             << block << "; leave out `dealt to`";
  // The templates multiply a part's number by H / Hkv in i32. So the number of parts is limited.
  constexpr int64_t mostWorkers = 1 << 16;
  std::optional<int64_t> number = staticExtent(workers);
  if (number && (*number < 1 || *number > mostWorkers))
    return op->emitOpError() << "expected 1 to " << mostWorkers << " workers, got " << *number;
  return success();
}

LogicalResult WorkOp::verify() {
  if (getJoined() && !getWorkersAttr())
    return emitOpError() << "expected `dealt to` before `joined`, got none: say among how many "
                            "workers the joined parts were dealt";
  if (getOrder() != ItemOrder::FirstKeysFirst && getBlock().getType().getAxis() != Axis::Key)
    return emitOpError() << "expected a block of keys with an order of keys, got "
                         << getBlock().getType() << "; leave out `order`";
  return verifyDealt(*this, getBlock().getType(), getWorkersAttr());
}

LogicalResult WorkPartOp::verify() {
  auto work = getKeys().getDefiningOp<WorkOp>();
  if (work && work.getDealt())
    return success();
  return emitOpError() << "expected the block of a tile.work `dealt to` workers, got "
                       << (work ? "a tile.work without parts" : "another block");
}

LogicalResult AtEndOp::verify() {
  if (getKeys().getType().getAxis() == Axis::Key)
    return success();
  return emitOpError() << "expected a block of keys, got " << getKeys().getType();
}

LogicalResult WorkItemsOp::verify() {
  auto rows = dyn_cast<BlockType>(getRows());
  return rows ? verifyDealt(*this, rows, getWorkersAttr()) : success();
}

LogicalResult HeadPartsOp::verify() {
  auto keys = dyn_cast<BlockType>(getKeys());
  if (!keys || keys.getAxis() != Axis::Key)
    return emitOpError() << "expected a block of keys, whose query heads are dealt to work items, "
                            "got "
                         << getKeys();
  return verifyDealt(*this, keys, getWorkersAttr());
}

LogicalResult BlockOp::verify() {
  if (getOf() || (getBatch() && getHead()))
    return success();
  return emitOpError() << "expected a batch and a head, or `of` a block that has them, got "
                       << (getBatch()  ? "no head"
                           : getHead() ? "no batch"
                                       : "neither");
}

LogicalResult RaggedOp::verify() {
  ViewType view = getView().getType();
  if ((view.getRank() != 3 && view.getRank() != 4) || staticExtent(view.getExtents()[0]) != 1)
    return emitOpError() << "expected a view [1, heads, tokens(, D)], got " << view;
  return verifyPlaced(*this, view, getResult().getType());
}

LogicalResult PagedOp::verify() {
  ViewType view = getView().getType(), table = getTable().getType();
  if (view.getRank() != 4)
    return emitOpError() << "expected a view [pages, heads, page, D], got " << view;
  std::optional<int64_t> page = staticExtent(view.getExtents()[2]);
  if (isDynamicExtent(view.getExtents()[2]) || (page && *page < 1))
    return emitOpError() << "expected pages with a constant number of rows, at least one, got "
                         << view << "; bind the parameter `page`";
  if (table.getRank() != 2 || !table.getElementType().isInteger(32))
    return emitOpError() << "expected a table [batch, pages] of i32, got " << table;
  return verifyPlaced(*this, view, getResult().getType());
}

/// `columns` is null if the tile has all columns of the view.
static LogicalResult verifyAccess(Operation *op, ViewType view, BlockType block, BlockType columns,
                                  TileType tile) {
  if (view.getRank() != 3 && view.getRank() != 4)
    return op->emitOpError() << "expected a view [batch, head, position(, D)], got " << view;
  if (columns && view.getRank() != 4)
    return op->emitOpError() << "expected a view [batch, head, position, D], because only some "
                                "columns are accessed, got "
                             << view;
  SmallVector<Attribute> expected = {block.getExtent()};
  // For a block of one row, a tile of one extent has the columns of that row; if the view has only
  // one number for each row, the tile has it in its first element.
  bool isOneRow = !columns && tile.getRank() == 1 && staticExtent(block.getExtent()) == 1;
  if (isOneRow) {
    std::optional<int64_t> has = staticExtent(tile.getExtents()[0]), needs = 1;
    if (view.getRank() == 4)
      needs = staticExtent(view.getExtents()[3]);
    if (has && needs && *has < *needs)
      return op->emitOpError()
             << "the tile for this block of one row: expected at least the view's " << *needs
             << " columns, got " << *has;
    expected = {tile.getExtents()[0]};
  } else if (columns)
    expected.push_back(columns.getExtent());
  else if (view.getRank() == 4 && tile.getRank() == 2) {
    std::optional<int64_t> has = staticExtent(tile.getExtents()[1]),
                           needs = staticExtent(view.getExtents()[3]);
    if (has && needs && *has < *needs)
      return op->emitOpError()
             << "the tile for this block of the view: expected at least the view's " << *needs
             << " columns, got " << *has;
    expected.push_back(tile.getExtents()[1]);
  } else if (view.getRank() == 4) {
    expected.push_back(view.getExtents()[3]);
  } else if (tile.isSingleRow()) {
    expected.insert(expected.begin(), tile.getExtents()[0]);
  }
  if (failed(verifyExtents(op, "the tile for this block of the view", tile.getExtents(), expected)))
    return failure();
  if (!isElement(tile.getElementType(), view.getElementType()))
    return op->emitOpError() << "expected elements " << view.getElementType() << ", got "
                             << tile.getElementType() << "; convert them with tile.convert";
  return success();
}

LogicalResult LoadOp::verify() {
  return verifyAccess(*this, getView().getType(), getBlock().getType(),
                      getColumns() ? getColumns().getType() : BlockType(),
                      cast<TileType>(getTile().getType()));
}

LogicalResult StoreOp::verify() {
  return verifyAccess(*this, getView().getType(), getBlock().getType(), BlockType(),
                      cast<TileType>(getTile().getType()));
}

LogicalResult AccumulateOp::verify() {
  auto tile = cast<TileType>(getTile().getType());
  if (tile.getRank() != 2)
    return emitOpError() << "expected a tile of two extents, got " << tile;
  if (failed(verifyF32(*this, "tile", tile)))
    return failure();
  return verifyAccess(*this, getView().getType(), getBlock().getType(), BlockType(), tile);
}

LogicalResult OrderAdditionsOp::verify() {
  ViewType view = getTurns().getType();
  if (view.getRank() != 3 || !view.getElementType().isF32())
    return emitOpError() << "expected turns [batch, head, position] of f32, got " << view;
  if (getKeys().getType().getAxis() != Axis::Key)
    return emitOpError() << "expected a block of keys, got " << getKeys().getType();
  return success();
}

LogicalResult BoundsOp::verify() {
  size_t rank = getView().getType().getRank();
  if (getLow().size() != rank || getWithin().size() != rank)
    return emitOpError() << "expected " << rank << " low ends and as many numbers in `within`, got "
                         << getLow().size() << " and " << getWithin().size();
  Type expected = getView().getType().getReadType();
  if (expected && getLeast().getType() != expected)
    return emitOpError() << "expected bounds of type " << expected << ", got "
                         << getLeast().getType();
  return success();
}

LogicalResult HasElementOp::verify() {
  ViewType view = getView().getType();
  size_t rank = view.getRank();
  if (getLow().size() != rank || getHigh().size() != rank)
    return emitOpError() << "expected " << rank << " low and high ends, got " << getLow().size()
                         << " and " << getHigh().size();
  if (view.getReadType() && view.getReadType().isInteger(32))
    return success();
  return emitOpError() << "expected a view of i32, got " << view;
}

LogicalResult ViewExtentOp::verify() {
  if (int64_t(getAxis()) < getView().getType().getRank())
    return success();
  return emitOpError() << "expected an axis below " << getView().getType().getRank() << ", got "
                       << getAxis();
}

LogicalResult ReadOp::verify() {
  if (int64_t(getIndices().size()) != getView().getType().getRank())
    return emitOpError() << "expected " << getView().getType().getRank() << " indices, got "
                         << getIndices().size();
  Type expected = getView().getType().getReadType();
  bool asksBits = expected && expected.isF32() && getElement().getType().isInteger(32);
  if (expected && getElement().getType() != expected && !asksBits)
    return emitOpError() << "expected an element of type " << expected << ", as read from "
                         << getView().getType() << ", got " << getElement().getType();
  Type held = getView().getType().getElementType();
  if (getChunked() && !(getCovered() && (held.isF16() || held.isBF16())))
    return emitOpError() << "expected a covered read of f16 or bf16, got one of " << held
                         << (getCovered() ? "" : " that is not covered") << "; leave out `chunked`";
  return success();
}

LogicalResult CoversOp::verify() {
  size_t rank = getView().getType().getRank();
  if (getIndices().size() != rank || getLow().size() != rank || getHigh().size() != rank)
    return emitOpError() << "expected " << rank << " indices, low and high ends, got "
                         << getIndices().size() << ", " << getLow().size() << " and "
                         << getHigh().size();
  return success();
}

//===----------------------------------------------------------------------===//
// Mathematics
//===----------------------------------------------------------------------===//

LogicalResult DotOp::verify() {
  auto a = cast<TileType>(getA().getType()), b = cast<TileType>(getB().getType());
  auto c = cast<TileType>(getC().getType()), result = cast<TileType>(getResult().getType());
  if (a.getRank() != 2 || b.getRank() != 2)
    return emitOpError() << "expected operands of two extents, got " << a << " and " << b;
  bool transposed = getTransposed(), leftTransposed = getLeftTransposed();
  Attribute depth = b.getExtents()[transposed ? 1 : 0];
  Attribute columns = b.getExtents()[transposed ? 0 : 1];
  Attribute rows = a.getExtents()[leftTransposed ? 1 : 0];
  if (!mayBeEqual(a.getExtents()[leftTransposed ? 0 : 1], depth)) {
    SmallVector<Attribute> expected = {rows, depth};
    if (leftTransposed)
      std::swap(expected[0], expected[1]);
    return verifyExtents(*this, "left operand", a.getExtents(), expected);
  }
  if (!isElement(a.getElementType(), b.getElementType()))
    return emitOpError() << "expected operands of one element type, got " << a.getElementType()
                         << " and " << b.getElementType();
  if (c.getExtents() != result.getExtents() || c.getElementType() != result.getElementType())
    return emitOpError() << "expected the addend and the result to agree, got " << c << " and "
                         << result;
  if (failed(verifyExtents(*this, "result", result.getExtents(), {rows, columns})))
    return failure();
  return verifyF32(*this, "result", result);
}

static LogicalResult verifyNoTruths(Operation *op, Type tile) {
  if (!cast<TileType>(tile).getElementType().isInteger(1))
    return success();
  return op->emitOpError()
         << "expected elements that are numbers, got " << tile
         << "; a tile of i1 is made by tile.map or tile.bernoulli, and read by tile.map";
}

LogicalResult ConstantOp::verify() { return verifyNoTruths(*this, getTile().getType()); }

LogicalResult ConvertOp::verify() {
  auto source = cast<TileType>(getSource().getType());
  if (failed(verifyNoTruths(*this, source)) || failed(verifyNoTruths(*this, getResult().getType())))
    return failure();
  return verifyExtents(*this, "result", cast<TileType>(getResult().getType()).getExtents(),
                       source.getExtents());
}

LogicalResult MapOp::verify() {
  auto result = cast<TileType>(getResult().getType());
  Block &body = getBody().front();
  if (body.getNumArguments() != getSources().size() + 2)
    return emitOpError() << "expected " << getSources().size() + 2
                         << " arguments of the body (an element of each operand, row, column), got "
                         << body.getNumArguments();
  for (auto [index, source] : llvm::enumerate(getSources())) {
    auto tile = cast<TileType>(source.getType());
    if (tile.getRank() > result.getRank())
      return emitOpError() << "operand " << index << " has more extents than the result";
    SmallVector<Attribute> expected(result.getExtents().take_front(tile.getRank()));
    if (tile.isSingleRow() && result.getRank() == 2)
      expected.front() = tile.getExtents().front();
    if (failed(verifyExtents(*this, "operand", tile.getExtents(), expected)))
      return failure();
    if (body.getArgument(index).getType() != tile.getElementType())
      return emitOpError() << "expected argument " << index << " of the body to be "
                           << tile.getElementType() << ", got "
                           << body.getArgument(index).getType();
  }
  auto yield = cast<YieldOp>(body.getTerminator());
  if (yield.getValues().size() != 1 ||
      yield.getValues().front().getType() != result.getElementType())
    return emitOpError() << "expected the body to yield one " << result.getElementType();
  return success();
}

LogicalResult ReduceOp::verify() {
  auto source = cast<TileType>(getSource().getType());
  if (source.getRank() != 2)
    return emitOpError() << "expected a source of two extents, got " << source;
  auto result = cast<TileType>(getResult().getType());
  if (failed(
          verifyExtents(*this, "result", result.getExtents(), source.getExtents().take_front(1))) ||
      failed(verifyExtents(*this, "start", cast<TileType>(getStart().getType()).getExtents(),
                           source.getExtents().take_front(1))))
    return failure();
  bool isInteger = source.getElementType().isInteger(32);
  if (getKind() != Reduction::Add && isInteger && result.getElementType().isInteger(32))
    return success();
  return failure(failed(verifyF32(*this, "source", source)) ||
                 failed(verifyF32(*this, "result", result)));
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

static LogicalResult verifyScores(Operation *op, Value source, BlockType rows, BlockType columns) {
  if (rows.getAxis() == columns.getAxis())
    return op->emitOpError() << "expected a block of queries and a block of keys, got " << rows
                             << " and " << columns;
  if (std::optional<int64_t> heads = staticExtent(columns.getHeads()); heads && *heads > 1)
    return op->emitOpError() << "expected columns of one head, got " << columns
                             << "; several heads can share rows";
  auto tile = cast<TileType>(source.getType());
  if (failed(
          verifyExtents(op, "scores", tile.getExtents(), {rows.getExtent(), columns.getExtent()})))
    return failure();
  return verifyF32(op, "scores", tile);
}

/// Checks the body of a filled hook: it takes a score (`withScore`), then `indices` numbers i32
/// (b h hkv q k), and yields one result.
static LogicalResult verifyHook(Operation *op, Region &body, bool withScore, unsigned indices,
                                Type result) {
  if (body.empty())
    return success();
  SmallVector<Type> expected(indices, IntegerType::get(op->getContext(), 32));
  if (withScore)
    expected.insert(expected.begin(), Float32Type::get(op->getContext()));
  if (body.front().getArgumentTypes() != TypeRange(expected))
    return op->emitOpError() << "expected the body to take (" << TypeRange(expected) << "), got ("
                             << body.front().getArgumentTypes() << ")";
  auto yield = dyn_cast<YieldOp>(body.front().getTerminator());
  if (!yield || yield.getValues().size() != 1 || yield.getValues().front().getType() != result)
    return op->emitOpError() << "expected the body to yield one " << result;
  return success();
}

LogicalResult ScoreOp::verify() {
  if (failed(verifyScores(*this, getSource(), getRows().getType(), getColumns().getType())))
    return failure();
  return verifyHook(*this, getBody(), true, 5, Float32Type::get(getContext()));
}

LogicalResult ScoreGradientOp::verify() {
  if (failed(verifyScores(*this, getSource(), getRows().getType(), getColumns().getType())))
    return failure();
  return verifyHook(*this, getBody(), true, 5, Float32Type::get(getContext()));
}

LogicalResult MaskOp::verify() {
  if (failed(verifyScores(*this, getSource(), getRows().getType(), getColumns().getType())))
    return failure();
  return verifyHook(*this, getBody(), false, 5, IntegerType::get(getContext(), 1));
}

LogicalResult DropoutOp::verify() {
  return verifyScores(*this, getSource(), getRows().getType(), getColumns().getType());
}

LogicalResult BernoulliOp::verify() {
  auto tile = cast<TileType>(getResult().getType());
  if (!tile.getElementType().isInteger(1) || tile.getRank() != 2)
    return emitOpError() << "expected a tile of i1 of two extents, got " << tile;
  for (Attribute extent : tile.getExtents())
    if (std::optional<int64_t> number = staticExtent(extent); number && *number % 8 != 0)
      return emitOpError() << "expected extents that are multiples of 8, got " << tile;
  return success();
}

LogicalResult SinkOp::verify() {
  auto tile = cast<TileType>(getResult().getType());
  if (getRows().getType().getAxis() != Axis::Query)
    return emitOpError() << "expected a block of queries, got " << getRows().getType();
  if (failed(verifyF32(*this, "sinks", tile)) ||
      failed(verifyExtents(*this, "sinks", tile.getExtents(), {getRows().getType().getExtent()})))
    return failure();
  return verifyHook(*this, getBody(), false, 4, Float32Type::get(getContext()));
}

static LogicalResult verifyRowsOf(Operation *op, StringRef what, Value tile, Value row) {
  auto rowType = cast<TileType>(row.getType());
  if (failed(verifyF32(op, what, rowType)))
    return failure();
  return verifyExtents(op, what, rowType.getExtents(),
                       cast<TileType>(tile.getType()).getExtents().take_front(1));
}

LogicalResult SoftmaxStepOp::verify() {
  if (failed(verifyF32(*this, "scores", cast<TileType>(getS().getType()))))
    return failure();
  return verifyRowsOf(*this, "row maxima", getS(), getM());
}

LogicalResult RescaleOp::verify() { return verifyRowsOf(*this, "factors", getSource(), getBy()); }

LogicalResult FinishOp::verify() {
  if (getSink() && getSink().getType() != getM().getType())
    return emitOpError() << "expected the sink to be " << getM().getType()
                         << ", as the row maxima are, got " << getSink().getType();
  return verifyRowsOf(*this, "row maxima", getO(), getM());
}
