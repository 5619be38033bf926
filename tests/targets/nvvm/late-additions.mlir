// RUN: tesela-opt %s --pipe-assign-fragments --pipe-stage-operands --pipe-split-roles --pipe-place-buffers --pipe-start-products --pipe-run-roles | FileCheck %s
// RUN: sed 's/consumers = 2>/consumers = 2, persistent = true>/' %s | tesela-opt --pipe-assign-fragments --pipe-stage-operands --pipe-split-roles --pipe-place-buffers --pipe-start-products --pipe-run-roles | FileCheck %s --check-prefix=ITEMS

// The sums of dQ are added through a buffer in the order of the workspace. Their product reads stages that the consumers write for each
// other. A channel hands these over, and the product runs one iteration late, so the consumers need not meet. In front of the loop a
// stage is published to which nothing was written. What the first iteration computes of it is added nowhere: its block has no rows.
// The next iteration adds what an iteration has written to the buffer, when the writes are done. Behind the loop two sums are left. The
// columns of dQ are cut: each warpgroup has 64. The sums are written before the next S starts, which reads shared memory all the time.
// CHECK-LABEL: tile.kernel @sums
// CHECK-SAME: pipe.shared_bytes = [[#TOTAL:]]
// CHECK: %[[SUMS:.*]] = pipe.alloc {{.*}} : <1, [64, 128], f32, panels = true>
// CHECK: %[[HANDED:.*]] = pipe.open {offset = [[#TOTAL - 32]] : i64} : <2>
// CHECK: consumers 2
// CHECK: %[[X:.*]] = pipe.alloc {{.*}} : <2, [128, 64], bf16, panels = true>
// CHECK: %[[FAR:.*]] = arith.constant 1073741824 : i32
// CHECK: %[[FAR1:.*]] = arith.constant 1073741824 : i32
// CHECK: pipe.acquire %[[HANDED]][%[[USE0:[a-z0-9_]+]]]
// CHECK-NEXT: pipe.publish %[[X]] on %[[HANDED]][%[[USE0]]]
// CHECK: %[[USE1:.*]] = arith.addi %[[USE0]]
// CHECK: scf.while
// CHECK-SAME: %[[USE:arg[0-9]+]] = %[[USE1]]
// CHECK-SAME: %[[ROW:arg[0-9]+]] = %[[FAR]], %[[LAST:arg[0-9]+]] = %[[FAR1]]
// CHECK: %[[LATE:.*]] = tile.block %[[ROW]] of
// CHECK-NEXT: pipe.add_out %[[SUMS]] to %{{.*}}[%[[LATE]]] late
// CHECK: pipe.acquire %[[HANDED]][%[[USE]]]
// CHECK-NEXT: pipe.write %{{.*}} to %[[X]]
// CHECK-NOT: pipe.barrier
// CHECK: scf.condition
// CHECK-SAME: %[[LAST]],
// CHECK: pipe.publish %[[X]] on %[[HANDED]][%[[N:arg[0-9]+]]]
// CHECK: %[[BEFORE:.*]] = arith.subi %[[N]]
// CHECK-NEXT: pipe.await %[[HANDED]][%[[BEFORE]]]
// CHECK: pipe.dot_start %{{.*}} transposed
// CHECK-SAME: #pipe.accumulator<warps = 4>
// CHECK-NOT: pipe.dot_start
// CHECK: pipe.release %[[HANDED]][%[[BEFORE]]]
// CHECK-NEXT: pipe.drain
// CHECK: pipe.write %{{.*}} to %[[SUMS]]
// CHECK-NOT: pipe.add_out
// CHECK: pipe.dot_start %{{.*}}, %{{.*}} transposed plus
// CHECK-NOT: pipe.add_out
// CHECK: scf.yield
// CHECK: attributes {pipe.counted}
// CHECK: pipe.publish
// CHECK: pipe.write %{{.*}} to %[[SUMS]]
// CHECK: pipe.add_out %[[SUMS]] to %{{.*}} late
// CHECK-NEXT: pipe.await %[[HANDED]]
// CHECK: pipe.write %{{.*}} to %[[SUMS]]
// CHECK-NEXT: pipe.add_out %[[SUMS]]
// CHECK-NOT: late

// If other work items follow, the output lies over the sums, each warpgroup's rows over its own share. The keys are released before
// that, so the next keys come meanwhile, and no warpgroup waits for another. The buffer of sums is where the output can lie.
// ITEMS: %[[SUMS:.*]] = pipe.alloc {offset = [[#AT:]] : i64} : <1, [64, 128], f32, panels = true>
// ITEMS: %[[OUT:.*]] = pipe.alloc over %[[SUMS]] : {{.*}}, {offset = [[#AT]] : i64} : <2, [64, 128], bf16, panels = true>
// ITEMS: } consumers 2
// ITEMS-NOT: pipe.barrier
// ITEMS: attributes {pipe.counted}
// ITEMS: pipe.release %{{.*}} : <1>
// ITEMS: pipe.drain
// ITEMS: pipe.write %{{.*}} to %[[OUT]]
// ITEMS-NEXT: pipe.empty_out %[[OUT]] to
// ITEMS-NOT: pipe.drain
// ITEMS-NOT: pipe.barrier
// ITEMS: scf.yield
// ITEMS-NEXT: }
// ITEMS-NEXT: pipe.drain
tile.kernel @sums(in %q: !tile.view<[B, H, Sq, 128], bf16>, in %k: !tile.view<[B, Hkv, Sk, 128], bf16>,
    workspace %sum: !tile.view<[B, H, Sq, 128], f32>, out %dk: !tile.view<[B, Hkv, Sk, 128], bf16>)
    attributes {schedule = #tile.schedule<block_m = 128, block_n = 64, stages = 2, warps = 8, q_in_registers = false, consumers = 2>} {
  %keys = tile.work : !tile.block<key, 128>
  %K = tile.load %k[%keys] : !tile.view<[B, Hkv, Sk, 128], bf16>[!tile.block<key, 128>] -> !tile.tile<[128, 128], bf16>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %rows = arith.constant 64 : i32
  %high = tile.extent "Sq"
  %S0 = tile.constant 0.0 : !tile.tile<[128, 64], f32>
  %dK0 = tile.constant 0.0 : !tile.tile<[128, 128], f32>
  %dQ0 = tile.constant 0.0 : !tile.tile<[64, 128], f32>
  %dK = scf.for %j = %zero to %high step %one iter_args(%dK1 = %dK0) -> (!tile.tile<[128, 128], f32>) : i32 {
    %first = arith.muli %j, %rows : i32
    %queries = tile.block %first of %keys : !tile.block<key, 128> -> !tile.block<query, 64>
    %Q = tile.load %q[%queries] : !tile.view<[B, H, Sq, 128], bf16>[!tile.block<query, 64>] -> !tile.tile<[64, 128], bf16>
    %S = tile.dot %K, %Q transposed plus %S0 : (!tile.tile<[128, 128], bf16>, !tile.tile<[64, 128], bf16>, !tile.tile<[128, 64], f32>) -> !tile.tile<[128, 64], f32>
    %P = tile.map %S : (!tile.tile<[128, 64], f32>) -> !tile.tile<[128, 64], f32> {
    ^body(%s: f32, %row: i32, %column: i32):
      %p = math.exp2 %s : f32
      tile.yield %p : f32
    }
    %X = tile.convert %P : !tile.tile<[128, 64], f32> -> !tile.tile<[128, 64], bf16>
    %dK2 = tile.dot %X, %Q plus %dK1 : (!tile.tile<[128, 64], bf16>, !tile.tile<[64, 128], bf16>, !tile.tile<[128, 128], f32>) -> !tile.tile<[128, 128], f32>
    %dQ = tile.dot %X transposed, %K plus %dQ0 : (!tile.tile<[128, 64], bf16>, !tile.tile<[128, 128], bf16>, !tile.tile<[64, 128], f32>) -> !tile.tile<[64, 128], f32>
    tile.accumulate %dQ, %sum[%queries] : !tile.tile<[64, 128], f32>, !tile.view<[B, H, Sq, 128], f32>[!tile.block<query, 64>]
    scf.yield %dK2 : !tile.tile<[128, 128], f32>
  }
  %dKi = tile.convert %dK : !tile.tile<[128, 128], f32> -> !tile.tile<[128, 128], bf16>
  tile.store %dKi, %dk[%keys] : !tile.tile<[128, 128], bf16>, !tile.view<[B, Hkv, Sk, 128], bf16>[!tile.block<key, 128>]
}
