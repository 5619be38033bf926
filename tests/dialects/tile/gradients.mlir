// RUN: tesela-opt %s | tesela-opt | FileCheck %s

// CHECK-LABEL: tile.kernel @additions
tile.kernel @additions(%$sums: !tile.view<[?, ?, ?], i32>, %$gradient: !tile.view<[?, ?], f32>, %scale: f32) {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %keys = tile.block %zero of %rows : !tile.block<query, 64> -> !tile.block<key, 32>
  %x = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  %z = tile.constant 0.0 : !tile.tile<[64], f32>
  // CHECK: tile.score_partials %[[X:.*]] of %[[X]] scaled by %scale at %{{.*}}, %{{.*}} : !tile.tile<[64, 32], f32>, <query, 64>, <key, 32>{{$}}
  tile.score_partials %x of %x scaled by %scale at %rows, %keys : !tile.tile<[64, 32], f32>, !tile.block<query, 64>, !tile.block<key, 32>
  // CHECK: tile.score_partials {{.*}} do {
  tile.score_partials %x of %x scaled by %scale at %rows, %keys : !tile.tile<[64, 32], f32>, !tile.block<query, 64>, !tile.block<key, 32> do {
  ^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
    // CHECK: tile.collect %{{.*}} into %$sums[%{{.*}}] : <[?, ?, ?], i32>
    %c = tile.collect %s into %$sums[%h] : !tile.view<[?, ?, ?], i32>
    // CHECK: tile.deposit %{{.*}} into %$gradient[%{{.*}}, %{{.*}}] : <[?, ?], f32>
    %d = tile.deposit %s into %$gradient[%q, %k] : !tile.view<[?, ?], f32>
  }
  // CHECK: tile.sink_partials %{{.*}} at %{{.*}} : !tile.tile<[64], f32>, <query, 64>
  tile.sink_partials %z at %rows : !tile.tile<[64], f32>, !tile.block<query, 64>
  // CHECK: tile.add_lines "diagonals" of %[[X]] : !tile.tile<[64, 32], f32> {
  tile.add_lines "diagonals" of %x : !tile.tile<[64, 32], f32> {
  ^bb0(%value: f32, %row: i32, %column: i32):
    %c = tile.collect %value into %$sums[%column] : !tile.view<[?, ?, ?], i32>
  }
  %y = tile.map %z : (!tile.tile<[64], f32>) -> !tile.tile<[64], f32> {
  ^bb0(%e: f32, %row: i32, %column: i32):
    %c = tile.collect %e into %$sums[%row] : !tile.view<[?, ?, ?], i32>
    // CHECK: tile.exact_sum %$sums[%{{.*}}] : <[?, ?, ?], i32>
    %t = tile.exact_sum %$sums[%row] : !tile.view<[?, ?, ?], i32>
    // CHECK: tile.put %{{.*}} into %$gradient[%{{.*}}, %{{.*}}] : <[?, ?], f32>
    %p = tile.put %c into %$gradient[%row, %column] : !tile.view<[?, ?], f32>
    %u = arith.addf %p, %t : f32
    tile.yield %u : f32
  }
  // CHECK: tile.perform %{{.*}} : !tile.tile<[64], f32>
  tile.perform %y : !tile.tile<[64], f32>
  // CHECK: tile.add_kept
  tile.add_kept
}
