// RUN: tesela-opt %s --split-input-file --pipe-assign-fragments --pipe-split-roles --pipe-place-buffers --pipe-start-products --pipe-run-roles | FileCheck %s

// Tiles that only the product in the middle reads have `late_stages`, the other tiles of the loop `stages`.
// CHECK-LABEL: tile.kernel @middle
// CHECK-DAG: %[[Q:.*]] = pipe.alloc {{.*}} <1, [64, 64], bf16, panels = true>
// CHECK-DAG: %[[K:.*]] = pipe.alloc {{.*}} <2, [32, 64], bf16, panels = true>
// CHECK-DAG: %[[V:.*]] = pipe.alloc {{.*}} <1, [32, 64], bf16, panels = true>
// CHECK: pipe.roles
// CHECK: pipe.fill %q{{.*}} to %[[Q]]
// CHECK: pipe.fill %k{{.*}} to %[[K]]
// CHECK: pipe.fill %v{{.*}} to %[[V]]
tile.kernel @middle(%q: !tile.view<[?, ?, ?, 64], bf16>, %k: !tile.view<[?, ?, ?, 64], bf16>, %v: !tile.view<[?, ?, ?, 64], bf16>,
                    %dq: !tile.view<[?, ?, ?, 64], f32>)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 32, stages = 2, warps = 4, q_in_registers = false, consumers = 1, late_stages = 1>} {
  %rows = tile.work : !tile.block<query, 64>
  %Q = tile.load %q[%rows] : !tile.view<[?, ?, ?, 64], bf16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], bf16>
  %S0 = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  %dQ0 = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %high = tile.extent "Sk"
  %dQ = scf.for %j = %zero to %high step %one iter_args(%dQ1 = %dQ0) -> (!tile.tile<[64, 64], f32>) : i32 {
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
    %dQ2 = tile.dot %dX, %K plus %dQ1 : (!tile.tile<[64, 32], bf16>, !tile.tile<[32, 64], bf16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    scf.yield %dQ2 : !tile.tile<[64, 64], f32>
  }
  tile.store %dQ, %dq[%rows] : !tile.tile<[64, 64], f32>, !tile.view<[?, ?, ?, 64], f32>[!tile.block<query, 64>]
}

// -----

// The last product reads %do until the iteration ends. With one stage no copy could run meanwhile. The loop has two products and stands
// in another loop: the next %S starts before the end of the iteration.
// CHECK-LABEL: tile.kernel @last
// CHECK-DAG: %[[Q:.*]] = pipe.alloc {{.*}} <2, [32, 64], bf16, panels = true>
// CHECK-DAG: %[[DO:.*]] = pipe.alloc {{.*}} <2, [32, 64], bf16, panels = true>
// CHECK: } consumers 1
// CHECK: scf.for
// CHECK: pipe.dot_start
// CHECK: scf.while
// CHECK: pipe.dot_wait %{{.*}} pending 0
// CHECK: scf.condition
// CHECK: %[[SUM:.*]] = pipe.dot_start
// CHECK: pipe.dot_start
// CHECK: pipe.dot_wait %[[SUM]] pending 1
// CHECK: attributes {pipe.counted}
tile.kernel @last(%q: !tile.view<[?, ?, ?, 64], bf16>, %k: !tile.view<[?, ?, ?, 64], bf16>, %do: !tile.view<[?, ?, ?, 64], bf16>,
                  %dv: !tile.view<[?, ?, ?, 64], f32>, %heads: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 32, stages = 2, warps = 4, q_in_registers = false, consumers = 1, late_stages = 1>} {
  %keys = tile.work : !tile.block<key, 64>
  %K = tile.load %k[%keys] : !tile.view<[?, ?, ?, 64], bf16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], bf16>
  %S0 = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  %dV0 = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %high = tile.extent "Sq"
  %dV = scf.for %g = %zero to %heads step %one iter_args(%dVh = %dV0) -> (!tile.tile<[64, 64], f32>) : i32 {
    %dVg = scf.for %j = %zero to %high step %one iter_args(%dV1 = %dVh) -> (!tile.tile<[64, 64], f32>) : i32 {
      %queries = tile.block %j of %keys : !tile.block<key, 64> -> !tile.block<query, 32>
      %Q = tile.load %q[%queries] : !tile.view<[?, ?, ?, 64], bf16>[!tile.block<query, 32>] -> !tile.tile<[32, 64], bf16>
      %dO = tile.load %do[%queries] : !tile.view<[?, ?, ?, 64], bf16>[!tile.block<query, 32>] -> !tile.tile<[32, 64], bf16>
      %S = tile.dot %K, %Q transposed plus %S0 : (!tile.tile<[64, 64], bf16>, !tile.tile<[32, 64], bf16>, !tile.tile<[64, 32], f32>) -> !tile.tile<[64, 32], f32>
      %P = tile.convert %S : !tile.tile<[64, 32], f32> -> !tile.tile<[64, 32], bf16>
      %dV2 = tile.dot %P, %dO plus %dV1 : (!tile.tile<[64, 32], bf16>, !tile.tile<[32, 64], bf16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
      scf.yield %dV2 : !tile.tile<[64, 64], f32>
    }
    scf.yield %dVg : !tile.tile<[64, 64], f32>
  }
  tile.store %dV, %dv[%keys] : !tile.tile<[64, 64], f32>, !tile.view<[?, ?, ?, 64], f32>[!tile.block<key, 64>]
}

// -----

// Two products that read only stages: both run at once. The next %S starts as soon as %dP is there, before any op uses it, so the ops that
// use this %S do not wait for the next one. A tile that the inner loop reads in all of its iterations has one stage.
// CHECK-LABEL: tile.kernel @pairs
// CHECK-DAG: %[[Q:.*]] = pipe.alloc {{.*}} <1, [64, 64], bf16, panels = true>
// CHECK-DAG: %[[K:.*]] = pipe.alloc {{.*}} <2, [32, 64], bf16, panels = true>
// CHECK: pipe.fill %q{{.*}} to %[[Q]]
// CHECK: pipe.fill %k{{.*}} to %[[K]]
// CHECK: } consumers 1
// CHECK: scf.for
// CHECK: pipe.dot_start
// CHECK: scf.while
// CHECK: pipe.dot_start
// CHECK: pipe.dot_wait %{{.*}} pending 1
// CHECK: pipe.dot_wait %{{.*}} pending 0
// CHECK: scf.condition
// CHECK: pipe.dot_start
// CHECK-NOT: pipe.dot_wait
// CHECK: attributes {pipe.counted}
tile.kernel @pairs(%q: !tile.view<[?, ?, ?, 64], bf16>, %k: !tile.view<[?, ?, ?, 64], bf16>, %v: !tile.view<[?, ?, ?, 64], bf16>,
                   %sums: !tile.view<[?, ?, ?], f32>, %heads: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 32, stages = 2, warps = 4, q_in_registers = false, consumers = 1>} {
  %own = tile.work : !tile.block<query, 64>
  %S0 = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %high = tile.extent "Sk"
  scf.for %h = %zero to %heads step %one : i32 {
    %batch, %head, %kv_head, %first = tile.coordinates %own : !tile.block<query, 64>
    %rows = tile.block %first batch %batch head %h of %own : !tile.block<query, 64> -> !tile.block<query, 64>
    %Q = tile.load %q[%rows] : !tile.view<[?, ?, ?, 64], bf16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], bf16>
    %sum0 = tile.constant 0.0 : !tile.tile<[64], f32>
    %sum = scf.for %j = %zero to %high step %one iter_args(%sum1 = %sum0) -> (!tile.tile<[64], f32>) : i32 {
      %keys = tile.block %j of %rows : !tile.block<query, 64> -> !tile.block<key, 32>
      %K = tile.load %k[%keys] : !tile.view<[?, ?, ?, 64], bf16>[!tile.block<key, 32>] -> !tile.tile<[32, 64], bf16>
      %V = tile.load %v[%keys] : !tile.view<[?, ?, ?, 64], bf16>[!tile.block<key, 32>] -> !tile.tile<[32, 64], bf16>
      %S = tile.dot %Q, %K transposed plus %S0 : (!tile.tile<[64, 64], bf16>, !tile.tile<[32, 64], bf16>, !tile.tile<[64, 32], f32>) -> !tile.tile<[64, 32], f32>
      %P = tile.map %S : (!tile.tile<[64, 32], f32>) -> !tile.tile<[64, 32], f32> {
      ^body(%s: f32, %row: i32, %column: i32):
        %p = math.exp2 %s : f32
        tile.yield %p : f32
      }
      %dP = tile.dot %Q, %V transposed plus %S0 : (!tile.tile<[64, 64], bf16>, !tile.tile<[32, 64], bf16>, !tile.tile<[64, 32], f32>) -> !tile.tile<[64, 32], f32>
      %dS = tile.map %P, %dP, %S : (!tile.tile<[64, 32], f32>, !tile.tile<[64, 32], f32>, !tile.tile<[64, 32], f32>) -> !tile.tile<[64, 32], f32> {
      ^body(%p: f32, %dp: f32, %s: f32, %row: i32, %column: i32):
        %product = arith.mulf %p, %dp : f32
        %ds = arith.mulf %product, %s : f32
        tile.yield %ds : f32
      }
      %next = tile.reduce add %dS from %sum1 : !tile.tile<[64, 32], f32> -> !tile.tile<[64], f32>
      scf.yield %next : !tile.tile<[64], f32>
    }
    tile.store %sum, %sums[%rows] : !tile.tile<[64], f32>, !tile.view<[?, ?, ?], f32>[!tile.block<query, 64>]
  }
}
