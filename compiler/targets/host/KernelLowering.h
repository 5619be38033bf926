//===- KernelLowering.h - From tile.kernel to loops -------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Turns one bound tile.kernel into a function of scf loops over LLVM loads and
// stores, arith and math, all on vectors of the CPU's width. Tiles become buffers
// in the worker's scratch; one op is lowered after the other, and an op writes
// over an operand that nobody needs afterwards.
//
//   KernelLowering.cpp   the function, loops and branches, scalars, blocks
//   TileBuffers.cpp      where tiles stand, and when a buffer may be written over
//   LowerMemory.cpp      load, store, read
//   LowerDot.cpp         dot
//   LowerPairs.cpp       what products of pairs of bf16 need
//   LowerMap.cpp         map, convert
//   LowerBernoulli.cpp   bernoulli
//   LowerReduce.cpp      reduce
//   FindBlocks.cpp       find_blocks, found_block
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_HOST_KERNELLOWERING_H
#define TESELA_COMPILER_TARGETS_HOST_KERNELLOWERING_H

#include "targets/common/BlockCoordinates.h"
#include "targets/common/BlockFinder.h"
#include "targets/common/KernelSignature.h"
#include "targets/host/CodeBuilder.h"
#include "targets/host/VectorUnit.h"
#include "tile/GradientOps.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

#include "llvm/ADT/MapVector.h"

#include <optional>

namespace tesela {

/// Where a tile's values are: f32 or i32, row by row without gaps; truths are i32. A tile of one
/// extent is one row.
struct TileStorage {
  int64_t rows = 1, columns = 1;
  mlir::Type element; ///< f32, also for what holds f16 and bf16, or i32; LowerPairs.cpp
  int64_t offset = 0; ///< bytes from the scratch's start, a multiple of 64
  /// Of a product's right operand, as its loop reads it: a row for each product of a sum, and so
  /// many columns of all rows follow each other without gaps (a panel). 0: no such operand.
  int64_t panel = 0;
  std::optional<float> constant; ///< all elements have this value and no memory is used

  int64_t elements() const { return rows * columns; }
};

/// How many of a tile's `columns` the view has: the others are padding.
int64_t columnsOfView(mlir::TypedValue<tile::ViewType> view, int64_t columns);

class KernelLowering {
public:
  KernelLowering(tile::KernelOp kernel, const VectorUnit &unit);

  /// Puts the function in front of the kernel; errors are diagnostics.
  mlir::LogicalResult run();
  /// Bytes of scratch that the function needs.
  int64_t workspaceBytes() const { return workspaceBytes_; }

private:
  void makeFunction();
  mlir::LogicalResult lowerBlock(mlir::Block &block);
  mlir::LogicalResult lowerOperation(mlir::Operation &op);
  mlir::LogicalResult lowerFor(mlir::scf::ForOp op);
  mlir::LogicalResult lowerIf(mlir::scf::IfOp op);
  void lowerCoordinates(tile::CoordinatesOp op);
  void lowerTotal(tile::TotalOp op);

  // LowerMemory.cpp
  void lowerLoad(tile::LoadOp op);
  void lowerStore(tile::StoreOp op);
  void lowerAccumulate(tile::AccumulateOp op);
  /// The element of `view` at `indices`: i32 scalars, or vectors for a gather.
  mlir::Value lowerRead(tile::ReadOp op, mlir::ValueRange indices);
  mlir::Value rowAddress(mlir::Value view, const BlockCoordinates &block, mlir::Value row);
  /// The page of a position that exists, and the row in it; i64 values.
  std::pair<mlir::Value, mlir::Value> placeInPage(tile::PagedOp op, mlir::Value position);
  /// Writes `body` (of the row, and of where it lies in `view`) for each row of a block that
  /// exists.
  void forEachRow(mlir::Value view, mlir::Value block, int64_t rows,
                  llvm::function_ref<void(mlir::Value row, mlir::Value address)> body);
  /// How many rows of the block exist, in [0, rows], as i64.
  mlir::Value existingRows(const BlockCoordinates &block, int64_t rows);
  /// Those of them that are in memory: all, or none of a tensor that was left out.
  mlir::Value rowsInMemory(mlir::Value view, const BlockCoordinates &block, int64_t rows);

  /// The rows of a tile whose only readers are products that want it transposed, as columns.
  void lowerTransposedLoad(tile::LoadOp op);

  // LowerDot.cpp
  /// a · b + c, in runs of at most `run` products.
  struct Product {
    TileStorage a, b, c, result;
    int64_t depth; ///< products in the sum of an element
    int64_t run;
    bool isLeftTransposed, isOfPairs;
  };
  void lowerDot(tile::DotOp op);
  void lowerProductBlock(const Product &product, mlir::Value row, mlir::Value column, int64_t rows,
                         int64_t vectors, int64_t width);
  /// A buffer for a right operand of `rows` × `columns` in panels of a vector.
  TileStorage allocatePanels(int64_t rows, int64_t columns, mlir::Type element);
  /// The index of an element, or of the first of some that lie within one panel.
  mlir::Value panelIndex(const TileStorage &storage, mlir::Value row, mlir::Value column);
  /// In panels, as a right operand's loop reads it.
  TileStorage transpose(const TileStorage &source);
  /// As many vectors as each has lanes.
  void transposeSquare(llvm::MutableArrayRef<mlir::Value> lines);

  mlir::Value multiplyAdd(mlir::Value a, mlir::Value b, mlir::Value sum);

  // LowerPairs.cpp
  /// The product of pairs whose operand `tile` is and nothing else; null where it is none.
  tile::DotOp pairProductOf(mlir::Value tile);
  TileStorage asPairs(TileStorage storage);
  void lowerInterleavedLoad(tile::LoadOp op);
  mlir::Value multiplyPairs(mlir::Value a, mlir::Value b, mlir::Value sum);

  // LowerMap.cpp
  struct VectorBody;
  mlir::LogicalResult lowerMap(tile::MapOp op);
  void lowerConvert(tile::ConvertOp op);
  /// An element, or a vector of them, as `op` rounds it and `storage` holds it.
  mlir::Value converted(tile::ConvertOp op, mlir::Value value, const TileStorage &storage);

  // LowerBernoulli.cpp
  void lowerBernoulli(tile::BernoulliOp op);

  // LowerLines.cpp
  mlir::LogicalResult lowerAddLines(tile::AddLinesOp op);
  /// tile.collect, tile.deposit or tile.exact_sum of one element; `operands`: all but the view. An
  /// addition gives what it added.
  mlir::Value lowerAtElement(mlir::Operation &op, mlir::ValueRange operands);

  // LowerReduce.cpp
  void lowerReduce(tile::ReduceOp op);

  // FindBlocks.cpp
  class Finder;
  mlir::LogicalResult lowerFindBlocks(tile::FindBlocksOp op);
  mlir::LogicalResult lowerFoundBlock(tile::FoundBlockOp op);

  // Buffers
  static TileStorage shapeOf(mlir::Type type);
  TileStorage allocate(const TileStorage &shape);
  /// Where `op` may put its result: over `operand` if it has the same shape and is
  /// not needed afterwards, else in a new buffer.
  TileStorage placeOver(mlir::Value operand, mlir::Operation *op, mlir::Type result);
  /// Nobody reads `value`'s elements after `op`, which uses it once.
  static bool diesAt(mlir::Value value, mlir::Operation *op);
  void copy(const TileStorage &from, const TileStorage &to);
  /// `storage`, or a buffer filled with its constant.
  TileStorage inMemory(const TileStorage &storage);

  /// Elements [index, index + width) of a tile; a scalar where width is 0.
  mlir::Value loadTile(const TileStorage &storage, mlir::Value index, int64_t width);
  void storeTile(mlir::Value value, const TileStorage &storage, mlir::Value index);

  const TileStorage &storageOf(mlir::Value tile) const { return tiles_.find(tile)->second; }
  mlir::Value scalar(mlir::Value value) { return scalars_.lookup(value); }

  tile::KernelOp kernel_;
  VectorUnit unit_;
  KernelSignature signature_;
  CodeBuilder builder_;

  mlir::Value scratch_;
  llvm::SmallVector<mlir::Value> slots_; ///< the values of the signature's slots
  ExtentValues extents_;
  mlir::Value item_;
  int64_t workspaceBytes_ = 0;

  llvm::DenseMap<mlir::Value, TileStorage> tiles_;
  /// Of loaded tiles that products want transposed as their right operand, and that are read in
  /// other ways, too: so they stand, in panels.
  llvm::DenseMap<mlir::Value, TileStorage> transposed_;
  /// Of reductions that the map before them has computed: the rows' values without the start.
  llvm::DenseMap<mlir::Operation *, TileStorage> reduced_;
  llvm::DenseSet<mlir::Operation *> converted_; ///< conversions that the map before them has done
  llvm::DenseMap<mlir::Value, BlockCoordinates> blocks_;
  /// With the addresses of their memory.
  llvm::MapVector<mlir::Value, std::pair<BlockFinder, mlir::Value>> finders_;
  mlir::IRMapping scalars_;
};

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_HOST_KERNELLOWERING_H
