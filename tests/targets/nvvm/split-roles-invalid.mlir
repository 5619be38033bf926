// RUN: tesela-opt %s --split-input-file --verify-diagnostics --pipe-split-roles

// expected-error @+1 {{expected one loop for the roles to share, got 0}}
tile.kernel @no_loop() attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 2, warps = 4, q_in_registers = false, consumers = 1>} {
}

// -----

// expected-error @+1 {{expected one loop for the roles to share, got 2}}
tile.kernel @two_loops(%low: i32, %high: i32, %step: i32) attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 2, warps = 4, q_in_registers = false, consumers = 1>} {
  scf.for %j = %low to %high step %step : i32 {
  }
  scf.for %j = %low to %high step %step : i32 {
  }
}
