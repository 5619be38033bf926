//===- MatrixAddress.h - What a lane gives to ldmatrix ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Of a buffer without panels (PipeTypes.td): chunks of 16 bytes, chunk c of row r at place
// c xor (r mod 8), each 8 chunks 128 bytes behind those before.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_MATRIXADDRESS_H
#define TESELA_COMPILER_TARGETS_NVVM_MATRIXADDRESS_H

#include "pipe/Pipe.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tesela::nvvm {

/// The address that a lane gives to ldmatrix for chunk `2 · step + half` of row `row`: `lanePart`
/// is row · rowBytes + ((half xor row mod 8) · 16), so the step is an xor of bits that no carry
/// reaches, and each 8 chunks are 128 bytes further (`stepOffset`).
inline mlir::Value stepAddress(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value lanePart,
                               int64_t step) {
  int64_t bits = (step % 4) * 32;
  if (bits == 0)
    return lanePart;
  mlir::Value flipped = mlir::arith::ConstantIntOp::create(builder, loc, bits, 32);
  return mlir::arith::XOrIOp::create(builder, loc, lanePart, flipped);
}
inline int64_t stepOffset(int64_t step) { return (step / 4) * 128; }

/// Row (lane mod 8) + 8 · (bit rowBit of the lane), half = bit halfBit of the lane.
mlir::Value laneAddress(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value lane,
                        mlir::Value firstRow, int64_t rowBytes, int64_t rowBit, int64_t halfBit);

/// From row to row of the buffer in which a tile of such elements lies.
inline int64_t rowBytesOf(tile::TileType type, mlir::Type element) {
  return pipe::BufferType::get(type.getContext(), 1, type.getExtent(0), type.getExtent(1), element)
      .getRowBytes();
}

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_MATRIXADDRESS_H
