// RUN: tesela-opt %s --split-input-file --tile-sum-by-product | FileCheck %s
// RUN: tesela-opt %s --split-input-file --tile-sum-by-product --tile-decompose | FileCheck %s --check-prefix=CORE

// The accumulator gets eight columns, which are the sums; the loop no longer carries l. What decomposes from it
// adds nothing up and asks no other lane for the total.
// CHECK-LABEL: tile.kernel @forward
// CORE-LABEL: tile.kernel @forward
// CORE-NOT: tile.reduce add
// CORE: tile.dot %{{.*}}, %{{.*}} row_sums plus
// CORE-NOT: tile.reduce add
// CORE-NOT: tile.total
// CORE: %[[O:.*]], %[[L:.*]] = tile.split_row_sums
// CORE: %[[INVERSE:.*]] = tile.map %[[L]]
// CORE: tile.map %[[O]], %[[INVERSE]]
// CORE: tile.map %{{.*}}, %[[L]]
// CORE: math.log2
tile.kernel @forward(%v: !tile.view<[?, ?, ?, 64], bf16>, %factor: f32, %low: i32, %high: i32, %one: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 32, stages = 2, warps = 4, q_in_registers = false, consumers = 1, row_sums = product>} {
  %rows = tile.work : !tile.block<query, 64>
  %s = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  // CHECK: %[[M0:.*]] = tile.constant 1.000000e+00
  %m0 = tile.constant 1.0 : !tile.tile<[64], f32>
  // CHECK: %[[L0:.*]] = tile.constant 0.000000e+00 : !tile.tile<[64], f32>
  %l0 = tile.constant 0.0 : !tile.tile<[64], f32>
  %O0 = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  // CHECK: %[[X0:.*]] = tile.constant 0.000000e+00 : !tile.tile<[64, 72], f32>
  // CHECK: %[[R:.*]]:2 = scf.for %[[J:.*]] = %low to %high step %one iter_args(%[[M1:.*]] = %[[M0]], %[[X1:.*]] = %[[X0]])
  // CHECK: tile.block_at %[[J]]
  // CHECK: %[[P:.*]], %[[M2:.*]], %{{.*}}, %[[ALPHA:.*]] = tile.softmax_step %{{.*}}, %[[M1]], %[[L0]] factor %factor {without_sum}
  // CHECK: %[[X2:.*]] = tile.rescale %[[X1]] by %[[ALPHA]] : !tile.tile<[64, 72], f32>
  // CHECK: %[[PI:.*]] = tile.convert %[[P]]
  // CHECK: %[[V:.*]] = tile.load %v
  // CHECK: %[[X3:.*]] = tile.dot %[[PI]], %[[V]] row_sums plus %[[X2]] : {{.*}} -> !tile.tile<[64, 72], f32>
  // CHECK: scf.yield %[[M2]], %[[X3]]
  // CHECK: %[[O:.*]], %[[L:.*]] = tile.split_row_sums %[[R]]#1 : !tile.tile<[64, 72], f32> -> !tile.tile<[64, 64], f32>, !tile.tile<[64], f32>
  // CHECK: tile.finish %[[O]], %[[R]]#0, %[[L]] factor %factor {whole_sums}
  %m, %l, %O = scf.for %j = %low to %high step %one iter_args(%m1 = %m0, %l1 = %l0, %O1 = %O0) -> (!tile.tile<[64], f32>, !tile.tile<[64], f32>, !tile.tile<[64, 64], f32>) : i32 {
    %keys = tile.block_at %j of %rows : !tile.block<query, 64> -> !tile.block<key, 32>
    %p, %m2, %l2, %alpha = tile.softmax_step %s, %m1, %l1 factor %factor : !tile.tile<[64, 32], f32>, !tile.tile<[64], f32>
    %O2 = tile.rescale %O1 by %alpha : !tile.tile<[64, 64], f32>, !tile.tile<[64], f32>
    %P = tile.convert %p : !tile.tile<[64, 32], f32> -> !tile.tile<[64, 32], bf16>
    %V = tile.load %v[%keys] : !tile.view<[?, ?, ?, 64], bf16>[!tile.block<key, 32>] -> !tile.tile<[32, 64], bf16>
    %O3 = tile.dot %P, %V plus %O2 : (!tile.tile<[64, 32], bf16>, !tile.tile<[32, 64], bf16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    scf.yield %m2, %l2, %O3 : !tile.tile<[64], f32>, !tile.tile<[64], f32>, !tile.tile<[64, 64], f32>
  }
  %Y, %L = tile.finish %O, %m, %l factor %factor : !tile.tile<[64, 64], f32>, !tile.tile<[64], f32>
}

// -----

// The order in which values are carried does not matter. With `recompute` the largest exponential is held against
// the limit (2^15, of f16): as a whole number, so that NaN is larger still.
// CHECK-LABEL: tile.kernel @recompute
// CHECK: iter_args(%[[X1:.*]] = %{{.*}}, %[[M1:.*]] = %{{.*}})
// CHECK: scf.yield %{{.*}}, %{{.*}} : !tile.tile<[64, 72], f32>, !tile.tile<[64], f32>
// CHECK: tile.split_row_sums %{{.*}}#0
// CORE-LABEL: tile.kernel @recompute
// CORE-NOT: tile.reduce add
// CORE: %{{.*}}:4 = scf.if {{.*}} -> (!tile.tile<[64, 32], f32>, !tile.tile<[64], f32>, !tile.tile<[64], f32>, i1)
// CORE: } else {
// CORE: %[[R:.*]] = tile.map
// CORE: %[[P:.*]] = tile.map %{{.*}}, %[[R]]
// CORE: math.exp2
// CORE: %[[BITS:.*]] = tile.map %[[P]]
// CORE: arith.bitcast %{{.*}} : f32 to i32
// CORE: %[[NONE:.*]] = tile.map : ()
// CORE: arith.constant 0 : i32
// CORE: %[[MOST:.*]] = tile.reduce max %[[BITS]] from %[[NONE]] {in_shares} : !tile.tile<[64, 32], i32> -> !tile.tile<[64], i32>
// CORE: tile.map %[[MOST]]
// CORE: arith.constant 1191182336 : i32
// CORE: arith.cmpi sgt
// CORE: %[[EXCEEDS:.*]] = tile.any_positive %{{.*}} group
// CORE: scf.if %[[EXCEEDS]] -> (!tile.tile<[64, 32], f32>, !tile.tile<[64], f32>, !tile.tile<[64], f32>)
// CORE: } else {
// CORE-NEXT: %[[ONE:.*]] = tile.constant 1.000000e+00
// CORE-NEXT: scf.yield %[[P]], %{{.*}}, %[[ONE]]
// CORE-NOT: tile.reduce add
tile.kernel @recompute(%v: !tile.view<[?, ?, ?, 64], f16>, %factor: f32, %low: i32, %high: i32, %one: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 32, stages = 2, warps = 4, q_in_registers = false, consumers = 1, reference = recompute, row_sums = product>} {
  %rows = tile.work : !tile.block<query, 64>
  %s = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  %m0 = tile.constant 1.0 : !tile.tile<[64], f32>
  %l0 = tile.constant 0.0 : !tile.tile<[64], f32>
  %O0 = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %O, %l, %m = scf.for %j = %low to %high step %one iter_args(%O1 = %O0, %l1 = %l0, %m1 = %m0) -> (!tile.tile<[64, 64], f32>, !tile.tile<[64], f32>, !tile.tile<[64], f32>) : i32 {
    %keys = tile.block_at %j of %rows : !tile.block<query, 64> -> !tile.block<key, 32>
    %p, %m2, %l2, %alpha = tile.softmax_step %s, %m1, %l1 factor %factor : !tile.tile<[64, 32], f32>, !tile.tile<[64], f32>
    %O2 = tile.rescale %O1 by %alpha : !tile.tile<[64, 64], f32>, !tile.tile<[64], f32>
    %P = tile.convert %p : !tile.tile<[64, 32], f32> -> !tile.tile<[64, 32], f16>
    %V = tile.load %v[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 32>] -> !tile.tile<[32, 64], f16>
    %O3 = tile.dot %P, %V plus %O2 : (!tile.tile<[64, 32], f16>, !tile.tile<[32, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    scf.yield %O3, %l2, %m2 : !tile.tile<[64, 64], f32>, !tile.tile<[64], f32>, !tile.tile<[64], f32>
  }
  %Y, %L = tile.finish %O, %m, %l factor %factor : !tile.tile<[64, 64], f32>, !tile.tile<[64], f32>
}

// -----

// Without the schedule's word registers sum.
// CHECK-LABEL: tile.kernel @unasked
// CHECK-NOT: without_sum
// CORE-LABEL: tile.kernel @unasked
tile.kernel @unasked(%factor: f32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 32, stages = 2, warps = 4, q_in_registers = false, consumers = 1>} {
  %s = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  %m = tile.constant 1.0 : !tile.tile<[64], f32>
  %p, %m2, %l2, %alpha = tile.softmax_step %s, %m, %m factor %factor : !tile.tile<[64, 32], f32>, !tile.tile<[64], f32>
}
