// RUN: tesela-opt %s --split-input-file --verify-diagnostics --tile-sequence-extents | FileCheck %s

// CHECK-LABEL: tile.kernel @dense
tile.kernel @dense() {
  // CHECK: %[[N:.*]] = tile.extent "Sk"
  %n = tile.extent "Sk"
  // CHECK: arith.muli %[[N]], %[[N]]
  %square = arith.muli %n, %n : i32
}

// -----

// Loops over keys end with the sequence's keys, and its queries end `from` later. Extents of the launch do not change.
// CHECK-LABEL: tile.kernel @sequence
// CHECK-SAME: %[[FROM:.*]]: i32, %[[KEYS:.*]]: i32
tile.kernel @sequence(%from: i32, %keys: i32) {
  %item = tile.work : !tile.block<query, 64>
  // CHECK: %[[QUERIES:.*]] = tile.extent "Sq" of_launch
  %queries = tile.extent "Sq" of_launch
  // CHECK: %[[END:.*]] = arith.addi %[[FROM]], %[[QUERIES]] : i32
  %rows = tile.sequence %item from %from of %queries, %keys : !tile.block<query, 64>
  %most = tile.extent "Sk" of_launch
  %n = tile.extent "Sk"
  %m = tile.extent "Sq"
  // CHECK: arith.muli %[[END]], %[[KEYS]]
  %pairs = arith.muli %m, %n : i32
}

// -----

tile.kernel @early(%from: i32, %keys: i32) {
  %item = tile.work : !tile.block<query, 64>
  // expected-error @+1 {{expected to stand behind tile.sequence, which gives Sq and Sk, or to be `of_launch`}}
  %n = tile.extent "Sk"
  %rows = tile.sequence %item from %from of %n, %keys : !tile.block<query, 64>
}

// -----

tile.kernel @twice(%from: i32, %keys: i32) {
  %item = tile.work : !tile.block<query, 64>
  %rows = tile.sequence %item from %from of %keys, %keys : !tile.block<query, 64>
  // expected-error @+1 {{expected one in a kernel, got 2}}
  %again = tile.sequence %rows from %from of %keys, %keys : !tile.block<query, 64>
}
