// RUN: tesela-opt %s --split-input-file --pipe-assign-fragments --pipe-stage-operands | FileCheck %s

// A computed operand that the matrix instructions cannot read from registers goes through a buffer, between two barriers, once for all
// the products that read it.
// CHECK-LABEL: tile.kernel @transposed
// CHECK: %[[BUFFER:.*]] = pipe.alloc : <1, [64, 64], f16>
// CHECK: %[[X:.*]] = tile.convert
// CHECK: pipe.barrier
// CHECK-NEXT: pipe.write %[[X]] to %[[BUFFER]]
// CHECK-NEXT: pipe.barrier
// CHECK-NEXT: %[[SLOT:.*]] = pipe.slot %[[BUFFER]]
// CHECK-NEXT: tile.dot %[[SLOT]] transposed, %{{.*}} plus
// CHECK-NOT: pipe.write
// CHECK: tile.dot %{{.*}}, %[[SLOT]] plus
tile.kernel @transposed(%k: !tile.view<[?, ?, ?, 64], f16>, %sum: !tile.view<[?, ?, ?, 64], f32>)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false>} {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %keys = tile.block %zero of %rows : !tile.block<query, 64> -> !tile.block<key, 64>
  %K = tile.load %k[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
  %none = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %S = tile.dot %K, %K transposed plus %none : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
  %X = tile.convert %S : !tile.tile<[64, 64], f32> -> !tile.tile<[64, 64], f16>
  %Y = tile.dot %X transposed, %K plus %none : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
  %Z = tile.dot %K, %X plus %Y : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
  tile.accumulate %Z, %sum[%rows] : !tile.tile<[64, 64], f32>, !tile.view<[?, ?, ?, 64], f32>[!tile.block<query, 64>]
}

// -----

// A left operand that is not transposed stays in registers.
// CHECK-LABEL: tile.kernel @rows
// CHECK-NOT: pipe.write
tile.kernel @rows(%k: !tile.view<[?, ?, ?, 64], f16>, %sum: !tile.view<[?, ?, ?, 64], f32>)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false>} {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %keys = tile.block %zero of %rows : !tile.block<query, 64> -> !tile.block<key, 64>
  %K = tile.load %k[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
  %none = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %S = tile.dot %K, %K transposed plus %none : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
  %X = tile.convert %S : !tile.tile<[64, 64], f32> -> !tile.tile<[64, 64], f16>
  %Y = tile.dot %X, %K plus %none : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
  tile.accumulate %Y, %sum[%rows] : !tile.tile<[64, 64], f32>, !tile.view<[?, ?, ?, 64], f32>[!tile.block<query, 64>]
}
