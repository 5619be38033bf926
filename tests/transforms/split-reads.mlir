// RUN: tesela-opt %s --tile-split-reads | FileCheck %s

// table[h, base + row - column] in a tile of 8 × 16: one test for all elements; if it is true, reads have no
// clamps.
// CHECK-LABEL: tile.kernel @relative
tile.kernel @relative(%table: !tile.view<[?, ?], f32>, %h: i32, %base: i32, %v: !tile.view<[?, ?, ?, 16], f32>) {
  %rows = tile.work : !tile.block<query, 8>
  %x = tile.constant 0.0 : !tile.tile<[8, 16], f32>
  // CHECK: %[[COVERED:.*]] = tile.covers %table[%h, %base] low [0, -15] high [0, 7]
  // CHECK: %[[R:.*]] = scf.if %[[COVERED]]
  // CHECK: tile.read {{.*}} {covered}
  // CHECK: } else {
  // CHECK: tile.map {{.*}} {tile.seldom}
  // CHECK: tile.read
  // CHECK-NOT: covered
  // CHECK: tile.store %[[R]]
  %y = tile.map %x : (!tile.tile<[8, 16], f32>) -> !tile.tile<[8, 16], f32> {
  ^bb0(%e: f32, %row: i32, %column: i32):
    %d = arith.subi %row, %column : i32
    %i = arith.addi %base, %d : i32
    %t = tile.read %table[%h, %i] : !tile.view<[?, ?], f32> -> f32
    tile.yield %t : f32
  }
  tile.store %y, %v[%rows] : !tile.tile<[8, 16], f32>, !tile.view<[?, ?, ?, 16], f32>[!tile.block<query, 8>]
}

// An index that is not linear keeps its clamp. A map without linear indices is not split.
// CHECK-LABEL: tile.kernel @gather
tile.kernel @gather(%table: !tile.view<[?], i32>, %weight: !tile.view<[?], f32>) {
  %rows = tile.work : !tile.block<query, 8>
  %x = tile.constant 0.0 : !tile.tile<[8, 16], f32>
  // CHECK-NOT: tile.covers
  %y = tile.map %x : (!tile.tile<[8, 16], f32>) -> !tile.tile<[8, 16], f32> {
  ^bb0(%e: f32, %row: i32, %column: i32):
    %d = arith.xori %row, %column : i32
    %t = tile.read %weight[%d] : !tile.view<[?], f32> -> f32
    tile.yield %t : f32
  }
}

// Rows of four heads: the box spans the positions of the rows, 0 to 1. The head of a row is not linear in the position.
// CHECK-LABEL: tile.kernel @packed
tile.kernel @packed(%table: !tile.view<[?], f32>, %slope: !tile.view<[?], f32>, %base: i32, %v: !tile.view<[?, ?, ?, 16], f32>) {
  %rows = tile.work : !tile.block<query, 8, 4>
  %x = tile.constant 0.0 : !tile.tile<[8, 16], f32>
  // CHECK: tile.covers %table[%base] low [-15] high [1]
  // CHECK: tile.read %table{{.*}} {covered}
  // CHECK-NEXT: tile.read %slope[%{{[0-9]+}}] : <[?], f32>
  %y = tile.map %x : (!tile.tile<[8, 16], f32>) -> !tile.tile<[8, 16], f32> {
  ^bb0(%e: f32, %row: i32, %column: i32):
    %two = arith.constant 2 : i32
    %three = arith.constant 3 : i32
    %position = arith.shrui %row, %two : i32
    %head = arith.andi %row, %three : i32
    %d = arith.subi %position, %column : i32
    %i = arith.addi %base, %d : i32
    %t = tile.read %table[%i] : !tile.view<[?], f32> -> f32
    %s = tile.read %slope[%head] : !tile.view<[?], f32> -> f32
    %p = arith.mulf %t, %s : f32
    tile.yield %p : f32
  }
  tile.store %y, %v[%rows] : !tile.tile<[8, 16], f32>, !tile.view<[?, ?, ?, 16], f32>[!tile.block<query, 8, 4>]
}

// One load brings eight neighbouring 16-bit elements if columns 0, 8, … are aligned. The other two versions are for tiles that are
// covered but not aligned, and for all others.
// CHECK-LABEL: tile.kernel @chunks
tile.kernel @chunks(%bias: !tile.view<[?, ?, ?], bf16>, %h: i32, %q: i32, %k: i32, %v: !tile.view<[?, ?, ?, 32], f32>) {
  %rows = tile.work : !tile.block<query, 8>
  %x = tile.constant 0.0 : !tile.tile<[8, 32], f32>
  // CHECK: %[[COVERED:.*]] = tile.covers %bias[%h, %q, %k] low [0, 0, 0] high [0, 7, 31] :
  // CHECK: %[[CHUNKED:.*]] = tile.covers %bias[%h, %q, %k] low [0, 0, 0] high [0, 7, 31] {chunks} :
  // CHECK: scf.if %[[COVERED]]
  // CHECK: scf.if %[[CHUNKED]]
  // CHECK: tile.read {{.*}} {chunked, covered}
  // CHECK: tile.read {{.*}} {covered}
  // CHECK: tile.map {{.*}} {tile.seldom}
  %y = tile.map %x : (!tile.tile<[8, 32], f32>) -> !tile.tile<[8, 32], f32> {
  ^bb0(%e: f32, %row: i32, %column: i32):
    %i = arith.addi %q, %row : i32
    %j = arith.addi %k, %column : i32
    %t = tile.read %bias[%h, %i, %j] : !tile.view<[?, ?, ?], bf16> -> f32
    tile.yield %t : f32
  }
  tile.store %y, %v[%rows] : !tile.tile<[8, 32], f32>, !tile.view<[?, ?, ?, 32], f32>[!tile.block<query, 8>]
}
