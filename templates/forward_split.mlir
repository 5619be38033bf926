// Forward attention over a share of the keys (Flash-Decoding; FlashAttention-2, arXiv:2307.08691): what
// forward.mlir computes, of part p of `parts` of the blocks of keys that a block of queries needs.
// combine.mlir joins the parts; the variant's sink counts there, once.
//
// A work item owns block_m rows and one part. Its results are those of batch p · B + b of the views
// o_parts [parts · B, H, Sq, d_v] and lse_parts [parts · B, H, Sq], in f32.
tile.kernel @forward_split<block_m, block_n, heads, parts, d_qk, d_v, padded_qk, padded_v, input>(
    in %q: !tile.view<[B, H, Sq, d_qk], input>, in %k: !tile.view<[B, Hkv, Sk, d_qk], input>,
    in %v: !tile.view<[B, Hkv, Sk, d_v], input>, out %o_parts: !tile.view<[parts * B, H, Sq, d_v], f32>,
    out %lse_parts: !tile.view<[parts * B, H, Sq], f32, contiguous>, %scale: f32) {
  %rows, %part = tile.work_part of parts : !tile.block<query, block_m, heads>
  %parts = tile.number parts
  %Q = tile.load %q[%rows] : !tile.view<[B, H, Sq, d_qk], input>[!tile.block<query, block_m, heads>] -> !tile.tile<[block_m, padded_qk], input>
  %factor = tile.exponent_factor %scale
  %m0 = tile.constant 0xFF800000 : !tile.tile<[block_m], f32> // -inf
  %l0 = tile.constant 0.0 : !tile.tile<[block_m], f32>
  %O0 = tile.constant 0.0 : !tile.tile<[block_m, padded_v], f32>
  %S0 = tile.constant 0.0 : !tile.tile<[block_m, block_n], f32>

  %m, %l, %O = tile.blocks %keys, %partial of %rows : !tile.block<query, block_m, heads> -> !tile.block<key, block_n>
      carry (%m1 = %m0 : !tile.tile<[block_m], f32>, %l1 = %l0 : !tile.tile<[block_m], f32>,
             %O1 = %O0 : !tile.tile<[block_m, padded_v], f32>) part (%part, %parts) {
    %K = tile.load %k[%keys] : !tile.view<[B, Hkv, Sk, d_qk], input>[!tile.block<key, block_n>] -> !tile.tile<[block_n, padded_qk], input>
    %QK = tile.dot %Q, %K transposed plus %S0 : (!tile.tile<[block_m, padded_qk], input>, !tile.tile<[block_n, padded_qk], input>, !tile.tile<[block_m, block_n], f32>) -> !tile.tile<[block_m, block_n], f32>
    %T = tile.score %QK scaled by %scale at %rows, %keys : !tile.tile<[block_m, block_n], f32>, !tile.block<query, block_m, heads>, !tile.block<key, block_n>
    %S = tile.mask %T if %partial at %rows, %keys : !tile.tile<[block_m, block_n], f32>, !tile.block<query, block_m, heads>, !tile.block<key, block_n>
    %P, %m2, %l2, %alpha = tile.softmax_step %S, %m1, %l1 factor %factor : !tile.tile<[block_m, block_n], f32>, !tile.tile<[block_m], f32>
    %O2 = tile.rescale %O1 by %alpha : !tile.tile<[block_m, padded_v], f32>, !tile.tile<[block_m], f32>
    %Pi = tile.convert %P : !tile.tile<[block_m, block_n], f32> -> !tile.tile<[block_m, block_n], input>
    %V = tile.load %v[%keys] : !tile.view<[B, Hkv, Sk, d_v], input>[!tile.block<key, block_n>] -> !tile.tile<[block_n, padded_v], input>
    %O3 = tile.dot %Pi, %V plus %O2 : (!tile.tile<[block_m, block_n], input>, !tile.tile<[block_n, padded_v], input>, !tile.tile<[block_m, padded_v], f32>) -> !tile.tile<[block_m, padded_v], f32>
    tile.yield %m2, %l2, %O3 : !tile.tile<[block_m], f32>, !tile.tile<[block_m], f32>, !tile.tile<[block_m, padded_v], f32>
  }

  %Y, %L = tile.finish %O, %m, %l factor %factor : !tile.tile<[block_m, padded_v], f32>, !tile.tile<[block_m], f32>
  %batch, %head, %kv_head, %first = tile.coordinates %rows : !tile.block<query, block_m, heads>
  %batches = tile.extent "B"
  %before = arith.muli %part, %batches : i32
  %part_batch = arith.addi %before, %batch : i32
  %results = tile.block %first batch %part_batch head %head -> !tile.block<query, block_m, heads>
  tile.store %Y, %o_parts[%results] : !tile.tile<[block_m, padded_v], f32>, !tile.view<[parts * B, H, Sq, d_v], f32>[!tile.block<query, block_m, heads>]
  tile.store %L, %lse_parts[%results] : !tile.tile<[block_m], f32>, !tile.view<[parts * B, H, Sq], f32, contiguous>[!tile.block<query, block_m, heads>]
}
