// RUN: tesela-opt %s --tile-key-ranges --tile-order-items | FileCheck %s

// Only work items that add in turn get an order.
// CHECK-LABEL: tile.kernel @any_order
tile.kernel @any_order()
    attributes {schedule = #tile.schedule<block_m = 128, block_n = 64, stages = 2, warps = 8, q_in_registers = false, consumers = 2, persistent = true>} {
  // CHECK: tile.work : <key, 128>
  %keys = tile.work : !tile.block<key, 128>
}

// All blocks of keys have all queries.
// CHECK-LABEL: tile.kernel @full
tile.kernel @full(workspace %turns: !tile.view<[B, H, Sk], f32>)
    attributes {schedule = #tile.schedule<block_m = 128, block_n = 64, stages = 2, warps = 8, q_in_registers = false, consumers = 2, persistent = true, add_in_turn = true>} {
  // CHECK: tile.work order last_keys_first : <key, 128>
  %keys = tile.work : !tile.block<key, 128>
  tile.order_additions by %turns[%keys] : !tile.view<[B, H, Sk], f32>[!tile.block<key, 128>]
  %x = tile.constant 0.0 : !tile.tile<[128, 64], f32>
  tile.blocks %queries, %partial of %keys : !tile.block<key, 128> -> !tile.block<query, 64> {
    tile.yield
  }
}

// A causal mask: the queries of a block of keys begin at the diagonal and end at Sq.
// CHECK-LABEL: tile.kernel @causal
tile.kernel @causal(workspace %turns: !tile.view<[B, H, Sk], f32>)
    attributes {schedule = #tile.schedule<block_m = 128, block_n = 64, stages = 2, warps = 8, q_in_registers = false, consumers = 2, persistent = true, add_in_turn = true>} {
  // CHECK: tile.work dealt to 528 order last_keys_first_but_at_end : <key, 128>
  %keys = tile.work dealt to 528 : !tile.block<key, 128>
  %part = tile.work_part of %keys : !tile.block<key, 128>
  tile.order_additions by %turns[%keys] part %part : !tile.view<[B, H, Sk], f32>[!tile.block<key, 128>]
  %x = tile.constant 0.0 : !tile.tile<[128, 64], f32>
  tile.blocks %queries, %partial of %keys : !tile.block<key, 128> -> !tile.block<query, 64> {
    %t = tile.mask %x if %partial at %keys, %queries : !tile.tile<[128, 64], f32>, !tile.block<key, 128>, !tile.block<query, 64> do {
    ^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
      %m = arith.cmpi sge, %q, %k : i32
      tile.yield %m : i1
    }
    tile.yield
  }
}

// The schedule's own order.
// CHECK-LABEL: tile.kernel @first_keys
tile.kernel @first_keys(workspace %turns: !tile.view<[B, H, Sk], f32>)
    attributes {schedule = #tile.schedule<block_m = 128, block_n = 64, stages = 2, warps = 8, q_in_registers = false, consumers = 2, persistent = true, last_keys_first = true, add_in_turn = true>} {
  // CHECK: tile.work : <key, 128>
  %keys = tile.work : !tile.block<key, 128>
  tile.order_additions by %turns[%keys] : !tile.view<[B, H, Sk], f32>[!tile.block<key, 128>]
}

// A window: early and late blocks of keys have as many queries.
// CHECK-LABEL: tile.kernel @window
tile.kernel @window(workspace %turns: !tile.view<[B, H, Sk], f32>)
    attributes {schedule = #tile.schedule<block_m = 128, block_n = 64, stages = 2, warps = 8, q_in_registers = false, consumers = 2, persistent = true, add_in_turn = true>} {
  // CHECK: tile.work order last_keys_first : <key, 128>
  %keys = tile.work : !tile.block<key, 128>
  tile.order_additions by %turns[%keys] : !tile.view<[B, H, Sk], f32>[!tile.block<key, 128>]
  %x = tile.constant 0.0 : !tile.tile<[128, 64], f32>
  tile.blocks %queries, %partial of %keys : !tile.block<key, 128> -> !tile.block<query, 64> {
    %t = tile.mask %x if %partial at %keys, %queries : !tile.tile<[128, 64], f32>, !tile.block<key, 128>, !tile.block<query, 64> do {
    ^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
      %width = arith.constant 1024 : i32
      %d = arith.subi %q, %k : i32
      %causal = arith.cmpi sge, %q, %k : i32
      %near = arith.cmpi slt, %d, %width : i32
      %m = arith.andi %causal, %near : i1
      tile.yield %m : i1
    }
    tile.yield
  }
}

// The first query depends on the batch alone.
// CHECK-LABEL: tile.kernel @batches
tile.kernel @batches(workspace %turns: !tile.view<[B, H, Sk], f32>)
    attributes {schedule = #tile.schedule<block_m = 128, block_n = 64, stages = 2, warps = 8, q_in_registers = false, consumers = 2, persistent = true, add_in_turn = true>} {
  // CHECK: tile.work order last_keys_first : <key, 128>
  %keys = tile.work : !tile.block<key, 128>
  tile.order_additions by %turns[%keys] : !tile.view<[B, H, Sk], f32>[!tile.block<key, 128>]
  %x = tile.constant 0.0 : !tile.tile<[128, 64], f32>
  tile.blocks %queries, %partial of %keys : !tile.block<key, 128> -> !tile.block<query, 64> {
    %t = tile.mask %x if %partial at %keys, %queries : !tile.tile<[128, 64], f32>, !tile.block<key, 128>, !tile.block<query, 64> do {
    ^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
      %m = arith.cmpi sge, %q, %b : i32
      tile.yield %m : i1
    }
    tile.yield
  }
}
