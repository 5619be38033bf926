// RUN: tesela-opt %s --tile-split-outputs | FileCheck %s

// Each output has a kernel with everything that it depends on, also through the loops. The other output's sums, loads and arguments
// are removed. Values that both need are in both kernels. A store to a workspace stays with the output of the same tile.
// CHECK-LABEL: tile.kernel @keys_dk
// CHECK-SAME: in %q: {{.*}}, in %k: {{.*}}, in %v: {{.*}}, in %do: {{.*}}, workspace %dk_sums: {{.*}}, out %dk: {{[^%]*}}) attributes
// CHECK: tile.load %k
// CHECK: tile.load %v
// CHECK: scf.for %{{.*}} iter_args(%[[OUTER:.*]] = %{{[^,]*}}) -> (!tile.tile<[128, 64], f32>)
// CHECK: tile.blocks {{.*}} carry (%[[SUM:[^ ]*]] = %[[OUTER]] : !tile.tile<[128, 64], f32>)
// CHECK: %[[S:.*]] = tile.dot
// CHECK: %[[DP:.*]] = tile.dot
// CHECK: tile.map %[[S]], %[[DP]]
// CHECK: tile.dot {{.*}} plus %[[SUM]]
// CHECK-NOT: tile.dot
// CHECK: tile.yield %{{[^,]*}} : !tile.tile<[128, 64], f32>
// CHECK: tile.store %{{.*}}, %dk_sums
// CHECK: tile.store %{{.*}}, %dk[
// CHECK-NOT: tile.store
// CHECK-LABEL: tile.kernel @keys_dv
// CHECK-SAME: in %q: {{.*}}, in %k: {{.*}}, in %do: {{.*}}, out %dv: {{[^%]*}}) attributes
// CHECK-NOT: tile.load %v
// CHECK: scf.for %{{.*}} iter_args(%{{.*}} = %{{[^,]*}}) -> (!tile.tile<[128, 32], f32>)
// CHECK-COUNT-2: tile.dot
// CHECK-NOT: tile.dot
// CHECK: tile.store %{{.*}}, %dv
tile.kernel @keys(in %q: !tile.view<[B, H, Sq, 64], bf16>, in %k: !tile.view<[B, Hkv, Sk, 64], bf16>,
                  in %v: !tile.view<[B, Hkv, Sk, 32], bf16>, in %do: !tile.view<[B, H, Sq, 32], bf16>,
                  workspace %dk_sums: !tile.view<[B, Hkv, Sk, 64], f32>,
                  out %dk: !tile.view<[B, Hkv, Sk, 64], f32>, out %dv: !tile.view<[B, Hkv, Sk, 32], f32>)
    attributes {schedule = #tile.schedule<block_m = 128, block_n = 64, stages = 2, warps = 8, q_in_registers = false, consumers = 2, split_outputs = true>} {
  %keys = tile.work : !tile.block<key, 128>
  %K = tile.load %k[%keys] : !tile.view<[B, Hkv, Sk, 64], bf16>[!tile.block<key, 128>] -> !tile.tile<[128, 64], bf16>
  %V = tile.load %v[%keys] : !tile.view<[B, Hkv, Sk, 32], bf16>[!tile.block<key, 128>] -> !tile.tile<[128, 32], bf16>
  %S0 = tile.constant 0.0 : !tile.tile<[128, 64], f32>
  %dV0 = tile.constant 0.0 : !tile.tile<[128, 32], f32>
  %none = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %heads = tile.extent "H"
  %dK, %dV = scf.for %g = %none to %heads step %one iter_args(%dKh = %S0, %dVh = %dV0)
      -> (!tile.tile<[128, 64], f32>, !tile.tile<[128, 32], f32>) : i32 {
    %dKg, %dVg = tile.blocks %queries, %partial of %keys : !tile.block<key, 128> -> !tile.block<query, 64>
        carry (%dK1 = %dKh : !tile.tile<[128, 64], f32>, %dV1 = %dVh : !tile.tile<[128, 32], f32>) {
      %Q = tile.load %q[%queries] : !tile.view<[B, H, Sq, 64], bf16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], bf16>
      %dO = tile.load %do[%queries] : !tile.view<[B, H, Sq, 32], bf16>[!tile.block<query, 64>] -> !tile.tile<[64, 32], bf16>
      %S = tile.dot %K, %Q transposed plus %S0 : (!tile.tile<[128, 64], bf16>, !tile.tile<[64, 64], bf16>, !tile.tile<[128, 64], f32>) -> !tile.tile<[128, 64], f32>
      %P = tile.convert %S : !tile.tile<[128, 64], f32> -> !tile.tile<[128, 64], bf16>
      %dV2 = tile.dot %P, %dO plus %dV1 : (!tile.tile<[128, 64], bf16>, !tile.tile<[64, 32], bf16>, !tile.tile<[128, 32], f32>) -> !tile.tile<[128, 32], f32>
      %dP = tile.dot %V, %dO transposed plus %S0 : (!tile.tile<[128, 32], bf16>, !tile.tile<[64, 32], bf16>, !tile.tile<[128, 64], f32>) -> !tile.tile<[128, 64], f32>
      %dS = tile.map %S, %dP : (!tile.tile<[128, 64], f32>, !tile.tile<[128, 64], f32>) -> !tile.tile<[128, 64], f32> {
      ^body(%s: f32, %dp: f32, %row: i32, %column: i32):
        %ds = arith.mulf %s, %dp : f32
        tile.yield %ds : f32
      }
      %dX = tile.convert %dS : !tile.tile<[128, 64], f32> -> !tile.tile<[128, 64], bf16>
      %dK2 = tile.dot %dX, %Q plus %dK1 : (!tile.tile<[128, 64], bf16>, !tile.tile<[64, 64], bf16>, !tile.tile<[128, 64], f32>) -> !tile.tile<[128, 64], f32>
      tile.yield %dK2, %dV2 : !tile.tile<[128, 64], f32>, !tile.tile<[128, 32], f32>
    }
    scf.yield %dKg, %dVg : !tile.tile<[128, 64], f32>, !tile.tile<[128, 32], f32>
  }
  tile.store %dK, %dk_sums[%keys] : !tile.tile<[128, 64], f32>, !tile.view<[B, Hkv, Sk, 64], f32>[!tile.block<key, 128>]
  tile.store %dK, %dk[%keys] : !tile.tile<[128, 64], f32>, !tile.view<[B, Hkv, Sk, 64], f32>[!tile.block<key, 128>]
  tile.store %dV, %dv[%keys] : !tile.tile<[128, 32], f32>, !tile.view<[B, Hkv, Sk, 32], f32>[!tile.block<key, 128>]
}

// A kernel is not split if its schedule does not ask for it, or if other kernels read its result.
// CHECK-LABEL: tile.kernel @one_kernel(
tile.kernel @one_kernel(in %q: !tile.view<[B, H, Sq, 64], bf16>, out %x: !tile.view<[B, H, Sq, 64], f32>, workspace %y: !tile.view<[B, H, Sq, 64], f32>)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 2, warps = 4, q_in_registers = false, consumers = 1, split_outputs = true>} {
  %rows = tile.work : !tile.block<query, 64>
  %Q = tile.load %q[%rows] : !tile.view<[B, H, Sq, 64], bf16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], bf16>
  %none = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %S = tile.dot %Q, %Q transposed plus %none : (!tile.tile<[64, 64], bf16>, !tile.tile<[64, 64], bf16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
  tile.store %S, %x[%rows] : !tile.tile<[64, 64], f32>, !tile.view<[B, H, Sq, 64], f32>[!tile.block<query, 64>]
  tile.store %S, %y[%rows] : !tile.tile<[64, 64], f32>, !tile.view<[B, H, Sq, 64], f32>[!tile.block<query, 64>]
}

// An addition stays with the output that shares most of its products: dQ needs dS, as dK does.
// CHECK-LABEL: tile.kernel @sums_dk
// CHECK-SAME: workspace %dq
// CHECK-COUNT-4: tile.dot
// CHECK-NOT: tile.dot
// CHECK: tile.accumulate %{{.*}}, %dq
// CHECK: tile.store %{{.*}}, %dk[
// CHECK-LABEL: tile.kernel @sums_dv
// CHECK-NOT: %dq
// CHECK-COUNT-2: tile.dot
// CHECK-NOT: tile.dot
// CHECK-NOT: tile.accumulate
// CHECK: tile.store %{{.*}}, %dv
tile.kernel @sums(in %q: !tile.view<[B, H, Sq, 64], bf16>, in %k: !tile.view<[B, Hkv, Sk, 64], bf16>,
                  in %v: !tile.view<[B, Hkv, Sk, 64], bf16>, in %do: !tile.view<[B, H, Sq, 64], bf16>,
                  workspace %dq: !tile.view<[B, H, Sq, 64], f32>,
                  out %dk: !tile.view<[B, Hkv, Sk, 64], f32>, out %dv: !tile.view<[B, Hkv, Sk, 64], f32>)
    attributes {schedule = #tile.schedule<block_m = 128, block_n = 64, stages = 2, warps = 8, q_in_registers = false, consumers = 2, split_outputs = true>} {
  %keys = tile.work : !tile.block<key, 128>
  %K = tile.load %k[%keys] : !tile.view<[B, Hkv, Sk, 64], bf16>[!tile.block<key, 128>] -> !tile.tile<[128, 64], bf16>
  %V = tile.load %v[%keys] : !tile.view<[B, Hkv, Sk, 64], bf16>[!tile.block<key, 128>] -> !tile.tile<[128, 64], bf16>
  %S0 = tile.constant 0.0 : !tile.tile<[128, 64], f32>
  %dQ0 = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %dK, %dV = tile.blocks %queries, %partial of %keys : !tile.block<key, 128> -> !tile.block<query, 64>
      carry (%dK1 = %S0 : !tile.tile<[128, 64], f32>, %dV1 = %S0 : !tile.tile<[128, 64], f32>) {
    %Q = tile.load %q[%queries] : !tile.view<[B, H, Sq, 64], bf16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], bf16>
    %dO = tile.load %do[%queries] : !tile.view<[B, H, Sq, 64], bf16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], bf16>
    %S = tile.dot %K, %Q transposed plus %S0 : (!tile.tile<[128, 64], bf16>, !tile.tile<[64, 64], bf16>, !tile.tile<[128, 64], f32>) -> !tile.tile<[128, 64], f32>
    %P = tile.convert %S : !tile.tile<[128, 64], f32> -> !tile.tile<[128, 64], bf16>
    %dV2 = tile.dot %P, %dO plus %dV1 : (!tile.tile<[128, 64], bf16>, !tile.tile<[64, 64], bf16>, !tile.tile<[128, 64], f32>) -> !tile.tile<[128, 64], f32>
    %dP = tile.dot %V, %dO transposed plus %S0 : (!tile.tile<[128, 64], bf16>, !tile.tile<[64, 64], bf16>, !tile.tile<[128, 64], f32>) -> !tile.tile<[128, 64], f32>
    %dS = tile.map %S, %dP : (!tile.tile<[128, 64], f32>, !tile.tile<[128, 64], f32>) -> !tile.tile<[128, 64], f32> {
    ^body(%s: f32, %dp: f32, %row: i32, %column: i32):
      %ds = arith.mulf %s, %dp : f32
      tile.yield %ds : f32
    }
    %dX = tile.convert %dS : !tile.tile<[128, 64], f32> -> !tile.tile<[128, 64], bf16>
    %dK2 = tile.dot %dX, %Q plus %dK1 : (!tile.tile<[128, 64], bf16>, !tile.tile<[64, 64], bf16>, !tile.tile<[128, 64], f32>) -> !tile.tile<[128, 64], f32>
    %dQ = tile.dot %dX transposed, %K plus %dQ0 : (!tile.tile<[128, 64], bf16>, !tile.tile<[128, 64], bf16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    tile.accumulate %dQ, %dq[%queries] : !tile.tile<[64, 64], f32>, !tile.view<[B, H, Sq, 64], f32>[!tile.block<query, 64>]
    tile.yield %dK2, %dV2 : !tile.tile<[128, 64], f32>, !tile.tile<[128, 64], f32>
  }
  tile.store %dK, %dk[%keys] : !tile.tile<[128, 64], f32>, !tile.view<[B, Hkv, Sk, 64], f32>[!tile.block<key, 128>]
  tile.store %dV, %dv[%keys] : !tile.tile<[128, 64], f32>, !tile.view<[B, Hkv, Sk, 64], f32>[!tile.block<key, 128>]
}
