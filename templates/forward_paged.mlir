// Forward attention over keys that lie in pages (PagedAttention, arXiv:2309.06180): what forward.mlir computes, where
// key i of sequence b is row i mod page of page table[b, i / page] of k and v. The sequence has lengths[b] keys; its
// first query stands at position offsets[b]. The queries are [B, H, Sq, D].
//
// The launch's Sk is the longest length, or more. What lies behind a sequence's length is never read, nor are the pages
// that the table names for it.
tile.kernel @forward_paged<block_m, block_n, heads, page, d_qk, d_v, padded_qk, padded_v, input>(
    in %q: !tile.view<[B, H, Sq, d_qk], input>, in %k: !tile.view<[?, Hkv, page, d_qk], input>,
    in %v: !tile.view<[?, Hkv, page, d_v], input>, out %o: !tile.view<[B, H, Sq, d_v], input>,
    optional %lse: !tile.view<[B, H, Sq], f32, contiguous>, in %table: !tile.view<[B, ?], i32>,
    in %lengths: !tile.view<[B], i32>, in %offsets: !tile.view<[B], i32>, %scale: f32) {
  %item = tile.work : !tile.block<query, block_m, heads>
  %batch, %head, %kv_head, %first = tile.coordinates %item : !tile.block<query, block_m, heads>
  %length = tile.read %lengths[%batch] : !tile.view<[B], i32> -> i32
  %offset = tile.read %offsets[%batch] : !tile.view<[B], i32> -> i32
  %queries = tile.extent "Sq" of_launch
  %rows = tile.sequence %item from %offset of %queries, %length : !tile.block<query, block_m, heads>
  %ks = tile.paged %k by %table[%batch] : !tile.view<[?, Hkv, page, d_qk], input>, !tile.view<[B, ?], i32> -> !tile.view<[B, Hkv, Sk, d_qk], input>
  %vs = tile.paged %v by %table[%batch] : !tile.view<[?, Hkv, page, d_v], input>, !tile.view<[B, ?], i32> -> !tile.view<[B, Hkv, Sk, d_v], input>
  %Q = tile.load %q[%item] : !tile.view<[B, H, Sq, d_qk], input>[!tile.block<query, block_m, heads>] -> !tile.tile<[block_m, padded_qk], input>
  %factor = tile.exponent_factor %scale
  %m0 = tile.constant 0xFF800000 : !tile.tile<[block_m], f32> // -inf
  %l0 = tile.constant 0.0 : !tile.tile<[block_m], f32>
  %O0 = tile.constant 0.0 : !tile.tile<[block_m, padded_v], f32>
  %S0 = tile.constant 0.0 : !tile.tile<[block_m, block_n], f32>

  %m, %l, %O = tile.blocks %keys, %partial of %rows : !tile.block<query, block_m, heads> -> !tile.block<key, block_n>
      carry (%m1 = %m0 : !tile.tile<[block_m], f32>, %l1 = %l0 : !tile.tile<[block_m], f32>,
             %O1 = %O0 : !tile.tile<[block_m, padded_v], f32>) {
    %K = tile.load %ks[%keys] : !tile.view<[B, Hkv, Sk, d_qk], input>[!tile.block<key, block_n>] -> !tile.tile<[block_n, padded_qk], input>
    %QK = tile.dot %Q, %K transposed plus %S0 : (!tile.tile<[block_m, padded_qk], input>, !tile.tile<[block_n, padded_qk], input>, !tile.tile<[block_m, block_n], f32>) -> !tile.tile<[block_m, block_n], f32>
    %T = tile.score %QK scaled by %scale at %rows, %keys : !tile.tile<[block_m, block_n], f32>, !tile.block<query, block_m, heads>, !tile.block<key, block_n>
    %S = tile.mask %T if %partial at %rows, %keys : !tile.tile<[block_m, block_n], f32>, !tile.block<query, block_m, heads>, !tile.block<key, block_n>
    %P, %m2, %l2, %alpha = tile.softmax_step %S, %m1, %l1 factor %factor : !tile.tile<[block_m, block_n], f32>, !tile.tile<[block_m], f32>
    %O2 = tile.rescale %O1 by %alpha : !tile.tile<[block_m, padded_v], f32>, !tile.tile<[block_m], f32>
    %Pi = tile.convert %P : !tile.tile<[block_m, block_n], f32> -> !tile.tile<[block_m, block_n], input>
    %V = tile.load %vs[%keys] : !tile.view<[B, Hkv, Sk, d_v], input>[!tile.block<key, block_n>] -> !tile.tile<[block_n, padded_v], input>
    %O3 = tile.dot %Pi, %V plus %O2 : (!tile.tile<[block_m, block_n], input>, !tile.tile<[block_n, padded_v], input>, !tile.tile<[block_m, padded_v], f32>) -> !tile.tile<[block_m, padded_v], f32>
    tile.yield %m2, %l2, %O3 : !tile.tile<[block_m], f32>, !tile.tile<[block_m], f32>, !tile.tile<[block_m, padded_v], f32>
  }

  %z = tile.sink at %rows : !tile.block<query, block_m, heads> -> !tile.tile<[block_m], f32>
  %Y, %L = tile.finish %O, %m, %l factor %factor sink %z : !tile.tile<[block_m, padded_v], f32>, !tile.tile<[block_m], f32>, !tile.tile<[block_m], f32>
  %Yi = tile.convert %Y : !tile.tile<[block_m, padded_v], f32> -> !tile.tile<[block_m, padded_v], input>
  tile.store %Yi, %o[%item] : !tile.tile<[block_m, padded_v], input>, !tile.view<[B, H, Sq, d_v], input>[!tile.block<query, block_m, heads>]
  tile.store %L, %lse[%item] : !tile.tile<[block_m], f32>, !tile.view<[B, H, Sq], f32, contiguous>[!tile.block<query, block_m, heads>]
}
