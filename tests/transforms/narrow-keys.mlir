// RUN: tesela-opt %s --pass-pipeline='builtin.module(tile.kernel(tile-narrow-keys))' | FileCheck %s --check-prefix=HEAD
// RUN: tesela-opt %s --pass-pipeline='builtin.module(tile.kernel(tile-place-views{keys=paged page=16 positions=end},tile-narrow-keys{scales=page}))' | FileCheck %s --check-prefix=PAGE

!rows = !tile.block<query, 64>
!keys = !tile.block<key, 32>
!keyView = !tile.view<[B, Hkv, Sk, 64], bf16>

// The keys' scale multiplies the softmax scale, and the values' scale the output of a row.
// HEAD-LABEL: tile.kernel @forward
// HEAD-SAME: in %k: !tile.view<[B, Hkv, Sk, 64], f8E4M3FN>, in %v: !tile.view<[B, Hkv, Sk, 64], f8E4M3FN>
// HEAD-SAME: in %k_scale: !tile.view<[?], f32>, in %v_scale: !tile.view<[?], f32>
// HEAD: %[[ROWS:.*]] = tile.work
// HEAD-DAG: %{{.*}}, %{{.*}}, %[[KV:.*]], %{{.*}} = tile.coordinates %[[ROWS]]
// HEAD-DAG: %[[KS:.*]] = tile.read %k_scale[%{{.*}}]
// HEAD-DAG: %[[VS:.*]] = tile.read %v_scale[%{{.*}}]
// HEAD-DAG: %[[PRODUCT:.*]] = arith.mulf %scale, %[[KS]]
// HEAD-DAG: %[[BOTH:.*]] = arith.maxnumf %[[PRODUCT]], %
// HEAD: tile.exponent_factor %[[BOTH]]
// HEAD: %[[K8:.*]] = tile.load %k
// HEAD-SAME: -> !tile.tile<[32, 64], f8E4M3FN>
// HEAD-NEXT: %[[K:.*]] = tile.convert %[[K8]] {{.*}} -> !tile.tile<[32, 64], bf16>
// HEAD: %[[S:.*]] = tile.dot %{{.*}}, %[[K]] transposed
// HEAD: tile.score %[[S]] scaled by %[[BOTH]]
// HEAD: %[[V8:.*]] = tile.load %v
// HEAD-NEXT: %[[V:.*]] = tile.convert %[[V8]] {{.*}} -> !tile.tile<[32, 64], f16>
// HEAD: tile.dot %{{.*}}, %[[V]] plus
// HEAD: %[[Y:.*]], %{{.*}} = tile.finish
// HEAD: %[[SCALED:.*]] = tile.map %[[Y]]
// HEAD: arith.mulf %{{.*}}, %[[VS]]
// HEAD: tile.store %[[SCALED]], %o

// Scales of pages multiply the columns of S and of P. A P of 0 stays 0, even if the page does not belong to the sequence.
// PAGE-LABEL: tile.kernel @forward
// PAGE-SAME: in %k: !tile.view<[?, Hkv, 16, 64], f8E4M3FN>
// PAGE-SAME: in %table: !tile.view<[B, ?], i32>, in %lengths: !tile.view<[B], i32>, in %k_scale: !tile.view<[?, ?], f32>, in %v_scale: !tile.view<[?, ?], f32>
// PAGE: tile.paged %k by %table[%{{.*}}] : <[?, Hkv, 16, 64], f8E4M3FN>, <[B, ?], i32> -> <[B, Hkv, Sk, 64], f8E4M3FN>
// PAGE: %[[S:.*]] = tile.dot %{{.*}} transposed
// PAGE: %[[COLUMNS:.*]] = tile.map %[[S]]
// PAGE: %[[KEY:.*]] = arith.addi %{{.*}}, %arg5
// PAGE: %[[NUMBER:.*]] = arith.divui %[[KEY]], %c16_i32
// PAGE: %[[NAME:.*]] = tile.read %table[%{{.*}}, %[[NUMBER]]]
// PAGE: %[[SCALE:.*]] = tile.read %k_scale[%[[NAME]], %{{.*}}]
// PAGE: arith.mulf %{{.*}}, %[[SCALE]]
// PAGE: tile.score %[[COLUMNS]] scaled by %scale
// PAGE: %[[P:.*]] = tile.map %p 
// PAGE: tile.read %v_scale
// PAGE: arith.cmpf oeq
// PAGE: arith.select
// PAGE: %[[NARROW:.*]] = tile.convert %[[P]]
// PAGE: tile.dot %[[NARROW]], %{{.*}} plus
// PAGE: tile.finish
// PAGE-NOT: tile.map
// PAGE: tile.store
tile.kernel @forward(in %q: !tile.view<[B, H, Sq, 64], bf16>, in %k: !keyView, in %v: !keyView,
    out %o: !tile.view<[B, H, Sq, 64], f32>, %scale: f32) {
  %rows = tile.work : !rows
  %Q = tile.load %q[%rows] : !tile.view<[B, H, Sq, 64], bf16>[!rows] -> !tile.tile<[64, 64], bf16>
  %factor = tile.exponent_factor %scale
  %m0 = tile.constant 0xFF800000 : !tile.tile<[64], f32>
  %l0 = tile.constant 0.0 : !tile.tile<[64], f32>
  %O0 = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %S0 = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  %m, %l, %O = tile.blocks %keys, %partial of %rows : !rows -> !keys
      carry (%m1 = %m0 : !tile.tile<[64], f32>, %l1 = %l0 : !tile.tile<[64], f32>, %O1 = %O0 : !tile.tile<[64, 64], f32>) {
    %K = tile.load %k[%keys] : !keyView[!keys] -> !tile.tile<[32, 64], bf16>
    %QK = tile.dot %Q, %K transposed plus %S0 : (!tile.tile<[64, 64], bf16>, !tile.tile<[32, 64], bf16>, !tile.tile<[64, 32], f32>) -> !tile.tile<[64, 32], f32>
    %T = tile.score %QK scaled by %scale at %rows, %keys : !tile.tile<[64, 32], f32>, !rows, !keys
    %S = tile.mask %T if %partial at %rows, %keys : !tile.tile<[64, 32], f32>, !rows, !keys
    %P, %m2, %l2, %alpha = tile.softmax_step %S, %m1, %l1 factor %factor : !tile.tile<[64, 32], f32>, !tile.tile<[64], f32>
    %O2 = tile.rescale %O1 by %alpha : !tile.tile<[64, 64], f32>, !tile.tile<[64], f32>
    %Pi = tile.convert %P : !tile.tile<[64, 32], f32> -> !tile.tile<[64, 32], bf16>
    %V = tile.load %v[%keys] : !keyView[!keys] -> !tile.tile<[32, 64], bf16>
    %O3 = tile.dot %Pi, %V plus %O2 : (!tile.tile<[64, 32], bf16>, !tile.tile<[32, 64], bf16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    tile.yield %m2, %l2, %O3 : !tile.tile<[64], f32>, !tile.tile<[64], f32>, !tile.tile<[64, 64], f32>
  }
  %Y, %L = tile.finish %O, %m, %l factor %factor : !tile.tile<[64, 64], f32>, !tile.tile<[64], f32>
  tile.store %Y, %o[%rows] : !tile.tile<[64, 64], f32>, !tile.view<[B, H, Sq, 64], f32>[!rows]
}
