// RUN: tesela-opt %s --tile-decompose | FileCheck %s

// CHECK-LABEL: tile.kernel @rescale
tile.kernel @rescale(%v: !tile.view<[?, ?, ?, 32], f32>) {
  %rows = tile.work : !tile.block<query, 64>
  %o = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  %alpha = tile.constant 1.0 : !tile.tile<[64], f32>
  // CHECK: %[[Y:.*]] = tile.map %{{.*}}, %{{.*}} : (!tile.tile<[64, 32], f32>, !tile.tile<[64], f32>) -> !tile.tile<[64, 32], f32> {
  // CHECK-NEXT: ^bb0(%[[X:.*]]: f32, %[[A:.*]]: f32, %{{.*}}: i32, %{{.*}}: i32):
  // CHECK-NEXT: %[[P:.*]] = arith.mulf %[[X]], %[[A]] : f32
  // CHECK-NEXT: tile.yield %[[P]] : f32
  %y = tile.rescale %o by %alpha : !tile.tile<[64, 32], f32>, !tile.tile<[64], f32>
  // CHECK: tile.store %[[Y]]
  tile.store %y, %v[%rows] : !tile.tile<[64, 32], f32>, !tile.view<[?, ?, ?, 32], f32>[!tile.block<query, 64>]
}

// The maximum; the reference, which is 0 in rows without keys; 2^(c·x - r); the sum, which starts from α·l.
// CHECK-LABEL: tile.kernel @softmax_step
tile.kernel @softmax_step(%factor: f32, %v: !tile.view<[?, ?, ?], f32, contiguous>) {
  %rows = tile.work : !tile.block<query, 64>
  %s = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  %m = tile.constant 0.0 : !tile.tile<[64], f32>
  // CHECK: %[[MAX:.*]] = tile.reduce max %[[S:.*]] from
  // CHECK: %[[R:.*]] = tile.map %[[MAX]]
  // CHECK: arith.constant 0xFF800000
  // CHECK: arith.cmpf oeq
  // CHECK: arith.select
  // The product is rounded as it was for the old reference, so it must not be fused.
  // CHECK: %[[ALPHA:.*]] = tile.map %{{.*}}, %[[R]]
  // CHECK: arith.mulf %{{.*}}, %factor
  // CHECK-NOT: math.fma
  // CHECK: math.exp2
  // CHECK: %[[P:.*]] = tile.map %[[S]], %[[R]]
  // CHECK: math.fma %{{.*}}, %factor
  // CHECK: math.exp2
  // CHECK: %[[AL:.*]] = tile.map %{{.*}}, %[[ALPHA]]
  // CHECK: tile.reduce add %[[P]] from %[[AL]]
  // CHECK-NOT: tile.softmax_step
  %p, %m2, %l2, %alpha = tile.softmax_step %s, %m, %m factor %factor : !tile.tile<[64, 32], f32>, !tile.tile<[64], f32>
}

// With a lazy reference, each warp first tests whether a maximum exceeds the reference by more than 2^8. Only then do the
// owners of a row agree on a new reference and rescale.
// CHECK-LABEL: tile.kernel @lazy
tile.kernel @lazy(%factor: f32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 32, stages = 2, warps = 4, q_in_registers = false, reference = lazy>} {
  %s = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  // CHECK: %[[M:.*]] = tile.constant 2.000000e+00 : !tile.tile<[64], f32>
  %m = tile.constant 2.0 : !tile.tile<[64], f32>
  // CHECK: %[[START:.*]] = tile.constant 0xFF800000 : !tile.tile<[64], f32>
  // CHECK: %[[OWN:.*]] = tile.reduce max %[[S:.*]] from %[[START]] {in_shares}
  // CHECK: %[[EXCESS:.*]] = tile.map %[[OWN]], %[[M]]
  // CHECK: arith.constant 8.000000e+00
  // CHECK: %[[GREW:.*]] = tile.any_positive %[[EXCESS]]
  // CHECK: %[[NEXT:.*]]:2 = scf.if %[[GREW]]
  // CHECK: %[[WHOLE:.*]] = tile.total %[[OWN]] {kind = 0 : i32}
  // CHECK: tile.map %[[WHOLE]], %[[M]]
  // CHECK: arith.maxnumf
  // CHECK: } else {
  // CHECK: %[[ONE:.*]] = tile.constant 1.000000e+00 : !tile.tile<[64], f32>
  // CHECK: scf.yield %[[M]], %[[ONE]]
  // CHECK: %[[R:.*]] = tile.map %[[NEXT]]#0
  // CHECK: tile.map %[[S]], %[[R]]
  // CHECK: math.exp2
  %p, %m2, %l2, %alpha = tile.softmax_step %s, %m, %m factor %factor : !tile.tile<[64, 32], f32>, !tile.tile<[64], f32>
  // CHECK: tile.reduce add
  // CHECK-NOT: tile.any_positive
  // CHECK: scf.if %[[GREW]]
  // CHECK: arith.mulf
  // CHECK: } else {
  // CHECK: scf.yield %[[S]]
  %y = tile.rescale %s by %alpha : !tile.tile<[64, 32], f32>, !tile.tile<[64], f32>
}

// Rows without keys give 0 and -inf.
// CHECK-LABEL: tile.kernel @finish
tile.kernel @finish(%factor: f32) {
  %o = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  %m = tile.constant 0.0 : !tile.tile<[64], f32>
  // CHECK: %[[L:.*]] = tile.total
  // CHECK: %[[INVERSE:.*]] = tile.map %[[L]]
  // CHECK: arith.divf
  // CHECK: arith.select
  // CHECK: tile.map %{{.*}}, %[[INVERSE]]
  // CHECK: tile.map %{{.*}}, %[[L]]
  // CHECK: math.log2
  // CHECK: arith.constant 0.693147182
  // CHECK: arith.constant 0xFF800000
  %y, %lse = tile.finish %o, %m, %m factor %factor : !tile.tile<[64, 32], f32>, !tile.tile<[64], f32>
}

// A sink is one more term, relative to the larger of it and the row's maximum. A row without keys has only the sink.
// CHECK-LABEL: tile.kernel @sink
tile.kernel @sink(%factor: f32, %$z: !tile.view<[?], f32>) {
  %rows = tile.work : !tile.block<query, 64>
  %o = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  %m = tile.constant 0.0 : !tile.tile<[64], f32>
  // CHECK: %[[Z:.*]] = tile.map : () -> !tile.tile<[64], f32>
  // CHECK: tile.read %$z
  %z = tile.sink at %rows : !tile.block<query, 64> -> !tile.tile<[64], f32> do {
  ^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32):
    %x = tile.read %$z[%h] : !tile.view<[?], f32> -> f32
    tile.yield %x : f32
  }
  // CHECK: %[[L:.*]] = tile.total
  // CHECK: %[[WEIGHTS:.*]] = tile.map %{{.*}}, %[[L]], %[[Z]]
  // CHECK: arith.maxnumf
  // CHECK-COUNT-2: math.exp2
  // CHECK: arith.divf
  // CHECK: tile.map %{{.*}}, %[[L]], %[[Z]]
  // CHECK: math.log2
  // CHECK: tile.map %{{.*}}, %[[WEIGHTS]]
  %y, %lse = tile.finish %o, %m, %m factor %factor sink %z : !tile.tile<[64, 32], f32>, !tile.tile<[64], f32>, !tile.tile<[64], f32>
}

// A hook that no variant filled adds no ops.
// CHECK-LABEL: tile.kernel @no_sink
tile.kernel @no_sink(%factor: f32) {
  %rows = tile.work : !tile.block<query, 64>
  %o = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  %m = tile.constant 0.0 : !tile.tile<[64], f32>
  %z = tile.sink at %rows : !tile.block<query, 64> -> !tile.tile<[64], f32>
  // CHECK-NOT: arith.maxnumf
  // CHECK: tile.total
  // CHECK-NOT: math.exp2
  %y, %lse = tile.finish %o, %m, %m factor %factor sink %z : !tile.tile<[64, 32], f32>, !tile.tile<[64], f32>, !tile.tile<[64], f32>
}
