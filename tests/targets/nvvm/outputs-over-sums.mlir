// RUN: tesela-opt %s --pipe-assign-fragments --pipe-stage-operands --pipe-split-roles --pipe-place-buffers --pipe-start-products --pipe-run-roles | FileCheck %s
// RUN: tesela-opt %s --pipe-assign-fragments --pipe-stage-operands --pipe-split-roles --pipe-place-buffers | FileCheck %s --check-prefix=BARRIER
// RUN: sed 's/, 64\]/, 16]/g' %s | tesela-opt --pipe-assign-fragments --pipe-stage-operands --pipe-split-roles --pipe-place-buffers --pipe-start-products --pipe-run-roles | FileCheck %s --check-prefix=NARROW

// Sums of 128 queries, 64 for each warpgroup. Two outputs of 64 columns lie beside each other in a warpgroup's share, so the second one
// does not wait for the first. The exchange has a channel, so work items need no barrier.
// CHECK: %[[SUMS:.*]] = pipe.alloc {offset = [[#AT:]] : i64} : <1, [128, 64], f32, panels = true>
// CHECK: %[[ONE:.*]] = pipe.alloc over %[[SUMS]] : {{.*}}, {offset = [[#AT]] : i64} : <2, [64, 64], bf16, panels = true>
// CHECK: %[[OTHER:.*]] = pipe.alloc over %[[SUMS]] : {{.*}}, {behind = 8192 : i64, offset = [[#AT + 8192]] : i64} : <2, [64, 64], bf16, panels = true>
// CHECK: } consumers 2
// CHECK-NOT: pipe.barrier
// CHECK: attributes {pipe.counted}
// CHECK: pipe.release %{{.*}} : <1>
// CHECK: pipe.drain
// CHECK: pipe.write %{{.*}} to %[[ONE]]
// CHECK-NEXT: pipe.empty_out %[[ONE]]
// CHECK-NOT: pipe.drain
// CHECK: pipe.write %{{.*}} to %[[OTHER]]
// CHECK-NEXT: pipe.empty_out %[[OTHER]]

// Without a channel, the next item could overwrite the stage that another warpgroup still reads.
// BARRIER: pipe.empty_out
// BARRIER: pipe.empty_out
// BARRIER-NEXT: pipe.barrier
// BARRIER-NEXT: scf.yield

// A share of 16 columns cannot hold a panel of the output. So the output lies over the exchange, and items end with a barrier.
// NARROW-NOT: <2, [64, 16], bf16, panels = true>
// NARROW: } consumers 2
// NARROW: pipe.alloc over %{{.*}} : <1, [128, 16], bf16, panels = true>
// NARROW: pipe.empty_out
// NARROW: pipe.empty_out
// NARROW-NEXT: pipe.drain
// NARROW-NEXT: pipe.barrier
tile.kernel @sums(in %q: !tile.view<[B, H, Sq, 64], bf16>, in %k: !tile.view<[B, Hkv, Sk, 64], bf16>,
    workspace %sum: !tile.view<[B, H, Sq, 64], f32>, out %dk: !tile.view<[B, Hkv, Sk, 64], bf16>,
    out %twice: !tile.view<[B, Hkv, Sk, 64], bf16>)
    attributes {schedule = #tile.schedule<block_m = 128, block_n = 128, stages = 2, warps = 8, q_in_registers = false, consumers = 2, persistent = true>} {
  %keys = tile.work : !tile.block<key, 128>
  %K = tile.load %k[%keys] : !tile.view<[B, Hkv, Sk, 64], bf16>[!tile.block<key, 128>] -> !tile.tile<[128, 64], bf16>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %rows = arith.constant 128 : i32
  %high = tile.extent "Sq"
  %S0 = tile.constant 0.0 : !tile.tile<[128, 128], f32>
  %dK0 = tile.constant 0.0 : !tile.tile<[128, 64], f32>
  %dK = scf.for %j = %zero to %high step %one iter_args(%dK1 = %dK0) -> (!tile.tile<[128, 64], f32>) : i32 {
    %first = arith.muli %j, %rows : i32
    %queries = tile.block %first of %keys : !tile.block<key, 128> -> !tile.block<query, 128>
    %Q = tile.load %q[%queries] : !tile.view<[B, H, Sq, 64], bf16>[!tile.block<query, 128>] -> !tile.tile<[128, 64], bf16>
    %S = tile.dot %K, %Q transposed plus %S0 : (!tile.tile<[128, 64], bf16>, !tile.tile<[128, 64], bf16>, !tile.tile<[128, 128], f32>) -> !tile.tile<[128, 128], f32>
    %P = tile.map %S : (!tile.tile<[128, 128], f32>) -> !tile.tile<[128, 128], f32> {
    ^body(%s: f32, %row: i32, %column: i32):
      %p = math.exp2 %s : f32
      tile.yield %p : f32
    }
    %X = tile.convert %P : !tile.tile<[128, 128], f32> -> !tile.tile<[128, 128], bf16>
    %dK2 = tile.dot %X, %Q plus %dK1 : (!tile.tile<[128, 128], bf16>, !tile.tile<[128, 64], bf16>, !tile.tile<[128, 64], f32>) -> !tile.tile<[128, 64], f32>
    %dQ = tile.dot %X transposed, %K plus %dK0 : (!tile.tile<[128, 128], bf16>, !tile.tile<[128, 64], bf16>, !tile.tile<[128, 64], f32>) -> !tile.tile<[128, 64], f32>
    tile.accumulate %dQ, %sum[%queries] : !tile.tile<[128, 64], f32>, !tile.view<[B, H, Sq, 64], f32>[!tile.block<query, 128>]
    scf.yield %dK2 : !tile.tile<[128, 64], f32>
  }
  %dKi = tile.convert %dK : !tile.tile<[128, 64], f32> -> !tile.tile<[128, 64], bf16>
  tile.store %dKi, %dk[%keys] : !tile.tile<[128, 64], bf16>, !tile.view<[B, Hkv, Sk, 64], bf16>[!tile.block<key, 128>]
  tile.store %dKi, %twice[%keys] : !tile.tile<[128, 64], bf16>, !tile.view<[B, Hkv, Sk, 64], bf16>[!tile.block<key, 128>]
}
