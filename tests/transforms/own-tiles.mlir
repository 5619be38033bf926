// RUN: tesela-opt %s --split-input-file --pass-pipeline="builtin.module(tile-inline-variant{gradients=bias},tile.kernel(tile-own-tiles{sums-batches=true}))" | FileCheck %s

attn.variant @bias parameters [#attn.capture<"bias", bf16, ["H", "Sq", "Sk"]>]
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %bias = attn.read "bias"[%h, %q, %k] : f32
  %r = arith.addf %s, %bias : f32
  attn.yield %r : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %true = arith.constant true
  attn.yield %true : i1
}

// In each batch the blocks end at the same key.
// CHECK-LABEL: tile.kernel @pairs
// CHECK-SAME: %$bias.gradient: !tile.view<[?, ?, ?], bf16>
// CHECK-SAME: tile.owns_tiles
// CHECK-NOT: tile.deposit
// CHECK: tile.put %{{.*}} into %$bias.gradient[%{{.*}}, %{{.*}}, %{{.*}}] : <[?, ?, ?], bf16>
tile.kernel @pairs(%scale: f32) {
  %own = tile.work : !tile.block<query, 64>
  %b, %h, %hkv, %first = tile.coordinates %own : !tile.block<query, 64>
  %x = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %batches = tile.extent "B"
  scf.for %i = %zero to %batches step %one : i32 {
    %queries = tile.block %first batch %i head %h of %own : !tile.block<query, 64> -> !tile.block<query, 64>
    %batch, %head, %kv, %row = tile.coordinates %queries : !tile.block<query, 64>
    %end = arith.addi %row, %one : i32
    tile.blocks %keys, %partial of %queries : !tile.block<query, 64> -> !tile.block<key, 32> runs (%zero, %end) {
      tile.score_partials %x of %x scaled by %scale at %queries, %keys : !tile.tile<[64, 32], f32>, !tile.block<query, 64>, !tile.block<key, 32>
    }
  }
}

// Here the blocks of each batch end at another key.
// CHECK-LABEL: tile.kernel @pairs_of_batches
// CHECK-SAME: %$bias.gradient: !tile.view<[?, ?, ?], f32>
// CHECK-NOT: tile.owns_tiles
// CHECK: tile.deposit
tile.kernel @pairs_of_batches(%scale: f32) {
  %own = tile.work : !tile.block<query, 64>
  %b, %h, %hkv, %first = tile.coordinates %own : !tile.block<query, 64>
  %x = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %batches = tile.extent "B"
  scf.for %i = %zero to %batches step %one : i32 {
    %queries = tile.block %first batch %i head %h of %own : !tile.block<query, 64> -> !tile.block<query, 64>
    %batch, %head, %kv, %row = tile.coordinates %queries : !tile.block<query, 64>
    %end = arith.addi %row, %batch : i32
    tile.blocks %keys, %partial of %queries : !tile.block<query, 64> -> !tile.block<key, 32> runs (%zero, %end) {
      tile.score_partials %x of %x scaled by %scale at %queries, %keys : !tile.tile<[64, 32], f32>, !tile.block<query, 64>, !tile.block<key, 32>
    }
  }
}
