// RUN: tesela-opt %s --tile-lower-masks --tile-decompose | FileCheck %s

// In the first block the reference follows the maximum. Other blocks use the current reference. If some sum of a
// warpgroup's exponentials exceeds the limit (or is NaN, as in a row that has kept nothing), the scores are
// computed again, from loaded tiles and with the mask, and the reference follows. Otherwise only the sum is
// updated, and nothing is rescaled.
// CHECK-LABEL: tile.kernel @bf16
tile.kernel @bf16(%q: !tile.view<[?, ?, ?, 64], bf16>, %k: !tile.view<[?, ?, ?, 64], bf16>,
                  %v: !tile.view<[?, ?, ?, 64], bf16>, %factor: f32, %partial: i1, %low: i32, %high: i32, %one: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 32, stages = 2, warps = 4, q_in_registers = false, consumers = 1, reference = recompute>} {
  %rows = tile.work : !tile.block<query, 64>
  %Q = tile.load %q[%rows] : !tile.view<[?, ?, ?, 64], bf16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], bf16>
  %none = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  %O0 = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %m0 = tile.constant 1.0 : !tile.tile<[64], f32>
  %l0 = tile.constant 2.0 : !tile.tile<[64], f32>
  // CHECK: scf.for %[[J:.*]] = %low to %high step %one iter_args(%[[M:.*]] = %{{.*}}, %[[L:.*]] = %{{.*}}, %[[O:.*]] = %{{.*}})
  // CHECK: %[[K:.*]] = tile.load %k
  // CHECK: %[[S:.*]] = tile.dot %[[Q:.*]], %[[K]] transposed plus %[[NONE:.*]] :
  // CHECK: %[[T:.*]] = scf.if %partial
  // CHECK: %[[FIRST:.*]] = arith.cmpi eq, %[[J]], %low
  // CHECK: %[[STEP:.*]]:5 = scf.if %[[FIRST]]
  // CHECK: %[[MAX:.*]] = tile.reduce max %[[T]] from %[[M]]
  // CHECK: %[[P:.*]] = tile.map %[[T]], %{{.*}}
  // CHECK: %[[SUM:.*]] = tile.reduce add %[[P]]
  // CHECK: %[[TRUE:.*]] = arith.constant true
  // CHECK: scf.yield %[[P]], %[[MAX]], %[[SUM]], %{{.*}}, %[[TRUE]]
  // CHECK: } else {
  // CHECK: %[[R:.*]] = tile.map %[[M]]
  // CHECK-NOT: arith.select
  // CHECK: %[[P:.*]] = tile.map %[[T]], %[[R]]
  // CHECK: %[[ZERO:.*]] = tile.constant 0.000000e+00
  // CHECK: %[[SUM:.*]] = tile.reduce add %[[P]] from %[[ZERO]]
  // CHECK-NOT: tile.reduce max
  // CHECK: tile.map %[[SUM]]
  // CHECK: arith.constant 1.1529215E+18
  // CHECK: arith.cmpf ole
  // CHECK: %[[EXCEEDS:.*]] = tile.any_positive %{{.*}} group
  // CHECK: %[[AGAIN:.*]]:4 = scf.if %[[EXCEEDS]]
  // CHECK-NOT: tile.load
  // CHECK: %[[S2:.*]] = tile.dot %[[Q]], %[[K]] transposed plus %[[NONE]] {again}
  // CHECK: %[[T2:.*]] = scf.if %partial
  // CHECK: %[[MAX:.*]] = tile.reduce max %[[T2]] from %[[M]]
  // CHECK: %[[P2:.*]] = tile.map %[[T2]]
  // CHECK: scf.yield %[[P2]], %[[MAX]]
  // CHECK: } else {
  // CHECK: %[[L2:.*]] = tile.map %[[L]], %[[SUM]]
  // CHECK: arith.addf
  // CHECK: %[[ONE:.*]] = tile.constant 1.000000e+00
  // CHECK: scf.yield %[[P]], %[[M]], %[[L2]], %[[ONE]]
  // CHECK: scf.yield %[[AGAIN]]#0, %[[AGAIN]]#1, %[[AGAIN]]#2, %[[AGAIN]]#3, %[[EXCEEDS]]
  // CHECK: scf.if %[[STEP]]#4
  // CHECK: tile.map %[[O]], %[[STEP]]#3
  %m, %l, %O = scf.for %j = %low to %high step %one iter_args(%m1 = %m0, %l1 = %l0, %O1 = %O0) -> (!tile.tile<[64], f32>, !tile.tile<[64], f32>, !tile.tile<[64, 64], f32>) : i32 {
    %keys = tile.block %j of %rows : !tile.block<query, 64> -> !tile.block<key, 32>
    %K = tile.load %k[%keys] : !tile.view<[?, ?, ?, 64], bf16>[!tile.block<key, 32>] -> !tile.tile<[32, 64], bf16>
    %S = tile.dot %Q, %K transposed plus %none : (!tile.tile<[64, 64], bf16>, !tile.tile<[32, 64], bf16>, !tile.tile<[64, 32], f32>) -> !tile.tile<[64, 32], f32>
    %T = tile.mask %S if %partial at %rows, %keys : !tile.tile<[64, 32], f32>, !tile.block<query, 64>, !tile.block<key, 32> do {
    ^bb0(%b: i32, %h: i32, %hkv: i32, %i: i32, %n: i32):
      %keep = arith.cmpi sge, %i, %n : i32
      tile.yield %keep : i1
    }
    %p, %m2, %l2, %alpha = tile.softmax_step %T, %m1, %l1 factor %factor : !tile.tile<[64, 32], f32>, !tile.tile<[64], f32>
    %O2 = tile.rescale %O1 by %alpha : !tile.tile<[64, 64], f32>, !tile.tile<[64], f32>
    %P = tile.convert %p : !tile.tile<[64, 32], f32> -> !tile.tile<[64, 32], bf16>
    %V = tile.load %v[%keys] : !tile.view<[?, ?, ?, 64], bf16>[!tile.block<key, 32>] -> !tile.tile<[32, 64], bf16>
    %O3 = tile.dot %P, %V plus %O2 : (!tile.tile<[64, 32], bf16>, !tile.tile<[32, 64], bf16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    scf.yield %m2, %l2, %O3 : !tile.tile<[64], f32>, !tile.tile<[64], f32>, !tile.tile<[64, 64], f32>
  }
}

// The range of f16 ends at 2^16.
// CHECK-LABEL: tile.kernel @f16
// CHECK: arith.constant 3.276800e+04
tile.kernel @f16(%factor: f32, %low: i32, %high: i32, %one: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 32, stages = 2, warps = 4, q_in_registers = false, consumers = 1, reference = recompute>} {
  %s = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  %m = tile.constant 1.0 : !tile.tile<[64], f32>
  scf.for %j = %low to %high step %one : i32 {
    %p, %m2, %l2, %alpha = tile.softmax_step %s, %m, %m factor %factor : !tile.tile<[64, 32], f32>, !tile.tile<[64], f32>
    %P = tile.convert %p : !tile.tile<[64, 32], f32> -> !tile.tile<[64, 32], f16>
  }
}

// P becomes f16 after a map, which may multiply it by up to 2^8.
// CHECK-LABEL: tile.kernel @mapped_f16
// CHECK: arith.constant 2.560000e+02
tile.kernel @mapped_f16(%factor: f32, %low: i32, %high: i32, %one: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 32, stages = 2, warps = 4, q_in_registers = false, consumers = 1, reference = recompute>} {
  %s = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  %m = tile.constant 1.0 : !tile.tile<[64], f32>
  scf.for %j = %low to %high step %one : i32 {
    %p, %m2, %l2, %alpha = tile.softmax_step %s, %m, %m factor %factor : !tile.tile<[64, 32], f32>, !tile.tile<[64], f32>
    %mapped = tile.map %p : (!tile.tile<[64, 32], f32>) -> !tile.tile<[64, 32], f32> {
    ^body(%x: f32, %row: i32, %column: i32):
      %y = arith.mulf %x, %factor : f32
      tile.yield %y : f32
    }
    %P = tile.convert %mapped : !tile.tile<[64, 32], f32> -> !tile.tile<[64, 32], f16>
  }
}

// A map that is the only user of P, and whose other operand is known before the step, is written next to the exponentials: before the
// test of their sum, and again where they are computed again. The sums are those of the whole P.
// CHECK-LABEL: tile.kernel @map_of_p
// CHECK: scf.for
// CHECK: } else {
// CHECK: %[[P:.*]] = tile.map %{{.*}}, %{{.*}} : (!tile.tile<[64, 32], f32>, !tile.tile<[64], f32>)
// CHECK: tile.reduce add %[[P]]
// CHECK: %[[KEPT:.*]] = tile.map %[[P]], %{{.*}} : (!tile.tile<[64, 32], f32>, !tile.tile<[64, 32], i1>)
// CHECK: %[[EXCEEDS:.*]] = tile.any_positive
// CHECK: scf.if %[[EXCEEDS]]
// CHECK: %[[AGAIN:.*]] = tile.map %{{.*}}, %{{.*}} : (!tile.tile<[64, 32], f32>, !tile.tile<[64, 32], i1>)
// CHECK: scf.yield %[[AGAIN]]
// CHECK: } else {
// CHECK: scf.yield %[[KEPT]]
// CHECK-NOT: i1>)
// CHECK: tile.convert
tile.kernel @map_of_p(%factor: f32, %low: i32, %high: i32, %one: i32, %a: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 32, stages = 2, warps = 4, q_in_registers = false, consumers = 1, reference = recompute>} {
  %s = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  %m = tile.constant 1.0 : !tile.tile<[64], f32>
  scf.for %j = %low to %high step %one : i32 {
    %t = tile.bernoulli %a, %a from %a, %a, %a, %a at %a, %a : !tile.tile<[64, 32], i1>
    %p, %m2, %l2, %alpha = tile.softmax_step %s, %m, %m factor %factor : !tile.tile<[64, 32], f32>, !tile.tile<[64], f32>
    %k = tile.map %p, %t : (!tile.tile<[64, 32], f32>, !tile.tile<[64, 32], i1>) -> !tile.tile<[64, 32], f32> {
    ^body(%e: f32, %dropped: i1, %row: i32, %column: i32):
      %zero = arith.constant 0.0 : f32
      %r = arith.select %dropped, %zero, %e : f32
      tile.yield %r : f32
    }
    %P = tile.convert %k : !tile.tile<[64, 32], f32> -> !tile.tile<[64, 32], bf16>
  }
}

// Without a loop there is one block, and the reference follows.
// CHECK-LABEL: tile.kernel @no_loop
// CHECK: tile.reduce max
// CHECK-NOT: scf.if
tile.kernel @no_loop(%factor: f32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 32, stages = 2, warps = 4, q_in_registers = false, consumers = 1, reference = recompute>} {
  %s = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  %m = tile.constant 1.0 : !tile.tile<[64], f32>
  %p, %m2, %l2, %alpha = tile.softmax_step %s, %m, %m factor %factor : !tile.tile<[64, 32], f32>, !tile.tile<[64], f32>
}

// Found blocks: in a partial block after the first, a warp with rows that have kept nothing computes references
// for them. Rows that keep nothing in this block either have the exponent 0.
// CHECK-LABEL: tile.kernel @found
// CHECK: scf.for %[[J:.*]] = %low to %{{.*}} iter_args(%[[M:.*]] = %{{.*}}, %[[L:.*]] = %{{.*}})
// CHECK: %{{.*}}, %[[PARTIAL:.*]] = tile.found_block
// CHECK: %[[FIRST:.*]] = arith.cmpi eq, %[[J]], %low
// CHECK: %[[T:.*]]:2 = scf.if %[[PARTIAL]]
// CHECK: %[[MASKED:.*]] = tile.map
// CHECK: %[[NEXT:.*]] = scf.if %[[FIRST]]
// CHECK: scf.yield %[[M]]
// CHECK: tile.any_positive
// CHECK-NOT: group
// CHECK: scf.if
// CHECK: scf.yield %[[M]]
// CHECK: tile.reduce max %[[MASKED]]
// CHECK: scf.yield %[[MASKED]], %[[NEXT]]
// CHECK: scf.yield %{{.*}}, %[[M]]
// CHECK: scf.if %[[FIRST]]
// CHECK: tile.reduce max %[[T]]#0 from %[[M]]
// CHECK: } else {
// CHECK: %[[R:.*]] = tile.map %[[T]]#1
// CHECK: %[[KEEPS_NONE:.*]] = arith.andi %[[PARTIAL]]
// CHECK: arith.select %[[KEEPS_NONE]]
// CHECK: %[[P:.*]] = tile.map %[[T]]#0, %[[R]]
// CHECK: tile.any_positive %{{.*}} group
// CHECK: scf.yield %[[P]], %[[T]]#1
tile.kernel @found(%factor: f32, %low: i32, %high: i32, %one: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 32, stages = 2, warps = 4, q_in_registers = false, consumers = 1, reference = recompute>} {
  %rows = tile.work : !tile.block<query, 64>
  %s = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  %m0 = tile.constant 1.0 : !tile.tile<[64], f32>
  %found, %count = tile.find_blocks from %low to %high : !tile.found_blocks<32> one {
  ^bb0(%first: i32, %last: i32):
    %keeps = arith.cmpi sle, %first, %high : i32
    tile.yield %keeps, %keeps : i1, i1
  } many {
  ^bb0(%first: i32, %last: i32):
    %keeps = arith.cmpi sle, %first, %high : i32
    tile.yield %keeps, %keeps : i1, i1
  }
  %m, %l = scf.for %j = %low to %count step %one iter_args(%m1 = %m0, %l1 = %m0) -> (!tile.tile<[64], f32>, !tile.tile<[64], f32>) : i32 {
    %index, %partial = tile.found_block %found[%j] : !tile.found_blocks<32>
    %keys = tile.block %index of %rows : !tile.block<query, 64> -> !tile.block<key, 32>
    %T = tile.mask %s if %partial at %rows, %keys : !tile.tile<[64, 32], f32>, !tile.block<query, 64>, !tile.block<key, 32>
    %p, %m2, %l2, %alpha = tile.softmax_step %T, %m1, %l1 factor %factor : !tile.tile<[64, 32], f32>, !tile.tile<[64], f32>
    scf.yield %m2, %l2 : !tile.tile<[64], f32>, !tile.tile<[64], f32>
  }
}
