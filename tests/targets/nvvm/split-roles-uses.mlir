// RUN: tesela-opt %s --pipe-split-roles | FileCheck %s

// A view that is loaded in front of a loop, in it and in another loop has one channel, with the stages of the loop. Both roles count its
// uses through all of these. Products that have been started read until they are awaited.
// CHECK-LABEL: tile.kernel @counts
tile.kernel @counts(%k: !tile.view<[?, ?, ?, 64], f16>, %low: i32, %high: i32, %one: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 3, warps = 4, q_in_registers = false, consumers = 1>} {
  // CHECK: %[[K:.*]] = pipe.alloc : <3, [64, 64], f16, panels = true>
  // CHECK-NEXT: %[[KC:.*]] = pipe.open : <3>
  // CHECK-NEXT: pipe.roles
  // CHECK: %[[N0:.*]] = arith.constant 0 : i32
  // CHECK: pipe.acquire %[[KC]][%[[N0]]]
  // CHECK: %[[N1:.*]] = arith.addi %[[N0]]
  // CHECK: %[[N2:.*]] = scf.for {{.*}} iter_args(%[[N:.*]] = %[[N1]])
  // CHECK: pipe.acquire %[[KC]][%[[N]]]
  // CHECK: %[[NEXT:.*]] = arith.addi %[[N]]
  // CHECK: pipe.acquire %[[KC]][%[[NEXT]]]
  // CHECK: %[[NEXT2:.*]] = arith.addi %[[NEXT]]
  // CHECK: scf.yield %[[NEXT2]]
  // CHECK: scf.for {{.*}} iter_args(%[[N:.*]] = %[[N2]])
  // CHECK: } consumers 1
  // CHECK: %[[N0:.*]] = arith.constant 0 : i32
  %rows = tile.work : !tile.block<query, 64>
  %first = tile.block %low of %rows : !tile.block<query, 64> -> !tile.block<key, 64>
  // CHECK: %[[N1:.*]] = arith.addi %[[N0]]
  // CHECK: pipe.await %[[KC]][%[[N0]]]
  %A = tile.load %k[%first] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
  %none = tile.constant 0.0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
  // CHECK: tile.dot
  // CHECK-NEXT: pipe.release %[[KC]][%[[N0]]]
  %S = tile.dot %A, %A transposed plus %none : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
  // CHECK: %[[N2:.*]]:2 = scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %[[N:.*]] = %[[N1]])
  %T = scf.for %j = %low to %high step %one iter_args(%c = %S) -> (!tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>) : i32 {
    %keys = tile.block %j of %rows : !tile.block<query, 64> -> !tile.block<key, 64>
    // CHECK: %[[NEXT:.*]] = arith.addi %[[N]]
    // CHECK: pipe.await %[[KC]][%[[N]]]
    %B = tile.load %k[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
    // CHECK: pipe.await %[[KC]][%[[NEXT]]]
    %C = tile.load %k[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
    // CHECK: %[[PRODUCT:.*]] = pipe.dot_start
    // CHECK-NOT: pipe.release
    // CHECK: pipe.dot_wait %[[PRODUCT]]
    // CHECK-DAG: pipe.release %[[KC]][%[[N]]]
    // CHECK-DAG: pipe.release %[[KC]][%[[NEXT]]]
    %s = pipe.dot_start %B, %C transposed plus %c : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4, in_flight = true>>
    %t = pipe.dot_wait %s pending 0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4, in_flight = true>> -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
    scf.yield %t : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
  }
  // CHECK: scf.for {{.*}} iter_args(%[[N:.*]] = %[[N2]]#1)
  scf.for %j = %low to %high step %one : i32 {
    %keys = tile.block %j of %rows : !tile.block<query, 64> -> !tile.block<key, 64>
    %D = tile.load %k[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
    %U = tile.dot %D, %D transposed plus %none : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
  }
}
