// A block of columns that follows a loop's index, with each kind of copy.
// RUN: tesela-opt %s --pipe-assign-fragments --pipe-split-roles | FileCheck %s --check-prefix=SPLIT
// RUN: tesela-opt %s --pipe-assign-fragments --pipe-split-roles --pipe-place-buffers --pipe-lower-to-nvvm --canonicalize | FileCheck %s

// A warpgroup's rows of the left operand are a part of the fill. All parts have the same columns.
// SPLIT-LABEL: tile.kernel @roles
// SPLIT: scf.for %[[J:[a-z0-9]+]] =
// SPLIT: %[[DEPTH:[0-9]+]] = tile.block %[[J]] of %[[ROWS:[0-9]+]] :
// SPLIT: pipe.fill %a[%[[ROWS]], %[[DEPTH]]] to
// SPLIT: pipe.fill %a[%[[ROWS]], %[[DEPTH]]] to {{.*}} part 1
// SPLIT: pipe.fill %b[%[[DEPTH]]] to

// The block's first row is a column of one tensor and a row of the other.
// CHECK-LABEL: llvm.func @roles
// CHECK: scf.for %[[FIRST:[a-z0-9]+]] =
// CHECK: cp.async.bulk.tensor.4d.shared::cluster{{.*}} %{{[^,]*}}, %{{[^,]*}}, %[[FIRST]], %{{[^,]*}},
// CHECK: cp.async.bulk.tensor.4d.shared::cluster{{.*}} %{{[^,]*}}, %{{[^,]*}}, %[[FIRST]], %{{[^,]*}},
// CHECK: cp.async.bulk.tensor.4d.shared::cluster{{.*}} %{{[^,]*}}, %{{[^,]*}}, %c0_i32{{[^,]*}}, %[[FIRST]],
tile.kernel @roles(%a: !tile.view<[?, ?, ?, ?], bf16>, %b: !tile.view<[?, ?, ?, 64], bf16>,
                   %o: !tile.view<[?, ?, ?, 64], bf16>)
    attributes {schedule = #tile.schedule<block_m = 128, block_n = 64, stages = 2, warps = 8, q_in_registers = false, consumers = 2>} {
  %low = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %high = arith.constant 7 : i32
  %rows = tile.work : !tile.block<query, 128>
  %C0 = tile.constant 0.0 : !tile.tile<[128, 64], f32>
  %C = scf.for %j = %low to %high step %one iter_args(%C1 = %C0) -> (!tile.tile<[128, 64], f32>) : i32 {
    %depth = tile.block %j of %rows : !tile.block<query, 128> -> !tile.block<key, 64>
    %A = tile.load %a[%rows, %depth] : !tile.view<[?, ?, ?, ?], bf16>[!tile.block<query, 128>, !tile.block<key, 64>] -> !tile.tile<[128, 64], bf16>
    %B = tile.load %b[%depth] : !tile.view<[?, ?, ?, 64], bf16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], bf16>
    %C2 = tile.dot %A, %B plus %C1 : (!tile.tile<[128, 64], bf16>, !tile.tile<[64, 64], bf16>, !tile.tile<[128, 64], f32>) -> !tile.tile<[128, 64], f32>
    scf.yield %C2 : !tile.tile<[128, 64], f32>
  }
  %R = tile.convert %C : !tile.tile<[128, 64], f32> -> !tile.tile<[128, 64], bf16>
  tile.store %R, %o[%rows] : !tile.tile<[128, 64], bf16>, !tile.view<[?, ?, ?, 64], bf16>[!tile.block<query, 128>]
}

// Of the last chunk of a row, only the bytes before the limit, Sk, are read.
// CHECK-LABEL: llvm.func @chunks
// CHECK-SAME: %[[SK:[^ ]*]]: i32, %{{[^ ]*}}: !llvm.ptr<1>
// CHECK: %[[COLUMNS:.*]] = arith.subi %[[SK]], %{{.*}} : i32
// CHECK: %[[LEFT:.*]] = arith.subi %[[COLUMNS]], %{{.*}} : i32
// CHECK: %[[SOME:.*]] = arith.maxsi %[[LEFT]], %{{.*}} : i32
// CHECK: %[[MOST:.*]] = arith.minsi %[[SOME]], %{{.*}} : i32
// CHECK: %[[BYTES:.*]] = arith.muli %[[MOST]], %{{.*}} : i32
// CHECK: %[[EXISTING:.*]] = arith.select %{{.*}}, %[[BYTES]], %{{.*}} : i32
// CHECK: "cp.async.cg.shared.global {{.*}} %{{[^,]*}}, %{{[^,]*}}, %[[EXISTING]] :
tile.kernel @chunks(%a: !tile.view<[?, ?, ?, ?], bf16>, %o: !tile.view<[?, ?, ?, 64], bf16>, %index: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false>} {
  %rows = tile.work : !tile.block<query, 64>
  %depth = tile.block %index of %rows : !tile.block<query, 64> -> !tile.block<key, 64>
  %A = tile.load %a[%rows, %depth] : !tile.view<[?, ?, ?, ?], bf16>[!tile.block<query, 64>, !tile.block<key, 64>] -> !tile.tile<[64, 64], bf16>
  %C0 = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %C = tile.dot %A, %A transposed plus %C0 : (!tile.tile<[64, 64], bf16>, !tile.tile<[64, 64], bf16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
  %R = tile.convert %C : !tile.tile<[64, 64], f32> -> !tile.tile<[64, 64], bf16>
  tile.store %R, %o[%rows] : !tile.tile<[64, 64], bf16>, !tile.view<[?, ?, ?, 64], bf16>[!tile.block<query, 64>]
}
