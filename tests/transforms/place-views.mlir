// RUN: tesela-opt %s --pass-pipeline='builtin.module(tile.kernel(tile-place-views))' | FileCheck %s --check-prefix=DENSE
// RUN: tesela-opt %s --pass-pipeline='builtin.module(tile.kernel(tile-place-views{queries=ragged keys=ragged positions=end}))' | FileCheck %s --check-prefix=RAGGED
// RUN: tesela-opt %s --pass-pipeline='builtin.module(tile.kernel(tile-place-views{keys=paged page=16 positions=given}))' | FileCheck %s --check-prefix=PAGED

!rows = !tile.block<query, 64>
!keys = !tile.block<key, 32>
!queryView = !tile.view<[B, H, Sq, 64], f16>
!keyView = !tile.view<[B, Hkv, Sk, 64], f16>
!sums = !tile.view<[B, H, Sq], f32, contiguous>
!parts = !tile.view<[B, H, Sq, 64], f32>

// Without options only tile.sequence_keys is replaced, by the launch's Sk.
// DENSE-LABEL: tile.kernel @forward
// DENSE-SAME: in %q: !tile.view<[B, H, Sq, 64], f16>, in %k: !tile.view<[B, Hkv, Sk, 64], f16>, optional %lse: !tile.view<[B, H, Sq], f32, contiguous>, workspace %parts: !tile.view<[B, H, Sq, 64], f32>) {
// DENSE: %[[N:.*]] = tile.extent "Sk" of_launch
// DENSE: arith.addi %[[N]], %[[N]]
// DENSE-NOT: tile.sequence
// DENSE-LABEL: tile.kernel @joins

// RAGGED-LABEL: tile.kernel @forward
// RAGGED-SAME: in %q: !tile.view<[1, H, ?, 64], f16>, in %k: !tile.view<[1, Hkv, ?, 64], f16>, optional %lse: !tile.view<[1, H, ?], f32>, workspace %parts: !tile.view<[B, H, Sq, 64], f32>, in %starts_q: !tile.view<[B + 1], i32>, in %starts_k: !tile.view<[B + 1], i32>)
// RAGGED: %[[ITEM:.*]] = tile.work
// Starts are clamped to the tensor, and the number of queries to the launch's bound.
// RAGGED: %[[TOKENS:.*]] = tile.view_extent %q axis 2
// RAGGED: %[[S:.*]] = tile.read %starts_q[%{{.*}}]
// RAGGED: arith.minsi %[[S]], %[[TOKENS]]
// RAGGED: %[[START:.*]] = arith.maxsi
// RAGGED: %[[E:.*]] = tile.read %starts_q
// RAGGED: arith.minsi %[[E]], %[[TOKENS]]
// RAGGED: %[[END:.*]] = arith.maxsi %{{.*}}, %[[START]]
// RAGGED: %[[HAS:.*]] = arith.subi %[[END]], %[[START]]
// RAGGED: %[[QUERIES:.*]] = arith.minsi %[[HAS]], %{{.*}}
// RAGGED: tile.read %starts_k
// RAGGED: %[[KEYS:.*]] = arith.subi
// RAGGED: %[[FROM:.*]] = arith.subi %[[KEYS]], %[[QUERIES]]
// An item behind the sequence's end has no keys.
// RAGGED: %[[ANY:.*]] = arith.cmpi slt, %{{.*}}, %[[QUERIES]]
// RAGGED: %[[NEEDED:.*]] = arith.select %[[ANY]], %[[KEYS]], %{{.*}}
// RAGGED: %[[ROWS:.*]] = tile.sequence %[[ITEM]] from %[[FROM]] of %[[QUERIES]], %[[NEEDED]]
// Its work items may be numbered by the tokens of %q, from the starts of %starts_q.
// RAGGED-SAME: {tile.token_order = array<i64: 4, 0>}
// RAGGED: %[[SHIFT:.*]] = arith.subi %[[START]], %[[FROM]]
// RAGGED: %[[Q:.*]] = tile.ragged %q from %[[SHIFT]] : <[1, H, ?, 64], f16> -> <[B, H, Sq, 64], f16>
// RAGGED: %[[LSE:.*]] = tile.ragged %lse from %[[SHIFT]] : <[1, H, ?], f32> -> <[B, H, Sq], f32>
// RAGGED: %[[K:.*]] = tile.ragged %k
// RAGGED: tile.load %[[Q]][%[[ROWS]]]
// RAGGED: tile.blocks %[[BLOCK:.*]], %{{.*}} of %[[ROWS]]
// RAGGED: tile.load %[[K]][%[[BLOCK]]]
// RAGGED: tile.store %{{.*}}, %[[LSE]][%[[ROWS]]]
// Dense tensors are accessed at the item's block.
// RAGGED: tile.store %{{.*}}, %parts[%[[ITEM]]]
// RAGGED-LABEL: tile.kernel @joins

// PAGED-LABEL: tile.kernel @forward
// PAGED-SAME: in %q: !tile.view<[B, H, Sq, 64], f16>, in %k: !tile.view<[?, Hkv, 16, 64], f16>
// PAGED-SAME: in %table: !tile.view<[B, ?], i32>, in %lengths: !tile.view<[B], i32>, in %offsets: !tile.view<[B], i32>)
// PAGED: %[[ITEM:.*]] = tile.work
// PAGED: tile.view_extent %table axis 1
// PAGED: tile.view_extent %k axis 0
// PAGED: %[[LENGTH:.*]] = tile.read %lengths
// PAGED: %[[KEYS:.*]] = arith.maxsi
// PAGED: tile.read %offsets
// PAGED: %[[FROM:.*]] = arith.maxsi
// PAGED: %[[ROWS:.*]] = tile.sequence %[[ITEM]] from %[[FROM]] of %{{.*}}, %[[KEYS]]
// PAGED: %[[K:.*]] = tile.paged %k by %table[%{{.*}}]
// PAGED: tile.load %q[%[[ITEM]]]
// PAGED: tile.blocks %{{.*}}, %{{.*}} of %[[ROWS]]
// PAGED: tile.load %[[K]]
// PAGED: tile.store %{{.*}}, %lse[%[[ITEM]]]
tile.kernel @forward(in %q: !queryView, in %k: !keyView, optional %lse: !sums, workspace %parts: !parts) {
  %item = tile.work : !rows
  %batch, %head, %kv, %first = tile.coordinates %item : !rows
  %n = tile.sequence_keys %batch
  %twice = arith.addi %n, %n : i32
  %Q = tile.load %q[%item] : !queryView[!rows] -> !tile.tile<[64, 64], f16>
  %L0 = tile.constant 0.0 : !tile.tile<[64], f32>
  %S0 = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  %L = tile.blocks %keys, %partial of %item : !rows -> !keys carry (%L1 = %L0 : !tile.tile<[64], f32>) {
    %K = tile.load %k[%keys] : !keyView[!keys] -> !tile.tile<[32, 64], f16>
    %S = tile.dot %Q, %K transposed plus %S0 : (!tile.tile<[64, 64], f16>, !tile.tile<[32, 64], f16>, !tile.tile<[64, 32], f32>) -> !tile.tile<[64, 32], f32>
    %L2 = tile.reduce max %S from %L1 : !tile.tile<[64, 32], f32> -> !tile.tile<[64], f32>
    tile.yield %L2 : !tile.tile<[64], f32>
  }
  tile.store %L, %lse[%item] : !tile.tile<[64], f32>, !sums[!rows]
  %O = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  tile.store %O, %parts[%item] : !tile.tile<[64, 64], f32>, !parts[!rows]
}

// A kernel without a loop uses the rows of its work item.
// RAGGED: %[[ROWS:.*]] = tile.sequence
// RAGGED: %[[LSE:.*]] = tile.ragged %lse
// RAGGED: tile.store %{{.*}}, %[[LSE]][%[[ROWS]]]
tile.kernel @joins(optional %lse: !sums) {
  %item = tile.work : !rows
  %L = tile.constant 0.0 : !tile.tile<[64], f32>
  tile.store %L, %lse[%item] : !tile.tile<[64], f32>, !sums[!rows]
}
