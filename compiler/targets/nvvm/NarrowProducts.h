//===- NarrowProducts.h - Right operands of 8 bits --------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Where a thread block is one warp, each element of a right operand is multiplied by one lane: that
// widens it in its registers, and nothing is written to shared memory again. (Several warps would
// each widen the same elements: they go through shared memory, pipe-stage-operands.)
//
// A right operand of 8 bits is read by ldmatrix as if pairs of elements were one of 16. So a lane
// gets four elements of a row in one register, or two of each of two rows. Which of them are
// multiplied with what is free, as long as the left operand or the result agrees:
//
// - Beside a transposed right operand the left one comes into registers in that order: of 16
//   columns a lane t has columns 4(t mod 4) and 4(t mod 4) + 2 where others have two neighbours,
//   and the two columns behind these where others have two that are 8 further.
// - Otherwise the product's columns are in that order, with all that a loop makes of them. Behind
//   the loop they are put into theirs.
//
// Both are a pipe.convert with the attribute `pipe.narrow`. A `tile.convert` of elements of 8 bits
// to 16 in shared memory moves nothing.
//
//     // before
//     %O1 = scf.for … iter_args(%O = %zero) {
//       %K = tile.convert %k8 : !tile.tile<[32, 64], f8E4M3FN, #pipe.shared>
//                            -> !tile.tile<[32, 64], bf16, #pipe.accumulator<warps = 1>>
//       %S = tile.dot %Q, %K transposed plus %none
//       …
//       %O2 = tile.dot %P, %V plus %O
//     // after
//     %Qn = pipe.convert %Q {pipe.narrow} : … -> !tile.tile<…, #pipe.operand<warps = 1>>
//     %O1 = scf.for … iter_args(%O = %zero) {
//       %K = tile.convert %k8 : !tile.tile<[32, 64], f8E4M3FN, #pipe.shared>
//                            -> !tile.tile<[32, 64], bf16, #pipe.shared>
//       %S = tile.dot %Qn, %K transposed plus %none
//       …
//       %O2 = tile.dot %P, %V plus %O
//     %O3 = pipe.convert %O1 {pipe.narrow}
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_NARROWPRODUCTS_H
#define TESELA_COMPILER_TARGETS_NVVM_NARROWPRODUCTS_H

#include "targets/nvvm/PtxInstructions.h"

#include "pipe/Pipe.h"

namespace tesela::nvvm {

/// Of a pipe.convert: from the order of a narrow product's columns, or to it.
inline constexpr llvm::StringLiteral narrowAttr = "pipe.narrow";

/// Whether a product widens its right operand in registers.
bool isNarrowProduct(tile::DotOp dot);

/// Has the products of a kernel of one warp read operands of 8 bits as they are; the rest of
/// pipe-assign-fragments has run.
mlir::LogicalResult narrowProducts(tile::KernelOp kernel);

/// Writes what one warp does in such products.
class NarrowProductWriter {
public:
  NarrowProductWriter(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value lane)
      : builder(builder), loc(loc), lane(lane) {}

  /// `sums` plus the product of the registers `left` and the tile at `address`.
  Values product(tile::DotOp dot, mlir::ValueRange left, mlir::Value address, Values sums);
  /// The left operand for a transposed right one, of the tile of 16-bit elements at `address`.
  Values leftOperand(tile::TileType type, mlir::Value address);
  /// The accumulators `sums` with columns in their order.
  Values ordered(Values sums);

private:
  PtxInstructions ptx() { return PtxInstructions(builder, loc); }
  mlir::Value constant(int64_t value);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value multiply(mlir::Value a, int64_t factor);
  /// The bits of the lane's number behind the lowest `shift` that `taken` has.
  mlir::Value bits(int64_t shift, int64_t taken);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  mlir::Value lane;
};

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_NARROWPRODUCTS_H
