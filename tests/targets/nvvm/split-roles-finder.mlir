// RUN: tesela-opt %s --pipe-assign-fragments --pipe-split-roles --pipe-place-buffers --pipe-verify-protocol | FileCheck %s

// A finder takes the items and searches. It tells the producer and the consumers each item and the number of its blocks. It tells only
// the producer each block. The other numbers that consumers need of a block come with its keys.
// CHECK-LABEL: tile.kernel @found
tile.kernel @found(%q: !tile.view<[?, ?, ?, 64], f16>, %k: !tile.view<[?, ?, ?, 64], f16>,
                   %o: !tile.view<[?, ?, ?, 64], f16>, %low: i32, %high: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 2, warps = 4, q_in_registers = false, consumers = 1, persistent = true, output_buffer = true>} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  // CHECK: %[[KEYS_CHANNEL:.*]] = pipe.open {{.*}} : <2 words = 2>
  // CHECK: %[[COUNTS:.*]] = pipe.open {{.*}} : <2 words = 1>
  // CHECK: %[[BLOCKS:.*]] = pipe.open {{.*}} : <32 words = 2>
  // CHECK: %[[ITEMS:.*]] = pipe.open {{.*}} : <2 words = 4>
  // CHECK: pipe.roles finder {
  // CHECK: pipe.first_item
  // CHECK: scf.while
  // CHECK: tile.coordinates
  // CHECK: pipe.send {{.*}} to %[[ITEMS]]
  // CHECK: ^bb0
  // CHECK: %{{.*}}, %[[COUNT:.*]] = tile.find_blocks
  // CHECK: pipe.acquire %[[COUNTS]]
  // CHECK: pipe.send %[[COUNT]] to %[[COUNTS]]
  // CHECK: scf.for {{.*}} to %[[COUNT]]
  // CHECK: %[[INDEX:.*]], %[[PARTIAL:.*]] = tile.found_block
  // CHECK: %[[FLAG:.*]] = arith.extui %[[PARTIAL]]
  // CHECK: pipe.send %[[INDEX]], %[[FLAG]] to %[[BLOCKS]]
  // CHECK-NOT: pipe.fill
  // CHECK: pipe.next_item
  // CHECK: pipe.end_items
  // CHECK: } producer 88 {
  // CHECK-NOT: pipe.first_item
  // CHECK: scf.while
  // CHECK: pipe.receive %[[ITEMS]]
  // CHECK: ^bb0
  // CHECK: %[[ROWS:.*]] = tile.block
  // CHECK: pipe.fill %q[%[[ROWS]]]
  // CHECK-NOT: tile.find_blocks
  // CHECK: %[[COUNT:.*]] = pipe.receive %[[COUNTS]]
  // CHECK: scf.for {{.*}} to %[[COUNT]]
  // CHECK: %[[BLOCK:.*]]:2 = pipe.receive %[[BLOCKS]]
  // CHECK: %[[KEYS:.*]] = tile.block %[[BLOCK]]#0 of %[[ROWS]]
  // CHECK: pipe.fill %k[%[[KEYS]]] to {{.*}} on %[[KEYS_CHANNEL]][{{.*}}] with %[[BLOCK]]#0, %[[BLOCK]]#1
  // CHECK-NOT: pipe.next_item
  // CHECK: } consumers 1 256 {
  // CHECK: pipe.receive %[[ITEMS]]
  // CHECK-NOT: tile.find_blocks
  // CHECK: %[[COUNT:.*]] = pipe.receive %[[COUNTS]]
  // CHECK: scf.for {{.*}} to %[[COUNT]]
  // CHECK-NOT: pipe.receive
  // CHECK: %[[BLOCK:.*]]:2 = pipe.await %[[KEYS_CHANNEL]]
  // CHECK: arith.cmpi ne, %[[BLOCK]]#1
  // CHECK-NOT: tile.found_block
  %rows = tile.work : !tile.block<query, 64>
  %Q = tile.load %q[%rows] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], f16>
  %none = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %found, %n = tile.find_blocks from %low to %high : !tile.found_blocks<64> one {
  ^bb0(%first: i32, %last: i32):
    %t = arith.constant true
    tile.yield %t, %t : i1, i1
  } many {
  ^bb0(%first: i32, %last: i32):
    %t = arith.constant true
    tile.yield %t, %t : i1, i1
  }
  %O = scf.for %i = %zero to %n step %one iter_args(%O1 = %none) -> (!tile.tile<[64, 64], f32>) : i32 {
    %j, %partial = tile.found_block %found[%i] : !tile.found_blocks<64>
    %keys = tile.block %j of %rows : !tile.block<query, 64> -> !tile.block<key, 64>
    %K = tile.load %k[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
    %O2 = tile.dot %Q, %K transposed plus %O1 : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    %O3 = scf.if %partial -> (!tile.tile<[64, 64], f32>) {
      scf.yield %none : !tile.tile<[64, 64], f32>
    } else {
      scf.yield %O2 : !tile.tile<[64, 64], f32>
    }
    scf.yield %O3 : !tile.tile<[64, 64], f32>
  }
  %R = tile.convert %O : !tile.tile<[64, 64], f32> -> !tile.tile<[64, 64], f16>
  tile.store %R, %o[%rows] : !tile.tile<[64, 64], f16>, !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>]
}
