// RUN: tesela-opt %s --tile-lower-dropout=drops=true | FileCheck %s
// RUN: tesela-opt %s --tile-lower-dropout | FileCheck %s --check-prefix=WITHOUT

// The launch's scalars follow the kernel's own arguments. The words of the seed and the offset are combined with the state. The threshold
// has two parts. The scale is 1 / (1 - p).
// CHECK-LABEL: tile.kernel @queries(
// CHECK-SAME: %$dropout.p: f32, %$dropout.seed: i32, %$dropout.seed_high: i32, %$dropout.offset: i32, %$dropout.offset_high: i32, %[[FIRST_Q:.*]]: i32, %[[FIRST_K:.*]]: i32, %$dropout.state: !tile.view<[?], i32>)
// CHECK-COUNT-4: tile.read %$dropout.state
// CHECK: %[[W:.*]] = arith.mulf %$dropout.p, %{{.*}} : f32
// CHECK: arith.fptoui %[[W]] : f32 to i64
// CHECK: arith.minui
// CHECK: arith.divf

// The dropped pairs are computed as soon as the blocks are known, before the loads and the product.
// CHECK: tile.block
// CHECK-NEXT: %{{.*}}, %[[HEAD:.*]], %{{.*}}, %[[Q:.*]] = tile.coordinates
// CHECK-NEXT: %{{.*}}, %{{.*}}, %{{.*}}, %[[K:.*]] = tile.coordinates
// CHECK: tile.extent "H"
// CHECK: %[[ALL_Q:.*]] = arith.addi %[[Q]], %[[FIRST_Q]] : i32
// CHECK: %[[ALL_K:.*]] = arith.addi %[[K]], %[[FIRST_K]] : i32
// CHECK: %[[T:.*]] = tile.bernoulli %{{.*}}, %{{.*}} from %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} at %[[ALL_Q]], %[[ALL_K]] : !tile.tile<[64, 32], i1>
// CHECK: tile.load
// CHECK: %[[DOT:.*]] = tile.dot
// CHECK: %[[E:.*]] = tile.map %[[DOT]]
// CHECK: tile.map %[[E]], %[[T]] : (!tile.tile<[64, 32], f32>, !tile.tile<[64, 32], i1>) -> !tile.tile<[64, 32], f32> {
// CHECK: arith.select
// CHECK: tile.map
// CHECK: arith.mulf
// CHECK-NOT: tile.dropout

// WITHOUT-LABEL: tile.kernel @queries
// WITHOUT-NOT: dropout
// WITHOUT: %[[DOT:.*]] = tile.dot
// WITHOUT-NEXT: %[[E:.*]] = tile.map %[[DOT]]
// WITHOUT: tile.store %[[E]]
tile.kernel @queries(%x: !tile.view<[?, ?, ?, 16], f32>, %o: !tile.view<[?, ?, ?, 32], f32>, %i: i32) {
  %rows = tile.work : !tile.block<query, 64>
  %keys = tile.block %i of %rows : !tile.block<query, 64> -> !tile.block<key, 32>
  %q = tile.load %x[%rows] : !tile.view<[?, ?, ?, 16], f32>[!tile.block<query, 64>] -> !tile.tile<[64, 16], f32>
  %k = tile.load %x[%keys] : !tile.view<[?, ?, ?, 16], f32>[!tile.block<key, 32>] -> !tile.tile<[32, 16], f32>
  %zero = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  %s = tile.dot %q, %k transposed plus %zero : (!tile.tile<[64, 16], f32>, !tile.tile<[32, 16], f32>, !tile.tile<[64, 32], f32>) -> !tile.tile<[64, 32], f32>
  %e = tile.map %s : (!tile.tile<[64, 32], f32>) -> !tile.tile<[64, 32], f32> {
  ^body(%a: f32, %row: i32, %column: i32):
    %b = arith.addf %a, %a : f32
    tile.yield %b : f32
  }
  %d = tile.dropout %e at %rows, %keys : !tile.tile<[64, 32], f32>, !tile.block<query, 64>, !tile.block<key, 32>
  %y = tile.dropout_scale %d : !tile.tile<[64, 32], f32>
  tile.store %y, %o[%rows] : !tile.tile<[64, 32], f32>, !tile.view<[?, ?, ?, 32], f32>[!tile.block<query, 64>]
}

// Here the rows are keys.
// CHECK-LABEL: tile.kernel @keys(
// CHECK: %{{.*}}, %{{.*}}, %{{.*}}, %[[Q:.*]] = tile.coordinates %{{.*}} : <query, 32>
// CHECK-NEXT: %{{.*}}, %{{.*}}, %{{.*}}, %[[K:.*]] = tile.coordinates %{{.*}} : <key, 64>
// CHECK: %[[QUERY:.*]] = arith.addi %[[Q]], %$dropout.first_q
// CHECK-NEXT: %[[KEY:.*]] = arith.addi %[[K]], %$dropout.first_k
// CHECK: tile.bernoulli %{{.*}} at %[[KEY]], %[[QUERY]] transposed : !tile.tile<[64, 32], i1>
tile.kernel @keys(%o: !tile.view<[?, ?, ?, 32], f32>, %i: i32) {
  %keys = tile.work : !tile.block<key, 64>
  %rows = tile.block %i of %keys : !tile.block<key, 64> -> !tile.block<query, 32>
  %e = tile.constant 1.0 : !tile.tile<[64, 32], f32>
  %d = tile.dropout %e at %keys, %rows : !tile.tile<[64, 32], f32>, !tile.block<key, 64>, !tile.block<query, 32>
  tile.store %d, %o[%keys] : !tile.tile<[64, 32], f32>, !tile.view<[?, ?, ?, 32], f32>[!tile.block<key, 64>]
}

// If both branches of an if compute the source, the dropped pairs are computed in both. A second hook with the same blocks uses
// the same result.
// CHECK-LABEL: tile.kernel @branches(
// CHECK: %[[B:.*]]:2 = scf.if %{{.*}} -> (!tile.tile<[64, 32], f32>, !tile.tile<[64, 32], i1>)
// CHECK: %[[T1:.*]] = tile.bernoulli %{{.*}} : !tile.tile<[64, 32], i1>
// CHECK: %[[P1:.*]] = tile.map
// CHECK: scf.yield %[[P1]], %[[T1]]
// CHECK: } else {
// CHECK: %[[T2:.*]] = tile.bernoulli
// CHECK: scf.yield %{{.*}}, %[[T2]]
// CHECK: tile.map %[[B]]#0, %[[B]]#1
// CHECK-NOT: tile.bernoulli
// CHECK: tile.map %{{.*}}, %[[B]]#1
// CHECK-NOT: tile.bernoulli
tile.kernel @branches(%o: !tile.view<[?, ?, ?, 32], f32>, %i: i32, %partial: i1) {
  %keys = tile.work : !tile.block<key, 64>
  %rows = tile.block %i of %keys : !tile.block<key, 64> -> !tile.block<query, 32>
  %s = tile.constant 1.0 : !tile.tile<[64, 32], f32>
  %p = scf.if %partial -> (!tile.tile<[64, 32], f32>) {
    %e = tile.map %s : (!tile.tile<[64, 32], f32>) -> !tile.tile<[64, 32], f32> {
    ^body(%a: f32, %row: i32, %column: i32):
      %b = arith.addf %a, %a : f32
      tile.yield %b : f32
    }
    scf.yield %e : !tile.tile<[64, 32], f32>
  } else {
    scf.yield %s : !tile.tile<[64, 32], f32>
  }
  %d = tile.dropout %p at %keys, %rows : !tile.tile<[64, 32], f32>, !tile.block<key, 64>, !tile.block<query, 32>
  %ds = tile.dropout %s at %keys, %rows : !tile.tile<[64, 32], f32>, !tile.block<key, 64>, !tile.block<query, 32>
  tile.store %d, %o[%keys] : !tile.tile<[64, 32], f32>, !tile.view<[?, ?, ?, 32], f32>[!tile.block<key, 64>]
  tile.store %ds, %o[%keys] : !tile.tile<[64, 32], f32>, !tile.view<[?, ?, ?, 32], f32>[!tile.block<key, 64>]
}

// Without dropout the kernel has no additional arguments.
// CHECK-LABEL: tile.kernel @none() {
// CHECK-NEXT: }
tile.kernel @none() {
}
