// An output that a launch may leave out is stored if its address is not 0. One test is enough for all rows.
// RUN: tesela-opt %s --pipe-assign-fragments --pipe-place-buffers --pipe-lower-to-nvvm --canonicalize | FileCheck %s

// CHECK-LABEL: llvm.func @store
// CHECK: %[[THERE:.*]] = llvm.icmp "ne" %{{.*}}, %{{.*}} : !llvm.ptr<1>
// CHECK-NOT: llvm.icmp
// CHECK: %[[STORES:.*]] = arith.andi %{{.*}}, %[[THERE]] : i1
// CHECK-NOT: llvm.icmp
// CHECK: scf.if
// CHECK: llvm.store {{.*}} : f32, !llvm.ptr<1>
tile.kernel @store(in %y: !tile.view<[?, ?, ?], f32, contiguous>, optional %lse: !tile.view<[?, ?, ?], f32, contiguous>)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false>} {
  %rows = tile.work : !tile.block<query, 64>
  %Y = tile.load %y[%rows] : !tile.view<[?, ?, ?], f32, contiguous>[!tile.block<query, 64>] -> !tile.tile<[64], f32>
  tile.store %Y, %lse[%rows] : !tile.tile<[64], f32>, !tile.view<[?, ?, ?], f32, contiguous>[!tile.block<query, 64>]
}
