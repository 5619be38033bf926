// RUN: tesela-opt %s --tile-add-in-turn | FileCheck %s

// The kernel that clears the sums also clears the turns: work item i of n in a head has the blocks of keys i, i + n, ….
// CHECK-LABEL: tile.kernel @rows
// CHECK-SAME: workspace %sum: {{.*}}, workspace %turns: !tile.view<[B, H, (Sk ceildiv 128) * 128], f32>
// CHECK: tile.store %{{.*}}, %sum
// CHECK: %{{.*}}, %[[HEAD:.*]], %{{.*}}, %[[FIRST:.*]] = tile.coordinates
// CHECK: %[[ITEM:.*]] = arith.divui %[[FIRST]]
// CHECK: %[[ITEMS:.*]] = arith.divui
// CHECK: %[[BLOCKS:.*]] = arith.divui
// CHECK: scf.for %[[BLOCK:.*]] = %[[ITEM]] to %[[BLOCKS]] step %[[ITEMS]]
// CHECK: %[[KEY:.*]] = arith.muli %[[BLOCK]]
// CHECK: %[[END:.*]] = arith.addi %[[KEY]]
// CHECK: %[[KEYS:.*]] = tile.block %[[KEY]] to %[[END]] head %[[HEAD]] of %{{.*}} : !tile.block<query, 64> -> <key, 128>
// CHECK: tile.store %{{.*}}, %turns[%[[KEYS]]]
tile.kernel @rows(in %do: !tile.view<[B, H, Sq, 64], bf16>, workspace %sum: !tile.view<[B, H, Sq, 64], f32>)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false>} {
  %rows = tile.work : !tile.block<query, 64>
  %zero = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  tile.store %zero, %sum[%rows] : !tile.tile<[64, 64], f32>, !tile.view<[B, H, Sq, 64], f32>[!tile.block<query, 64>]
}

// The order is fixed once for each query head, in front of the loop over its blocks. It depends on the part of a work item.
// CHECK-LABEL: tile.kernel @keys
// CHECK-SAME: workspace %sum: {{.*}}, workspace %turns: !tile.view<[B, H, (Sk ceildiv 128) * 128], f32>
// CHECK: %[[ALL:.*]] = tile.work dealt to 528
// CHECK: scf.for %[[OWN:.*]] =
// CHECK: %{{.*}}, %{{.*}}, %{{.*}}, %[[FIRSTKEY:.*]] = tile.coordinates %[[ALL]]
// CHECK: %[[PLACE:.*]] = tile.block %[[FIRSTKEY]] head %[[OWN]] of %[[ALL]]
// CHECK: %[[PART:.*]] = tile.work_part of %[[ALL]]
// CHECK: tile.order_additions by %turns[%[[PLACE]]] part %[[PART]]
// CHECK: tile.blocks
// CHECK: tile.accumulate %{{.*}}, %sum
tile.kernel @keys(in %do: !tile.view<[B, H, Sq, 64], bf16>, workspace %sum: !tile.view<[B, H, Sq, 64], f32>)
    attributes {schedule = #tile.schedule<block_m = 128, block_n = 64, stages = 2, warps = 8, q_in_registers = false, consumers = 2, persistent = true, add_in_turn = true>} {
  %keys = tile.work dealt to 528 : !tile.block<key, 128>
  %none = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %heads = tile.extent "H"
  %dQ = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  scf.for %own = %none to %heads step %one : i32 {
    tile.blocks %block, %partial of %keys : !tile.block<key, 128> -> !tile.block<query, 64> {
      %batch, %head, %kv_head, %first = tile.coordinates %block : !tile.block<query, 64>
      %queries = tile.block %first head %own of %block : !tile.block<query, 64> -> !tile.block<query, 64>
      tile.accumulate %dQ, %sum[%queries] : !tile.tile<[64, 64], f32>, !tile.view<[B, H, Sq, 64], f32>[!tile.block<query, 64>]
      tile.yield
    }
  }
}
