// RUN: tesela-opt %s --tile-add-in-turn --split-input-file --verify-diagnostics

// expected-error @+1 {{with add_in_turn expected one tile.accumulate, got 0; leave add_in_turn out}}
tile.kernel @none(in %q: !tile.view<[B, H, Sq, 64], f32>)
    attributes {schedule = #tile.schedule<block_m = 128, block_n = 64, stages = 2, warps = 8, q_in_registers = false, consumers = 2, persistent = true, add_in_turn = true>} {
}

// -----

tile.kernel @not_cleared(workspace %sum: !tile.view<[B, H, Sq, 64], f32>)
    attributes {schedule = #tile.schedule<block_m = 128, block_n = 64, stages = 2, warps = 8, q_in_registers = false, consumers = 2, persistent = true, add_in_turn = true>} {
  %rows = tile.work : !tile.block<query, 64>
  %dQ = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  // expected-error @+1 {{with add_in_turn expected a kernel that stores the first values of the sums, got none; leave add_in_turn out}}
  tile.accumulate %dQ, %sum[%rows] : !tile.tile<[64, 64], f32>, !tile.view<[B, H, Sq, 64], f32>[!tile.block<query, 64>]
}

// -----

tile.kernel @rows(workspace %sum: !tile.view<[B, H, Sq, 64], f32>)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false>} {
  %rows = tile.work : !tile.block<query, 64>
  %zero = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  tile.store %zero, %sum[%rows] : !tile.tile<[64, 64], f32>, !tile.view<[B, H, Sq, 64], f32>[!tile.block<query, 64>]
}
tile.kernel @no_loop(workspace %sum: !tile.view<[B, H, Sq, 64], f32>)
    attributes {schedule = #tile.schedule<block_m = 128, block_n = 64, stages = 2, warps = 8, q_in_registers = false, consumers = 2, persistent = true, add_in_turn = true>} {
  %rows = tile.work : !tile.block<query, 64>
  %dQ = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  // expected-error @+1 {{with add_in_turn expected a loop over the queries of a block of keys}}
  tile.accumulate %dQ, %sum[%rows] : !tile.tile<[64, 64], f32>, !tile.view<[B, H, Sq, 64], f32>[!tile.block<query, 64>]
}
