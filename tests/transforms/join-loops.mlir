// RUN: tesela-opt %s --pass-pipeline="builtin.module(tile.kernel(tile-join-loops,cse))" | FileCheck %s

// CHECK-LABEL: tile.kernel @pairs
// CHECK: %[[B:.*]] = tile.extent "B"
// Blocks that the loop does not visit get zeros.
// CHECK: scf.for
// CHECK: tile.map
// CHECK: tile.put
// CHECK: tile.perform
// CHECK: scf.for %[[T:.*]] = %{{.*}} to %{{.*}} step %{{.*}} iter_args(%[[SUM:.*]] = %{{.*}}) -> (!tile.tile<[64, 32], f32>)
// CHECK: %[[N:.*]] = arith.divui %[[T]], %[[B]] : i32
// CHECK: %[[I:.*]] = arith.remui %[[T]], %[[B]] : i32
// CHECK: tile.block %{{.*}} batch %[[I]]
// CHECK: %[[ALL:.*]] = tile.map %{{.*}}, %[[SUM]]
// CHECK-NOT: tile.put
// CHECK: %[[NEXT:.*]] = scf.if
// CHECK: tile.map %[[ALL]]
// CHECK: tile.put
// CHECK: tile.perform
// CHECK: } else {
// CHECK: scf.yield %[[ALL]]
// CHECK: scf.yield %[[NEXT]]
// CHECK-NOT: scf.for
tile.kernel @pairs(in %q: !tile.view<[B, H, Sq, 32], bf16>, %$bias.gradient: !tile.view<[?, ?], bf16>) attributes {tile.owns_tiles} {
  %own = tile.work : !tile.block<query, 64>
  %b, %h, %hkv, %first = tile.coordinates %own : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %size = arith.constant 32 : i32
  %batches = tile.extent "B"
  %count = tile.extent "Sk"
  scf.for %i = %zero to %batches step %one : i32 {
    %queries = tile.block %first batch %i head %h of %own : !tile.block<query, 64> -> !tile.block<query, 64>
    %Q = tile.load %q[%queries] : !tile.view<[B, H, Sq, 32], bf16>[!tile.block<query, 64>] -> !tile.tile<[64, 32], bf16>
    %x = tile.convert %Q : !tile.tile<[64, 32], bf16> -> !tile.tile<[64, 32], f32>
    %batch, %head, %kv, %row = tile.coordinates %queries : !tile.block<query, 64>
    %end = arith.divui %count, %size : i32
    scf.for %n = %zero to %end step %one : i32 {
      %start = arith.muli %n, %size : i32
      %keys = tile.block %start of %queries : !tile.block<query, 64> -> !tile.block<key, 32>
      %kb, %kh, %kkv, %column = tile.coordinates %keys : !tile.block<key, 32>
      %added = tile.map %x : (!tile.tile<[64, 32], f32>) -> !tile.tile<[64, 32], f32> {
      ^bb0(%e: f32, %i0: i32, %j0: i32):
        %position = arith.addi %row, %i0 : i32
        %key = arith.addi %column, %j0 : i32
        %twice = arith.addf %e, %e : f32
        %p = tile.put %twice into %$bias.gradient[%position, %key] : !tile.view<[?, ?], bf16>
        tile.yield %p : f32
      }
      tile.perform %added : !tile.tile<[64, 32], f32>
    }
  }
}
