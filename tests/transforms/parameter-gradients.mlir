// RUN: tesela-opt %s --tile-inline-variant=gradients=slope,table,bias,gate,buckets,z | FileCheck %s
// RUN: tesela-opt %s --pass-pipeline="builtin.module(tile-inline-variant{gradients=slope,table,bias,gate,buckets,z},tile.kernel(tile-lower-blocks,tile-decompose))" | FileCheck %s --check-prefix=LOOP

attn.variant @several parameters [
  #attn.capture<"slope", f32, ["H"]>, #attn.capture<"table", f32, ["H", "N"]>, #attn.capture<"bias", bf16, ["Sq", "Sk"]>,
  #attn.capture<"gate", f32, ["Sk"]>, #attn.capture<"buckets", f32, ["M"]>, #attn.capture<"z", f32, ["H"]>]
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %slope = attn.read "slope"[%h] : f32
  %distance = arith.subi %k, %q : i32
  %d = arith.sitofp %distance : i32 to f32
  %linear = arith.mulf %slope, %d : f32
  %table = attn.read "table"[%h, %distance] : f32
  %bias = attn.read "bias"[%q, %k] : f32
  %gate = attn.read "gate"[%k] : f32
  %eight = arith.constant 8 : i32
  %place = attn.floor_div %q, %eight : i32
  %sum = arith.addi %place, %k : i32
  %bucket = attn.read "buckets"[%sum] : f32
  %r0 = arith.addf %s, %linear : f32
  %r1 = arith.addf %r0, %table : f32
  %r2 = arith.addf %r1, %bias : f32
  %r3 = arith.addf %r2, %gate : f32
  %r4 = arith.addf %r3, %bucket : f32
  attn.yield %r4 : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %true = arith.constant true
  attn.yield %true : i1
} sink {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32):
  %z = attn.read "z"[%h] : f32
  attn.yield %z : f32
}

// The views to which the kernel adds become arguments: sums with two axes of their own, or the gradient itself.
// CHECK-LABEL: tile.kernel @pairs
// CHECK-SAME: %$slope.sums: !tile.view<[?, ?, ?], i32>
// CHECK-SAME: %$table.sums: !tile.view<[?, ?, ?, ?], i32>
// CHECK-SAME: %$bias.gradient: !tile.view<[?, ?], f32>
// CHECK-SAME: %$gate.sums: !tile.view<[?, ?, ?], i32>
// CHECK-NOT: z.sums
// CHECK: tile.score_partials
// CHECK: tile.collect %{{.*}} into %$slope.sums[%[[H:[a-z0-9_]+]]]
// CHECK: tile.collect %{{.*}} into %$table.sums[%[[H]], %{{.*}}]
// CHECK: tile.deposit %{{.*}} into %$bias.gradient[%{{.*}}, %{{.*}}]
// CHECK: tile.sink_partials
// CHECK: tile.collect %{{.*}} into %$z.sums

// If no index depends on the key, the sum runs over the loop. Elements that belong to one pair are added one by one, others by lines.
// LOOP-LABEL: tile.kernel @pairs
// LOOP: %[[SHARES:.*]] = scf.for {{.*}} iter_args(%[[CARRIED:.*]] = %{{.*}}) -> (!tile.tile<[64], f32>)
// LOOP: tile.add_lines "diagonals" of
// LOOP: tile.collect %{{.*}} into %$table.sums
// LOOP: tile.add_lines "columns" of
// LOOP: tile.collect %{{.*}} into %$gate.sums
// LOOP: tile.add_lines "elements" of
// LOOP: tile.collect %{{.*}} into %$buckets.sums
// LOOP: %[[ADDED:.*]] = tile.map
// LOOP: tile.deposit %{{.*}} into %$bias.gradient
// LOOP: tile.perform %[[ADDED]]
// LOOP: %[[NEXT:.*]] = tile.reduce add %{{.*}} from %[[CARRIED]]
// LOOP: scf.yield %[[NEXT]]
// LOOP: %[[SUMS:.*]] = tile.total %[[SHARES]]
// LOOP: %[[ROWS:.*]] = tile.map %[[SUMS]]
// LOOP: tile.collect %{{.*}} into %$slope.sums
// LOOP: tile.perform %[[ROWS]]
tile.kernel @pairs(%scale: f32) {
  %queries = tile.work : !tile.block<query, 64>
  %x = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  tile.blocks %keys, %partial of %queries : !tile.block<query, 64> -> !tile.block<key, 32> {
    tile.score_partials %x of %x scaled by %scale at %queries, %keys : !tile.tile<[64, 32], f32>, !tile.block<query, 64>, !tile.block<key, 32>
  }
}

tile.kernel @rows() {
  %rows = tile.work : !tile.block<query, 64>
  %x = tile.constant 0.0 : !tile.tile<[64], f32>
  tile.sink_partials %x at %rows : !tile.tile<[64], f32>, !tile.block<query, 64>
}
