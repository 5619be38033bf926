// RUN: tesela-opt %s --pipe-assign-fragments --pipe-rotate-loop | FileCheck %s

// Both loops copy ahead. The copies in front of the inner loop are a group of their own. Its commit must stay, or the first wait inside
// would not wait for it.
// CHECK-LABEL: tile.kernel @nested
// CHECK: pipe.copy %q
// CHECK: pipe.commit
// CHECK: scf.for
// CHECK: pipe.wait
// CHECK: pipe.copy %q
// CHECK: pipe.commit
// CHECK-NOT: pipe.commit
// CHECK: pipe.copy %k
// CHECK-NEXT: }
// CHECK-NEXT: pipe.commit
// CHECK: scf.for
// CHECK: pipe.wait
// CHECK: pipe.copy %k
// CHECK-NEXT: }
// CHECK-NEXT: pipe.commit
tile.kernel @nested(%q: !tile.view<[?, ?, ?, 64], f16>, %k: !tile.view<[?, ?, ?, 64], f16>, %sum: !tile.view<[?, ?, ?, 64], f32>)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 2, warps = 4, q_in_registers = false>} {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %heads = tile.extent "H"
  %none = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  scf.for %h = %zero to %heads step %one : i32 {
    %queries = tile.block %zero head %h of %rows : !tile.block<query, 64> -> !tile.block<query, 64>
    %Q = tile.load %q[%queries] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], f16>
    %count = tile.extent "Sk"
    %S = scf.for %j = %zero to %count step %one iter_args(%S0 = %none) -> (!tile.tile<[64, 64], f32>) : i32 {
      %keys = tile.block %j of %queries : !tile.block<query, 64> -> !tile.block<key, 64>
      %K = tile.load %k[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
      %S1 = tile.dot %Q, %K transposed plus %S0 : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
      scf.yield %S1 : !tile.tile<[64, 64], f32>
    }
    tile.accumulate %S, %sum[%queries] : !tile.tile<[64, 64], f32>, !tile.view<[?, ?, ?, 64], f32>[!tile.block<query, 64>]
  }
}
