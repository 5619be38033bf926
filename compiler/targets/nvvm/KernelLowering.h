//===- KernelLowering.h - Kernels as functions of one thread ----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Walks a kernel once and writes the code of one thread. Every value of the kernel becomes a
// list of values:
//
//   !tile.tile, #pipe.accumulator   f32, i32: one a register; 16 bits: a pair in each i32;
//                                   i1: the words of each row that the lane holds (ColumnWords.h)
//   !tile.tile, #pipe.operand       a pair in each i32
//   !tile.tile, #pipe.rows          one f32 or i32 a row that the lane holds; 16 bits: in the lower
//                                   half of an i32
//   !tile.tile, #pipe.columns       one f32 a column that the lane holds
//   !tile.tile, #pipe.shared        the i32 address of the stage in shared memory
//   !tile.block                     batch, head, first, limit, other (i32)
//   !pipe.buffer                    the i32 address of its first stage
//   !tile.view                      nothing: its parts are arguments of the function
//   anything else                   itself
//
// The methods stand in the files that are named after what they lower.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_KERNELLOWERING_H
#define TESELA_COMPILER_TARGETS_NVVM_KERNELLOWERING_H

#include "pipe/Pipe.h"
#include "pipe/Shares.h"
#include "targets/common/BlockCoordinates.h"
#include "targets/common/BlockFinder.h"
#include "targets/common/KernelSignature.h"
#include "targets/common/ViewPlace.h"
#include "targets/nvvm/ColumnWords.h"
#include "targets/nvvm/Passes.h"
#include "targets/nvvm/PtxInstructions.h"
#include "tile/GradientOps.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/MapVector.h"

namespace tesela::nvvm {

/// How the registers of a fragment are counted; see PipeTypes.td for where each lies.
struct FragmentShape {
  /// `warps`: all warps that compute. The encoding says how many of them share the rows
  /// (ProductShares.h); in an accumulator the other warps have other columns.
  explicit FragmentShape(tile::TileType type, int64_t warps)
      : warps(warps), columns(type.getRank() == 2 ? type.getExtent(1) : 1) {
    if (auto sum = llvm::dyn_cast_or_null<pipe::AccumulatorAttr>(type.getEncoding())) {
      columns = pipe::columnsOfPart(columns, warps / sum.getWarps());
      this->warps = sum.getWarps();
    } else if (auto rows = llvm::dyn_cast_or_null<pipe::RowsAttr>(type.getEncoding())) {
      this->warps = rows.getWarps();
    } else if (auto left = llvm::dyn_cast_or_null<pipe::OperandAttr>(type.getEncoding())) {
      this->warps = left.getWarps();
    }
    strips = type.getExtent(0) / (16 * this->warps);
  }

  int64_t strips;  ///< strips of 16 rows that one warp has
  int64_t warps;   ///< warps that share the rows
  int64_t columns; ///< columns that one warp has

  /// The number of groups of 8 columns.
  int64_t groups() const { return columns / 8; }
  /// The number of words for the columns of a row (ColumnWords.h).
  int64_t wordsOfRow() const {
    return (groups() + ColumnWords::groupsOfWord - 1) / ColumnWords::groupsOfWord;
  }
  int64_t words() const { return rows() * wordsOfRow(); }
  /// The number of f32 registers of an accumulator.
  int64_t elements() const { return strips * groups() * 4; }
  /// The number of registers of a row slice: two rows of each strip.
  int64_t rows() const { return strips * 2; }
  /// First row of `strip`, relative to the warp's first.
  int64_t firstRow(int64_t strip) const { return strip * warps * 16; }
};

class KernelLowering {
public:
  KernelLowering(tile::KernelOp kernel, mlir::OpBuilder &builder, bool trapWaits)
      : kernel(kernel), builder(builder), trapWaits(trapWaits), signature(kernel),
        warps(kernel.getScheduleAttr()->warps), consumers(kernel.getScheduleAttr()->consumers),
        threads(consumers > 0 ? 128 * (consumers + 1) : 32 * warps) {}

  /// Writes the function before the kernel. Fails with a diagnostic.
  mlir::LogicalResult run();

private:
  // KernelLowering.cpp: the function and its operations
  void createFunction();
  /// Sets thread, lane, warp, and what follows from them.
  void numberThreads(mlir::Value threadOfRole);
  mlir::LogicalResult lowerBlock(mlir::Block &block);
  mlir::LogicalResult lower(mlir::Operation *op);

  // LowerRegions.cpp: loops and branches
  /// The types to which values of `types` are lowered.
  llvm::SmallVector<mlir::Type> flatTypes(mlir::TypeRange types);
  /// Makes `flat`, in order, the lowered values of `originals`.
  void distribute(mlir::ValueRange originals, mlir::ValueRange flat);
  mlir::LogicalResult lowerFor(mlir::scf::ForOp loop);
  mlir::LogicalResult lowerWhile(mlir::scf::WhileOp loop);
  mlir::LogicalResult lowerIf(mlir::scf::IfOp branch);

  // LowerScalars.cpp
  mlir::LogicalResult lowerScalar(mlir::Operation *op);
  /// Lowers `op`, whose lowered operands are in `scalars`; also the mathematics of scores.
  mlir::Value emitScalar(mlir::Operation *op, mlir::IRMapping &scalars);

  // LowerBuffers.cpp: buffers in shared memory, copies, writes
  void lowerAlloc(pipe::AllocOp op);
  /// The address at which stage `stage` (a lowered i32) of a buffer begins.
  mlir::Value stageAddress(mlir::Value buffer, mlir::Value stage);
  void lowerSlot(pipe::SlotOp op);
  /// 16 bytes of a tile: their address in shared memory (address + offset) and in global memory,
  /// how many of the bytes are columns that exist, and whether their row exists.
  struct Chunk {
    mlir::Value address;
    int64_t offset;
    mlir::Value global, bytes, exists;
  };
  /// Writes `body` for each chunk of a stage that this thread moves between a buffer and a view.
  /// `columns` is null if the stage has all columns of the view.
  void forEachChunk(mlir::Value buffer, mlir::Value stage, mlir::Value view, mlir::Value block,
                    mlir::Value columns, llvm::function_ref<void(const Chunk &)> body);
  void lowerCopy(pipe::CopyOp op);
  void lowerWrite(pipe::WriteOp op);
  void lowerWideningWrite(pipe::WriteOp op); // WidenElements.cpp
  void lowerStore(pipe::StoreOp op);

  // PageTable.cpp
  /// The page of a block's first row, and the row within it. If that row does not exist, those of
  /// the last row that exists.
  std::pair<mlir::Value, mlir::Value> placeInPage(tile::PagedOp op, const BlockCoordinates &block);

  // LowerMemory.cpp: loads and stores of registers
  /// tile.store, or tile.accumulate if `adds`.
  void lowerRegisterStore(mlir::Value tile, mlir::TypedValue<tile::ViewType> view,
                          mlir::TypedValue<tile::BlockType> block, bool adds);
  void lowerColumnsStore(mlir::Value tile, mlir::TypedValue<tile::ViewType> view,
                         mlir::TypedValue<tile::BlockType> block);
  void lowerLoad(tile::LoadOp op);
  void lowerColumnLoad(tile::LoadOp op);
  /// Whether the launch passed the tensor, as i1; null if every launch passes it.
  mlir::Value isPassed(mlir::Value view);
  /// The address of row `row` of a block in a [B, H, Sq] view.
  mlir::Value rowAddress(mlir::Value view, const BlockCoordinates &block, mlir::Value row);

  // LowerFragments.cpp: workspaces in fragment order (FragmentOrder.h)
  /// The address of the lane's four elements in rows `row` to `row` + 15 of a head and in the
  /// view's first 8 columns. `row` is a multiple of 16.
  mlir::Value fragmentAddress(mlir::Value view, const BlockCoordinates &block, mlir::Value row);
  void lowerFragmentLoad(tile::LoadOp op);
  void lowerFragmentStore(mlir::Value tile, mlir::Value view, mlir::Value block, bool adds);
  void addFragments(mlir::Value view, const BlockCoordinates &block, mlir::Value row,
                    const Values &elements, int64_t strip, const FragmentShape &shape,
                    mlir::Value exists);
  void lowerFragmentWrite(pipe::WriteOp op);
  void lowerAddOut(pipe::AddOutOp op);

  // LowerReads.cpp
  mlir::Value emitRead(tile::ReadOp op, mlir::ValueRange indices);
  mlir::Value emitElement(tile::ReadOp op, mlir::Value address);
  void lowerCovers(tile::CoversOp op);
  /// The address of the element of a covered read with the indices lane[axis] + offset[axis].
  mlir::Value coveredAddress(tile::ReadOp op, mlir::ValueRange lane,
                             llvm::ArrayRef<int64_t> offset);
  /// For a chunked read: the lane's eight elements at that place and in the next three groups of
  /// columns.
  Values emitCoveredChunk(tile::ReadOp op, mlir::ValueRange lane, llvm::ArrayRef<int64_t> offset);

  // LowerDot.cpp
  mlir::LogicalResult lowerDot(tile::DotOp op);
  mlir::LogicalResult lowerConvertEncoding(pipe::ConvertOp op);
  /// The left operand's four registers for strip `strip` and the 16 columns from 16 · `step` on.
  Values leftOperand(mlir::Value tile, int64_t strip, int64_t step);
  /// The same for a transposed left operand and the 16 rows from 16 · `step` on.
  Values leftTransposed(mlir::Value tile, int64_t strip, int64_t step);

  // LowerWarpgroupDot.cpp: tile.dot, which awaits its product, and pipe.dot_start
  template <typename DotOp> mlir::LogicalResult lowerWarpgroupDot(DotOp op, bool awaits);

  // LowerRoles.cpp
  void lowerBarrier();
  mlir::LogicalResult lowerRoles(pipe::RolesOp op);
  void lowerAcquire(pipe::AcquireOp op);
  void lowerAwait(pipe::AwaitOp op);
  void lowerRelease(pipe::ReleaseOp op);
  void lowerFill(pipe::FillOp op);
  /// A fill of a block that may end inside its tensor (ViewPlace.h).
  void fillToTheEnd(pipe::FillOp op, mlir::Value target, mlir::Value barrier);
  void lowerPublish(pipe::PublishOp op);
  void lowerSend(pipe::SendOp op);
  void lowerReceive(pipe::ReceiveOp op);
  void lowerFirstItem(pipe::FirstItemOp op);
  void lowerNextItem(pipe::NextItemOp op);
  /// The next number of the counter. `address` is where the number is if there is no counter.
  mlir::Value takeItem(mlir::Value address);
  void lowerEndItems();
  void lowerEmptyOut(pipe::EmptyOutOp op);
  void lowerDrain(pipe::DrainOp op);
  // Each warpgroup has a named barrier for its turns. The warpgroup whose turn begins and the one
  // whose turn ends meet there.
  static constexpr int64_t turnThreads = 256;
  mlir::Value turnBarrierId(mlir::Value warpgroup);
  void passTurn(mlir::Value next);
  void lowerOpenTurns();
  /// The named barrier of this thread's warpgroup of consumers.
  mlir::Value warpgroupBarrierId();
  /// Writes `body` for one lane of a warp.
  void onLaneZero(llvm::function_ref<void()> body);
  /// Writes `body` for the one thread of the finder or the producer that copies and sends.
  void onRoleThread(llvm::function_ref<void()> body);
  /// Whether this is the first thread of a warpgroup of consumers.
  mlir::Value isFirstOfWarpgroup();
  /// Writes `body` for one thread of a warpgroup of consumers.
  void onFirstOfWarpgroup(llvm::function_ref<void()> body);
  void initChannels(pipe::RolesOp roles);
  /// The address of the barrier for use `use`, and the parity of that use's phase.
  std::pair<mlir::Value, mlir::Value> channelUse(mlir::Value channel, mlir::Value use, bool isFull,
                                                 mlir::Value part = {});
  /// The same for the use with the number `number`.
  std::pair<mlir::Value, mlir::Value> barrierOf(mlir::Value channel, mlir::Value number,
                                                bool isFull, mlir::Value part);
  /// The part of a channel's uses that this warpgroup gets; null if the uses have no parts.
  mlir::Value ownPart(mlir::Value channel);
  /// The addresses of the full barrier and of the numbers of use `use`.
  std::pair<mlir::Value, mlir::Value> channelWords(mlir::Value channel, mlir::Value use);
  /// Writes the numbers of use `use`, or reads them into `results`.
  void putNumbers(mlir::ValueRange numbers, mlir::Value channel, mlir::Value use);
  void takeNumbers(mlir::ValueRange results, mlir::Value channel, mlir::Value use);
  /// The coordinates, in the view's tensor map, of column `column` of row `row` of a block. `row`
  /// is the first row of a position.
  Values tensorCoordinates(mlir::Value view, mlir::Value block, mlir::Value column,
                           mlir::Value row);

  // AddInOrder.cpp: warps that add for the consumers
  /// The mailbox of a consumer.
  mlir::Value mailboxOf(int64_t consumer);
  /// The mailbox of this thread's warpgroup.
  mlir::Value ownMailbox();
  void initMailboxes();
  /// Makes the variable in which a thread counts the messages of its warpgroup.
  void startMessages();
  /// Waits until the warpgroup's adder has read the last message, and what belongs to it.
  void awaitAdder();
  /// The warpgroup's first thread gives its adder a message.
  void handOver(mlir::Value message);
  void lowerOrderAdditions(tile::OrderAdditionsOp op);
  void stopAdders();
  void lowerAdder(int64_t consumer);
  /// The op that orders the additions of this kernel; null if nothing does.
  tile::OrderAdditionsOp orderOfAdditions();
  /// Whether the first keys of the work item's head come first (i1), if `order` is that of
  /// tile.work.
  mlir::Value keysAscend(mlir::TypedValue<tile::BlockType> keys, mlir::Value kvHead,
                         mlir::Value part, tile::ItemOrder order);
  void lowerAtEnd(tile::AtEndOp op);
  /// Counts work items where the launch has no counter, if their additions are ordered.
  ItemTicket itemTicket();
  /// Whether adders add what consumers have summed.
  bool hasAdders() { return kernel->hasAttr(mailboxOffsetAttr); }

  // TokenOrder.cpp: the work map where sequences lie one after the other
  /// The sequences' starts and the view of their tokens; nulls if the work map is the usual one.
  std::pair<mlir::BlockArgument, mlir::BlockArgument> tokenOrder();
  mlir::Value tokenItems(tile::BlockType rows);
  BlockCoordinates tokenWork(mlir::Value item, tile::BlockType rows);

  // FindBlocks.cpp
  class Finder;
  mlir::LogicalResult lowerFindBlocks(tile::FindBlocksOp op);
  mlir::LogicalResult lowerFoundBlock(tile::FoundBlockOp op);

  // LowerMap.cpp
  class MapElements;
  mlir::LogicalResult lowerMap(tile::MapOp op);
  void emitInBody(mlir::Operation *op, llvm::ArrayRef<mlir::IRMapping *> elements);
  void emitLoop(mlir::scf::ForOp loop, llvm::ArrayRef<mlir::IRMapping *> elements);

  // LowerBernoulli.cpp
  class BernoulliTile;
  void lowerBernoulli(tile::BernoulliOp op);

  // LowerLines.cpp
  class Lines;
  void lowerAddLines(tile::AddLinesOp op);
  void lowerAddKept();

  // CutTiles.cpp: tiles of fewer rows than all warps have (ProductShares.h)
  /// The number of parts into which the columns are cut, and the number of this thread's part.
  int64_t partsOf(const FragmentShape &shape) { return warps / shape.warps; }
  mlir::Value partOf(const FragmentShape &shape);
  /// The number of this thread's warp among those that share the rows.
  mlir::Value rowWarpOf(const FragmentShape &shape);
  /// Row and column of the thread's first element.
  mlir::Value firstRowOf(const FragmentShape &shape);
  mlir::Value firstColumnOf(const FragmentShape &shape);
  /// Combines the values that the parts have for each row; all parts get the result. All threads
  /// that compute must come here together. `offset`: where the memory for it begins
  /// (pipe-place-buffers).
  Values joinParts(const Values &rows, const FragmentShape &shape, tile::Reduction kind,
                   int64_t offset);
  /// The named barrier of all threads that compute.
  mlir::Value barrierOfAll();

  // LowerElementwise.cpp
  void lowerConstant(tile::ConstantOp op);
  mlir::Value combine(tile::Reduction kind, mlir::Value a, mlir::Value b);
  void lowerReduce(tile::ReduceOp op);
  void lowerTotal(tile::TotalOp op);
  void lowerAnyPositive(tile::AnyPositiveOp op);
  void lowerConvertElements(tile::ConvertOp op);
  /// The two f32 of a register that holds two elements of 16 bits, or two of 8 in its lower half.
  Values unpackPair(mlir::Type element, mlir::Value pair);
  mlir::Value packPair(mlir::Type element, mlir::Value low, mlir::Value high);

  // Helpers
  PtxInstructions ptx() { return PtxInstructions(builder, loc); }
  void exchange(mlir::Value &first, mlir::Value &second, mlir::Value isUpper, int64_t bit);
  const Values &valuesOf(mlir::Value value) { return values.find(value)->second; }
  mlir::Value valueOf(mlir::Value value) { return valuesOf(value).front(); }
  BlockCoordinates blockOf(mlir::Value block);
  /// Computes the key/value head of a block of queries where the block becomes known. In a loop the
  /// division would run for each block, since LLVM does not move divisions out of loops.
  void setBlock(mlir::TypedValue<tile::BlockType> block, const BlockCoordinates &at);
  void lowerBlockOp(tile::BlockOp op);
  mlir::Value kvHeadOf(mlir::Value block);
  ExtentValues extents();
  llvm::SmallVector<mlir::Type> typesOf(mlir::Type type);
  FragmentShape shapeOf(mlir::Value tile) {
    return FragmentShape(llvm::cast<tile::TileType>(tile.getType()), warps);
  }
  /// The slots of the view `view`.
  const ViewSlots &viewOf(mlir::Value view) {
    return signature.view(placeOf(view).argument.getArgNumber());
  }
  mlir::Value constant(int64_t value, unsigned bits = 32);
  mlir::Value number(float value);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value multiply(mlir::Value a, mlir::Value b);
  mlir::Value wide(mlir::Value value);
  /// `pointer` moved by `index` (i64) elements of `element`.
  mlir::Value advance(mlir::Value pointer, mlir::Type element, mlir::Value index);
  /// The address of row 0, column 0 of a block of a query, key, value or output view.
  mlir::Value blockAddress(mlir::Value view, const BlockCoordinates &block, mlir::Type element);

  tile::KernelOp kernel;
  mlir::OpBuilder &builder;
  bool trapWaits; ///< whether a wait that spins too long ends the kernel
  mlir::Location loc = kernel.getLoc();
  KernelSignature signature;
  int64_t warps;     ///< warps that compute
  int64_t consumers; ///< warpgroups that compute beside a producer; 0: no roles
  int64_t threads;   ///< threads of the thread block
  Values slots;      ///< the function's arguments
  /// Of the blocks of `tile.work dealt to`: tile.work_part.
  llvm::DenseMap<mlir::Value, mlir::Value> workParts;
  mlir::Value thread, lane, warp;
  mlir::Value warpgroup; ///< of the consumers, counted from 0
  /// The row of a fragment's first element: 16 · warp + lane / 4; its column: 2 · (lane mod 4).
  mlir::Value firstRow, firstColumn;
  mlir::Value sharedBase;
  mlir::Value parityOfMessage; ///< its address: of the phase that ends with the last message
  llvm::DenseMap<mlir::Value, Values> values;
  llvm::DenseMap<mlir::Value, mlir::Value> kvHeads; ///< by the block of queries
  /// Each with the address of its memory.
  llvm::MapVector<mlir::Value, std::pair<BlockFinder, mlir::Value>> finders;
  /// Who runs the program that is being lowered: one thread (the producer), a warp (the finder, of
  /// which one lane copies and sends), or the warpgroups of the consumers.
  enum class Role { Thread, Warp, Warpgroup };
  Role role = Role::Warpgroup;
};

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_KERNELLOWERING_H
