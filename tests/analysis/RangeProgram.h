//===- RangeProgram.h - The ranges of a variant, evaluated ------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A variant inlined into the smallest kernel with a loop over blocks of keys, through
// tile-key-ranges and tile-lower-blocks; and an evaluator of the arithmetic which these leave, for
// one block of queries of one launch.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_ANALYSIS_RANGEPROGRAM_H
#define TESELA_TESTS_ANALYSIS_RANGEPROGRAM_H

#include "frontend/Interpreter.h"
#include "tile/Tile.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace tesela {

/// [low, high); empty where low >= high.
struct Interval {
  int64_t low = 0, high = 0;
  bool isEmpty() const { return low >= high; }
  bool contains(int64_t k) const { return low <= k && k < high; }
};

/// What the kernel computes for one block of queries.
struct BlockRanges {
  Interval range, full; ///< of keys
  Interval blocks;      ///< of key blocks that run
};

class RangeProgram {
public:
  /// `blockM` queries and `blockN` keys a block. Test failures where a pass fails.
  RangeProgram(const Variant &variant, mlir::MLIRContext &context, int64_t blockM, int64_t blockN);

  /// The block of queries from `first` on, of batch and head as in `place`.
  BlockRanges evaluate(const Variant &variant, const Bindings &bindings, const Point &place,
                       int32_t first);
  /// Whether key block `index` is partial; after evaluate.
  bool isPartial(int64_t index);

private:
  union Scalar {
    int64_t integer;
    float number;
  };
  void run(mlir::Block &block);
  Scalar valueOf(mlir::Operation &op);
  int64_t integer(mlir::Value value) { return values.lookup(value).integer; }
  Scalar read(tile::ReadOp op);

  mlir::OwningOpRef<mlir::ModuleOp> module;
  tile::KernelOp kernel;
  llvm::SmallVector<mlir::Value> intervals; ///< ends of range, then of full
  mlir::scf::ForOp loop;
  tile::MaskOp mask;

  const Bindings *bindings = nullptr;
  Point place;
  llvm::DenseMap<mlir::Value, Scalar> values;
  llvm::DenseMap<mlir::Value, const CaptureView *> captures;
};

} // namespace tesela

#endif // TESELA_TESTS_ANALYSIS_RANGEPROGRAM_H
