//===- KernelLowering.h - From tile.kernel to loops -------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Turns one bound tile.kernel into a function of scf loops over LLVM loads and
// stores, arith and math, all on vectors of the CPU's width. Tiles become buffers
// in the worker's scratch memory. Ops are lowered one after the other. An op
// overwrites an operand that is not needed afterwards.
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

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

#include "llvm/ADT/MapVector.h"

#include <optional>

namespace tesela {

/// Where a tile's values are: row by row without gaps. They are f32 or i32; truths are i32. A tile
/// of one extent is one row.
struct TileStorage {
  int64_t rows = 1, columns = 1;
  mlir::Type element; ///< i32, or f32 (also for f16 and bf16 values; LowerPairs.cpp has others)
  int64_t offset = 0; ///< bytes from the start of the scratch, a multiple of 64
  /// For a product's right operand, stored in the order in which the loop reads it: `panel` columns
  /// of all rows are adjacent (a panel), with a row for each product of a sum. 0 for other tiles.
  int64_t panel = 0;
  std::optional<float> constant; ///< if set, all elements have this value and use no memory

  int64_t elements() const { return rows * columns; }
};

/// How many of a tile's `columns` columns exist in the view. The others are padding.
int64_t columnsOfView(mlir::TypedValue<tile::ViewType> view, int64_t columns);

class KernelLowering {
public:
  KernelLowering(tile::KernelOp kernel, const VectorUnit &unit);

  /// Writes the function in front of the kernel. Errors are diagnostics.
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
  /// The elements of `view` at `indices`: one element for scalars (i32), a gather for vectors.
  mlir::Value lowerRead(tile::ReadOp op, mlir::ValueRange indices);
  mlir::Value rowAddress(mlir::Value view, const BlockCoordinates &block, mlir::Value row);
  /// The page of a position that must exist, and the row within the page, as i64.
  std::pair<mlir::Value, mlir::Value> placeInPage(tile::PagedOp op, mlir::Value position);
  /// Writes `body` for each row of a block that exists. `address`: where the row lies in `view`.
  /// `row`: its number in the tile.
  void forEachRow(mlir::Value view, mlir::Value block, int64_t rows,
                  llvm::function_ref<void(mlir::Value row, mlir::Value address)> body);
  /// The number of rows of the block that exist, in [0, rows], as i64.
  mlir::Value existingRows(const BlockCoordinates &block, int64_t rows);
  /// The number of these that are in memory: all of them, or none if the tensor was left out.
  mlir::Value rowsInMemory(mlir::Value view, const BlockCoordinates &block, int64_t rows);

  /// Loads a tile that only products with a transposed right operand read, as its transpose.
  void lowerTransposedLoad(tile::LoadOp op);

  // LowerDot.cpp
  /// The product a · b + c. An element's products are summed in runs of at most `run`.
  struct Product {
    TileStorage a, b, c, result;
    int64_t depth; ///< number of products in the sum of an element
    int64_t run;
    bool isLeftTransposed, isOfPairs;
  };
  void lowerDot(tile::DotOp op);
  void lowerProductBlock(const Product &product, mlir::Value row, mlir::Value column, int64_t rows,
                         int64_t vectors, int64_t width);
  /// A buffer for a right operand of `rows` × `columns` in panels of a vector.
  TileStorage allocatePanels(int64_t rows, int64_t columns, mlir::Type element);
  /// The index of an element in panels, or of the first of adjacent elements within one panel.
  mlir::Value panelIndex(const TileStorage &storage, mlir::Value row, mlir::Value column);
  /// The transpose, in panels, as the loop reads a right operand.
  TileStorage transpose(const TileStorage &source);
  /// Transposes a square: `lines` are as many vectors as each has elements.
  void transposeSquare(llvm::MutableArrayRef<mlir::Value> lines);

  mlir::Value multiplyAdd(mlir::Value a, mlir::Value b, mlir::Value sum);

  // LowerPairs.cpp
  /// The product of pairs (bf16) whose operand `tile` is, if it has no other use; otherwise null.
  tile::DotOp pairProductOf(mlir::Value tile);
  TileStorage asPairs(TileStorage storage);
  void lowerInterleavedLoad(tile::LoadOp op);
  mlir::Value multiplyPairs(mlir::Value a, mlir::Value b, mlir::Value sum);

  // LowerMap.cpp
  struct VectorBody;
  mlir::LogicalResult lowerMap(tile::MapOp op);
  void lowerConvert(tile::ConvertOp op);
  /// An element or a vector of elements, rounded as `op` does and in the form that `storage` holds.
  mlir::Value converted(tile::ConvertOp op, mlir::Value value, const TileStorage &storage);

  // LowerBernoulli.cpp
  void lowerBernoulli(tile::BernoulliOp op);

  // LowerLines.cpp
  mlir::LogicalResult lowerAddLines(tile::AddLinesOp op);
  /// tile.collect, tile.deposit, tile.put or tile.exact_sum of one element. `operands`: all but the
  /// view. Ops that add return what they added.
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
  /// Where `op` puts its result: over `operand` if that has the same shape and is not needed
  /// afterwards, otherwise in a new buffer.
  TileStorage placeOver(mlir::Value operand, mlir::Operation *op, mlir::Type result);
  /// Whether no op reads the elements of `value` after `op`, which uses it once.
  static bool diesAt(mlir::Value value, mlir::Operation *op);
  void copy(const TileStorage &from, const TileStorage &to);
  /// `storage`, or, if it is a constant, a buffer that is filled with the constant.
  TileStorage inMemory(const TileStorage &storage);

  /// Elements [index, index + width) of a tile; a scalar if width is 0.
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
  mlir::Value workPart_; ///< tile.work_part
  int64_t workspaceBytes_ = 0;

  llvm::DenseMap<mlir::Value, TileStorage> tiles_;
  /// The transposes, in panels, of loaded tiles that products read both as a transposed right
  /// operand and in other ways.
  llvm::DenseMap<mlir::Value, TileStorage> transposed_;
  /// By reduction that the map before it has computed: the rows' values without the start.
  llvm::DenseMap<mlir::Operation *, TileStorage> reduced_;
  llvm::DenseSet<mlir::Operation *> converted_; ///< conversions that the map before them has done
  llvm::DenseMap<mlir::Value, BlockCoordinates> blocks_;
  /// Each with the address of its memory.
  llvm::MapVector<mlir::Value, std::pair<BlockFinder, mlir::Value>> finders_;
  mlir::IRMapping scalars_;
};

} // namespace tesela

#endif // TESELA_COMPILER_TARGETS_HOST_KERNELLOWERING_H
