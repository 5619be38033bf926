// RUN: tesela-opt %s --verify-diagnostics --tile-sum-by-product

// There is no product whose columns the sums could be.
tile.kernel @alone(%factor: f32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 32, stages = 2, warps = 4, q_in_registers = false, consumers = 1, row_sums = product>} {
  %s = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  %m = tile.constant 1.0 : !tile.tile<[64], f32>
  // expected-error @+1 {{expected row_sums = product to find a loop whose product with p adds to a carried accumulator that starts from zero and is rescaled by α, and a tile.finish of both; write it so, or take row_sums = registers}}
  %p, %m2, %l2, %alpha = tile.softmax_step %s, %m, %m factor %factor : !tile.tile<[64, 32], f32>, !tile.tile<[64], f32>
}
