// RUN: tesela-opt %s --split-input-file --verify-diagnostics --pipe-split-roles

// Which consumers await the load depends on a condition that only they know.
tile.kernel @branch(%k: !tile.view<[?, ?, ?, 64], f16>, %test: i1, %index: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 2, warps = 4, q_in_registers = false, consumers = 1>} {
  %none = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %rows = tile.work : !tile.block<query, 64>
  %keys = tile.block %index of %rows : !tile.block<query, 64> -> !tile.block<key, 64>
  // expected-error @+1 {{loads inside it have no place in a producer's program}}
  scf.if %test {
    %K = tile.load %k[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
    %S = tile.dot %K, %K transposed plus %none : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
  }
}

// -----

// The producer cannot know a block that depends on tiles.
tile.kernel @block(%k: !tile.view<[?, ?, ?, 64], f16>)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 2, warps = 4, q_in_registers = false, consumers = 1>} {
  %none = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %rows = tile.work : !tile.block<query, 64>
  %x = tile.constant 0.0 : !tile.tile<[64], f32, #pipe.rows<warps = 4, shares = false>>
  %test = tile.any_positive %x group : !tile.tile<[64], f32, #pipe.rows<warps = 4, shares = false>>
  %index = arith.extui %test : i1 to i32
  %keys = tile.block %index of %rows : !tile.block<query, 64> -> !tile.block<key, 64>
  // expected-error @+1 {{its block follows from what only consumers compute}}
  %K = tile.load %k[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
  %S = tile.dot %K, %K transposed plus %none : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
}

// -----

// Nor can it know such ends of a loop.
tile.kernel @ends(%k: !tile.view<[?, ?, ?, 64], f16>, %low: i32, %one: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 2, warps = 4, q_in_registers = false, consumers = 1>} {
  %none = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %rows = tile.work : !tile.block<query, 64>
  %x = tile.constant 0.0 : !tile.tile<[64], f32, #pipe.rows<warps = 4, shares = false>>
  %test = tile.any_positive %x group : !tile.tile<[64], f32, #pipe.rows<warps = 4, shares = false>>
  %high = arith.extui %test : i1 to i32
  // expected-error @+1 {{its ends follow from what only consumers compute}}
  scf.for %j = %low to %high step %one : i32 {
    %keys = tile.block %j of %rows : !tile.block<query, 64> -> !tile.block<key, 64>
    %K = tile.load %k[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
    %S = tile.dot %K, %K transposed plus %none : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
  }
}

// -----

// Consumers need to know whether the block is partial, and no load brings the answer to them.
tile.kernel @alone(%low: i32, %high: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 2, warps = 4, q_in_registers = false, consumers = 1>} {
  %zero = arith.constant 0 : i32
  %found, %n = tile.find_blocks from %low to %high : !tile.found_blocks<64> one {
  ^bb0(%first: i32, %last: i32):
    %t = arith.constant true
    tile.yield %t, %t : i1, i1
  } many {
  ^bb0(%first: i32, %last: i32):
    %t = arith.constant true
    tile.yield %t, %t : i1, i1
  }
  // expected-error @+1 {{consumers need to know of it, and no load for tile.dot beside it brings it to them; take consumers = 0}}
  %j, %partial = tile.found_block %found[%zero] : !tile.found_blocks<64>
  scf.if %partial {
    pipe.barrier
  }
}

// -----

// One load of the keys tells the consumers its block, the other one does not.
tile.kernel @some(%k: !tile.view<[?, ?, ?, 64], f16>, %low: i32, %high: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 2, warps = 4, q_in_registers = false, consumers = 1>} {
  %zero = arith.constant 0 : i32
  %none = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %rows = tile.work : !tile.block<query, 64>
  %found, %n = tile.find_blocks from %low to %high : !tile.found_blocks<64> one {
  ^bb0(%first: i32, %last: i32):
    %t = arith.constant true
    tile.yield %t, %t : i1, i1
  } many {
  ^bb0(%first: i32, %last: i32):
    %t = arith.constant true
    tile.yield %t, %t : i1, i1
  }
  %j, %partial = tile.found_block %found[%zero] : !tile.found_blocks<64>
  %keys = tile.block %j of %rows : !tile.block<query, 64> -> !tile.block<key, 64>
  %K = tile.load %k[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
  %S = tile.dot %K, %K transposed plus %none : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
  scf.if %partial {
    pipe.barrier
  }
  %first_keys = tile.block %zero of %rows : !tile.block<query, 64> -> !tile.block<key, 64>
  // expected-error @+1 {{of its view's loads some tell consumers of a found block, others do not}}
  %K0 = tile.load %k[%first_keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
  %S0 = tile.dot %K0, %K0 transposed plus %none : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
}
