// RUN: tesela-opt %s --split-input-file --verify-diagnostics --pipe-assign-fragments --pipe-lower-to-nvvm

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
