// RUN: tesela-opt %s --pipe-assign-fragments --pipe-split-roles --pipe-place-buffers --pipe-run-roles | FileCheck %s
// RUN: tesela-opt %s --pipe-assign-fragments --pipe-split-roles --pipe-place-buffers --pipe-lower-to-nvvm | FileCheck %s --check-prefix=CODE

// A value that depends on column - row alone and takes many operations gets memory for each of the 64 + 16 - 1 diagonals of a
// warpgroup. Not in a branch: there not all threads may come to it.
// CHECK-LABEL: tile.kernel @distances
// CHECK: tile.map %{{.*}} {pipe.diagonals_offset = {{[0-9]+}} : i64, pipe.diagonals_op = 25 : i64}
// CHECK: scf.if
// CHECK: tile.map
// CHECK-NOT: pipe.diagonals

// A thread computes it for a diagonal, between two barriers of its warpgroup. Elements read it.
// CODE-LABEL: llvm.func @distances
// CODE: bar.sync $0, 128
// CODE: scf.for
// CODE-COUNT-24: arith.muli
// CODE: st.shared
// CODE: bar.sync $0, 128
// CODE-NOT: st.shared
// CODE: llvm.load %{{.*}} : !llvm.ptr<3> -> f32
// CODE-NOT: arith.sitofp
// CODE: arith.addf
tile.kernel @distances(%q: !tile.view<[B, H, Sq, 64], bf16>, %k: !tile.view<[B, Hkv, Sk, 64], bf16>, %sums: !tile.view<[B, H, Sq], f32>, %c: i1)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 16, stages = 1, warps = 4, q_in_registers = false, consumers = 1>} {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %keys = tile.block %zero of %rows : !tile.block<query, 64> -> !tile.block<key, 16>
  %Q = tile.load %q[%rows] : !tile.view<[B, H, Sq, 64], bf16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], bf16>
  %K = tile.load %k[%keys] : !tile.view<[B, Hkv, Sk, 64], bf16>[!tile.block<key, 16>] -> !tile.tile<[16, 64], bf16>
  %none = tile.constant 0.0 : !tile.tile<[64, 16], f32>
  %S = tile.dot %Q, %K transposed plus %none : (!tile.tile<[64, 64], bf16>, !tile.tile<[16, 64], bf16>, !tile.tile<[64, 16], f32>) -> !tile.tile<[64, 16], f32>
  %x = tile.map %S : (!tile.tile<[64, 16], f32>) -> !tile.tile<[64, 16], f32> {
  ^body(%s: f32, %row: i32, %column: i32):
    %m0 = arith.subi %column, %row : i32
    %m1 = arith.muli %m0, %m0 : i32
    %m2 = arith.muli %m1, %m1 : i32
    %m3 = arith.muli %m2, %m2 : i32
    %m4 = arith.muli %m3, %m3 : i32
    %m5 = arith.muli %m4, %m4 : i32
    %m6 = arith.muli %m5, %m5 : i32
    %m7 = arith.muli %m6, %m6 : i32
    %m8 = arith.muli %m7, %m7 : i32
    %m9 = arith.muli %m8, %m8 : i32
    %m10 = arith.muli %m9, %m9 : i32
    %m11 = arith.muli %m10, %m10 : i32
    %m12 = arith.muli %m11, %m11 : i32
    %m13 = arith.muli %m12, %m12 : i32
    %m14 = arith.muli %m13, %m13 : i32
    %m15 = arith.muli %m14, %m14 : i32
    %m16 = arith.muli %m15, %m15 : i32
    %m17 = arith.muli %m16, %m16 : i32
    %m18 = arith.muli %m17, %m17 : i32
    %m19 = arith.muli %m18, %m18 : i32
    %m20 = arith.muli %m19, %m19 : i32
    %m21 = arith.muli %m20, %m20 : i32
    %m22 = arith.muli %m21, %m21 : i32
    %m23 = arith.muli %m22, %m22 : i32
    %m24 = arith.muli %m23, %m23 : i32
    %d = arith.sitofp %m24 : i32 to f32
    %t = arith.addf %s, %d : f32
    tile.yield %t : f32
  }
  %y = scf.if %c -> (!tile.tile<[64, 16], f32>) {
    %z = tile.map %x : (!tile.tile<[64, 16], f32>) -> !tile.tile<[64, 16], f32> {
    ^body(%s: f32, %row: i32, %column: i32):
      %m0 = arith.subi %column, %row : i32
      %m1 = arith.muli %m0, %m0 : i32
      %m2 = arith.muli %m1, %m1 : i32
      %m3 = arith.muli %m2, %m2 : i32
      %m4 = arith.muli %m3, %m3 : i32
      %m5 = arith.muli %m4, %m4 : i32
      %m6 = arith.muli %m5, %m5 : i32
      %m7 = arith.muli %m6, %m6 : i32
      %m8 = arith.muli %m7, %m7 : i32
      %m9 = arith.muli %m8, %m8 : i32
      %m10 = arith.muli %m9, %m9 : i32
      %m11 = arith.muli %m10, %m10 : i32
      %m12 = arith.muli %m11, %m11 : i32
      %m13 = arith.muli %m12, %m12 : i32
      %m14 = arith.muli %m13, %m13 : i32
      %m15 = arith.muli %m14, %m14 : i32
      %m16 = arith.muli %m15, %m15 : i32
      %m17 = arith.muli %m16, %m16 : i32
      %m18 = arith.muli %m17, %m17 : i32
      %m19 = arith.muli %m18, %m18 : i32
      %m20 = arith.muli %m19, %m19 : i32
      %m21 = arith.muli %m20, %m20 : i32
      %m22 = arith.muli %m21, %m21 : i32
      %m23 = arith.muli %m22, %m22 : i32
      %m24 = arith.muli %m23, %m23 : i32
      %d = arith.sitofp %m24 : i32 to f32
      %t = arith.mulf %s, %d : f32
      tile.yield %t : f32
    }
    scf.yield %z : !tile.tile<[64, 16], f32>
  } else {
    scf.yield %x : !tile.tile<[64, 16], f32>
  }
  %start = tile.constant 0.0 : !tile.tile<[64], f32>
  %sum = tile.reduce add %y from %start : !tile.tile<[64, 16], f32> -> !tile.tile<[64], f32>
  tile.store %sum, %sums[%rows] : !tile.tile<[64], f32>, !tile.view<[B, H, Sq], f32>[!tile.block<query, 64>]
}
