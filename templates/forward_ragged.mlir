// Forward attention of sequences that lie one after the other, with no gaps: what forward.mlir computes, of
// tensors [tokens, heads, D], which are views [1, heads, tokens, D]. Sequence b has the queries
// starts_q[b] .. starts_q[b + 1] and the keys starts_k[b] .. starts_k[b + 1]; its first query stands at position
// offsets[b] of the keys. (FlashAttention-2's flash_attn_varlen_func.)
//
// A work item owns block_m rows of one sequence. The launch's Sq and Sk are the lengths of the longest sequence, or
// more: an item behind a sequence's end has no rows, walks over no keys and stores nothing.
tile.kernel @forward_ragged<block_m, block_n, heads, d_qk, d_v, padded_qk, padded_v, input>(
    in %q: !tile.view<[1, H, ?, d_qk], input>, in %k: !tile.view<[1, Hkv, ?, d_qk], input>,
    in %v: !tile.view<[1, Hkv, ?, d_v], input>, out %o: !tile.view<[1, H, ?, d_v], input>,
    optional %lse: !tile.view<[1, H, ?], f32>, in %starts_q: !tile.view<[B + 1], i32>,
    in %starts_k: !tile.view<[B + 1], i32>, in %offsets: !tile.view<[B], i32>, %scale: f32) {
  %item = tile.work : !tile.block<query, block_m, heads>
  %batch, %head, %kv_head, %first = tile.coordinates %item : !tile.block<query, block_m, heads>
  %none = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %next = arith.addi %batch, %one : i32
  %q_start = tile.read %starts_q[%batch] : !tile.view<[B + 1], i32> -> i32
  %q_end = tile.read %starts_q[%next] : !tile.view<[B + 1], i32> -> i32
  %k_start = tile.read %starts_k[%batch] : !tile.view<[B + 1], i32> -> i32
  %k_end = tile.read %starts_k[%next] : !tile.view<[B + 1], i32> -> i32
  %offset = tile.read %offsets[%batch] : !tile.view<[B], i32> -> i32
  %queries = arith.subi %q_end, %q_start : i32
  %all_keys = arith.subi %k_end, %k_start : i32
  %has_rows = arith.cmpi slt, %first, %queries : i32
  %keys_needed = arith.select %has_rows, %all_keys, %none : i32
  %rows = tile.sequence %item from %offset of %queries, %keys_needed : !tile.block<query, block_m, heads>
  %shift = arith.subi %q_start, %offset : i32
  %qs = tile.ragged %q from %shift : !tile.view<[1, H, ?, d_qk], input> -> !tile.view<[B, H, Sq, d_qk], input>
  %ks = tile.ragged %k from %k_start : !tile.view<[1, Hkv, ?, d_qk], input> -> !tile.view<[B, Hkv, Sk, d_qk], input>
  %vs = tile.ragged %v from %k_start : !tile.view<[1, Hkv, ?, d_v], input> -> !tile.view<[B, Hkv, Sk, d_v], input>
  %os = tile.ragged %o from %shift : !tile.view<[1, H, ?, d_v], input> -> !tile.view<[B, H, Sq, d_v], input>
  %lses = tile.ragged %lse from %shift : !tile.view<[1, H, ?], f32> -> !tile.view<[B, H, Sq], f32>
  %Q = tile.load %qs[%rows] : !tile.view<[B, H, Sq, d_qk], input>[!tile.block<query, block_m, heads>] -> !tile.tile<[block_m, padded_qk], input>
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
  tile.store %Yi, %os[%rows] : !tile.tile<[block_m, padded_v], input>, !tile.view<[B, H, Sq, d_v], input>[!tile.block<query, block_m, heads>]
  tile.store %L, %lses[%rows] : !tile.tile<[block_m], f32>, !tile.view<[B, H, Sq], f32>[!tile.block<query, block_m, heads>]
}
