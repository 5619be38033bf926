// Two matrix products, O = (Q Kᵀ) V, through the passes that compile attention.

// RUN: tesela-opt %s --tile-bind=bindings=d=64,input=bf16 --tile-decompose --tile-lower-blocks --cse | FileCheck %s --check-prefix=CORE
// CORE-LABEL: tile.kernel @products(
// CORE: scf.for
// CORE: tile.dot {{.*}} transposed
// CORE: tile.dot
// CORE-NOT: tile.blocks

tile.kernel @products<block_m, block_n, d, input>(
    in %q: !tile.view<[B, H, Sq, d], input>, in %k: !tile.view<[B, Hkv, Sk, d], input>,
    in %v: !tile.view<[B, Hkv, Sk, d], input>, out %o: !tile.view<[B, H, Sq, d], input>)
    attributes {schedule = #tile.schedule<block_m = 128, block_n = 64, stages = 2, warps = 4, q_in_registers = true>} {
  %rows = tile.work : !tile.block<query, block_m>
  %Q = tile.load %q[%rows] : !tile.view<[B, H, Sq, d], input>[!tile.block<query, block_m>] -> !tile.tile<[block_m, d], input>
  %S0 = tile.constant 0.0 : !tile.tile<[block_m, block_n], f32>
  %O0 = tile.constant 0.0 : !tile.tile<[block_m, d], f32>
  %O = tile.blocks %keys, %partial of %rows : !tile.block<query, block_m> -> !tile.block<key, block_n>
      carry (%O1 = %O0 : !tile.tile<[block_m, d], f32>) {
    %K = tile.load %k[%keys] : !tile.view<[B, Hkv, Sk, d], input>[!tile.block<key, block_n>] -> !tile.tile<[block_n, d], input>
    %S = tile.dot %Q, %K transposed plus %S0 : (!tile.tile<[block_m, d], input>, !tile.tile<[block_n, d], input>, !tile.tile<[block_m, block_n], f32>) -> !tile.tile<[block_m, block_n], f32>
    %P = tile.convert %S : !tile.tile<[block_m, block_n], f32> -> !tile.tile<[block_m, block_n], input>
    %V = tile.load %v[%keys] : !tile.view<[B, Hkv, Sk, d], input>[!tile.block<key, block_n>] -> !tile.tile<[block_n, d], input>
    %O2 = tile.dot %P, %V plus %O1 : (!tile.tile<[block_m, block_n], input>, !tile.tile<[block_n, d], input>, !tile.tile<[block_m, d], f32>) -> !tile.tile<[block_m, d], f32>
    tile.yield %O2 : !tile.tile<[block_m, d], f32>
  }
  %R = tile.convert %O : !tile.tile<[block_m, d], f32> -> !tile.tile<[block_m, d], input>
  tile.store %R, %o[%rows] : !tile.tile<[block_m, d], input>, !tile.view<[B, H, Sq, d], input>[!tile.block<query, block_m>]
}
