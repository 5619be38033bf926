// RUN: tesela-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(tile.kernel(tile-values-of-keys,tile-place-views{keys=paged page=16 positions=end}))' | FileCheck %s

!rows = !tile.block<query, 64>
!keys = !tile.block<key, 32>

// There is one tensor, and it is placed once.
// CHECK-LABEL: tile.kernel @forward
// CHECK-SAME: in %k: !tile.view<[?, Hkv, 16, 96], bf16>, out %o
// CHECK-NOT: tile.paged %v
// CHECK: %[[PAGED:.*]] = tile.paged %k by %table
// CHECK: %[[K:.*]] = tile.load %[[PAGED]][%keys]
// CHECK: %[[FIRST:.*]] = tile.first_columns %[[PAGED]] : <[B, Hkv, Sk, 96], bf16> -> <[B, Hkv, Sk, 64], bf16>
// CHECK: tile.load %[[FIRST]][%keys]
// CHECK-SAME: -> !tile.tile<[32, 64], bf16>
tile.kernel @forward(in %q: !tile.view<[B, H, Sq, 96], bf16>, in %k: !tile.view<[B, Hkv, Sk, 96], bf16>,
                     in %v: !tile.view<[B, Hkv, Sk, 64], bf16>, out %o: !tile.view<[B, H, Sq, 64], bf16>) {
  %rows = tile.work : !rows
  %Q = tile.load %q[%rows] : !tile.view<[B, H, Sq, 96], bf16>[!rows] -> !tile.tile<[64, 96], bf16>
  %zero = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %none = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  %sum = tile.blocks %keys, %partial of %rows : !rows -> !keys carry (%O = %zero : !tile.tile<[64, 64], f32>) {
    %K = tile.load %k[%keys] : !tile.view<[B, Hkv, Sk, 96], bf16>[!keys] -> !tile.tile<[32, 96], bf16>
    %S = tile.dot %Q, %K transposed plus %none : (!tile.tile<[64, 96], bf16>, !tile.tile<[32, 96], bf16>, !tile.tile<[64, 32], f32>) -> !tile.tile<[64, 32], f32>
    %P = tile.convert %S : !tile.tile<[64, 32], f32> -> !tile.tile<[64, 32], bf16>
    %V = tile.load %v[%keys] : !tile.view<[B, Hkv, Sk, 64], bf16>[!keys] -> !tile.tile<[32, 64], bf16>
    %O2 = tile.dot %P, %V plus %O : (!tile.tile<[64, 32], bf16>, !tile.tile<[32, 64], bf16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    tile.yield %O2 : !tile.tile<[64, 64], f32>
  }
  %Y = tile.convert %sum : !tile.tile<[64, 64], f32> -> !tile.tile<[64, 64], bf16>
  tile.store %Y, %o[%rows] : !tile.tile<[64, 64], bf16>, !tile.view<[B, H, Sq, 64], bf16>[!rows]
}

// -----

// expected-error @+1 {{values=keys takes values that are the first columns of the keys: of 64 columns there are no 96 first ones}}
tile.kernel @wide(in %k: !tile.view<[B, Hkv, Sk, 64], bf16>, in %v: !tile.view<[B, Hkv, Sk, 96], bf16>) {
  %rows = tile.work : !tile.block<query, 64>
}

// -----

// expected-error @+1 {{values=keys takes a kernel with keys and values, two tensors `in` of rows Sk, got 1; leave it out}}
tile.kernel @alone(in %k: !tile.view<[B, Hkv, Sk, 64], bf16>) {
  %rows = tile.work : !tile.block<query, 64>
}
