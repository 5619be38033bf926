// RUN: tesela-opt %s --split-input-file --pipe-assign-fragments --pipe-overlap-products | FileCheck %s

// The first iteration stands in front of the loop without the last product, which follows behind the loop. In the loop the last product
// starts behind the first product of the next iteration, and is awaited where its sum is needed. Of a test for the first iteration only
// the taken side stays, in both places. The loop runs from the second block on, and at least the first block is computed.
// CHECK-LABEL: tile.kernel @two
tile.kernel @two(%q: !tile.view<[?, ?, ?, 64], f16>, %k: !tile.view<[?, ?, ?, 64], f16>,
                 %v: !tile.view<[?, ?, ?, 64], f16>, %o: !tile.view<[?, ?, ?, 64], f16>,
                 %low: i32, %high: i32, %one: i32, %x: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 2, warps = 4, q_in_registers = false, consumers = 1, overlap = true>} {
  %rows = tile.work : !tile.block<query, 64>
  // CHECK: %[[Q:.*]] = tile.load %q
  %Q = tile.load %q[%rows] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], f16>
  // CHECK: %[[NONE:.*]] = tile.constant
  %none = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  // CHECK: %[[O0:.*]] = tile.constant
  %O0 = tile.constant 1.0 : !tile.tile<[64, 64], f32>
  // CHECK: %[[SECOND:.*]] = arith.addi %low, %one
  // CHECK: %[[HIGH:.*]] = arith.maxsi %high, %[[SECOND]]
  // CHECK: %[[KEYS0:.*]] = tile.block %low
  // CHECK: %[[K0:.*]] = tile.load %k[%[[KEYS0]]]
  // CHECK: %[[S0:.*]] = tile.dot %[[Q]], %[[K0]] transposed plus %[[NONE]]
  // CHECK-NOT: scf.if
  // CHECK: %[[N0:.*]] = arith.constant 11 : i32
  // CHECK-NOT: scf.if
  // CHECK: %[[T0:.*]] = tile.map %[[O0]], %[[S0]]
  // CHECK: %[[P0:.*]] = tile.convert %[[S0]]
  // CHECK: %[[A0:.*]] = pipe.convert %[[P0]]
  // CHECK-NOT: tile.load %v
  // CHECK: %[[R:.*]]:3 = scf.for %[[J:.*]] = %[[SECOND]] to %[[HIGH]] step %one iter_args(%[[N:.*]] = %[[N0]], %[[A:.*]] = %[[A0]], %[[SUM:.*]] = %[[T0]])
  // CHECK: %[[KEYS:.*]] = tile.block %[[J]]
  // CHECK: %[[K:.*]] = tile.load %k[%[[KEYS]]]
  // CHECK: %[[FIRST:.*]] = pipe.dot_start %[[Q]], %[[K]] transposed plus %[[NONE]]
  // CHECK: %[[BEFORE:.*]] = arith.subi %[[J]], %one
  // CHECK: %[[KEYS1:.*]] = tile.block %[[BEFORE]]
  // CHECK: %[[V:.*]] = tile.load %v[%[[KEYS1]]]
  // CHECK: %[[LAST:.*]] = pipe.dot_start %[[A]], %[[V]] plus %[[SUM]]
  // An op that needs neither product runs beside both.
  // CHECK-NOT: scf.if
  // CHECK: %[[N1:.*]] = arith.addi %[[N]], %x
  // CHECK-NEXT: %[[S:.*]] = pipe.dot_wait %[[FIRST]] pending 1
  // CHECK: %[[OLD:.*]] = pipe.dot_wait %[[LAST]] pending 0
  // CHECK: %[[T:.*]] = tile.map %[[OLD]], %[[S]]
  // CHECK: %[[P:.*]] = tile.convert %[[S]]
  // CHECK: %[[A1:.*]] = pipe.convert %[[P]]
  // CHECK: scf.yield %[[N1]], %[[A1]], %[[T]]
  // CHECK: }
  // CHECK: %[[END:.*]] = arith.subi %[[HIGH]], %one
  // CHECK: %[[KEYS2:.*]] = tile.block %[[END]]
  // CHECK: %[[V2:.*]] = tile.load %v[%[[KEYS2]]]
  // CHECK: %[[O:.*]] = tile.dot %[[R]]#1, %[[V2]] plus %[[R]]#2
  %n, %O = scf.for %j = %low to %high step %one iter_args(%c = %x, %O1 = %O0) -> (i32, !tile.tile<[64, 64], f32>) : i32 {
    %keys = tile.block %j of %rows : !tile.block<query, 64> -> !tile.block<key, 64>
    %K = tile.load %k[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
    %S = tile.dot %Q, %K transposed plus %none : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    %first = arith.cmpi eq, %j, %low : i32
    %d = scf.if %first -> (i32) {
      %eleven = arith.constant 11 : i32
      scf.yield %eleven : i32
    } else {
      %sum = arith.addi %c, %x : i32
      scf.yield %sum : i32
    }
    %T = tile.map %O1, %S : (!tile.tile<[64, 64], f32>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32> {
    ^bb0(%a: f32, %b: f32, %row: i32, %column: i32):
      %y = arith.mulf %a, %b : f32
      tile.yield %y : f32
    }
    %P = tile.convert %S : !tile.tile<[64, 64], f32> -> !tile.tile<[64, 64], f16>
    %V = tile.load %v[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
    %O2 = tile.dot %P, %V plus %T : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    scf.yield %d, %O2 : i32, !tile.tile<[64, 64], f32>
  } {tile.drops_empty}
  // CHECK: tile.convert %[[O]]
  %R = tile.convert %O : !tile.tile<[64, 64], f32> -> !tile.tile<[64, 64], f16>
  tile.store %R, %o[%rows] : !tile.tile<[64, 64], f16>, !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>]
}

// -----

// A sum of zeros stays zero, whatever factor the first iteration scales it by.
// CHECK-LABEL: tile.kernel @zero
tile.kernel @zero(%q: !tile.view<[?, ?, ?, 64], f16>, %k: !tile.view<[?, ?, ?, 64], f16>,
                  %v: !tile.view<[?, ?, ?, 64], f16>, %low: i32, %high: i32, %one: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 2, warps = 4, q_in_registers = false, consumers = 1, overlap = true>} {
  %rows = tile.work : !tile.block<query, 64>
  %Q = tile.load %q[%rows] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], f16>
  %none = tile.constant 1.0 : !tile.tile<[64, 64], f32>
  // CHECK: %[[O0:.*]] = tile.constant 0.000000e+00
  %O0 = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  // CHECK: scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %{{.*}} = %[[O0]])
  %O = scf.for %j = %low to %high step %one iter_args(%O1 = %O0) -> (!tile.tile<[64, 64], f32>) : i32 {
    %keys = tile.block %j of %rows : !tile.block<query, 64> -> !tile.block<key, 64>
    %K = tile.load %k[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
    %S = tile.dot %Q, %K transposed plus %none : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    %T = tile.map %O1, %S : (!tile.tile<[64, 64], f32>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32> {
    ^bb0(%a: f32, %b: f32, %row: i32, %column: i32):
      %y = arith.mulf %a, %b : f32
      tile.yield %y : f32
    }
    %P = tile.convert %S : !tile.tile<[64, 64], f32> -> !tile.tile<[64, 64], f16>
    %V = tile.load %v[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
    %O2 = tile.dot %P, %V plus %T : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    scf.yield %O2 : !tile.tile<[64, 64], f32>
  } {tile.drops_empty}
}

// -----

// Behind the loop too, the right operand of the last product is transposed if it is in the loop.
// CHECK-LABEL: tile.kernel @transposed
tile.kernel @transposed(%q: !tile.view<[?, ?, ?, 64], f16>, %k: !tile.view<[?, ?, ?, 64], f16>,
                        %v: !tile.view<[?, ?, ?, 64], f16>, %low: i32, %high: i32, %one: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 2, warps = 4, q_in_registers = false, consumers = 1, overlap = true>} {
  %rows = tile.work : !tile.block<query, 64>
  %Q = tile.load %q[%rows] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], f16>
  %none = tile.constant 1.0 : !tile.tile<[64, 64], f32>
  %O0 = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  // CHECK: %[[R:.*]]:2 = scf.for
  // CHECK: pipe.dot_start %{{.*}}, %{{.*}} transposed plus
  // CHECK: pipe.dot_start %{{.*}}, %{{.*}} transposed plus
  // CHECK: scf.yield
  // CHECK: tile.dot %[[R]]#0, %{{.*}} transposed plus %[[R]]#1
  %O = scf.for %j = %low to %high step %one iter_args(%O1 = %O0) -> (!tile.tile<[64, 64], f32>) : i32 {
    %keys = tile.block %j of %rows : !tile.block<query, 64> -> !tile.block<key, 64>
    %K = tile.load %k[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
    %S = tile.dot %Q, %K transposed plus %none : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    %T = tile.map %O1, %S : (!tile.tile<[64, 64], f32>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32> {
    ^bb0(%a: f32, %b: f32, %row: i32, %column: i32):
      %y = arith.mulf %a, %b : f32
      tile.yield %y : f32
    }
    %P = tile.convert %S : !tile.tile<[64, 64], f32> -> !tile.tile<[64, 64], f16>
    %V = tile.load %v[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
    %O2 = tile.dot %P, %V transposed plus %T : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    scf.yield %O2 : !tile.tile<[64, 64], f32>
  } {tile.drops_empty}
}

// -----

// What is added to zeros is not lost.
// CHECK-LABEL: tile.kernel @bias
tile.kernel @bias(%q: !tile.view<[?, ?, ?, 64], f16>, %k: !tile.view<[?, ?, ?, 64], f16>,
                  %v: !tile.view<[?, ?, ?, 64], f16>, %low: i32, %high: i32, %one: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 2, warps = 4, q_in_registers = false, consumers = 1, overlap = true>} {
  %rows = tile.work : !tile.block<query, 64>
  %Q = tile.load %q[%rows] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], f16>
  %none = tile.constant 1.0 : !tile.tile<[64, 64], f32>
  // CHECK: %[[O0:.*]] = tile.constant 0.000000e+00
  %O0 = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  // CHECK: %[[T0:.*]] = tile.map %[[O0]]
  // CHECK: scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %{{.*}} = %[[T0]])
  %O = scf.for %j = %low to %high step %one iter_args(%O1 = %O0) -> (!tile.tile<[64, 64], f32>) : i32 {
    %keys = tile.block %j of %rows : !tile.block<query, 64> -> !tile.block<key, 64>
    %K = tile.load %k[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
    %S = tile.dot %Q, %K transposed plus %none : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    %T = tile.map %O1, %S : (!tile.tile<[64, 64], f32>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32> {
    ^bb0(%a: f32, %b: f32, %row: i32, %column: i32):
      %y = arith.addf %a, %b : f32
      tile.yield %y : f32
    }
    %P = tile.convert %S : !tile.tile<[64, 64], f32> -> !tile.tile<[64, 64], f16>
    %V = tile.load %v[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
    %O2 = tile.dot %P, %V plus %T : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    scf.yield %O2 : !tile.tile<[64, 64], f32>
  } {tile.drops_empty}
}

// -----

// One product in the loop: the pass changes nothing.
// CHECK-LABEL: tile.kernel @one
// CHECK-NOT: pipe.dot_start
tile.kernel @one(%k: !tile.view<[?, ?, ?, 64], f16>, %low: i32, %high: i32, %one: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 2, warps = 4, q_in_registers = false, consumers = 1, overlap = true>} {
  %rows = tile.work : !tile.block<query, 64>
  %none = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %O = scf.for %j = %low to %high step %one iter_args(%O1 = %none) -> (!tile.tile<[64, 64], f32>) : i32 {
    %keys = tile.block %j of %rows : !tile.block<query, 64> -> !tile.block<key, 64>
    %K = tile.load %k[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
    %O2 = tile.dot %K, %K transposed plus %O1 : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    scf.yield %O2 : !tile.tile<[64, 64], f32>
  } {tile.drops_empty}
}

// -----

// A first product that adds to what the loop carries cannot start early.
// CHECK-LABEL: tile.kernel @carried
// CHECK-NOT: pipe.dot_start
tile.kernel @carried(%k: !tile.view<[?, ?, ?, 64], f16>, %v: !tile.view<[?, ?, ?, 64], f16>, %low: i32, %high: i32, %one: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 2, warps = 4, q_in_registers = false, consumers = 1, overlap = true>} {
  %rows = tile.work : !tile.block<query, 64>
  %none = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %O = scf.for %j = %low to %high step %one iter_args(%O1 = %none) -> (!tile.tile<[64, 64], f32>) : i32 {
    %keys = tile.block %j of %rows : !tile.block<query, 64> -> !tile.block<key, 64>
    %K = tile.load %k[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
    %S = tile.dot %K, %K transposed plus %O1 : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    %P = tile.convert %S : !tile.tile<[64, 64], f32> -> !tile.tile<[64, 64], f16>
    %V = tile.load %v[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
    %O2 = tile.dot %P, %V plus %O1 : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    scf.yield %O2 : !tile.tile<[64, 64], f32>
  } {tile.drops_empty}
}

// -----

// A last product whose right operand has another use cannot be delayed together with its load.
// CHECK-LABEL: tile.kernel @shared
// CHECK-NOT: pipe.dot_start
tile.kernel @shared(%q: !tile.view<[?, ?, ?, 64], f16>, %k: !tile.view<[?, ?, ?, 64], f16>, %low: i32, %high: i32, %one: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 2, warps = 4, q_in_registers = false, consumers = 1, overlap = true>} {
  %rows = tile.work : !tile.block<query, 64>
  %Q = tile.load %q[%rows] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], f16>
  %none = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %O0 = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %O = scf.for %j = %low to %high step %one iter_args(%O1 = %O0) -> (!tile.tile<[64, 64], f32>) : i32 {
    %keys = tile.block %j of %rows : !tile.block<query, 64> -> !tile.block<key, 64>
    %K = tile.load %k[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
    %S = tile.dot %Q, %K transposed plus %none : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    %P = tile.convert %S : !tile.tile<[64, 64], f32> -> !tile.tile<[64, 64], f16>
    %O2 = tile.dot %P, %K plus %O1 : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    scf.yield %O2 : !tile.tile<[64, 64], f32>
  } {tile.drops_empty}
}

// -----

// Without `overlap` in the schedule nothing changes.
// CHECK-LABEL: tile.kernel @unasked
// CHECK-NOT: pipe.dot_start
tile.kernel @unasked(%q: !tile.view<[?, ?, ?, 64], f16>, %k: !tile.view<[?, ?, ?, 64], f16>,
                     %v: !tile.view<[?, ?, ?, 64], f16>, %low: i32, %high: i32, %one: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 2, warps = 4, q_in_registers = false, consumers = 1>} {
  %rows = tile.work : !tile.block<query, 64>
  %Q = tile.load %q[%rows] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], f16>
  %none = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %O0 = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %O = scf.for %j = %low to %high step %one iter_args(%O1 = %O0) -> (!tile.tile<[64, 64], f32>) : i32 {
    %keys = tile.block %j of %rows : !tile.block<query, 64> -> !tile.block<key, 64>
    %K = tile.load %k[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
    %S = tile.dot %Q, %K transposed plus %none : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    %P = tile.convert %S : !tile.tile<[64, 64], f32> -> !tile.tile<[64, 64], f16>
    %V = tile.load %v[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
    %O2 = tile.dot %P, %V plus %O1 : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    scf.yield %O2 : !tile.tile<[64, 64], f32>
  } {tile.drops_empty}
}

// -----

// With turns, one turn starts both products of an iteration. Roles come after this pass.
// CHECK-LABEL: tile.kernel @turns
tile.kernel @turns(%q: !tile.view<[?, ?, ?, 64], f16>, %k: !tile.view<[?, ?, ?, 64], f16>,
                   %v: !tile.view<[?, ?, ?, 64], f16>, %o: !tile.view<[?, ?, ?, 64], f16>,
                   %low: i32, %high: i32, %one: i32)
    attributes {schedule = #tile.schedule<block_m = 128, block_n = 64, stages = 2, warps = 8, q_in_registers = false, consumers = 2, overlap = true, turns = true>} {
  %rows = tile.work : !tile.block<query, 128>
  %Q = tile.load %q[%rows] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 128>] -> !tile.tile<[128, 64], f16>
  %none = tile.constant 0.0 : !tile.tile<[128, 64], f32>
  %O0 = tile.constant 0.0 : !tile.tile<[128, 64], f32>
  // CHECK: scf.for
  // CHECK: pipe.begin_turn
  // CHECK-NEXT: pipe.dot_start
  // CHECK: pipe.dot_start
  // CHECK-NEXT: pipe.end_turn
  %O = scf.for %j = %low to %high step %one iter_args(%O1 = %O0) -> (!tile.tile<[128, 64], f32>) : i32 {
    %keys = tile.block %j of %rows : !tile.block<query, 128> -> !tile.block<key, 64>
    %K = tile.load %k[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
    %S = tile.dot %Q, %K transposed plus %none : (!tile.tile<[128, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[128, 64], f32>) -> !tile.tile<[128, 64], f32>
    %P = tile.convert %S : !tile.tile<[128, 64], f32> -> !tile.tile<[128, 64], f16>
    %V = tile.load %v[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
    %O2 = tile.dot %P, %V plus %O1 : (!tile.tile<[128, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[128, 64], f32>) -> !tile.tile<[128, 64], f32>
    scf.yield %O2 : !tile.tile<[128, 64], f32>
  } {tile.drops_empty}
  %R = tile.convert %O : !tile.tile<[128, 64], f32> -> !tile.tile<[128, 64], f16>
  tile.store %R, %o[%rows] : !tile.tile<[128, 64], f16>, !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 128>]
}

// -----

// A product that only the next iteration uses is awaited, too.
// CHECK-LABEL: tile.kernel @carried
tile.kernel @carried(%q: !tile.view<[?, ?, ?, 64], f16>, %k: !tile.view<[?, ?, ?, 64], f16>,
                     %v: !tile.view<[?, ?, ?, 64], f16>, %o: !tile.view<[?, ?, ?, 64], f16>,
                     %low: i32, %high: i32, %one: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 2, warps = 4, q_in_registers = false, consumers = 1, overlap = true>} {
  %rows = tile.work : !tile.block<query, 64>
  %Q = tile.load %q[%rows] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], f16>
  %none = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  // CHECK: scf.for
  // CHECK: %[[S:.*]] = pipe.dot_start
  // CHECK: %[[O:.*]] = pipe.dot_start
  // CHECK: %[[DONE:.*]] = pipe.dot_wait %[[S]] pending 1
  // CHECK: pipe.dot_wait %[[O]] pending 0
  // CHECK: scf.yield %[[DONE]]
  %S1, %O = scf.for %j = %low to %high step %one iter_args(%S0 = %none, %O1 = %none) -> (!tile.tile<[64, 64], f32>, !tile.tile<[64, 64], f32>) : i32 {
    %keys = tile.block %j of %rows : !tile.block<query, 64> -> !tile.block<key, 64>
    %K = tile.load %k[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
    %S = tile.dot %Q, %K transposed plus %none : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    %P = tile.convert %S0 : !tile.tile<[64, 64], f32> -> !tile.tile<[64, 64], f16>
    %V = tile.load %v[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
    %O2 = tile.dot %P, %V plus %O1 : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    scf.yield %S, %O2 : !tile.tile<[64, 64], f32>, !tile.tile<[64, 64], f32>
  } {tile.drops_empty}
  %R = tile.convert %O : !tile.tile<[64, 64], f32> -> !tile.tile<[64, 64], f16>
  tile.store %R, %o[%rows] : !tile.tile<[64, 64], f16>, !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>]
}

// -----

// Blocks that are found one by one: the first product has asked for the delayed product's block, so no search is needed.
// CHECK-LABEL: tile.kernel @found
// CHECK: tile.found_block %{{.*}}[%low] :
// CHECK: scf.for %[[J:[^ ]+]] =
// CHECK: tile.found_block %{{.*}}[%[[J]]] :
// CHECK: %[[BEFORE:[^ ]+]] = arith.subi %[[J]]
// CHECK: tile.found_block %{{.*}}[%[[BEFORE]]] {pipe.sought}
// CHECK: scf.yield
// CHECK: tile.found_block %{{.*}} {pipe.sought}
tile.kernel @found(%q: !tile.view<[?, ?, ?, 64], f16>, %k: !tile.view<[?, ?, ?, 64], f16>,
                   %v: !tile.view<[?, ?, ?, 64], f16>, %low: i32, %high: i32, %one: i32, %size: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 2, warps = 4, q_in_registers = false, consumers = 1, overlap = true>} {
  %rows = tile.work : !tile.block<query, 64>
  %Q = tile.load %q[%rows] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], f16>
  %none = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %O0 = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %found, %n = tile.find_blocks from %low to %high : !tile.found_blocks<64> one {
  ^bb0(%first: i32, %last: i32):
    %keeps = arith.cmpi sle, %first, %high : i32
    tile.yield %keeps, %keeps : i1, i1
  } many {
  ^bb0(%first: i32, %last: i32):
    %keeps = arith.cmpi sle, %first, %high : i32
    tile.yield %keeps, %keeps : i1, i1
  }
  %O = scf.for %j = %low to %n step %one iter_args(%O1 = %O0) -> (!tile.tile<[64, 64], f32>) : i32 {
    %index, %partial = tile.found_block %found[%j] : !tile.found_blocks<64>
    %position = arith.muli %index, %size : i32
    %keys = tile.block %position of %rows : !tile.block<query, 64> -> !tile.block<key, 64>
    %K = tile.load %k[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
    %S = tile.dot %Q, %K transposed plus %none : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    %P = tile.convert %S : !tile.tile<[64, 64], f32> -> !tile.tile<[64, 64], f16>
    %V = tile.load %v[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
    %O2 = tile.dot %P, %V plus %O1 : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    scf.yield %O2 : !tile.tile<[64, 64], f32>
  } {tile.drops_empty}
}
