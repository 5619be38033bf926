// RUN: tesela-opt %s --pipe-rotate-loop | FileCheck %s

// Three stages: two blocks are copied in front of the loop, the wait there leaves them under way, and each iteration has one barrier.
// CHECK-LABEL: tile.kernel @three
tile.kernel @three(%k: !tile.view<[?, ?, ?, 64], bf16>, %low: i32, %high: i32, %one: i32, %zero: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 3, warps = 4, q_in_registers = false>} {
  // CHECK: %[[K:.*]] = pipe.alloc : <3, [64, 64], bf16>
  %b = pipe.alloc : !pipe.buffer<1, [64, 64], bf16>
  %rows = tile.work : !tile.block<query, 64>
  pipe.commit
  // CHECK: %[[I0:.*]] = arith.addi %low
  // CHECK: %[[HAS0:.*]] = arith.cmpi slt, %[[I0]], %high
  // CHECK: scf.if %[[HAS0]] {
  // CHECK: tile.block %[[I0]]
  // CHECK: pipe.copy %k
  // CHECK: }
  // CHECK-NEXT: pipe.commit
  // CHECK: scf.if
  // CHECK: pipe.commit
  // CHECK: pipe.wait 2
  pipe.wait 0
  pipe.barrier
  // CHECK: scf.for %[[J:.*]] = %low to %high
  scf.for %j = %low to %high step %one : i32 {
    %keys = tile.block %j of %rows : !tile.block<query, 64> -> !tile.block<key, 64>
    // CHECK: pipe.wait 1
    // CHECK-NEXT: pipe.barrier
    // CHECK: %[[DONE:.*]] = arith.subi %[[J]], %low
    // CHECK: %[[STAGE:.*]] = arith.remui %[[DONE]]
    // CHECK: %[[NEXT:.*]] = arith.addi %[[J]]
    // CHECK: %[[OTHER:.*]] = arith.remui
    // CHECK: arith.cmpi slt, %[[NEXT]], %high
    // CHECK: tile.block %[[NEXT]]
    // CHECK: pipe.copy %k[%{{.*}}] to %[[K]][%[[OTHER]]]
    // CHECK: pipe.commit
    // CHECK-NOT: pipe.wait
    // CHECK-NOT: pipe.barrier
    // CHECK: pipe.slot %[[K]][%[[STAGE]]]
    pipe.barrier
    pipe.copy %k[%keys] to %b[%zero] : !tile.view<[?, ?, ?, 64], bf16>[!tile.block<key, 64>], !pipe.buffer<1, [64, 64], bf16>
    pipe.commit
    pipe.wait 0
    pipe.barrier
    %t = pipe.slot %b[%zero] : !pipe.buffer<1, [64, 64], bf16> -> !tile.tile<[64, 64], bf16, #pipe.shared>
  }
}

// One stage: nothing changes.
// CHECK-LABEL: tile.kernel @one
tile.kernel @one(%k: !tile.view<[?, ?, ?, 64], bf16>, %low: i32, %high: i32, %step: i32, %zero: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false>} {
  // CHECK: pipe.alloc : <1, [64, 64], bf16>
  %b = pipe.alloc : !pipe.buffer<1, [64, 64], bf16>
  %rows = tile.work : !tile.block<query, 64>
  // CHECK-NEXT: tile.work
  // CHECK-NEXT: scf.for
  scf.for %j = %low to %high step %step : i32 {
    // CHECK-NEXT: tile.block
    // CHECK-NEXT: pipe.barrier
    // CHECK-NEXT: pipe.copy
    // CHECK-NEXT: pipe.commit
    // CHECK-NEXT: pipe.wait 0
    // CHECK-NEXT: pipe.barrier
    %keys = tile.block %j of %rows : !tile.block<query, 64> -> !tile.block<key, 64>
    pipe.barrier
    pipe.copy %k[%keys] to %b[%zero] : !tile.view<[?, ?, ?, 64], bf16>[!tile.block<key, 64>], !pipe.buffer<1, [64, 64], bf16>
    pipe.commit
    pipe.wait 0
    pipe.barrier
  }
}

// Columns may follow the index, too: the copies ahead take the same block of rows.
// CHECK-LABEL: tile.kernel @columns
tile.kernel @columns(%a: !tile.view<[?, ?, ?, ?], bf16>, %low: i32, %high: i32, %one: i32, %zero: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 2, warps = 4, q_in_registers = false>} {
  %b = pipe.alloc : !pipe.buffer<1, [64, 64], bf16>
  // CHECK: %[[ROWS:.*]] = tile.work
  %rows = tile.work : !tile.block<query, 64>
  // CHECK: scf.if
  // CHECK: %[[FIRST:.*]] = tile.block
  // CHECK: pipe.copy %a[%[[ROWS]], %[[FIRST]]]
  // CHECK: scf.for %[[J:.*]] = %low to %high
  scf.for %j = %low to %high step %one : i32 {
    // CHECK: %[[NEXT:.*]] = arith.addi %[[J]]
    // CHECK: %[[AHEAD:.*]] = tile.block %[[NEXT]]
    // CHECK: pipe.copy %a[%[[ROWS]], %[[AHEAD]]]
    // CHECK-NOT: pipe.copy
    %depth = tile.block %j of %rows : !tile.block<query, 64> -> !tile.block<key, 64>
    pipe.barrier
    pipe.copy %a[%rows, %depth] to %b[%zero] : !tile.view<[?, ?, ?, ?], bf16>[!tile.block<query, 64>, !tile.block<key, 64>], !pipe.buffer<1, [64, 64], bf16>
    pipe.commit
    pipe.wait 0
    pipe.barrier
    %t = pipe.slot %b[%zero] : !pipe.buffer<1, [64, 64], bf16> -> !tile.tile<[64, 64], bf16, #pipe.shared>
  }
}
