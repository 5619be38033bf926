// What is computed is the business of tests/analysis; here: where it goes, and when.
// RUN: tesela-opt %s --tile-key-ranges | FileCheck %s

// CHECK-LABEL: tile.kernel @causal
tile.kernel @causal() {
  %rows = tile.work : !tile.block<query, 64>
  %x = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  // CHECK: tile.coordinates
  // CHECK: tile.extent "Sq"
  // CHECK: tile.extent "Sk"
  // CHECK: tile.blocks {{.*}} runs (%[[LOW:.*]], %[[HIGH:.*]]) drops ({{.*}}) {
  tile.blocks %keys, %partial of %rows : !tile.block<query, 64> -> !tile.block<key, 32> {
    %t = tile.mask %x if %partial at %rows, %keys : !tile.tile<[64, 32], f32>, !tile.block<query, 64>, !tile.block<key, 32> do {
    ^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
      %m = arith.cmpi sge, %q, %k : i32
      tile.yield %m : i1
    }
  }
}

// A hook that nothing has filled says nothing.
// CHECK-LABEL: tile.kernel @hook
tile.kernel @hook() {
  %rows = tile.work : !tile.block<query, 64>
  %x = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  // CHECK: tile.blocks
  // CHECK-NOT: runs
  tile.blocks %keys, %partial of %rows : !tile.block<query, 64> -> !tile.block<key, 32> {
    %t = tile.mask %x if %partial at %rows, %keys : !tile.tile<[64, 32], f32>, !tile.block<query, 64>, !tile.block<key, 32>
  }
}
