// RUN: tesela-opt %s --split-input-file --pipe-assign-fragments --pipe-overlap-products --pipe-split-roles --pipe-verify-protocol --pipe-overlap-items --pipe-run-roles | FileCheck %s

// Both roles take the next item before the last product of this one. The producer fills what the next item's head reads before the last
// block of values. The consumers start the next item's first product in front of the last product, and await it while that runs. After
// the last item the last product runs alone. The values of an item's head are carried. Constants and the stage of its queries are
// computed again. The loop begins with an item that does not exist: its loop does not run, its values are an empty stage, and nothing is
// stored for it.
// CHECK-LABEL: tile.kernel @two
tile.kernel @two(%q: !tile.view<[?, ?, ?, 64], f16>, %k: !tile.view<[?, ?, ?, 64], f16>,
                 %v: !tile.view<[?, ?, ?, 64], f16>, %o: !tile.view<[?, ?, ?, 64], f16>,
                 %low: i32, %high: i32, %one: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 2, warps = 4, q_in_registers = false, consumers = 1, overlap = true, persistent = true, output_buffer = true, query_stages = 2>} {
  // CHECK: pipe.roles producer
  // CHECK: %[[FIRST:.*]] = pipe.first_item
  // CHECK-NOT: pipe.fill
  // CHECK: pipe.acquire %[[V:[0-9]+]][
  // CHECK-NEXT: pipe.send to %[[V]]
  // CHECK: scf.while ({{.*}} = %true, {{.*}} = %false
  // CHECK: scf.condition
  // CHECK: ^bb0(%[[EXISTS:[^:]*]]: i1
  // CHECK: %[[HIGH:.*]] = arith.select %[[EXISTS]], %{{.*}}, %[[LOW:.*]] : i32
  // CHECK: scf.for %{{.*}} = %[[LOW]] to %[[HIGH]]
  // CHECK: pipe.fill %k
  // CHECK: pipe.fill %v
  // CHECK: }
  // CHECK: scf.if %[[EXISTS]]
  // CHECK: pipe.next_item
  // CHECK: } else {
  // CHECK: scf.yield %[[FIRST]]
  // CHECK: %[[MORE:.*]] = arith.cmpi ult
  // CHECK: pipe.send
  // CHECK: scf.if %[[MORE]]
  // CHECK: pipe.fill %q
  // CHECK: pipe.fill %k
  // CHECK: } else {
  // CHECK-NOT: pipe.fill
  // CHECK: }
  // CHECK: scf.if %[[EXISTS]]
  // CHECK-NEXT: pipe.acquire %[[V]]
  // CHECK-NEXT: pipe.fill %v{{.*}} on %[[V]]
  // CHECK-NEXT: }
  // CHECK: scf.yield %[[MORE]], %true
  // CHECK: pipe.end_items
  // CHECK: } consumers 1
  // CHECK-NOT: tile.dot
  // CHECK: scf.while ({{.*}} = %true, {{.*}} = %false
  // CHECK: ^bb0(%[[EXISTS:[^:]*]]: i1
  // CHECK: %[[AGAIN:.*]] = pipe.slot
  // CHECK: %[[HIGH:.*]] = arith.select %[[EXISTS]], %{{.*}}, %[[LOW:.*]] : i32
  // CHECK: scf.for %{{.*}} = %[[LOW]] to %[[HIGH]]
  // CHECK: pipe.dot_start %[[AGAIN]]
  // CHECK: }
  // The queries are released before the next ones are awaited.
  // CHECK: scf.if %[[EXISTS]]
  // CHECK-NEXT: pipe.release
  // CHECK-NEXT: }
  // CHECK: %[[NEXT:.*]]:4 = pipe.receive
  // CHECK: %[[MORE:.*]] = arith.cmpi ne, %[[NEXT]]#0
  // CHECK: %[[BOTH:.*]]:{{[0-9]+}} = scf.if %[[MORE]]
  // CHECK: %[[S:.*]] = pipe.dot_start
  // CHECK: pipe.await
  // CHECK: %[[O:.*]] = pipe.dot_start
  // The keys are read until their product has been awaited.
  // CHECK-NOT: pipe.release
  // CHECK: %[[S1:.*]] = pipe.dot_wait %[[S]] pending 1
  // CHECK-NEXT: pipe.release
  // CHECK: %[[O1:.*]] = pipe.dot_wait %[[O]] pending 0
  // CHECK-NEXT: pipe.release
  // CHECK-NEXT: tile.convert %[[S1]]
  // CHECK: scf.yield {{.*}}, %[[O1]] :
  // CHECK: } else {
  // CHECK: pipe.await
  // CHECK: tile.dot
  // CHECK-NEXT: pipe.release
  // CHECK-NOT: pipe.receive
  // CHECK: }
  // CHECK: scf.if %[[EXISTS]]
  // CHECK: pipe.drain
  // CHECK: pipe.write
  // CHECK: }
  // CHECK: scf.yield %[[MORE]], %true
  // CHECK: pipe.drain
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
  %Oh = tile.convert %O : !tile.tile<[64, 64], f32> -> !tile.tile<[64, 64], f16>
  tile.store %Oh, %o[%rows] : !tile.tile<[64, 64], f16>, !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>]
}

// -----

// If queries have one stage, the next ones come when the item before is done.
// CHECK-LABEL: tile.kernel @one
// CHECK-NOT: scf.if
tile.kernel @one(%q: !tile.view<[?, ?, ?, 64], f16>, %k: !tile.view<[?, ?, ?, 64], f16>,
                 %v: !tile.view<[?, ?, ?, 64], f16>, %o: !tile.view<[?, ?, ?, 64], f16>,
                 %low: i32, %high: i32, %one: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 2, warps = 4, q_in_registers = false, consumers = 1, overlap = true, persistent = true, output_buffer = true>} {
  %rows = tile.work : !tile.block<query, 64>
  %Q = tile.load %q[%rows] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], f16>
  %none = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %O = scf.for %j = %low to %high step %one iter_args(%O1 = %none) -> (!tile.tile<[64, 64], f32>) : i32 {
    %keys = tile.block %j of %rows : !tile.block<query, 64> -> !tile.block<key, 64>
    %K = tile.load %k[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
    %S = tile.dot %Q, %K transposed plus %none : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    %P = tile.convert %S : !tile.tile<[64, 64], f32> -> !tile.tile<[64, 64], f16>
    %V = tile.load %v[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
    %O2 = tile.dot %P, %V plus %O1 : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    scf.yield %O2 : !tile.tile<[64, 64], f32>
  } {tile.drops_empty}
  %Oh = tile.convert %O : !tile.tile<[64, 64], f32> -> !tile.tile<[64, 64], f16>
  tile.store %Oh, %o[%rows] : !tile.tile<[64, 64], f16>, !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>]
}

// -----

// The schedule gives the stages of keys and values, also of those outside of the loop.
// CHECK-LABEL: tile.kernel @stages
// CHECK: pipe.alloc : <2, [64, 64]
// CHECK: pipe.open : <2>
// CHECK: pipe.alloc : <1, [64, 64]
// CHECK: pipe.open : <1>
// CHECK: pipe.alloc : <1, [64, 64]
// CHECK: pipe.open : <1>
tile.kernel @stages(%q: !tile.view<[?, ?, ?, 64], f16>, %k: !tile.view<[?, ?, ?, 64], f16>,
                 %v: !tile.view<[?, ?, ?, 64], f16>, %o: !tile.view<[?, ?, ?, 64], f16>,
                 %low: i32, %high: i32, %one: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false, consumers = 1, overlap = true, persistent = true, output_buffer = true, query_stages = 2>} {
  %rows = tile.work : !tile.block<query, 64>
  %Q = tile.load %q[%rows] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], f16>
  %none = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %O = scf.for %j = %low to %high step %one iter_args(%O1 = %none) -> (!tile.tile<[64, 64], f32>) : i32 {
    %keys = tile.block %j of %rows : !tile.block<query, 64> -> !tile.block<key, 64>
    %K = tile.load %k[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
    %S = tile.dot %Q, %K transposed plus %none : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    %P = tile.convert %S : !tile.tile<[64, 64], f32> -> !tile.tile<[64, 64], f16>
    %V = tile.load %v[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
    %O2 = tile.dot %P, %V plus %O1 : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    scf.yield %O2 : !tile.tile<[64, 64], f32>
  } {tile.drops_empty}
  %Oh = tile.convert %O : !tile.tile<[64, 64], f32> -> !tile.tile<[64, 64], f16>
  tile.store %Oh, %o[%rows] : !tile.tile<[64, 64], f16>, !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>]
}
