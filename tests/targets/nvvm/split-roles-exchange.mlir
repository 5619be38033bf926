// RUN: tesela-opt %s --pipe-assign-fragments --pipe-stage-operands --pipe-split-roles --pipe-place-buffers --pipe-run-roles | FileCheck %s

// Persistent: the operand that the consumers hand to each other has two stages, and the first output lies over it. A work item ends when
// the copy engine and all consumers have read what is there, because the next item writes to the first stage.
// CHECK-LABEL: tile.kernel @persistent
// CHECK: pipe.open {{.*}} <2 words = 4>
// CHECK: } consumers 1
// CHECK: pipe.receive
// CHECK: %[[EXCHANGE:.*]] = pipe.alloc {{.*}} <2, [64, 32], bf16, panels = true>
// CHECK: scf.for
// CHECK: pipe.write %{{.*}} to %[[EXCHANGE]]
// CHECK: pipe.slot %[[EXCHANGE]]
// CHECK: %[[OUT:.*]] = pipe.alloc over %[[EXCHANGE]]
// CHECK-NEXT: pipe.barrier
// CHECK: pipe.write %{{.*}} to %[[OUT]]
// CHECK-NEXT: pipe.empty_out %[[OUT]] to %dk
// CHECK: pipe.empty_out %{{.*}} to %dv
// CHECK-NEXT: pipe.drain
// CHECK-NEXT: pipe.barrier
// CHECK-NEXT: scf.yield
tile.kernel @persistent(%q: !tile.view<[?, ?, ?, 64], bf16>, %k: !tile.view<[?, ?, ?, 64], bf16>,
                        %dq: !tile.view<[?, ?, ?, 64], f32>, %dk: !tile.view<[?, ?, ?, 64], bf16>, %dv: !tile.view<[?, ?, ?, 64], bf16>)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 32, stages = 2, warps = 4, q_in_registers = false, consumers = 1, persistent = true>} {
  %keys = tile.work : !tile.block<key, 64>
  %K = tile.load %k[%keys] : !tile.view<[?, ?, ?, 64], bf16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], bf16>
  %S0 = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  %dQ0 = tile.constant 0.0 : !tile.tile<[32, 64], f32>
  %dV0 = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %high = tile.extent "Sq"
  %dV = scf.for %j = %zero to %high step %one iter_args(%dV1 = %dV0) -> (!tile.tile<[64, 64], f32>) : i32 {
    %queries = tile.block %j of %keys : !tile.block<key, 64> -> !tile.block<query, 32>
    %Q = tile.load %q[%queries] : !tile.view<[?, ?, ?, 64], bf16>[!tile.block<query, 32>] -> !tile.tile<[32, 64], bf16>
    %S = tile.dot %K, %Q transposed plus %S0 : (!tile.tile<[64, 64], bf16>, !tile.tile<[32, 64], bf16>, !tile.tile<[64, 32], f32>) -> !tile.tile<[64, 32], f32>
    %P = tile.convert %S : !tile.tile<[64, 32], f32> -> !tile.tile<[64, 32], bf16>
    %dQ = tile.dot %P transposed, %K plus %dQ0 : (!tile.tile<[64, 32], bf16>, !tile.tile<[64, 64], bf16>, !tile.tile<[32, 64], f32>) -> !tile.tile<[32, 64], f32>
    tile.accumulate %dQ, %dq[%queries] : !tile.tile<[32, 64], f32>, !tile.view<[?, ?, ?, 64], f32>[!tile.block<query, 32>]
    %dV2 = tile.dot %P, %Q plus %dV1 : (!tile.tile<[64, 32], bf16>, !tile.tile<[32, 64], bf16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    scf.yield %dV2 : !tile.tile<[64, 64], f32>
  }
  %out = tile.convert %dV : !tile.tile<[64, 64], f32> -> !tile.tile<[64, 64], bf16>
  tile.store %out, %dk[%keys] : !tile.tile<[64, 64], bf16>, !tile.view<[?, ?, ?, 64], bf16>[!tile.block<key, 64>]
  tile.store %out, %dv[%keys] : !tile.tile<[64, 64], bf16>, !tile.view<[?, ?, ?, 64], bf16>[!tile.block<key, 64>]
}
