// RUN: tesela-opt %s --pipe-assign-fragments --pipe-place-buffers --pipe-lower-to-nvvm | FileCheck %s

// Of 32 columns a lane has two in each of four groups, in two rows. If the tile is inside of the view and its rows begin at multiples of
// 16 bytes, four lanes exchange them and each stores eight adjacent elements. Otherwise each element is tested.
// CHECK-LABEL: llvm.func @halves
// CHECK: scf.if
// CHECK-COUNT-4: shfl.sync.bfly
// CHECK: st.global.v4.b32
// CHECK-COUNT-4: shfl.sync.bfly
// CHECK: st.global.v4.b32
// CHECK-NOT: st.global.v4.b32
// CHECK: } else {
// CHECK-COUNT-16: llvm.store %{{.*}} : bf16
tile.kernel @halves(%x: !tile.view<[B, H, Sq, 32], f32>, %$g: !tile.view<[?, ?], bf16>)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 32, stages = 1, warps = 4, q_in_registers = false>} {
  %rows = tile.work : !tile.block<query, 64>
  %b, %h, %hkv, %first = tile.coordinates %rows : !tile.block<query, 64>
  %X = tile.load %x[%rows] : !tile.view<[B, H, Sq, 32], f32>[!tile.block<query, 64>] -> !tile.tile<[64, 32], f32>
  %stored = tile.map %X : (!tile.tile<[64, 32], f32>) -> !tile.tile<[64, 32], f32> {
  ^body(%e: f32, %row: i32, %column: i32):
    %q = arith.addi %first, %row : i32
    %p = tile.put %e into %$g[%q, %column] : !tile.view<[?, ?], bf16>
    tile.yield %p : f32
  }
  tile.perform %stored : !tile.tile<[64, 32], f32>
}

// Of f32, a lane stores its two elements.
// CHECK-LABEL: llvm.func @singles
// CHECK-NOT: shfl.sync
// CHECK-COUNT-8: llvm.store %{{.*}} : vector<2xf32>
// CHECK: } else {
// CHECK-COUNT-16: llvm.store %{{.*}} : f32
tile.kernel @singles(%x: !tile.view<[B, H, Sq, 32], f32>, %g: !tile.view<[?, ?], f32>)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 32, stages = 1, warps = 4, q_in_registers = false>} {
  %rows = tile.work : !tile.block<query, 64>
  %b, %h, %hkv, %first = tile.coordinates %rows : !tile.block<query, 64>
  %X = tile.load %x[%rows] : !tile.view<[B, H, Sq, 32], f32>[!tile.block<query, 64>] -> !tile.tile<[64, 32], f32>
  %stored = tile.map %X : (!tile.tile<[64, 32], f32>) -> !tile.tile<[64, 32], f32> {
  ^body(%e: f32, %row: i32, %column: i32):
    %q = arith.addi %first, %row : i32
    %p = tile.put %e into %g[%q, %column] : !tile.view<[?, ?], f32>
    tile.yield %p : f32
  }
  tile.perform %stored : !tile.tile<[64, 32], f32>
}
