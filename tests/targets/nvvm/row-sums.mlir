// Products with row_sums: put off like others, and down to the LLVM dialect.
// RUN: tesela-opt %s --pipe-assign-fragments --pipe-overlap-products | FileCheck %s --check-prefix=OVERLAP
// RUN: tesela-opt %s --pipe-assign-fragments --pipe-overlap-products --pipe-split-roles --pipe-place-buffers --pipe-verify-protocol --pipe-lower-to-nvvm | FileCheck %s

// OVERLAP-LABEL: tile.kernel @sums
// OVERLAP: scf.for
// OVERLAP: pipe.dot_start %{{.*}}, %{{.*}} transposed plus
// OVERLAP: %[[X:.*]] = pipe.dot_start %{{.*}}, %{{.*}} row_sums plus {{.*}} -> !tile.tile<[64, 72], f32, #pipe.accumulator<warps = 4, in_flight = true>>
// OVERLAP: pipe.dot_wait %[[X]]
// OVERLAP: }
// OVERLAP: %[[LAST:.*]] = tile.dot %{{.*}}, %{{.*}} row_sums plus
// OVERLAP: %{{.*}}, %[[L:.*]] = tile.split_row_sums %[[LAST]] : {{.*}} -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>, !tile.tile<[64], f32, #pipe.rows<warps = 4, shares = false>>

// One warpgroup writes 2048 bytes of ones behind all buffers (8 + 2 * 6 + 2 * 6 + 8 KiB), which the products of all
// warpgroups see after the barrier.
// CHECK-LABEL: llvm.func @sums
// CHECK: %[[WRITERS:.*]] = arith.constant 128 : i32
// CHECK: arith.cmpi ult, %{{.*}}, %[[WRITERS]]
// CHECK: scf.if
// CHECK: %[[ONES:.*]] = arith.constant 1065369472 : i32
// CHECK-NEXT: "st.shared.b32 [$0+40960], $1;", {{.*}} %[[ONES]]
// CHECK-NEXT: "st.shared.b32 [$0+41472], $1;", {{.*}} %[[ONES]]
// CHECK-NEXT: "st.shared.b32 [$0+41984], $1;", {{.*}} %[[ONES]]
// CHECK-NEXT: "st.shared.b32 [$0+42496], $1;", {{.*}} %[[ONES]]
// CHECK-NEXT: "fence.proxy.async.shared::cta;"
// CHECK: "bar.sync 0;"
// The distance from the stage to the ones is the descriptor's leading byte offset. Each step of 16 rows goes 2048
// bytes ahead and finds the ones 2048 bytes nearer.
// CHECK: scf.for
// CHECK: m64n48k16
// CHECK: %[[PLACE:.*]] = arith.constant 40960 : i32
// CHECK-NEXT: %[[AT:.*]] = arith.addi %{{.*}}, %[[PLACE]]
// CHECK-NEXT: %[[DISTANCE:.*]] = arith.subi %[[AT]], %[[STAGE:.*]] : i32
// CHECK-NEXT: %[[BITS:.*]] = arith.constant 12 : i32
// CHECK-NEXT: %[[FIELD:.*]] = arith.shli %[[DISTANCE]], %[[BITS]]
// CHECK-NEXT: %[[LEADING:.*]] = arith.extui %[[FIELD]] : i32 to i64
// CHECK: arith.shrui %[[STAGE]], %{{.*}}
// CHECK: %[[REST:.*]] = arith.constant 4611686293305294848 : i64
// CHECK-NEXT: %[[WITHOUT:.*]] = arith.ori %{{.*}}, %[[REST]]
// CHECK-NEXT: arith.ori %[[WITHOUT]], %[[LEADING]]
// CHECK: add.s64 db, ${{[0-9]+}}, 0;
// CHECK-SAME: wgmma.mma_async.sync.aligned.m64n72k16.f32.bf16.bf16
// CHECK-SAME: add.s64 db, ${{[0-9]+}}, -8388480;
// CHECK-SAME: wgmma.mma_async.sync.aligned.m64n72k16.f32.bf16.bf16
// CHECK-SAME: add.s64 db, ${{[0-9]+}}, -16776960;
// CHECK-SAME: wgmma.mma_async.sync.aligned.m64n72k16.f32.bf16.bf16
tile.kernel @sums(%q: !tile.view<[?, ?, ?, 64], bf16>, %k: !tile.view<[?, ?, ?, 64], bf16>,
                  %v: !tile.view<[?, ?, ?, 64], bf16>, %o: !tile.view<[?, ?, ?, 64], bf16>, %lse: !tile.view<[?, ?, ?], f32>)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 48, stages = 2, warps = 4, q_in_registers = false, consumers = 1, overlap = true, output_buffer = true, row_sums = product>} {
  %low = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %high = tile.extent "Sk"
  %rows = tile.work : !tile.block<query, 64>
  %Q = tile.load %q[%rows] : !tile.view<[?, ?, ?, 64], bf16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], bf16>
  %none = tile.constant 0.0 : !tile.tile<[64, 48], f32>
  %X0 = tile.constant 0.0 : !tile.tile<[64, 72], f32>
  %X = scf.for %j = %low to %high step %one iter_args(%X1 = %X0) -> (!tile.tile<[64, 72], f32>) : i32 {
    %keys = tile.block_at %j of %rows : !tile.block<query, 64> -> !tile.block<key, 48>
    %K = tile.load %k[%keys] : !tile.view<[?, ?, ?, 64], bf16>[!tile.block<key, 48>] -> !tile.tile<[48, 64], bf16>
    %S = tile.dot %Q, %K transposed plus %none : (!tile.tile<[64, 64], bf16>, !tile.tile<[48, 64], bf16>, !tile.tile<[64, 48], f32>) -> !tile.tile<[64, 48], f32>
    %P = tile.convert %S : !tile.tile<[64, 48], f32> -> !tile.tile<[64, 48], bf16>
    %V = tile.load %v[%keys] : !tile.view<[?, ?, ?, 64], bf16>[!tile.block<key, 48>] -> !tile.tile<[48, 64], bf16>
    %X2 = tile.dot %P, %V row_sums plus %X1 : (!tile.tile<[64, 48], bf16>, !tile.tile<[48, 64], bf16>, !tile.tile<[64, 72], f32>) -> !tile.tile<[64, 72], f32>
    scf.yield %X2 : !tile.tile<[64, 72], f32>
  }
  %O, %L = tile.split_row_sums %X : !tile.tile<[64, 72], f32> -> !tile.tile<[64, 64], f32>, !tile.tile<[64], f32>
  %Y = tile.convert %O : !tile.tile<[64, 64], f32> -> !tile.tile<[64, 64], bf16>
  tile.store %Y, %o[%rows] : !tile.tile<[64, 64], bf16>, !tile.view<[?, ?, ?, 64], bf16>[!tile.block<query, 64>]
  tile.store %L, %lse[%rows] : !tile.tile<[64], f32>, !tile.view<[?, ?, ?], f32>[!tile.block<query, 64>]
}
