// RUN: tesela-opt %s --split-input-file --verify-diagnostics --pipe-lower-to-nvvm

tile.kernel @warps(%a: !tile.tile<[64, 64], bf16, #pipe.operand<warps = 4>>, %b: !tile.tile<[64, 64], bf16, #pipe.shared>,
                   %c: !tile.tile<[64, 72], f32, #pipe.accumulator<warps = 4>>) attributes {pipe.shared_bytes = 0 : i64, schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false>} {
  // expected-error @+1 {{row_sums: expected a product of warpgroups, got one of warps; give the schedule consumers or row_sums = registers}}
  %x = tile.dot %a, %b row_sums plus %c : (!tile.tile<[64, 64], bf16, #pipe.operand<warps = 4>>, !tile.tile<[64, 64], bf16, #pipe.shared>, !tile.tile<[64, 72], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 72], f32, #pipe.accumulator<warps = 4>>
}

// -----

tile.kernel @wide(%a: !tile.tile<[64, 64], bf16, #pipe.operand<warps = 4>>, %b: !tile.tile<[64, 128], bf16, #pipe.shared>,
                  %c: !tile.tile<[64, 136], f32, #pipe.accumulator<warps = 4>>) attributes {pipe.shared_bytes = 0 : i64, schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false, consumers = 1>} {
  // expected-error @+1 {{row_sums: expected a right operand of one panel of 64 columns that is not transposed, got '!tile.tile<[64, 128], bf16, #pipe.shared>'; behind more panels the ones are not found}}
  %x = tile.dot %a, %b row_sums plus %c : (!tile.tile<[64, 64], bf16, #pipe.operand<warps = 4>>, !tile.tile<[64, 128], bf16, #pipe.shared>, !tile.tile<[64, 136], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 136], f32, #pipe.accumulator<warps = 4>>
}

// -----

tile.kernel @unplaced(%a: !tile.tile<[64, 64], bf16, #pipe.operand<warps = 4>>, %b: !tile.tile<[64, 64], bf16, #pipe.shared>,
                      %c: !tile.tile<[64, 72], f32, #pipe.accumulator<warps = 4>>) attributes {pipe.shared_bytes = 0 : i64, schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false, consumers = 1>} {
  // expected-error @+1 {{row_sums: expected the attribute 'pipe.ones_offset'; run pipe-place-buffers first}}
  %x = tile.dot %a, %b row_sums plus %c : (!tile.tile<[64, 64], bf16, #pipe.operand<warps = 4>>, !tile.tile<[64, 64], bf16, #pipe.shared>, !tile.tile<[64, 72], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 72], f32, #pipe.accumulator<warps = 4>>
}
