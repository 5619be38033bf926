// Workspaces with one number per row are stored in whole blocks, as the copy engine reads them later, including rows behind the last
// query. A block that names its own end keeps it, because another work item's rows may lie behind it.
// RUN: tesela-opt %s --pipe-assign-fragments --pipe-place-buffers --pipe-lower-to-nvvm --canonicalize | FileCheck %s

!rows = !tile.block<query, 64>
!line = !tile.tile<[64], f32>

// CHECK-LABEL: llvm.func @whole
// CHECK: arith.subi %c64_i32, %{{.*}} : i32
// CHECK: llvm.store
tile.kernel @whole(in %y: !tile.view<[?, ?, ?], f32, contiguous>, workspace %sums: !tile.view<[B, H, Sq], f32>)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false>} {
  %rows = tile.work : !rows
  %Y = tile.load %y[%rows] : !tile.view<[?, ?, ?], f32, contiguous>[!rows] -> !line
  tile.store %Y, %sums[%rows] : !line, !tile.view<[B, H, Sq], f32>[!rows]
}

// CHECK-LABEL: llvm.func @own_end
// CHECK-SAME: %[[END:[a-z0-9]+]]: i32) attributes
// CHECK-NOT: arith.subi %c64_i32
// CHECK: arith.subi %[[END]], %{{.*}} : i32
// CHECK-NOT: arith.subi %c64_i32
// CHECK: llvm.store
tile.kernel @own_end(in %y: !tile.view<[?, ?, ?], f32, contiguous>, workspace %dealt: !tile.view<[B, 2, 1], f32>, %end: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false>} {
  %rows = tile.work : !rows
  %zero = arith.constant 0 : i32
  %Y = tile.load %y[%rows] : !tile.view<[?, ?, ?], f32, contiguous>[!rows] -> !line
  %line = tile.block %zero to %end batch %zero head %zero -> !rows
  tile.store %Y, %dealt[%line] : !line, !tile.view<[B, 2, 1], f32>[!rows]
}
