// RUN: tesela-opt %s --split-input-file --pipe-assign-fragments --pipe-split-roles --pipe-place-buffers --pipe-start-products --pipe-run-roles | FileCheck %s

// With `late_crossed` the tiles that only the product in the middle reads lie crossed over those of the first product. Both have two stages in the
// memory of one buffer. The consumers add the last product's result to memory from their registers: all products start in their own iteration, the last
// one when no other is in flight.
// CHECK-LABEL: tile.kernel @middle
// CHECK: %[[K:.*]] = pipe.alloc {offset = [[PLACE:.*]] : i64} : <2, [32, 64], bf16, panels = true>
// CHECK: pipe.alloc over %[[K]] : !pipe.buffer<2, [32, 64], bf16, panels = true>, {crossed, offset = [[PLACE]] : i64} : <2, [32, 64], bf16, panels = true>
// CHECK: } consumers 1
// CHECK: scf.for
// CHECK: %[[S:.*]] = pipe.dot_start
// CHECK: %[[DP:.*]] = pipe.dot_start
// CHECK: pipe.dot_wait %[[S]] pending 1
// CHECK: pipe.dot_wait %[[DP]] pending 0
// CHECK: %[[LAST:.*]] = pipe.dot_start
// CHECK: %[[SUM:.*]] = pipe.dot_wait %[[LAST]] pending 0
// CHECK: tile.accumulate %[[SUM]]
// CHECK-NOT: pipe.dot_start
// CHECK: scf.yield
tile.kernel @middle(%q: !tile.view<[?, ?, ?, 64], bf16>, %k: !tile.view<[?, ?, ?, 64], bf16>, %v: !tile.view<[?, ?, ?, 64], bf16>,
                    %dq: !tile.view<[?, ?, ?, 64], f32>)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 32, stages = 2, warps = 4, q_in_registers = false, consumers = 1, late_crossed = true>} {
  %rows = tile.work : !tile.block<query, 64>
  %Q = tile.load %q[%rows] : !tile.view<[?, ?, ?, 64], bf16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], bf16>
  %S0 = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  %dQ0 = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %high = tile.extent "Sk"
  scf.for %j = %zero to %high step %one : i32 {
    %keys = tile.block %j of %rows : !tile.block<query, 64> -> !tile.block<key, 32>
    %K = tile.load %k[%keys] : !tile.view<[?, ?, ?, 64], bf16>[!tile.block<key, 32>] -> !tile.tile<[32, 64], bf16>
    %V = tile.load %v[%keys] : !tile.view<[?, ?, ?, 64], bf16>[!tile.block<key, 32>] -> !tile.tile<[32, 64], bf16>
    %S = tile.dot %Q, %K transposed plus %S0 : (!tile.tile<[64, 64], bf16>, !tile.tile<[32, 64], bf16>, !tile.tile<[64, 32], f32>) -> !tile.tile<[64, 32], f32>
    %dP = tile.dot %Q, %V transposed plus %S0 : (!tile.tile<[64, 64], bf16>, !tile.tile<[32, 64], bf16>, !tile.tile<[64, 32], f32>) -> !tile.tile<[64, 32], f32>
    %dS = tile.map %S, %dP : (!tile.tile<[64, 32], f32>, !tile.tile<[64, 32], f32>) -> !tile.tile<[64, 32], f32> {
    ^body(%s: f32, %dp: f32, %row: i32, %column: i32):
      %ds = arith.mulf %s, %dp : f32
      tile.yield %ds : f32
    }
    %dX = tile.convert %dS : !tile.tile<[64, 32], f32> -> !tile.tile<[64, 32], bf16>
    %dQ = tile.dot %dX, %K plus %dQ0 : (!tile.tile<[64, 32], bf16>, !tile.tile<[32, 64], bf16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    tile.accumulate %dQ, %dq[%rows] : !tile.tile<[64, 64], f32>, !tile.view<[?, ?, ?, 64], f32>[!tile.block<query, 64>]
  }
}

// -----

// Tiles of different widths cannot share places.
// CHECK-LABEL: tile.kernel @unequal
// CHECK-NOT: {crossed
// CHECK: } consumers 1
tile.kernel @unequal(%q: !tile.view<[?, ?, ?, 64], bf16>, %k: !tile.view<[?, ?, ?, 64], bf16>, %v: !tile.view<[?, ?, ?, 128], bf16>, %do: !tile.view<[?, ?, ?, 128], bf16>,
                     %dq: !tile.view<[?, ?, ?, 64], f32>)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 32, stages = 2, warps = 4, q_in_registers = false, consumers = 1, late_crossed = true>} {
  %rows = tile.work : !tile.block<query, 64>
  %Q = tile.load %q[%rows] : !tile.view<[?, ?, ?, 64], bf16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], bf16>
  %dO = tile.load %do[%rows] : !tile.view<[?, ?, ?, 128], bf16>[!tile.block<query, 64>] -> !tile.tile<[64, 128], bf16>
  %S0 = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  %dQ0 = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %high = tile.extent "Sk"
  %dQ = scf.for %j = %zero to %high step %one iter_args(%dQ1 = %dQ0) -> (!tile.tile<[64, 64], f32>) : i32 {
    %keys = tile.block %j of %rows : !tile.block<query, 64> -> !tile.block<key, 32>
    %K = tile.load %k[%keys] : !tile.view<[?, ?, ?, 64], bf16>[!tile.block<key, 32>] -> !tile.tile<[32, 64], bf16>
    %V = tile.load %v[%keys] : !tile.view<[?, ?, ?, 128], bf16>[!tile.block<key, 32>] -> !tile.tile<[32, 128], bf16>
    %S = tile.dot %Q, %K transposed plus %S0 : (!tile.tile<[64, 64], bf16>, !tile.tile<[32, 64], bf16>, !tile.tile<[64, 32], f32>) -> !tile.tile<[64, 32], f32>
    %dP = tile.dot %dO, %V transposed plus %S0 : (!tile.tile<[64, 128], bf16>, !tile.tile<[32, 128], bf16>, !tile.tile<[64, 32], f32>) -> !tile.tile<[64, 32], f32>
    %dS = tile.map %S, %dP : (!tile.tile<[64, 32], f32>, !tile.tile<[64, 32], f32>) -> !tile.tile<[64, 32], f32> {
    ^body(%s: f32, %dp: f32, %row: i32, %column: i32):
      %ds = arith.mulf %s, %dp : f32
      tile.yield %ds : f32
    }
    %dX = tile.convert %dS : !tile.tile<[64, 32], f32> -> !tile.tile<[64, 32], bf16>
    %dQ2 = tile.dot %dX, %K plus %dQ1 : (!tile.tile<[64, 32], bf16>, !tile.tile<[32, 64], bf16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    scf.yield %dQ2 : !tile.tile<[64, 64], f32>
  }
  tile.store %dQ, %dq[%rows] : !tile.tile<[64, 64], f32>, !tile.view<[?, ?, ?, 64], f32>[!tile.block<query, 64>]
}
