// RUN: tesela-opt %s --pipe-assign-fragments --pipe-place-buffers --pipe-lower-to-nvvm --canonicalize | FileCheck %s

// The columns of both tiles go into sums of rows only, so their order does not matter. A thread loads 8 neighbouring columns
// of each of its two rows at a time.
// CHECK-LABEL: llvm.func @sums
// CHECK: scf.if
// CHECK-COUNT-2: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK: else
// CHECK: scf.if
// CHECK-COUNT-2: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK-NOT: llvm.load {{.*}} -> i32
// CHECK: llvm.return
tile.kernel @sums(%x: !tile.view<[?, ?, ?, 64], bf16>, %y: !tile.view<[?, ?, ?, 64], bf16>, %o: !tile.view<[?, ?, ?], f32, contiguous>)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false>} {
  %rows = tile.work : !tile.block<query, 64>
  %X = tile.load %x[%rows] : !tile.view<[?, ?, ?, 64], bf16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], bf16>
  %Y = tile.load %y[%rows] : !tile.view<[?, ?, ?, 64], bf16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], bf16>
  %Xf = tile.convert %X : !tile.tile<[64, 64], bf16> -> !tile.tile<[64, 64], f32>
  %Yf = tile.convert %Y : !tile.tile<[64, 64], bf16> -> !tile.tile<[64, 64], f32>
  %product = tile.map %Xf, %Yf : (!tile.tile<[64, 64], f32>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32> {
  ^body(%a: f32, %b: f32, %row: i32, %column: i32):
    %z = arith.mulf %a, %b : f32
    tile.yield %z : f32
  }
  %zero = tile.constant 0.0 : !tile.tile<[64], f32>
  %shares = tile.reduce add %product from %zero : !tile.tile<[64, 64], f32> -> !tile.tile<[64], f32>
  %sum = tile.total %shares : !tile.tile<[64], f32> -> !tile.tile<[64], f32>
  tile.store %sum, %o[%rows] : !tile.tile<[64], f32>, !tile.view<[?, ?, ?], f32, contiguous>[!tile.block<query, 64>]
}

// The map uses the column's number.
// CHECK-LABEL: llvm.func @weighted
// CHECK-NOT: vector<4xi32>
// CHECK: llvm.return
tile.kernel @weighted(%x: !tile.view<[?, ?, ?, 64], bf16>, %o: !tile.view<[?, ?, ?], f32, contiguous>)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false>} {
  %rows = tile.work : !tile.block<query, 64>
  %X = tile.load %x[%rows] : !tile.view<[?, ?, ?, 64], bf16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], bf16>
  %Xf = tile.convert %X : !tile.tile<[64, 64], bf16> -> !tile.tile<[64, 64], f32>
  %weighted = tile.map %Xf : (!tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32> {
  ^body(%a: f32, %row: i32, %column: i32):
    %weight = arith.sitofp %column : i32 to f32
    %z = arith.mulf %a, %weight : f32
    tile.yield %z : f32
  }
  %zero = tile.constant 0.0 : !tile.tile<[64], f32>
  %shares = tile.reduce add %weighted from %zero : !tile.tile<[64, 64], f32> -> !tile.tile<[64], f32>
  %sum = tile.total %shares : !tile.tile<[64], f32> -> !tile.tile<[64], f32>
  tile.store %sum, %o[%rows] : !tile.tile<[64], f32>, !tile.view<[?, ?, ?], f32, contiguous>[!tile.block<query, 64>]
}

// A tile that is stored must keep its columns in order.
// CHECK-LABEL: llvm.func @stored
// CHECK-NOT: vector<4xi32>
// CHECK: llvm.return
tile.kernel @stored(%x: !tile.view<[?, ?, ?, 64], bf16>, %sums: !tile.view<[?, ?, ?], f32, contiguous>, %o: !tile.view<[?, ?, ?, 64], f32>)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false>} {
  %rows = tile.work : !tile.block<query, 64>
  %X = tile.load %x[%rows] : !tile.view<[?, ?, ?, 64], bf16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], bf16>
  %Xf = tile.convert %X : !tile.tile<[64, 64], bf16> -> !tile.tile<[64, 64], f32>
  %zero = tile.constant 0.0 : !tile.tile<[64], f32>
  %shares = tile.reduce add %Xf from %zero : !tile.tile<[64, 64], f32> -> !tile.tile<[64], f32>
  %sum = tile.total %shares : !tile.tile<[64], f32> -> !tile.tile<[64], f32>
  tile.store %sum, %sums[%rows] : !tile.tile<[64], f32>, !tile.view<[?, ?, ?], f32, contiguous>[!tile.block<query, 64>]
  tile.store %Xf, %o[%rows] : !tile.tile<[64, 64], f32>, !tile.view<[?, ?, ?, 64], f32>[!tile.block<query, 64>]
}
