// RUN: tesela-opt %s --split-input-file --pipe-assign-fragments --pipe-stage-operands | FileCheck %s

// A computed operand that matrix instructions cannot read from registers goes through a buffer, once for all products that read it, in
// front of a barrier. There is no barrier before the write: for the loads, all threads have met since the buffer was read.
// CHECK-LABEL: tile.kernel @transposed
// CHECK: %[[BUFFER:.*]] = pipe.alloc : <1, [64, 64], f16>
// CHECK: pipe.barrier
// CHECK: %[[X:.*]] = tile.convert
// CHECK-NOT: pipe.barrier
// CHECK: pipe.write %[[X]] to %[[BUFFER]]
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

// -----

// If they have not met, the pass adds a barrier.
// CHECK-LABEL: tile.kernel @meets
// CHECK: tile.convert
// CHECK: pipe.barrier
// CHECK-NEXT: pipe.write
// CHECK-NEXT: pipe.barrier
// CHECK-NEXT: pipe.slot
tile.kernel @meets(%x: !tile.view<[?, ?, ?, 64], f32>, %sum: !tile.view<[?, ?, ?, 64], f32>)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false>} {
  %rows = tile.work : !tile.block<query, 64>
  %none = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %S = tile.load %x[%rows] : !tile.view<[?, ?, ?, 64], f32>[!tile.block<query, 64>] -> !tile.tile<[64, 64], f32>
  %X = tile.convert %S : !tile.tile<[64, 64], f32> -> !tile.tile<[64, 64], f16>
  %Y = tile.dot %X transposed, %X plus %none : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
  tile.accumulate %Y, %sum[%rows] : !tile.tile<[64, 64], f32>, !tile.view<[?, ?, ?, 64], f32>[!tile.block<query, 64>]
}

// -----

// Each of two tiles is written as soon as it is computed, and one barrier serves both: the product that reads only the first one waits for
// it, too. Warps that share rows bring left operands to shared memory.
// CHECK-LABEL: tile.kernel @two
// CHECK: scf.for
// CHECK: pipe.barrier
// CHECK: pipe.barrier
// CHECK: tile.dot
// CHECK: %[[P:.*]] = tile.convert
// CHECK-NOT: pipe.barrier
// CHECK: pipe.write %[[P]] to
// CHECK: tile.dot
// CHECK: %[[T:.*]] = tile.convert
// CHECK-NOT: pipe.barrier
// CHECK: pipe.write %[[T]] to
// CHECK-NEXT: pipe.barrier
// CHECK-NEXT: %[[STAGED_P:.*]] = pipe.slot
// CHECK-NEXT: tile.dot %[[STAGED_P]], %{{.*}} plus
// CHECK-SAME: #pipe.accumulator<warps = 2>
// CHECK-NOT: pipe.barrier
// CHECK: %[[STAGED_T:.*]] = pipe.slot
// CHECK: tile.dot %[[STAGED_T]] transposed
// CHECK-NOT: pipe.barrier
// CHECK: scf.yield
tile.kernel @two(%k: !tile.view<[?, ?, ?, 64], f16>, %sum: !tile.view<[?, ?, ?, 64], f32>)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false, product_rows = 32>} {
  %rows = tile.work : !tile.block<query, 64>
  %none = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %low = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %high = tile.extent "Sk"
  %results:2 = scf.for %j = %low to %high step %one iter_args(%A = %none, %B = %none) -> (!tile.tile<[64, 64], f32>, !tile.tile<[64, 64], f32>) : i32 {
    %keys = tile.block %j of %rows : !tile.block<query, 64> -> !tile.block<key, 64>
    %K = tile.load %k[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
    %S = tile.dot %K, %K transposed plus %none : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    %P = tile.convert %S : !tile.tile<[64, 64], f32> -> !tile.tile<[64, 64], f16>
    %A2 = tile.dot %P, %K plus %A : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    %dP = tile.dot %K, %K transposed plus %S : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    %T = tile.convert %dP : !tile.tile<[64, 64], f32> -> !tile.tile<[64, 64], f16>
    %B2 = tile.dot %T transposed, %K plus %B : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    scf.yield %A2, %B2 : !tile.tile<[64, 64], f32>, !tile.tile<[64, 64], f32>
  }
  tile.accumulate %results#0, %sum[%rows] : !tile.tile<[64, 64], f32>, !tile.view<[?, ?, ?, 64], f32>[!tile.block<query, 64>]
  tile.accumulate %results#1, %sum[%rows] : !tile.tile<[64, 64], f32>, !tile.view<[?, ?, ?, 64], f32>[!tile.block<query, 64>]
}
