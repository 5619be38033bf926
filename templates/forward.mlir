// Forward attention: algorithm 1 of FlashAttention-2 (Dao, arXiv:2307.08691), with exponentials in base 2.
//
//   S = score(scale · Q Kᵀ) where the mask keeps, -inf elsewhere
//   O = softmax(S) V          L = log Σ exp S          with a sink, both sums include exp(sink)
//
// With dropout, O = (softmax(S) ∘ kept / (1 - p)) V; L does not change.
//
// A work item owns block_m rows: positions of one head, or of several heads that share their keys (`heads`).
// It loops over the blocks of keys that the rows need.
// m, l: running row maxima and sums; O: the output before the division by l. Head dimensions are padded to the columns that
// matrix instructions need (padded_qk, padded_v): loads add zeros, and stores leave the padding out.
tile.kernel @forward<block_m, block_n, heads, d_qk, d_v, padded_qk, padded_v, input>(
    in %q: !tile.view<[B, H, Sq, d_qk], input>, in %k: !tile.view<[B, Hkv, Sk, d_qk], input>,
    in %v: !tile.view<[B, Hkv, Sk, d_v], input>, out %o: !tile.view<[B, H, Sq, d_v], input>,
    optional %lse: !tile.view<[B, H, Sq], f32, contiguous>, %scale: f32) {
  %rows = tile.work : !tile.block<query, block_m, heads>
  %Q = tile.load %q[%rows] : !tile.view<[B, H, Sq, d_qk], input>[!tile.block<query, block_m, heads>] -> !tile.tile<[block_m, padded_qk], input>
  %factor = tile.exponent_factor %scale
  %m0 = tile.constant 0xFF800000 : !tile.tile<[block_m], f32> // -inf
  %l0 = tile.constant 0.0 : !tile.tile<[block_m], f32>
  %O0 = tile.constant 0.0 : !tile.tile<[block_m, padded_v], f32>
  %S0 = tile.constant 0.0 : !tile.tile<[block_m, block_n], f32>

  %m, %l, %O = tile.blocks %keys, %partial of %rows : !tile.block<query, block_m, heads> -> !tile.block<key, block_n>
      carry (%m1 = %m0 : !tile.tile<[block_m], f32>, %l1 = %l0 : !tile.tile<[block_m], f32>,
             %O1 = %O0 : !tile.tile<[block_m, padded_v], f32>) {
    %K = tile.load %k[%keys] : !tile.view<[B, Hkv, Sk, d_qk], input>[!tile.block<key, block_n>] -> !tile.tile<[block_n, padded_qk], input>
    %QK = tile.dot %Q, %K transposed plus %S0 : (!tile.tile<[block_m, padded_qk], input>, !tile.tile<[block_n, padded_qk], input>, !tile.tile<[block_m, block_n], f32>) -> !tile.tile<[block_m, block_n], f32>
    %T = tile.score %QK scaled by %scale at %rows, %keys : !tile.tile<[block_m, block_n], f32>, !tile.block<query, block_m, heads>, !tile.block<key, block_n>
    %S = tile.mask %T if %partial at %rows, %keys : !tile.tile<[block_m, block_n], f32>, !tile.block<query, block_m, heads>, !tile.block<key, block_n>
    %P, %m2, %l2, %alpha = tile.softmax_step %S, %m1, %l1 factor %factor : !tile.tile<[block_m, block_n], f32>, !tile.tile<[block_m], f32>
    %O2 = tile.rescale %O1 by %alpha : !tile.tile<[block_m, padded_v], f32>, !tile.tile<[block_m], f32>
    %Pd = tile.dropout %P at %rows, %keys : !tile.tile<[block_m, block_n], f32>, !tile.block<query, block_m, heads>, !tile.block<key, block_n>
    %Pi = tile.convert %Pd : !tile.tile<[block_m, block_n], f32> -> !tile.tile<[block_m, block_n], input>
    %V = tile.load %v[%keys] : !tile.view<[B, Hkv, Sk, d_v], input>[!tile.block<key, block_n>] -> !tile.tile<[block_n, padded_v], input>
    %O3 = tile.dot %Pi, %V plus %O2 : (!tile.tile<[block_m, block_n], input>, !tile.tile<[block_n, padded_v], input>, !tile.tile<[block_m, padded_v], f32>) -> !tile.tile<[block_m, padded_v], f32>
    tile.yield %m2, %l2, %O3 : !tile.tile<[block_m], f32>, !tile.tile<[block_m], f32>, !tile.tile<[block_m, padded_v], f32>
  }

  %z = tile.sink at %rows : !tile.block<query, block_m, heads> -> !tile.tile<[block_m], f32>
  %Y, %L = tile.finish %O, %m, %l factor %factor sink %z : !tile.tile<[block_m, padded_v], f32>, !tile.tile<[block_m], f32>, !tile.tile<[block_m], f32>
  %Yd = tile.dropout_scale %Y : !tile.tile<[block_m, padded_v], f32>
  %Yi = tile.convert %Yd : !tile.tile<[block_m, padded_v], f32> -> !tile.tile<[block_m, padded_v], input>
  tile.store %Yi, %o[%rows] : !tile.tile<[block_m, padded_v], input>, !tile.view<[B, H, Sq, d_v], input>[!tile.block<query, block_m, heads>]
  tile.store %L, %lse[%rows] : !tile.tile<[block_m], f32>, !tile.view<[B, H, Sq], f32, contiguous>[!tile.block<query, block_m, heads>]
}
