// tests/analysis tests the computed intervals. This file tests where the code is inserted, and when.
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

// In a tile of 32 keys or more, (q - k) % 32 has every value, so no test is needed. (q - k) % 33 may not have every value.
// CHECK-LABEL: tile.kernel @strides
tile.kernel @strides() {
  %rows = tile.work : !tile.block<query, 64>
  %x = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  // CHECK-NOT: tile.find_blocks
  // CHECK: tile.blocks {{.*}} runs (
  tile.blocks %keys, %partial of %rows : !tile.block<query, 64> -> !tile.block<key, 32> {
    %t = tile.mask %x if %partial at %rows, %keys : !tile.tile<[64, 32], f32>, !tile.block<query, 64>, !tile.block<key, 32> do {
    ^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
      %n = arith.constant 32 : i32
      %zero = arith.constant 0 : i32
      %d = arith.subi %q, %k : i32
      %r = attn.floor_mod %d, %n : i32
      %strided = arith.cmpi eq, %r, %zero : i32
      %causal = arith.cmpi sge, %q, %k : i32
      %m = arith.andi %causal, %strided : i1
      tile.yield %m : i1
    }
  }
  // CHECK: tile.find_blocks
  tile.blocks %keys, %partial of %rows : !tile.block<query, 64> -> !tile.block<key, 32> {
    %t = tile.mask %x if %partial at %rows, %keys : !tile.tile<[64, 32], f32>, !tile.block<query, 64>, !tile.block<key, 32> do {
    ^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
      %n = arith.constant 33 : i32
      %zero = arith.constant 0 : i32
      %d = arith.subi %q, %k : i32
      %r = attn.floor_mod %d, %n : i32
      %strided = arith.cmpi eq, %r, %zero : i32
      tile.yield %strided : i1
    }
  }
}

// The transpose: the queries for a block of keys, for all heads that share its key/value head.
// CHECK-LABEL: tile.kernel @queries_of_keys
tile.kernel @queries_of_keys() {
  %rows = tile.work : !tile.block<key, 32>
  %x = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  // CHECK: tile.coordinates {{.*}} : <key, 32>
  // CHECK: tile.blocks {{.*}} : !tile.block<key, 32> -> !tile.block<query, 64> runs (%[[LOW:.*]], %[[HIGH:.*]]) drops ({{.*}}) {
  tile.blocks %queries, %partial of %rows : !tile.block<key, 32> -> !tile.block<query, 64> {
    %t = tile.mask %x if %partial at %queries, %rows : !tile.tile<[64, 32], f32>, !tile.block<query, 64>, !tile.block<key, 32> do {
    ^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
      %m = arith.cmpi sge, %q, %k : i32
      tile.yield %m : i1
    }
  }
}

// Found blocks of queries of several heads: the number counts positions.
// CHECK-LABEL: tile.kernel @found_queries
tile.kernel @found_queries(%$id: !tile.view<[?], i32>) {
  %rows = tile.work : !tile.block<key, 32>
  %x = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  // CHECK: %[[FOUND:.*]], %{{.*}} = tile.find_blocks {{.*}} : <16, query> one {
  // CHECK: tile.blocks {{.*}} : !tile.block<key, 32> -> !tile.block<query, 64, 4> among %[[FOUND]] {
  tile.blocks %queries, %partial of %rows : !tile.block<key, 32> -> !tile.block<query, 64, 4> {
    %t = tile.mask %x if %partial at %queries, %rows : !tile.tile<[64, 32], f32>, !tile.block<query, 64, 4>, !tile.block<key, 32> do {
    ^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
      %idq = tile.read %$id[%q] : !tile.view<[?], i32> -> i32
      %idk = tile.read %$id[%k] : !tile.view<[?], i32> -> i32
      %m = arith.cmpi eq, %idq, %idk : i32
      tile.yield %m : i1
    }
  }
}

// A hook that no variant filled gives no information.
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
