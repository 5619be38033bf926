// RUN: tesela-opt %s --pipe-assign-fragments --verify-diagnostics

// A map that uses the column's number needs the columns in order.
tile.kernel @columns(in %q: !tile.view<[B, H, Sq, 32], bf16>, in %v: !tile.view<[B, Hkv, Sk, 32], f8E4M3FN>, out %o: !tile.view<[B, H, Sq, 32], f32>)
    attributes {schedule = #tile.schedule<block_m = 16, block_n = 32, stages = 1, warps = 1, q_in_registers = true>} {
  %rows = tile.work : !tile.block<query, 16>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %high = tile.extent "Sk"
  %O0 = tile.constant 0.0 : !tile.tile<[16, 32], f32>
  %Q = tile.load %q[%rows] : !tile.view<[B, H, Sq, 32], bf16>[!tile.block<query, 16>] -> !tile.tile<[16, 32], bf16>
  %O = scf.for %j = %zero to %high step %one iter_args(%O1 = %O0) -> (!tile.tile<[16, 32], f32>) : i32 {
    %keys = tile.block %j of %rows : !tile.block<query, 16> -> !tile.block<key, 32>
    // expected-error @+1 {{expected sums of a product with keys and values of 8 bits, whose columns are in an order of their own where one warp computes, to be computed without their columns; take warps = 4}}
    %moved = tile.map %O1 : (!tile.tile<[16, 32], f32>) -> !tile.tile<[16, 32], f32> {
    ^body(%x: f32, %row: i32, %column: i32):
      %c = arith.sitofp %column : i32 to f32
      %y = arith.addf %x, %c : f32
      tile.yield %y : f32
    }
    %v8 = tile.load %v[%keys] : !tile.view<[B, Hkv, Sk, 32], f8E4M3FN>[!tile.block<key, 32>] -> !tile.tile<[32, 32], f8E4M3FN>
    %V = tile.convert %v8 : !tile.tile<[32, 32], f8E4M3FN> -> !tile.tile<[32, 32], bf16>
    %O2 = tile.dot %Q, %V plus %moved : (!tile.tile<[16, 32], bf16>, !tile.tile<[32, 32], bf16>, !tile.tile<[16, 32], f32>) -> !tile.tile<[16, 32], f32>
    scf.yield %O2 : !tile.tile<[16, 32], f32>
  }
  tile.store %O, %o[%rows] : !tile.tile<[16, 32], f32>, !tile.view<[B, H, Sq, 32], f32>[!tile.block<query, 16>]
}
