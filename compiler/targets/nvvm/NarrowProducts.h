//===- NarrowProducts.h - Right operands of 8 bits --------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// If a thread block is one warp, each element of a right operand is multiplied by one lane only. So
// this lane widens it in its registers, without writing to shared memory again. (Several warps
// would all widen the same elements. They go through shared memory instead: pipe-stage-operands.)
//
// ldmatrix reads a right operand of 8 bits as if two elements were one of 16 bits. So a lane gets
// four elements of a row in one register, or two elements of each of two rows. The order of the
// elements does not matter, as long as the left operand or the result has the same order:
//
// - Next to a transposed right operand, the left operand comes into registers in that order. Of 16
//   columns, lane t has columns 4(t mod 4) and 4(t mod 4) + 2 where it usually has two neighbours,
//   and the columns behind each of these where it usually has the two that are 8 further.
// - Otherwise the product's columns have that order, and so does all that a loop computes from
//   them. Behind the loop they are put into their usual order.
//
// Both are a pipe.convert with the attribute `pipe.narrow`. A `tile.convert` from 8 to 16 bits that
// stays in shared memory moves nothing.
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

/// An attribute of a pipe.convert from, or to, the column order of a narrow product.
inline constexpr llvm::StringLiteral narrowAttr = "pipe.narrow";

/// Whether a product widens its right operand in registers.
bool isNarrowProduct(tile::DotOp dot);

/// Makes the products of a one-warp kernel read operands of 8 bits as they are. All other steps of
/// pipe-assign-fragments must have run.
mlir::LogicalResult narrowProducts(tile::KernelOp kernel);

/// Writes the instructions of one warp for such products.
class NarrowProductWriter {
public:
  NarrowProductWriter(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value lane)
      : builder(builder), loc(loc), lane(lane) {}

  /// `sums` plus the product of the registers `left` and the tile at `address`.
  Values product(tile::DotOp dot, mlir::ValueRange left, mlir::Value address, Values sums);
  /// The left operand next to a transposed right one; its tile of 16-bit elements is at `address`.
  Values leftOperand(tile::TileType type, mlir::Value address);
  /// The accumulators `sums` with the columns in their usual order.
  Values ordered(Values sums);

private:
  PtxInstructions ptx() { return PtxInstructions(builder, loc); }
  mlir::Value constant(int64_t value);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value multiply(mlir::Value a, int64_t factor);
  /// The lane's number without its lowest `shift` bits, masked with `taken`.
  mlir::Value bits(int64_t shift, int64_t taken);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  mlir::Value lane;
};

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_NARROWPRODUCTS_H
