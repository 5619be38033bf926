// RUN: tesela-opt %s --tile-lower-blocks | FileCheck %s

// Without ranges: every block of [0, Sk), and all are partial.
// CHECK-LABEL: tile.kernel @all
tile.kernel @all() {
  %rows = tile.work : !tile.block<query, 64>
  %x = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  // CHECK: %[[SK:.*]] = tile.extent "Sk"
  // CHECK: arith.divui %[[SK]]
  // CHECK: scf.for %[[J:.*]] = {{.*}} : i32 {
  // CHECK: %[[KEYS:.*]] = tile.block_at %[[J]] of %{{.*}} : <query, 64> -> <key, 32>
  // CHECK: %[[TRUE:.*]] = arith.constant true
  // CHECK: tile.mask %{{.*}} if %[[TRUE]] at %{{.*}}, %[[KEYS]]
  tile.blocks %keys, %partial of %rows : !tile.block<query, 64> -> !tile.block<key, 32> {
    %t = tile.mask %x if %partial at %rows, %keys : !tile.tile<[64, 32], f32>, !tile.block<query, 64>, !tile.block<key, 32>
  }
}

// With ranges, and a carried value. A block from `first` is partial unless low <= first <= high - 32.
// CHECK-LABEL: tile.kernel @ranges
tile.kernel @ranges(%low: i32, %high: i32, %first: i32, %end: i32, %x: f32) {
  %rows = tile.work : !tile.block<query, 64>
  // CHECK: %[[LOW_BLOCK:.*]] = arith.divui %low
  // CHECK: arith.divui %high
  // CHECK: arith.remui %high
  // CHECK: %[[EMPTY:.*]] = arith.cmpi sge, %low, %high
  // CHECK: %[[HIGH_BLOCK:.*]] = arith.select %[[EMPTY]], %[[LOW_BLOCK]]
  // CHECK: %[[R:.*]] = scf.for %[[J:.*]] = %[[LOW_BLOCK]] to %[[HIGH_BLOCK]] step %{{.*}} iter_args(%[[C:.*]] = %x) -> (f32) : i32 {
  // CHECK: %[[START:.*]] = arith.muli %[[J]]
  // CHECK: %[[LAST:.*]] = arith.subi %end
  // CHECK: %[[BEFORE:.*]] = arith.cmpi slt, %[[START]], %first
  // CHECK: %[[AFTER:.*]] = arith.cmpi sgt, %[[START]], %[[LAST]]
  // CHECK: %[[PARTIAL:.*]] = arith.ori %[[BEFORE]], %[[AFTER]]
  // CHECK: %[[Y:.*]] = arith.select %[[PARTIAL]], %[[C]]
  // CHECK: scf.yield %[[Y]] : f32
  %r = tile.blocks %keys, %partial of %rows : !tile.block<query, 64> -> !tile.block<key, 32>
      carry (%c = %x : f32) range (%low, %high) full (%first, %end) {
    %zero = arith.constant 0.0 : f32
    %y = arith.select %partial, %c, %zero : f32
    tile.yield %y : f32
  }
  // CHECK: arith.addf %[[R]]
  %sum = arith.addf %r, %r : f32
}
