// RUN: tesela-opt %s --split-input-file --pipe-assign-fragments --pipe-split-roles | FileCheck %s

// Both roles run over the thread block's work items. The producer takes their numbers. Before it fills, it sends where an item lies and
// whether there is one. Uses are counted on from item to item, so tiles that are loaded once per item are released, too. The output is
// copied out of a buffer that the last item's copies have read.
// CHECK-LABEL: tile.kernel @items
tile.kernel @items(%q: !tile.view<[?, ?, ?, 64], f16>, %k: !tile.view<[?, ?, ?, 64], f16>,
                   %o: !tile.view<[?, ?, ?, 64], f16>, %low: i32, %high: i32, %one: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 2, warps = 4, q_in_registers = false, consumers = 1, persistent = true, output_buffer = true>} {
  // CHECK: %[[Q:.*]] = pipe.alloc
  // CHECK: %[[QC:.*]] = pipe.open : <1>
  // CHECK: %[[K:.*]] = pipe.alloc
  // CHECK: %[[KC:.*]] = pipe.open : <2>
  // CHECK: %[[ITEMS:.*]] = pipe.open : <2 words = 4>
  // CHECK: %[[OUT:.*]] = pipe.alloc : <1, [64, 64], f16, panels = true>
  // CHECK: pipe.roles producer
  // CHECK: %[[ZERO:.*]] = arith.constant 0 : i32
  // CHECK: %[[FIRST:.*]] = pipe.first_item
  // CHECK: scf.while (%[[ITEM:.*]] = %[[FIRST]], %[[QN:.*]] = %[[ZERO]], %[[KN:.*]] = %[[ZERO]], %[[N:.*]] = %[[ZERO]])
  // CHECK: %[[COUNT:.*]] = tile.work_items !tile.block<query, 64>
  // CHECK: %[[MORE:.*]] = arith.cmpi ult, %[[ITEM]], %[[COUNT]]
  // CHECK: %[[ROWS:.*]] = tile.work item %[[ITEM]]
  // CHECK: %[[B:.*]], %[[H:.*]], %{{.*}}, %[[F:.*]] = tile.coordinates %[[ROWS]]
  // CHECK: pipe.acquire %[[ITEMS]][%[[N]]]
  // CHECK: %[[FLAG:.*]] = arith.extui %[[MORE]]
  // CHECK: pipe.send %[[FLAG]], %[[B]], %[[H]], %[[F]] to %[[ITEMS]][%[[N]]]
  // CHECK: %[[N1:.*]] = arith.addi %[[N]]
  // CHECK: scf.condition(%[[MORE]]) %[[ITEM]], %[[QN]], %[[KN]], %[[N1]]
  // CHECK: ^bb0(%[[ITEM:.*]]: i32, %[[QN:.*]]: i32, %[[KN:.*]]: i32, %[[N:.*]]: i32):
  // CHECK: %[[ROWS:.*]] = tile.work item %[[ITEM]]
  // CHECK: pipe.fill %q[%[[ROWS]]] to %[[Q]] on %[[QC]][%[[QN]]]
  // CHECK: %[[QN1:.*]] = arith.addi %[[QN]]
  // CHECK: %[[KN1:.*]] = scf.for {{.*}} iter_args(%{{.*}} = %[[KN]])
  // CHECK: %[[NEXT:.*]] = pipe.next_item
  // CHECK: scf.yield %[[NEXT]], %[[QN1]], %[[KN1]], %[[N]]
  // CHECK: pipe.end_items
  // CHECK: } consumers 1
  // CHECK: scf.while (%[[QN:.*]] = %{{.*}}, %[[KN:.*]] = %{{.*}}, %[[N:.*]] = %{{.*}})
  // CHECK: %[[PLACE:.*]]:4 = pipe.receive %[[ITEMS]][%[[N]]]
  // CHECK: %[[MORE:.*]] = arith.cmpi ne, %[[PLACE]]#0
  // CHECK: scf.condition(%[[MORE]]) %[[PLACE]]#1, %[[PLACE]]#2, %[[PLACE]]#3, %[[QN]], %[[KN]]
  // CHECK: ^bb0(%[[B:.*]]: i32, %[[H:.*]]: i32, %[[F:.*]]: i32, %[[QN:.*]]: i32, %[[KN:.*]]: i32, %[[N:.*]]: i32):
  // CHECK: %[[ROWS:.*]] = tile.block %[[F]] batch %[[B]] head %[[H]]
  %rows = tile.work : !tile.block<query, 64>
  // CHECK: pipe.await %[[QC]][%[[QN]]]
  %Q = tile.load %q[%rows] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], f16>
  %none = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  // CHECK: %[[LOOP:.*]]:2 = scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %{{.*}} = %[[KN]])
  %O = scf.for %j = %low to %high step %one iter_args(%O1 = %none) -> (!tile.tile<[64, 64], f32>) : i32 {
    %keys = tile.block %j of %rows : !tile.block<query, 64> -> !tile.block<key, 64>
    %K = tile.load %k[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
    %O2 = tile.dot %Q, %K transposed plus %O1 : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    scf.yield %O2 : !tile.tile<[64, 64], f32>
  }
  // CHECK: pipe.release %[[QC]][%[[QN]]]
  // CHECK: pipe.drain
  // CHECK-NOT: pipe.drain
  // CHECK: pipe.write %{{.*}} to %[[OUT]]
  // CHECK-NEXT: pipe.empty_out %[[OUT]] to %o[%[[ROWS]]]
  // CHECK-NOT: pipe.drain
  // CHECK: scf.yield %{{.*}}, %[[LOOP]]#1, %[[N]]
  // CHECK: }
  // CHECK-NEXT: pipe.drain
  %R = tile.convert %O : !tile.tile<[64, 64], f32> -> !tile.tile<[64, 64], f16>
  tile.store %R, %o[%rows] : !tile.tile<[64, 64], f16>, !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>]
}

// -----

// Through the queries' buffer: the next item's queries come when the output has been copied out.
// CHECK-LABEL: tile.kernel @over
tile.kernel @over(%q: !tile.view<[?, ?, ?, 64], f16>, %k: !tile.view<[?, ?, ?, 64], f16>, %o: !tile.view<[?, ?, ?, 64], f16>)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 2, warps = 4, q_in_registers = false, consumers = 1, persistent = true>} {
  // CHECK: %[[Q:.*]] = pipe.alloc
  // CHECK: %[[QC:.*]] = pipe.open
  // CHECK: %[[OUT:.*]] = pipe.alloc over %[[Q]]
  // CHECK: } consumers 1
  // CHECK: pipe.await %[[QC]]
  // CHECK-NOT: pipe.release %[[QC]]
  // CHECK: pipe.write %{{.*}} to %[[OUT]]
  // CHECK-NEXT: pipe.empty_out %[[OUT]]
  // CHECK-NEXT: pipe.drain
  // CHECK-NEXT: pipe.release %[[QC]]
  %rows = tile.work : !tile.block<query, 64>
  %Q = tile.load %q[%rows] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], f16>
  %none = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %zero = arith.constant 0 : i32
  %keys = tile.block %zero of %rows : !tile.block<query, 64> -> !tile.block<key, 64>
  %K = tile.load %k[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
  %O = tile.dot %Q, %K transposed plus %none : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
  %R = tile.convert %O : !tile.tile<[64, 64], f32> -> !tile.tile<[64, 64], f16>
  tile.store %R, %o[%rows] : !tile.tile<[64, 64], f16>, !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>]
}

// -----

// Query heads that are dealt: the producer sends 1 plus the item's part in place of the flag, and consumers get the part from it.
// CHECK-LABEL: tile.kernel @dealt
tile.kernel @dealt(%q: !tile.view<[?, ?, ?, 64], f16>, %k: !tile.view<[?, ?, ?, 64], f16>, %o: !tile.view<[?, ?, ?, 64], f16>)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 2, warps = 4, q_in_registers = false, consumers = 1, persistent = true, output_buffer = true>} {
  // CHECK: pipe.roles producer
  // CHECK: tile.work_items !tile.block<key, 64> dealt to 16
  // CHECK: %[[ROWS:.*]] = tile.work item %{{.*}} dealt to 16
  // CHECK: %[[PART:.*]] = tile.work_part of %[[ROWS]]
  // CHECK: %[[NEXT:.*]] = arith.addi %[[PART]], %{{.*}}
  // CHECK: %[[SENT:.*]] = arith.select %{{.*}}, %[[NEXT]]
  // CHECK: pipe.send %[[SENT]],
  // CHECK: ^bb0
  // CHECK: %[[ROWS:.*]] = tile.work item %{{.*}} dealt to 16
  // CHECK: %[[PART:.*]] = tile.work_part of %[[ROWS]]
  // CHECK: tile.block %{{.*}} head %[[PART]]
  // CHECK: } consumers 1
  // CHECK: %[[PLACE:.*]]:4 = pipe.receive
  // CHECK: %[[OWN:.*]] = arith.subi %[[PLACE]]#0
  // CHECK: scf.condition(%{{.*}}) %[[PLACE]]#1, %[[PLACE]]#2, %[[PLACE]]#3, %[[OWN]]
  // CHECK: ^bb0(%{{[a-z0-9]+}}: i32, %{{[a-z0-9]+}}: i32, %{{[a-z0-9]+}}: i32, %[[OWN:[a-z0-9]+]]: i32,
  // CHECK-NOT: tile.work_part
  // CHECK: tile.block %{{.*}} head %[[OWN]]
  %keys = tile.work dealt to 16 : !tile.block<key, 64>
  %part = tile.work_part of %keys : !tile.block<key, 64>
  %K = tile.load %k[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
  %none = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %zero = arith.constant 0 : i32
  %queries = tile.block %zero head %part of %keys : !tile.block<key, 64> -> !tile.block<query, 64>
  %Q = tile.load %q[%queries] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], f16>
  %O = tile.dot %K, %Q transposed plus %none : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
  %R = tile.convert %O : !tile.tile<[64, 64], f32> -> !tile.tile<[64, 64], f16>
  tile.store %R, %o[%queries] : !tile.tile<[64, 64], f16>, !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>]
}
