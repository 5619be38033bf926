//===- PipeDialect.cpp - Registration and verifiers -------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "pipe/Pipe.h"

#include "pipe/Shares.h"
#include "tile/Extents.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tesela;
using namespace tesela::pipe;

#include "pipe/PipeDialect.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "pipe/PipeAttributes.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "pipe/PipeTypes.cpp.inc"

#define GET_OP_CLASSES
#include "pipe/PipeOps.cpp.inc"

void PipeDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "pipe/PipeAttributes.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "pipe/PipeTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "pipe/PipeOps.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

int64_t BufferType::getRowBytes() const {
  constexpr int64_t banks = 128; // 32 banks of 4 bytes
  int64_t bytes = llvm::alignTo(getColumns() * getElementType().getIntOrFloatBitWidth() / 8, banks);
  return getElementType().isF32() && !getPanels() ? bytes + banks / 4 : bytes;
}

LogicalResult BufferType::verify(function_ref<InFlightDiagnostic()> emitError, int64_t stages,
                                 int64_t rows, int64_t columns, Type elementType, bool panels) {
  if (stages < 1 || rows < 1)
    return emitError() << "expected at least one stage and one row, got " << stages << " and "
                       << rows;
  if (!elementType.isF16() && !elementType.isBF16() && !elementType.isF32() &&
      !isa<Float8E4M3FNType>(elementType))
    return emitError() << "expected elements f16, bf16, f8E4M3FN or f32, got " << elementType;
  if (elementType.isF32() && panels && rows % 64 != 0)
    return emitError()
           << "expected rows of f32 in multiples of 64, because sums are stored 64 rows "
              "at a time, got "
           << rows;
  if (columns <= 0 || columns % 16 != 0)
    return emitError()
           << "expected columns in multiples of 16, as matrix instructions take them, got "
           << columns << "; pad the tile";
  return success();
}

LogicalResult AllocOp::verify() {
  int64_t behind = int64_t(getBehind());
  if (behind < 0)
    return emitOpError() << "expected `behind` to be at least 0 bytes, got " << behind;
  if (behind > 0 && !getOver())
    return emitOpError() << "expected `over`, the buffer in which `behind` counts bytes, got none";
  if (getOver() && getOver().getType().getBytes() < getBuffer().getType().getBytes())
    return emitOpError() << "expected the buffer in `over` to be at least as large as this one ("
                         << getBuffer().getType().getBytes() << " bytes), got "
                         << getOver().getType().getBytes();
  BufferType own = getBuffer().getType();
  if (getCrossed() && (!getOver() || getOver().getType() != own || own.getStages() != 2))
    return emitOpError() << "expected a crossed buffer of two stages, and one of the same type in "
                            "`over`, got "
                         << own;
  return success();
}

Value AllocOp::getCrossedBuffer() {
  if (getCrossed())
    return getOver();
  for (Operation *user : getBuffer().getUsers())
    if (auto other = dyn_cast<AllocOp>(user); other && other.getCrossed())
      return other.getBuffer();
  return {};
}

LogicalResult ChannelType::verify(function_ref<InFlightDiagnostic()> emitError, int64_t stages,
                                  int64_t parts, int64_t words) {
  if (stages < 1)
    return emitError() << "expected at least one stage, got " << stages;
  if (parts < 1)
    return emitError() << "expected at least one part, got " << parts;
  if (words < 0 || words > 4) // one load of 16 bytes
    return emitError() << "expected a use to carry 0 to 4 numbers, got " << words;
  if (words > 0 && parts > 1)
    return emitError() << "expected numbers or parts, got " << words << " numbers and " << parts
                       << " parts";
  return success();
}

LogicalResult RolesOp::verify() {
  // PTX ISA, "setmaxnreg".
  for (int64_t registers : {getProducerRegisters(), getConsumerRegisters()})
    if (registers < 24 || registers > 256 || registers % 8 != 0)
      return emitOpError() << "expected registers in multiples of 8 from 24 to 256, got "
                           << registers;
  // A multiprocessor has 64 K registers. At entry each thread gets an equal number of them, a
  // multiple of 8 (PTX ISA, "setmaxnreg").
  int64_t warpgroups = getCount() + 1;
  int64_t atEntry = 65536 / (128 * warpgroups) / 8 * 8;
  int64_t wanted = getProducerRegisters() + getCount() * getConsumerRegisters();
  if (wanted > atEntry * warpgroups)
    return emitOpError() << "expected at most " << atEntry * warpgroups
                         << " registers over a thread of each warpgroup, got " << wanted
                         << "; the kernel would wait forever";
  return success();
}

static LogicalResult verifyTile(Operation *op, BufferType buffer, tile::TileType tile) {
  if (tile.getRank() != 2 || !tile.isBound() || tile.getExtent(0) != buffer.getRows() ||
      tile.getExtent(1) != buffer.getColumns() || tile.getElementType() != buffer.getElementType())
    return op->emitOpError() << "expected a tile of the shape and type of a stage of " << buffer
                             << ", got " << tile;
  return success();
}

/// One stage with the rows of all stages of `buffer`.
static BufferType withStagesJoined(BufferType buffer) {
  return BufferType::get(buffer.getContext(), /*stages=*/1, buffer.getStages() * buffer.getRows(),
                         buffer.getColumns(), buffer.getElementType(), buffer.getPanels());
}

/// `columns` is null if the stage has all columns of the view.
static LogicalResult verifyBlock(Operation *op, BufferType buffer, tile::ViewType view,
                                 tile::BlockType block, Value columns = Value()) {
  if (view.getRank() == 3 && buffer.getRows() == 1 && buffer.getElementType().isF32() &&
      tile::staticExtent(block.getExtent()) == buffer.getColumns())
    return success(); // a value for each row of the block
  bool hasColumns = view.getRank() == 4;
  if (hasColumns && columns)
    hasColumns = tile::staticExtent(cast<tile::BlockType>(columns.getType()).getExtent()) ==
                 buffer.getColumns();
  else if (hasColumns)
    hasColumns = view.getStaticExtent(3) && *view.getStaticExtent(3) <= buffer.getColumns();
  if (tile::staticExtent(block.getExtent()) != buffer.getRows() || !hasColumns ||
      view.getElementType() != buffer.getElementType())
    return op->emitOpError() << "expected a block of the shape and type of a stage of " << buffer
                             << ", got " << view << '[' << block << ']';
  return success();
}

LogicalResult CopyOp::verify() {
  return verifyBlock(*this, getBuffer().getType(), getView().getType(), getBlock().getType(),
                     getColumns());
}

LogicalResult StoreOp::verify() {
  return verifyBlock(*this, getBuffer().getType(), getView().getType(), getBlock().getType());
}

/// Checks that `op` stands in the region of one of the roles in `regions`. Copies and barriers
/// belong to one role: in the program of another role a barrier would never complete.
static LogicalResult verifyRole(Operation *op, StringRef names,
                                ArrayRef<Region *(*)(RolesOp)> regions) {
  auto roles = op->getParentOfType<RolesOp>();
  for (auto region : regions)
    if (roles && region(roles)->isAncestor(op->getParentRegion()))
      return success();
  return op->emitOpError() << "expected to be one of the " << names
                           << " operations of a pipe.roles";
}

static Region *finderOf(RolesOp roles) { return &roles.getFinder(); }
static Region *producerOf(RolesOp roles) { return &roles.getProducer(); }
static Region *consumersOf(RolesOp roles) { return &roles.getConsumers(); }

static LogicalResult verifyProducer(Operation *op) {
  return verifyRole(op, "producer's", {producerOf});
}
static LogicalResult verifyConsumers(Operation *op) {
  return verifyRole(op, "consumers'", {consumersOf});
}
/// Turns are put around products before the roles are split, so they may stand outside pipe.roles.
static LogicalResult verifyTurn(Operation *op) {
  return op->getParentOfType<RolesOp>() ? verifyConsumers(op) : success();
}
static LogicalResult verifySender(Operation *op) {
  return verifyRole(op, "producer's or the finder's", {producerOf, finderOf});
}
static LogicalResult verifyReceiver(Operation *op) {
  return verifyRole(op, "consumers' or the producer's", {consumersOf, producerOf});
}

static LogicalResult verifyPanels(Operation *op, BufferType buffer) {
  if (!buffer.getPanels() || buffer.getElementType().isF32())
    return op->emitOpError()
           << "expected a buffer in panels, which is what tensor copies move, got " << buffer;
  return success();
}

static LogicalResult verifyPart(Operation *op, ChannelType channel, int64_t part) {
  if (part < 0 || part >= channel.getParts())
    return op->emitOpError() << "expected a part from 0 to " << channel.getParts() - 1 << " of "
                             << channel << ", got " << part;
  return success();
}

LogicalResult AcquireOp::verify() {
  if (failed(verifyRole(*this, "producer's, the finder's or the consumers'",
                        {producerOf, finderOf, consumersOf})))
    return failure();
  return verifyPart(*this, getChannel().getType(), getPart());
}

LogicalResult ReleaseOp::verify() { return verifyConsumers(*this); }

static LogicalResult verifyCarries(Operation *op, ChannelType channel, size_t count) {
  if (channel.getWords() != int64_t(count))
    return op->emitOpError() << "expected a channel that carries its " << count
                             << " numbers (words = " << count << "), got " << channel;
  return success();
}

LogicalResult AwaitOp::verify() {
  if (failed(verifyConsumers(*this)))
    return failure();
  return verifyCarries(*this, getChannel().getType(), getValues().size());
}

LogicalResult PublishOp::verify() {
  if (failed(verifyConsumers(*this)))
    return failure();
  ChannelType channel = getChannel().getType();
  if (channel.getStages() != getBuffer().getType().getStages() || channel.getParts() > 1)
    return emitOpError() << "expected a channel of the buffer's "
                         << getBuffer().getType().getStages() << " stages and of one part, got "
                         << channel;
  return verifyCarries(*this, channel, 0);
}

static LogicalResult verifyMessage(Operation *op, ChannelType channel, size_t count) {
  if (count == 0)
    return op->emitOpError() << "expected numbers, got none; a use without a stage carries at "
                                "least one";
  return verifyCarries(op, channel, count);
}

LogicalResult SendOp::verify() {
  if (failed(verifySender(*this)))
    return failure();
  bool hasStage = llvm::any_of(getChannel().getUsers(), llvm::IsaPred<FillOp>);
  if (getChannel().getType().getParts() > 1)
    return emitOpError() << "expected a channel of one part, got " << getChannel().getType()
                         << "; a send arrives for all parts at once";
  return hasStage ? verifyCarries(*this, getChannel().getType(), getValues().size())
                  : verifyMessage(*this, getChannel().getType(), getValues().size());
}

LogicalResult ReceiveOp::verify() {
  if (failed(verifyReceiver(*this)))
    return failure();
  return verifyMessage(*this, getChannel().getType(), getValues().size());
}

LogicalResult OpenTurnsOp::verify() { return verifyConsumers(*this); }

LogicalResult BeginTurnOp::verify() { return verifyTurn(*this); }

LogicalResult EndTurnOp::verify() { return verifyTurn(*this); }

LogicalResult DrainOp::verify() { return verifyConsumers(*this); }

LogicalResult FillOp::verify() {
  BufferType buffer = getBuffer().getType();
  if (failed(verifyProducer(*this)) ||
      (getView().getType().getRank() == 4 && failed(verifyPanels(*this, buffer))))
    return failure();
  if (getChannel().getType().getStages() != buffer.getStages())
    return emitOpError() << "expected a channel of the buffer's " << buffer.getStages()
                         << " stages, got " << getChannel().getType();
  int64_t parts = getChannel().getType().getParts();
  if (buffer.getRows() % parts != 0)
    return emitOpError() << "expected parts of equal rows, got " << parts << " parts of " << buffer;
  if (failed(verifyPart(*this, getChannel().getType(), getPart())) ||
      failed(verifyCarries(*this, getChannel().getType(), getValues().size())))
    return failure();
  return verifyBlock(*this, buffer, getView().getType(), getBlock().getType(), getColumns());
}

/// A buffer from which each warpgroup of the consumers copies its own 64 rows to `view`. For
/// pipe.add_out a buffer of only 64 rows is allowed, too; then each warpgroup has its own columns.
static LogicalResult verifyOut(Operation *op, BufferType buffer, tile::ViewType view,
                               tile::BlockType block) {
  int64_t count = op->getParentOfType<RolesOp>().getCount();
  bool isCut = isa<AddOutOp>(op) && buffer.getRows() == 64 && buffer.getColumns() % count == 0;
  BufferType given = buffer;
  if (isa<EmptyOutOp>(op) && buffer.getStages() == count)
    buffer = withStagesJoined(buffer);
  if (buffer.getStages() != 1 || (buffer.getRows() != 64 * count && !isCut))
    return op->emitOpError()
           << "expected one stage, or one for each consumer, with 64 rows for each "
           << "of " << count << " consumers, got " << given;
  return verifyBlock(op, buffer, view, block);
}

LogicalResult EmptyOutOp::verify() {
  BufferType buffer = getBuffer().getType();
  if (failed(verifyConsumers(*this)) || failed(verifyPanels(*this, buffer)))
    return failure();
  auto alloc = getBuffer().getDefiningOp<AllocOp>();
  BufferType under = alloc && alloc.getOver() ? alloc.getOver().getType() : BufferType();
  int64_t count = (*this)->getParentOfType<RolesOp>().getCount();
  if (under && (under.getElementType().isF32() || buffer.getStages() > 1)) {
    if (buffer.getStages() != count)
      return emitOpError() << "expected one stage for each of " << count
                           << " consumers in a buffer that shares memory with sums, got " << buffer
                           << "; otherwise one warpgroup would overwrite sums that another one has "
                              "not stored yet";
    int64_t share = bytesOfShare(under, count);
    bool isOfSums = under.getElementType().isF32() && under.getPanels();
    int64_t end = alloc.getBehind() + buffer.getStageBytes();
    if (!isOfSums || share < end || share % 1024 != 0 || alloc.getBehind() % 1024 != 0)
      return emitOpError()
             << "expected the buffer in `over` to hold sums, with a share for each of " << count
             << " consumers that is a multiple of 1024 bytes and has room for a stage of "
             << buffer.getStageBytes() << " bytes from byte " << alloc.getBehind() << " on, got "
             << under;
  }
  return verifyOut(*this, buffer, getView().getType(), getBlock().getType());
}

LogicalResult AddOutOp::verify() {
  BufferType buffer = getBuffer().getType();
  if (failed(verifyConsumers(*this)))
    return failure();
  if (!buffer.getElementType().isF32())
    return emitOpError() << "expected a buffer of f32, got " << buffer;
  return verifyOut(*this, buffer, getView().getType(), getBlock().getType());
}

LogicalResult UniformOp::verify() { return verifyConsumers(*this); }

/// Before the roles are split, all threads of the thread block compute.
LogicalResult BarrierOp::verify() {
  return (*this)->getParentOfType<RolesOp>() ? verifyConsumers(*this) : success();
}

LogicalResult SlotOp::verify() {
  auto tile = cast<tile::TileType>(getTile().getType());
  if (!isa_and_nonnull<SharedAttr>(tile.getEncoding()))
    return emitOpError() << "expected a tile with the encoding #pipe.shared, got " << tile;
  BufferType buffer = getBuffer().getType();
  int64_t first = getFirstColumn(), panel = buffer.getPanelColumns();
  if (first < 0 || first % panel != 0 || (first > 0 && !buffer.getPanels()))
    return emitOpError() << "expected first_column to be a multiple of " << panel
                         << " in a buffer of panels, and 0 in any other, got " << first << " in "
                         << buffer;
  if (tile.getRank() == 2 && tile.isBound() && first + tile.getExtent(1) > buffer.getColumns())
    return emitOpError() << "expected columns that the stage has, got columns " << first << " to "
                         << first + tile.getExtent(1) << " of " << buffer;
  bool isOfSomeColumns = tile.getRank() == 2 && tile.isBound() && buffer.getRows() > 1;
  if (isOfSomeColumns)
    tile = tile::TileType::get(
        getContext(), {tile.getExtents()[0], tile::getExtent(getContext(), buffer.getColumns())},
        tile.getElementType(), tile.getEncoding());
  return verifyTile(*this, buffer, tile);
}

LogicalResult WriteOp::verify() {
  auto tile = cast<tile::TileType>(getTile().getType());
  BufferType buffer = getBuffer().getType();
  if (isa_and_nonnull<SharedAttr>(tile.getEncoding())) {
    if (!isa<Float8E4M3FNType>(tile.getElementType()) || buffer.getElementBytes() != 2)
      return emitOpError()
             << "expected elements f8E4M3FN in shared memory, to be widened to f16 or "
                "bf16, got "
             << tile << " and " << buffer;
    tile = tile::TileType::get(getContext(), tile.getExtents(), buffer.getElementType(),
                               tile.getEncoding());
  } else if (!isa_and_nonnull<AccumulatorAttr>(tile.getEncoding())) {
    return emitOpError() << "expected a tile with the encoding #pipe.accumulator, or #pipe.shared "
                            "to be widened, got "
                         << tile;
  }
  auto roles = (*this)->getParentOfType<RolesOp>();
  auto sums = dyn_cast<AccumulatorAttr>(tile.getEncoding());
  int64_t warps = roles ? 4 * int64_t(roles.getCount()) : 0;
  if (sums && sums.getWarps() < warps && tile.getRank() == 2 && tile.isBound()) {
    int64_t parts = warps / sums.getWarps(),
            columns = parts * columnsOfPart(tile.getExtent(1), parts);
    if (buffer.getColumns() != columns)
      return emitOpError() << "expected a buffer of " << columns << " columns for a tile whose "
                           << "columns are cut in " << parts << " parts, got " << buffer << " for "
                           << tile;
    buffer = BufferType::get(getContext(), buffer.getStages(), buffer.getRows(), tile.getExtent(1),
                             buffer.getElementType(), buffer.getPanels());
  }
  bool hasShares = roles && tile.getRank() == 2 && tile.isBound() &&
                   isByShares(buffer, tile.getExtent(0), roles.getCount());
  return verifyTile(*this, hasShares ? withStagesJoined(buffer) : buffer, tile);
}

static bool isInFlight(Value value) {
  auto encoding =
      dyn_cast_or_null<AccumulatorAttr>(cast<tile::TileType>(value.getType()).getEncoding());
  return encoding && encoding.getInFlight();
}

/// Whether `op` waits for a product in flight or carries it through a loop.
static bool takesProducts(Operation *op) {
  return isa<DotWaitOp, LoopLikeOpInterface>(op) ||
         (op->hasTrait<OpTrait::IsTerminator>() && isa<LoopLikeOpInterface>(op->getParentOp()));
}

void DotStartOp::build(OpBuilder &builder, OperationState &state, tile::DotOp dot, Value a, Value b,
                       Value c) {
  auto type = cast<tile::TileType>(dot.getType());
  auto encoding = cast<AccumulatorAttr>(type.getEncoding());
  auto inFlight = AccumulatorAttr::get(dot.getContext(), encoding.getWarps(), /*in_flight=*/true);
  build(builder, state, type.withEncoding(inFlight), a, b, c, dot.getLeftTransposed(),
        dot.getTransposed());
}

LogicalResult DotStartOp::verify() {
  if (!isInFlight(getResult()))
    return emitOpError() << "expected a result in flight "
                            "(#pipe.accumulator<…, in_flight = true>), got "
                         << getResult().getType();
  if (!getResult().hasOneUse() || !takesProducts(*getResult().user_begin()) ||
      (*getResult().user_begin())->getBlock() != (*this)->getBlock())
    return emitOpError() << "expected one use of the product in flight, by a pipe.dot_wait of the "
                            "same block or by a loop that carries it";
  return success();
}

LogicalResult DotWaitOp::verify() {
  if (!isInFlight(getSource()) || isInFlight(getResult()))
    return emitOpError() << "expected a source in flight and a result of the same type that is not "
                            "in flight, got "
                         << getSource().getType() << " and " << getResult().getType();
  // If a loop carries the product, pipe-run-roles counts the products started after it.
  if (isa<BlockArgument>(getSource()) || getSource().getDefiningOp<LoopLikeOpInterface>())
    return success();
  auto start = getSource().getDefiningOp<DotStartOp>();
  if (!start)
    return emitOpError()
           << "expected the result of a pipe.dot_start, or such a result carried by a loop";
  int64_t later = 0;
  for (Operation *op = start->getNextNode(); op && op != getOperation(); op = op->getNextNode())
    later += isa<DotStartOp>(op);
  if (later < int64_t(getPending()))
    return emitOpError() << "expected at least " << getPending()
                         << " products to be started after the awaited one, got " << later
                         << "; it could still be in flight";
  return success();
}

LogicalResult ConvertOp::verify() {
  auto source = cast<tile::TileType>(getSource().getType());
  auto result = cast<tile::TileType>(getResult().getType());
  if (source.withEncoding({}) != result.withEncoding({}))
    return emitOpError() << "expected types that differ only in their encoding, got " << source
                         << " and " << result;
  bool givesColumns = isa_and_nonnull<SharedAttr>(source.getEncoding()) &&
                      isa_and_nonnull<ColumnsAttr>(result.getEncoding()) && source.isSingleRow();
  bool ordersColumns = isa_and_nonnull<AccumulatorAttr>(source.getEncoding()) && source == result &&
                       (*this)->hasAttr("pipe.narrow"); // NarrowProducts.h
  if (ordersColumns)
    return success();
  if (!givesColumns && (!isa_and_nonnull<SharedAttr, AccumulatorAttr>(source.getEncoding()) ||
                        !isa_and_nonnull<OperandAttr>(result.getEncoding())))
    return emitOpError()
           << "expected a conversion from #pipe.shared or #pipe.accumulator to #pipe.operand, or "
              "of a single row from #pipe.shared to #pipe.columns, got "
           << source << " and " << result;
  return success();
}

//===----------------------------------------------------------------------===//
// Launches of a plan
//===----------------------------------------------------------------------===//

LogicalResult AwaitLaunchOp::verify() {
  if (isa<tile::KernelOp>((*this)->getParentOp()) && !(*this)->getPrevNode())
    return success();
  return emitOpError()
         << "expected to be the first operation of a tile.kernel: an operation before it could "
            "access memory that an earlier launch still reads or writes";
}

LogicalResult ReleaseLaunchOp::verify() {
  if (isa<tile::KernelOp>((*this)->getParentOp()))
    return success();
  return emitOpError() << "expected to be directly in the body of a tile.kernel, which all threads "
                          "execute, got the parent "
                       << (*this)->getParentOp()->getName();
}
