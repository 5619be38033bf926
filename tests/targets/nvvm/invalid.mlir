// RUN: tesela-opt %s --split-input-file --verify-diagnostics --pipe-verify-lowerable --pipe-assign-fragments --pipe-lower-to-nvvm

// expected-error @+1 {{expected a kernel with the attribute 'schedule', a #tile.schedule}}
tile.kernel @no_schedule() {
}

// -----

// expected-error @+1 {{expected a kernel with a schedule and with buffers in their places; run pipe-place-buffers first}}
tile.kernel @not_placed() attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false>} {
}

// -----

tile.kernel @no_lowering(%scale: f32) attributes {pipe.shared_bytes = 0 : i64, schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false>} {
  %o = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %a = tile.constant 0.0 : !tile.tile<[64], f32>
  // expected-error @+1 {{'tile.rescale' op has no lowering to NVVM}}
  %x = tile.rescale %o by %a : !tile.tile<[64, 64], f32>, !tile.tile<[64], f32>
}

// -----

tile.kernel @odd_columns(%x: !tile.view<[?, ?, ?, 60], f16>, %o: !tile.view<[?, ?, ?, 60], f16>) attributes {pipe.shared_bytes = 0 : i64, schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false>} {
  %rows = tile.work : !tile.block<query, 64>
  // expected-error @+1 {{expected a view whose columns are a multiple of 8}}
  %X = tile.load %x[%rows] : !tile.view<[?, ?, ?, 60], f16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], f16>
}

// -----

tile.kernel @columns(%x: !tile.view<[?, ?, ?, ?], f32>, %i: i32) attributes {pipe.shared_bytes = 0 : i64, schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false>} {
  %rows = tile.work : !tile.block<query, 64>
  %columns = tile.block %i of %rows : !tile.block<query, 64> -> !tile.block<key, 64>
  // expected-error @+1 {{expected all columns of the view, got a block of them, which is loaded for tile.dot alone}}
  %X = tile.load %x[%rows, %columns] : !tile.view<[?, ?, ?, ?], f32>[!tile.block<query, 64>, !tile.block<key, 64>] -> !tile.tile<[64, 64], f32>
}

// -----

tile.kernel @rows_of_warps(%a: !tile.view<[?, ?, ?, 64], f16>) attributes {pipe.shared_bytes = 0 : i64, schedule = #tile.schedule<block_m = 48, block_n = 64, stages = 1, warps = 4, q_in_registers = false>} {
  %rows = tile.work : !tile.block<query, 48>
  %A = tile.load %a[%rows] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 48>] -> !tile.tile<[48, 64], f16>
  %zero = tile.constant 0.0 : !tile.tile<[48, 48], f32>
  // expected-error @+1 {{expected a result with 16 rows for each of 4 warps, or a multiple of them, got '!tile.tile<[48, 48], f32>'; choose other blocks or fewer warps}}
  %C = tile.dot %A, %A transposed plus %zero : (!tile.tile<[48, 64], f16>, !tile.tile<[48, 64], f16>, !tile.tile<[48, 48], f32>) -> !tile.tile<[48, 48], f32>
}

// -----

// A warpgroup's product has 64 rows.
tile.kernel @rows_of_consumers(%a: !tile.view<[?, ?, ?, 64], f16>) attributes {pipe.shared_bytes = 0 : i64, schedule = #tile.schedule<block_m = 128, block_n = 64, stages = 1, warps = 4, q_in_registers = false, consumers = 1>} {
  %rows = tile.work : !tile.block<query, 128>
  %A = tile.load %a[%rows] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 128>] -> !tile.tile<[128, 64], f16>
  %zero = tile.constant 0.0 : !tile.tile<[128, 128], f32>
  // expected-error @+1 {{expected a result with 64 rows for each consumer (consumers = 1), or 64 rows in all, got '!tile.tile<[128, 128], f32>'; choose other blocks or other consumers}}
  %C = tile.dot %A, %A transposed plus %zero : (!tile.tile<[128, 64], f16>, !tile.tile<[128, 64], f16>, !tile.tile<[128, 128], f32>) -> !tile.tile<[128, 128], f32>
}

// -----

tile.kernel @columns_of_warps(%a: !tile.view<[?, ?, ?, 64], f16>, %b: !tile.view<[?, ?, ?, 96], f16>) attributes {pipe.shared_bytes = 0 : i64, schedule = #tile.schedule<block_m = 32, block_n = 64, stages = 1, warps = 4, q_in_registers = false>} {
  %rows = tile.work : !tile.block<query, 32>
  %i = arith.constant 0 : i32
  %depth = tile.block %i of %rows : !tile.block<query, 32> -> !tile.block<key, 64>
  %A = tile.load %a[%rows] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 32>] -> !tile.tile<[32, 64], f16>
  %B = tile.load %b[%depth] : !tile.view<[?, ?, ?, 96], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 96], f16>
  %zero = tile.constant 0.0 : !tile.tile<[32, 96], f32>
  // expected-error @+1 {{expected a result with 16 rows for each of 4 warps, or one whose columns are cut in 2 parts of a multiple of 64, with a computed left operand of 64 columns at most or a multiple of 64 for each part, got '!tile.tile<[32, 64], f16>' for '!tile.tile<[32, 96], f32>'; choose other blocks or fewer warps}}
  %C = tile.dot %A, %B plus %zero : (!tile.tile<[32, 64], f16>, !tile.tile<[64, 96], f16>, !tile.tile<[32, 96], f32>) -> !tile.tile<[32, 96], f32>
}

// -----

tile.kernel @rows_of_warps(%a: !tile.view<[?, ?, ?, 64], f16>, %b: !tile.view<[?, ?, ?, 64], f16>) attributes {pipe.shared_bytes = 0 : i64, schedule = #tile.schedule<block_m = 64, block_n = 96, stages = 1, warps = 8, q_in_registers = false>} {
  %rows = tile.work : !tile.block<query, 64>
  %i = arith.constant 0 : i32
  %keys = tile.block %i of %rows : !tile.block<query, 64> -> !tile.block<key, 96>
  %A = tile.load %a[%rows] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], f16>
  %B = tile.load %b[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 96>] -> !tile.tile<[96, 64], f16>
  %zero = tile.constant 0.0 : !tile.tile<[64, 96], f32>
  // expected-error @+1 {{or one whose columns are cut in 2 parts of a multiple of 64}}
  %C = tile.dot %A, %B transposed plus %zero : (!tile.tile<[64, 64], f16>, !tile.tile<[96, 64], f16>, !tile.tile<[64, 96], f32>) -> !tile.tile<[64, 96], f32>
}

// -----

tile.kernel @exact_products() attributes {pipe.shared_bytes = 0 : i64, schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false>} {
  %A = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  // expected-error @+1 {{expected operands f16 or bf16, got 'f32'; convert them with tile.convert}}
  %C = tile.dot %A, %A plus %A : (!tile.tile<[64, 64], f32>, !tile.tile<[64, 64], f32>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
}

// -----

tile.kernel @slots() attributes {pipe.shared_bytes = 0 : i64, schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false, consumers = 1, persistent = true>} {
  // expected-error @+1 {{expected a schedule with persistent = false, got true; work items of slots are one a thread block}}
  %slots, %more = tile.work_slots of 4 : !tile.block<query, 64>
}

// -----

tile.kernel @leaves(%none: i1) attributes {pipe.shared_bytes = 0 : i64, schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false, consumers = 1, persistent = true>} {
  // expected-error @+1 {{expected a schedule with persistent = false, got true; a thread block of several work items cannot leave}}
  tile.leave if %none
}

// -----

tile.kernel @numbers_of_pairs(%o: !tile.view<[?, ?, ?, 64], i32>) attributes {pipe.shared_bytes = 0 : i64, schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false>} {
  %rows = tile.work : !tile.block<query, 64>
  %O = tile.map : () -> !tile.tile<[64, 64], i32> {
  ^body(%row: i32, %column: i32):
    tile.yield %row : i32
  }
  // expected-error @+1 {{expected a tile of elements f32, f16, bf16 or f8E4M3FN, got '!tile.tile<[64, 64], i32>'; convert it with tile.convert}}
  tile.store %O, %o[%rows] : !tile.tile<[64, 64], i32>, !tile.view<[?, ?, ?, 64], i32>[!tile.block<query, 64>]
}

// -----

tile.kernel @map_of_columns() attributes {pipe.shared_bytes = 0 : i64, schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false>} {
  // expected-error @+1 {{expected a tile of more than one row}}
  %x = tile.map : () -> !tile.tile<[1, 64], f32> {
  ^body(%row: i32, %column: i32):
    %one = arith.constant 1.0 : f32
    tile.yield %one : f32
  }
}

// -----

tile.kernel @paged_queries(%x: !tile.view<[?, H, 16, 64], f16>, %table: !tile.view<[B, ?], i32>, %b: i32) attributes {pipe.shared_bytes = 0 : i64, schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false, consumers = 1>} {
  %rows = tile.work : !tile.block<query, 64>
  %none = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %xs = tile.paged %x by %table[%b] : !tile.view<[?, H, 16, 64], f16>, !tile.view<[B, ?], i32> -> !tile.view<[B, H, Sq, 64], f16>
  // expected-error @+1 {{expected blocks of keys, or a left operand of tile.dot from a dense or ragged view, got '!tile.block<query, 64>'; take consumers = 0}}
  %X = tile.load %xs[%rows] : !tile.view<[B, H, Sq, 64], f16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], f16>
  %S = tile.dot %X, %X transposed plus %none : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
}

// -----

tile.kernel @loads_what_it_stores(%x: !tile.view<[B, H, Sq, 64], f32>) attributes {pipe.shared_bytes = 0 : i64, schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false>} {
  %rows = tile.work : !tile.block<query, 64>
  // In front of a loop it is allowed.
  %Y = tile.load %x[%rows] : !tile.view<[B, H, Sq, 64], f32>[!tile.block<query, 64>] -> !tile.tile<[64, 64], f32>
  tile.store %Y, %x[%rows] : !tile.tile<[64, 64], f32>, !tile.view<[B, H, Sq, 64], f32>[!tile.block<query, 64>]
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  scf.for %i = %zero to %two step %one : i32 {
    // expected-error @+1 {{in a loop or a branch expected a view that its kernel does not store to; load it in a kernel behind that, or compile for the host}}
    %X = tile.load %x[%rows] : !tile.view<[B, H, Sq, 64], f32>[!tile.block<query, 64>] -> !tile.tile<[64, 64], f32>
    tile.store %X, %x[%rows] : !tile.tile<[64, 64], f32>, !tile.view<[B, H, Sq, 64], f32>[!tile.block<query, 64>]
  }
}

// -----

tile.kernel @turns_without_roles(workspace %turns: !tile.view<[B, H, Sk], f32>) attributes {pipe.shared_bytes = 0 : i64, schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false>} {
  %keys = tile.work : !tile.block<key, 128>
  // expected-error @+1 {{expected a schedule with 1 or 2 consumers and persistent = true; leave add_in_turn out}}
  tile.order_additions by %turns[%keys] : !tile.view<[B, H, Sk], f32>[!tile.block<key, 128>]
}

// -----

tile.kernel @turns_without_a_part(workspace %turns: !tile.view<[B, H, Sk], f32>) attributes {pipe.shared_bytes = 0 : i64, schedule = #tile.schedule<block_m = 128, block_n = 64, stages = 2, warps = 8, q_in_registers = false, consumers = 2, persistent = true, add_in_turn = true>} {
  %keys = tile.work dealt to 528 : !tile.block<key, 128>
  // expected-error @+1 {{expected a part of a kernel whose work items have parts (tile.work), got none}}
  tile.order_additions by %turns[%keys] : !tile.view<[B, H, Sk], f32>[!tile.block<key, 128>]
}

// -----

tile.kernel @turns_of_no_part(workspace %turns: !tile.view<[B, H, Sk], f32>, %part: i32) attributes {pipe.shared_bytes = 0 : i64, schedule = #tile.schedule<block_m = 128, block_n = 64, stages = 2, warps = 8, q_in_registers = false, consumers = 2, persistent = true, add_in_turn = true>} {
  %keys = tile.work : !tile.block<key, 128>
  // expected-error @+1 {{expected no part of a kernel whose work items have all query heads of a key/value head (tile.work), got one}}
  tile.order_additions by %turns[%keys] part %part : !tile.view<[B, H, Sk], f32>[!tile.block<key, 128>]
}

// -----

tile.kernel @turns_in_the_other_order(workspace %turns: !tile.view<[B, H, Sk], f32>) attributes {pipe.shared_bytes = 0 : i64, schedule = #tile.schedule<block_m = 128, block_n = 64, stages = 2, warps = 8, q_in_registers = false, consumers = 2, persistent = true, add_in_turn = true>} {
  %keys = tile.work : !tile.block<key, 128>
  // expected-error @+1 {{expected the order of tile.work that tile-order-items gives, got first_keys_first without last_keys_first in the schedule; run that pass}}
  tile.order_additions by %turns[%keys] : !tile.view<[B, H, Sk], f32>[!tile.block<key, 128>]
}

// -----

tile.kernel @turns_from_registers(workspace %sums: !tile.view<[B, H, Sq, 256], f32>, workspace %turns: !tile.view<[B, H, Sk], f32>) attributes {pipe.shared_bytes = 0 : i64, schedule = #tile.schedule<block_m = 128, block_n = 64, stages = 2, warps = 8, q_in_registers = false, consumers = 2, persistent = true, add_in_turn = true>} {
  %keys = tile.work order last_keys_first : !tile.block<key, 128>
  // expected-error @+1 {{expected sums that the copy engine adds, which have at most 128 columns, got more; leave add_in_turn out}}
  tile.order_additions by %turns[%keys] : !tile.view<[B, H, Sk], f32>[!tile.block<key, 128>]
  %first = arith.constant 0 : i32
  %queries = tile.block %first of %keys : !tile.block<key, 128> -> !tile.block<query, 64>
  %dQ = tile.constant 0.0 : !tile.tile<[64, 256], f32>
  tile.accumulate %dQ, %sums[%queries] : !tile.tile<[64, 256], f32>, !tile.view<[B, H, Sq, 256], f32>[!tile.block<query, 64>]
}

// -----

tile.kernel @turns_with_a_search(workspace %turns: !tile.view<[B, H, Sk], f32>) attributes {pipe.shared_bytes = 0 : i64, schedule = #tile.schedule<block_m = 128, block_n = 64, stages = 2, warps = 8, q_in_registers = false, consumers = 2, persistent = true, add_in_turn = true>} {
  %keys = tile.work : !tile.block<key, 128>
  // expected-error @+1 {{expected a kernel that knows its blocks without a search (tile.find_blocks), got one that searches; leave add_in_turn out}}
  tile.order_additions by %turns[%keys] : !tile.view<[B, H, Sk], f32>[!tile.block<key, 128>]
  %none = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %found, %count = tile.find_blocks from %none to %one : !tile.found_blocks<64, query> one {
  ^bb0(%first: i32, %last: i32):
    %keeps = arith.cmpi sle, %first, %one : i32
    tile.yield %keeps, %keeps : i1, i1
  } many {
  ^bb0(%first: i32, %last: i32):
    %keeps = arith.cmpi sle, %first, %one : i32
    tile.yield %keeps, %keeps : i1, i1
  }
}
