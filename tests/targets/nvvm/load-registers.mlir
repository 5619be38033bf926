// Tiles that no product reads come into registers without a buffer: pairs of columns, and rows. They are 0 from the limit on.
// RUN: tesela-opt %s --pipe-assign-fragments --pipe-place-buffers | FileCheck %s --check-prefix=ASSIGN
// RUN: tesela-opt %s --pipe-assign-fragments --pipe-place-buffers --pipe-lower-to-nvvm --canonicalize | FileCheck %s

// ASSIGN-NOT: pipe.copy
// ASSIGN: tile.load %x{{.*}} -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
// ASSIGN: tile.load %y{{.*}} -> !tile.tile<[64], f32, #pipe.rows<warps = 4, shares = false>>

// Two rows for each lane: 8 pairs of columns each, then the row's own value.
// CHECK-LABEL: llvm.func @load
// CHECK: scf.if
// CHECK-COUNT-8: llvm.load {{.*}} {alignment = 8 : i64} : !llvm.ptr<1> -> vector<2xf32>
// CHECK: else
// CHECK: scf.if
// CHECK-COUNT-8: llvm.load {{.*}} {alignment = 8 : i64} : !llvm.ptr<1> -> vector<2xf32>
// CHECK: scf.if
// CHECK: llvm.load {{.*}} : !llvm.ptr<1> -> f32
// CHECK: scf.if
// CHECK: llvm.load {{.*}} : !llvm.ptr<1> -> f32
tile.kernel @load(%x: !tile.view<[?, ?, ?, 64], f32>, %y: !tile.view<[?, ?, ?], f32, contiguous>,
                  %o: !tile.view<[?, ?, ?, 64], bf16>, %lse: !tile.view<[?, ?, ?], f32, contiguous>)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false>} {
  %rows = tile.work : !tile.block<query, 64>
  %X = tile.load %x[%rows] : !tile.view<[?, ?, ?, 64], f32>[!tile.block<query, 64>] -> !tile.tile<[64, 64], f32>
  %Y = tile.load %y[%rows] : !tile.view<[?, ?, ?], f32, contiguous>[!tile.block<query, 64>] -> !tile.tile<[64], f32>
  %R = tile.convert %X : !tile.tile<[64, 64], f32> -> !tile.tile<[64, 64], bf16>
  tile.store %R, %o[%rows] : !tile.tile<[64, 64], bf16>, !tile.view<[?, ?, ?, 64], bf16>[!tile.block<query, 64>]
  tile.store %Y, %lse[%rows] : !tile.tile<[64], f32>, !tile.view<[?, ?, ?], f32, contiguous>[!tile.block<query, 64>]
}
