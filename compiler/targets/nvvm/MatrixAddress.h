//===- MatrixAddress.h - Addresses for ldmatrix -----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Addresses in a buffer without panels (PipeTypes.td): it has chunks of 16 bytes. Chunk c of row r
// is at place c xor (r mod 8), and each 8 chunks are 128 bytes behind the 8 before.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_MATRIXADDRESS_H
#define TESELA_COMPILER_TARGETS_NVVM_MATRIXADDRESS_H

#include "pipe/Pipe.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tesela::nvvm {

/// The address that a lane gives to ldmatrix for chunk `2 · step + half` of row `row`. `lanePart`
/// is row · rowBytes + ((half xor row mod 8) · 16). So a step is an xor of bits that no carry
/// reaches, and each further 8 chunks add 128 bytes (`stepOffset`).
inline mlir::Value stepAddress(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value lanePart,
                               int64_t step) {
  int64_t bits = (step % 4) * 32;
  if (bits == 0)
    return lanePart;
  mlir::Value flipped = mlir::arith::ConstantIntOp::create(builder, loc, bits, 32);
  return mlir::arith::XOrIOp::create(builder, loc, lanePart, flipped);
}
inline int64_t stepOffset(int64_t step) { return (step / 4) * 128; }

/// Bytes from one row to the next in a buffer with panels: 8 chunks. Within a panel, chunks lie as
/// above.
inline constexpr int64_t panelRowBytes = 128;

/// The lane part for row (lane mod 8) + 8 · (bit `rowBit` of the lane) and half = bit `halfBit`.
mlir::Value laneAddress(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value lane,
                        mlir::Value firstRow, int64_t rowBytes, int64_t rowBit, int64_t halfBit);

/// Bytes from one row to the next in a buffer of a tile with such elements.
inline int64_t rowBytesOf(tile::TileType type, mlir::Type element) {
  return pipe::BufferType::get(type.getContext(), 1, type.getExtent(0), type.getExtent(1), element)
      .getRowBytes();
}

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_MATRIXADDRESS_H
