// An input that a launch may leave out is read if its address is not 0. Otherwise its values are 0.
// RUN: tesela-opt %s --split-input-file --pipe-assign-fragments --pipe-place-buffers --pipe-lower-to-nvvm --canonicalize | FileCheck %s

// One test is enough for all rows.
// CHECK-LABEL: llvm.func @rows
// CHECK: %[[THERE:.*]] = llvm.icmp "ne" %{{.*}}, %{{.*}} : !llvm.ptr<1>
// CHECK: %[[LEFT:.*]] = arith.select %[[THERE]], %{{.*}}, %{{.*}} : i32
// CHECK-NOT: llvm.load
// CHECK: %[[READS:.*]] = arith.cmpi sgt, %[[LEFT]], %{{.*}} : i32
// CHECK-NEXT: scf.if %[[READS]]
// CHECK-NOT: llvm.icmp
tile.kernel @rows(optional %x: !tile.view<[?, ?, ?], f32, contiguous>, out %y: !tile.view<[?, ?, ?], f32, contiguous>)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false>} {
  %rows = tile.work : !tile.block<query, 64>
  %X = tile.load %x[%rows] : !tile.view<[?, ?, ?], f32, contiguous>[!tile.block<query, 64>] -> !tile.tile<[64], f32>
  tile.store %X, %y[%rows] : !tile.tile<[64], f32>, !tile.view<[?, ?, ?], f32, contiguous>[!tile.block<query, 64>]
}

// -----

// CHECK-LABEL: llvm.func @columns
// CHECK: %[[THERE:.*]] = llvm.icmp "ne" %{{.*}}, %{{.*}} : !llvm.ptr<1>
// CHECK-NOT: llvm.load
// CHECK: scf.if %[[THERE]]
// CHECK-NOT: scf.if
// CHECK: llvm.load {{.*}} : !llvm.ptr<1> -> f32
tile.kernel @columns(optional %x: !tile.view<[?, ?, ?], f32, contiguous>, out %y: !tile.view<[?, ?, ?, 8], f32>)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false>} {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %columns = tile.block %zero of %rows : !tile.block<query, 64> -> !tile.block<query, 8>
  %X = tile.load %x[%columns] : !tile.view<[?, ?, ?], f32, contiguous>[!tile.block<query, 8>] -> !tile.tile<[1, 8], f32>
  %Y = tile.map %X : (!tile.tile<[1, 8], f32>) -> !tile.tile<[64, 8], f32> {
  ^body(%value: f32, %row: i32, %column: i32):
    tile.yield %value : f32
  }
  tile.store %Y, %y[%rows] : !tile.tile<[64, 8], f32>, !tile.view<[?, ?, ?, 8], f32>[!tile.block<query, 64>]
}
