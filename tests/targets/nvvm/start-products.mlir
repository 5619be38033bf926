// RUN: tesela-opt %s --split-input-file --pipe-start-products --pipe-run-roles | FileCheck %s

// Products of a long chain run beside work that does not need them: %dP starts before %S is awaited, the next %S starts before the
// iteration ends, and the loop ends in front of its last product.
// CHECK-LABEL: tile.kernel @chain
// CHECK: consumers 2
// CHECK: scf.if
// CHECK: pipe.await %[[Q:.*]][%c0_i32]
// CHECK: %[[S0:.*]] = pipe.dot_start
// CHECK: scf.while
// CHECK-SAME: %[[S0]]
// CHECK: %[[DP:.*]] = pipe.dot_start
// CHECK: %[[S:.*]] = pipe.dot_wait %{{.*}} pending 1
// CHECK: tile.map %[[S]]
// CHECK: pipe.dot_wait %[[DP]] pending 0
// CHECK-NOT: pipe.release
// CHECK: scf.condition
// CHECK: %[[DK:.*]] = pipe.dot_start
// CHECK: pipe.await %[[Q]]
// CHECK: pipe.dot_start
// CHECK: pipe.dot_wait %[[DK]] pending 1
// CHECK: pipe.release %[[Q]]
// CHECK: scf.yield
// CHECK: attributes {pipe.counted}
// CHECK: pipe.dot_wait %{{.*}} pending 0
// CHECK: pipe.release %[[Q]]
tile.kernel @chain(%q: !tile.view<[?, ?, ?, 64], f16>, %k: !tile.view<[?, ?, ?, 64], f16>, %sum: !tile.view<[?, ?, ?, 64], f32>)
    attributes {schedule = #tile.schedule<block_m = 128, block_n = 64, stages = 2, warps = 8, q_in_registers = false, consumers = 2>} {
  %kb = pipe.alloc {offset = 0 : i64} : <1, [128, 64], f16, panels = true>
  %kc = pipe.open {offset = 32768 : i64} : <1>
  %qb = pipe.alloc {offset = 16384 : i64} : <2, [64, 64], f16, panels = true>
  %qc = pipe.open {offset = 32784 : i64} : <2>
  pipe.roles producer 40 {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %rows = tile.work : !tile.block<key, 128>
    pipe.acquire %kc[%zero] : <1>
    pipe.fill %k[%rows] to %kb on %kc[%zero] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 128>], <1, [128, 64], f16, panels = true>, <1>
    %high = tile.extent "Sq"
    %uses = scf.for %j = %zero to %high step %one iter_args(%n = %zero) -> (i32) : i32 {
      %queries = tile.block %j of %rows : !tile.block<key, 128> -> !tile.block<query, 64>
      pipe.acquire %qc[%n] : <2>
      pipe.fill %q[%queries] to %qb on %qc[%n] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], <2, [64, 64], f16, panels = true>, <2>
      %next = arith.addi %n, %one : i32
      scf.yield %next : i32
    }
  } consumers 2 232 {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %two = arith.constant 2 : i32
    %rows = tile.work : !tile.block<key, 128>
    pipe.await %kc[%zero] : <1>
    %K = pipe.slot %kb[%zero] : <1, [128, 64], f16, panels = true> -> !tile.tile<[128, 64], f16, #pipe.shared>
    %none = tile.constant 0.0 : !tile.tile<[128, 64], f32, #pipe.accumulator<warps = 8>>
    %high = tile.extent "Sq"
    %dK, %uses = scf.for %j = %zero to %high step %one iter_args(%dK1 = %none, %n = %zero) -> (!tile.tile<[128, 64], f32, #pipe.accumulator<warps = 8>>, i32) : i32 {
      %next = arith.addi %n, %one : i32
      %stage = arith.remui %n, %two : i32
      pipe.await %qc[%n] : <2>
      %Q = pipe.slot %qb[%stage] : <2, [64, 64], f16, panels = true> -> !tile.tile<[64, 64], f16, #pipe.shared>
      %S = tile.dot %K, %Q transposed plus %none : (!tile.tile<[128, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[128, 64], f32, #pipe.accumulator<warps = 8>>) -> !tile.tile<[128, 64], f32, #pipe.accumulator<warps = 8>>
      %P = tile.map %S : (!tile.tile<[128, 64], f32, #pipe.accumulator<warps = 8>>) -> !tile.tile<[128, 64], f32, #pipe.accumulator<warps = 8>> {
      ^body(%s: f32, %row: i32, %column: i32):
        %p = math.exp2 %s : f32
        tile.yield %p : f32
      }
      %dP = tile.dot %K, %Q transposed plus %none : (!tile.tile<[128, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[128, 64], f32, #pipe.accumulator<warps = 8>>) -> !tile.tile<[128, 64], f32, #pipe.accumulator<warps = 8>>
      %dS = tile.map %P, %dP : (!tile.tile<[128, 64], f32, #pipe.accumulator<warps = 8>>, !tile.tile<[128, 64], f32, #pipe.accumulator<warps = 8>>) -> !tile.tile<[128, 64], f32, #pipe.accumulator<warps = 8>> {
      ^body(%p: f32, %dp: f32, %row: i32, %column: i32):
        %ds = arith.mulf %p, %dp : f32
        tile.yield %ds : f32
      }
      %dX = tile.convert %dS : !tile.tile<[128, 64], f32, #pipe.accumulator<warps = 8>> -> !tile.tile<[128, 64], f16, #pipe.accumulator<warps = 8>>
      %A = pipe.convert %dX : !tile.tile<[128, 64], f16, #pipe.accumulator<warps = 8>> -> !tile.tile<[128, 64], f16, #pipe.operand<warps = 8>>
      %dK2 = tile.dot %A, %Q plus %dK1 : (!tile.tile<[128, 64], f16, #pipe.operand<warps = 8>>, !tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[128, 64], f32, #pipe.accumulator<warps = 8>>) -> !tile.tile<[128, 64], f32, #pipe.accumulator<warps = 8>>
      pipe.release %qc[%n] : <2>
      scf.yield %dK2, %next : !tile.tile<[128, 64], f32, #pipe.accumulator<warps = 8>>, i32
    }
  }
}
