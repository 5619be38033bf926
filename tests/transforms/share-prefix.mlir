// RUN: tesela-opt %s --pass-pipeline='builtin.module(tile-share-prefix)' --split-input-file --verify-diagnostics | FileCheck %s
// RUN: tesela-opt %s --pass-pipeline='builtin.module(tile-share-prefix,tile.kernel(tile-place-views{queries=ragged keys=paged page=16 positions=end}),tile-inline-variant)' --split-input-file --verify-diagnostics | FileCheck %s --check-prefix=PLACED

!rows = !tile.block<query, 64>
!keys = !tile.block<key, 32>
!queryView = !tile.view<[B, H, Sq, 64], f16>
!keyView = !tile.view<[B, Hkv, Sk, 64], f16>
!sums = !tile.view<[B, H, Sq], f32, contiguous>
!S = !tile.tile<[64, 32], f32>
!O = !tile.tile<[64, 64], f32>

attn.variant @near parameters [] score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %sk = attn.extent Sk : i32
  %less = arith.subi %q, %sk : i32
  %bf = arith.sitofp %less : i32 to f32
  %r = arith.addf %s, %bf : f32
  attn.yield %r : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %m = arith.cmpi sge, %q, %k : i32
  attn.yield %m : i1
} sink {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32):
  %z = arith.constant 1.0 : f32
  attn.yield %z : f32
}

// The kernel of the prefix stores its results in f32, without rounding, with the rows in order.
// CHECK-LABEL: tile.kernel @forward_of_prefix
// CHECK-SAME: in %q: !tile.view<[B, H, Sq, 64], f16>, in %k: !tile.view<[B, Hkv, Sk, 64], f16>
// CHECK-SAME: workspace %o_of_prefix: !tile.view<[B * 1, H, Sq, 64], f32>, workspace %lse_of_prefix: !tile.view<[B * 1, H, Sq], f32>
// CHECK-SAME: %$prefix_table: !tile.view<[1, ?], i32>, %$prefix_length: !tile.view<[1], i32>, %$query_positions: !tile.view<[?], i32>, %$query_sequences: !tile.view<[?], i32>, %$query_keys: !tile.view<[?], i32>)
// CHECK-SAME: tile.prefix_part = "prefix"
// CHECK: tile.sink
// CHECK-NOT: tile.convert
// CHECK: tile.store %{{.*}}, %o_of_prefix[%{{.*}}] : !tile.tile<[64, 64], f32>
// CHECK-LABEL: tile.kernel @forward(
// CHECK-SAME: out %o: !tile.view<[B, H, Sq, 64], f16>, optional %lse
// CHECK-SAME: tile.prefix_part = "suffix"
// CHECK-LABEL: tile.kernel @join
// CHECK-SAME: %$query_keys: !tile.view<[?], i32>
// CHECK-SAME: tile.prefix_part = "join"

// The rows of the prefix are tokens, from the first start to the last. Their index is their place in memory.
// PLACED-LABEL: tile.kernel @forward_of_prefix
// PLACED-SAME: in %q: !tile.view<[1, H, ?, 64], f16>, in %k: !tile.view<[?, Hkv, 16, 64], f16>
// PLACED-SAME: in %starts_q: !tile.view<[?], i32>
// PLACED: %[[COUNT:.*]] = tile.view_extent %starts_q axis 0
// PLACED: %[[LAST:.*]] = arith.subi %[[COUNT]]
// PLACED: tile.read %starts_q[%{{.*}}]
// PLACED: %[[START:.*]] = arith.maxsi
// PLACED: tile.read %starts_q[%[[LAST]]]
// PLACED: tile.read %$prefix_length
// PLACED: %[[ROWS:.*]] = tile.sequence %{{.*}} from %[[START]] of
// PLACED-NOT: tile.token_order
// PLACED: tile.paged %k by %$prefix_table
// The score's q and Sk are those of the token, and so is the mask's q. There is no sink.
// PLACED: tile.score
// PLACED: ^bb0(%{{.*}}: f32, %{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32, %[[T:.*]]: i32, %{{.*}}: i32):
// PLACED-DAG: %[[POSITION:.*]] = tile.read %$query_positions[%[[T]]]
// PLACED-DAG: %[[KEYS:.*]] = tile.read %$query_keys[%[[T]]]
// PLACED: arith.subi %[[POSITION]], %[[KEYS]]
// PLACED: tile.mask
// PLACED: ^bb0(%{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32, %[[T2:.*]]: i32, %[[K:.*]]: i32):
// PLACED: %[[P2:.*]] = tile.read %$query_positions[%[[T2]]]
// PLACED: arith.cmpi sge, %[[P2]], %[[K]]
// PLACED: tile.sink at %{{[^ ]*}} :
// PLACED-NOT: arith.constant 1.0

// A suffix uses its whole table, but keeps no key of the prefix.
// PLACED-LABEL: tile.kernel @forward(
// PLACED-SAME: in %table: !tile.view<[B, ?], i32>, in %lengths: !tile.view<[B], i32>
// PLACED: tile.sequence
// PLACED-SAME: tile.token_order
// PLACED: %[[N:.*]] = tile.read %$prefix_length
// PLACED: %[[SHORTER:.*]] = arith.minsi %[[N]], %[[ALL:.*]] :
// PLACED: %[[BEFORE:.*]] = arith.maxsi %[[SHORTER]]
// PLACED: arith.subi %[[ALL]], %[[BEFORE]]
// PLACED: tile.mask
// PLACED: %[[KEPT:.*]] = arith.cmpi sge
// PLACED: %[[LENGTH:.*]] = tile.read %$prefix_length
// PLACED: %[[BEHIND:.*]] = arith.cmpi sge, %{{.*}}, %[[LENGTH]]
// PLACED: arith.andi %[[KEPT]], %[[BEHIND]]
// PLACED: tile.sink at %{{.*}} {
tile.kernel @forward(in %q: !queryView, in %k: !keyView, out %o: !queryView, optional %lse: !sums, %scale: f32) {
  %rows = tile.work : !rows
  %zero = arith.constant 0 : i32
  %n = tile.sequence_keys %zero
  %Q = tile.load %q[%rows] : !queryView[!rows] -> !tile.tile<[64, 64], f16>
  %m0 = tile.constant 0xFF800000 : !tile.tile<[64], f32>
  %S0 = tile.constant 0.0 : !S
  %O0 = tile.constant 0.0 : !O
  %O = tile.blocks %keys, %partial of %rows : !rows -> !keys carry (%O1 = %O0 : !O) {
    %K = tile.load %k[%keys] : !keyView[!keys] -> !tile.tile<[32, 64], f16>
    %QK = tile.dot %Q, %K transposed plus %S0 : (!tile.tile<[64, 64], f16>, !tile.tile<[32, 64], f16>, !S) -> !S
    %T = tile.score %QK scaled by %scale at %rows, %keys : !S, !rows, !keys
    %S = tile.mask %T if %partial at %rows, %keys : !S, !rows, !keys
    %Si = tile.convert %S : !S -> !tile.tile<[64, 32], f16>
    %O2 = tile.dot %Si, %K plus %O1 : (!tile.tile<[64, 32], f16>, !tile.tile<[32, 64], f16>, !O) -> !O
    tile.yield %O2 : !O
  }
  %z = tile.sink at %rows : !rows -> !tile.tile<[64], f32>
  %Oi = tile.convert %O : !O -> !tile.tile<[64, 64], f16>
  tile.store %Oi, %o[%rows] : !tile.tile<[64, 64], f16>, !queryView[!rows]
  tile.store %z, %lse[%rows] : !tile.tile<[64], f32>, !sums[!rows]
}

tile.kernel @join(out %lse: !sums) attributes {tile.prefix_part = "join"} {
  %rows = tile.work : !rows
  %L = tile.load %lse[%rows] : !sums[!rows] -> !tile.tile<[64], f32>
  tile.store %L, %lse[%rows] : !tile.tile<[64], f32>, !sums[!rows]
}

// -----

attn.variant @counts parameters [] score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  attn.yield %s : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  // expected-error @below {{prefix=shared computes the prefix as one sequence, which does not know the number B of sequences: pass it as a parameter}}
  %batches = attn.extent B : i32
  %m = arith.cmpi slt, %k, %batches : i32
  attn.yield %m : i1
}
tile.kernel @k(out %o: !tile.view<[B, H, Sq, 64], f32>) {}

// -----

// expected-error @below {{expected the results o and lse, got 'dq': prefix=shared is for templates that compute attention; leave it out}}
tile.kernel @k(out %dq: !tile.view<[B, H, Sq, 64], f32>) {}

// -----

attn.variant @rounds parameters [] score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  attn.yield %s : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %sk = attn.extent Sk : i32
  %two = arith.constant 2 : i32
  %half = arith.addi %sk, %two : i32
  // expected-error @below {{prefix=shared computes the prefix as one sequence, whose rows have several Sq and Sk, and a reduction has one bound: pass it as a parameter}}
  %m = attn.reduce any below %half : i1 {
  ^bb0(%i: i32):
    %each = arith.cmpi slt, %k, %i : i32
    attn.yield %each : i1
  }
  attn.yield %m : i1
}
tile.kernel @k(out %o: !tile.view<[B, H, Sq, 64], f32>) {}
