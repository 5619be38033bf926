// RUN: tesela-opt %s --verify-diagnostics --pipe-overlap-products

// The first iteration would run even for an empty range, and nothing says that it then changes nothing.
tile.kernel @share(%q: !tile.view<[?, ?, ?, 64], f16>, %v: !tile.view<[?, ?, ?, 64], f16>, %low: i32, %high: i32, %one: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 2, warps = 4, q_in_registers = false, consumers = 1, overlap = true>} {
  %rows = tile.work : !tile.block<query, 64>
  %Q = tile.load %q[%rows] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], f16>
  %none = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  // expected-error @+1 {{expected a loop that drops what it computes of an empty range (`tile.drops_empty`), since its first iteration always runs; give the schedule overlap = false}}
  %O = scf.for %j = %low to %high step %one iter_args(%O1 = %none) -> (!tile.tile<[64, 64], f32>) : i32 {
    %keys = tile.block %j of %rows : !tile.block<query, 64> -> !tile.block<key, 64>
    %K = tile.load %q[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
    %S = tile.dot %Q, %K transposed plus %none : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    %P = tile.convert %S : !tile.tile<[64, 64], f32> -> !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>
    %Po = pipe.convert %P : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>> -> !tile.tile<[64, 64], f16, #pipe.operand<warps = 4>>
    %V = tile.load %v[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
    %O2 = tile.dot %Po, %V plus %O1 : (!tile.tile<[64, 64], f16, #pipe.operand<warps = 4>>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    scf.yield %O2 : !tile.tile<[64, 64], f32>
  }
}
