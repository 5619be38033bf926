// For a block of one row, a tile of one extent has the columns. The first lane of each four stores those that the view has.
// A view without columns gets the first value.
// RUN: tesela-opt %s --pipe-assign-fragments --pipe-place-buffers --pipe-lower-to-nvvm --canonicalize | FileCheck %s

// CHECK-LABEL: llvm.func @store
// A lane's rows are 8 apart. The view has 40 of 64 columns.
// CHECK: %[[LEFT:.*]] = arith.cmpi slt, %{{.*}}, %c40_i32
// CHECK: %[[HAS:.*]] = arith.andi %{{.*}}, %[[LEFT]] : i1
// CHECK: scf.if %[[HAS]]
// CHECK-NEXT: %[[HALF:.*]] = arith.trunci %{{.*}} : i32 to i16
// CHECK: llvm.store %[[HALF]], %{{.*}} : i16, !llvm.ptr<1>
// CHECK: arith.cmpi slt, %{{.*}}, %c32_i32
// CHECK: llvm.store %{{.*}} : i16, !llvm.ptr<1>
// CHECK-NOT: i16, !llvm.ptr<1>
// CHECK: %[[ONE:.*]] = arith.minsi %{{.*}}, %c1_i32
// CHECK: arith.subi %[[ONE]]
// CHECK: llvm.store {{.*}} : f32, !llvm.ptr<1>
tile.kernel @store(in %y: !tile.view<[?, ?, ?], f32, contiguous>, out %o: !tile.view<[?, ?, ?, 40], f16>, out %lse: !tile.view<[?, ?, ?], f32, contiguous>)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false>} {
  %row = tile.work : !tile.block<query, 1>
  %zero = arith.constant 0 : i32
  %from = tile.block %zero batch %zero head %zero -> !tile.block<query, 64>
  %Y = tile.load %y[%from] : !tile.view<[?, ?, ?], f32, contiguous>[!tile.block<query, 64>] -> !tile.tile<[64], f32>
  %Yh = tile.convert %Y : !tile.tile<[64], f32> -> !tile.tile<[64], f16>
  tile.store %Yh, %o[%row] : !tile.tile<[64], f16>, !tile.view<[?, ?, ?, 40], f16>[!tile.block<query, 1>]
  tile.store %Y, %lse[%row] : !tile.tile<[64], f32>, !tile.view<[?, ?, ?], f32, contiguous>[!tile.block<query, 1>]
}
