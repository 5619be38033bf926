// Forward attention over keys and values of 8 bits (e4m3: arXiv:2209.05433): what forward.mlir computes of
// K = k_scale · k and V = v_scale · v. The queries and the output have the input's type, into which keys and values
// are converted (exactly) as they are loaded; all products are those of forward.mlir.
tile.kernel @forward_e4m3<block_m, block_n, heads, d_qk, d_v, padded_qk, padded_v, input>(
    in %q: !tile.view<[B, H, Sq, d_qk], input>, in %k: !tile.view<[B, Hkv, Sk, d_qk], f8E4M3FN>,
    in %v: !tile.view<[B, Hkv, Sk, d_v], f8E4M3FN>, out %o: !tile.view<[B, H, Sq, d_v], input>,
    optional %lse: !tile.view<[B, H, Sq], f32, contiguous>, %scale: f32, %$k_scale: f32, %$v_scale: f32) {
  %rows = tile.work : !tile.block<query, block_m, heads>
  %Q = tile.load %q[%rows] : !tile.view<[B, H, Sq, d_qk], input>[!tile.block<query, block_m, heads>] -> !tile.tile<[block_m, padded_qk], input>
  %key_scale = arith.mulf %scale, %$k_scale : f32
  %factor = tile.exponent_factor %key_scale
  %m0 = tile.constant 0xFF800000 : !tile.tile<[block_m], f32> // -inf
  %l0 = tile.constant 0.0 : !tile.tile<[block_m], f32>
  %O0 = tile.constant 0.0 : !tile.tile<[block_m, padded_v], f32>
  %S0 = tile.constant 0.0 : !tile.tile<[block_m, block_n], f32>

  %m, %l, %O = tile.blocks %keys, %partial of %rows : !tile.block<query, block_m, heads> -> !tile.block<key, block_n>
      carry (%m1 = %m0 : !tile.tile<[block_m], f32>, %l1 = %l0 : !tile.tile<[block_m], f32>,
             %O1 = %O0 : !tile.tile<[block_m, padded_v], f32>) {
    %k8 = tile.load %k[%keys] : !tile.view<[B, Hkv, Sk, d_qk], f8E4M3FN>[!tile.block<key, block_n>] -> !tile.tile<[block_n, padded_qk], f8E4M3FN>
    %K = tile.convert %k8 : !tile.tile<[block_n, padded_qk], f8E4M3FN> -> !tile.tile<[block_n, padded_qk], input>
    %QK = tile.dot %Q, %K transposed plus %S0 : (!tile.tile<[block_m, padded_qk], input>, !tile.tile<[block_n, padded_qk], input>, !tile.tile<[block_m, block_n], f32>) -> !tile.tile<[block_m, block_n], f32>
    %T = tile.score %QK scaled by %key_scale at %rows, %keys : !tile.tile<[block_m, block_n], f32>, !tile.block<query, block_m, heads>, !tile.block<key, block_n>
    %S = tile.mask %T if %partial at %rows, %keys : !tile.tile<[block_m, block_n], f32>, !tile.block<query, block_m, heads>, !tile.block<key, block_n>
    %P, %m2, %l2, %alpha = tile.softmax_step %S, %m1, %l1 factor %factor : !tile.tile<[block_m, block_n], f32>, !tile.tile<[block_m], f32>
    %O2 = tile.rescale %O1 by %alpha : !tile.tile<[block_m, padded_v], f32>, !tile.tile<[block_m], f32>
    %Pi = tile.convert %P : !tile.tile<[block_m, block_n], f32> -> !tile.tile<[block_m, block_n], input>
    %v8 = tile.load %v[%keys] : !tile.view<[B, Hkv, Sk, d_v], f8E4M3FN>[!tile.block<key, block_n>] -> !tile.tile<[block_n, padded_v], f8E4M3FN>
    %V = tile.convert %v8 : !tile.tile<[block_n, padded_v], f8E4M3FN> -> !tile.tile<[block_n, padded_v], input>
    %O3 = tile.dot %Pi, %V plus %O2 : (!tile.tile<[block_m, block_n], input>, !tile.tile<[block_n, padded_v], input>, !tile.tile<[block_m, padded_v], f32>) -> !tile.tile<[block_m, padded_v], f32>
    tile.yield %m2, %l2, %O3 : !tile.tile<[block_m], f32>, !tile.tile<[block_m], f32>, !tile.tile<[block_m, padded_v], f32>
  }

  %z = tile.sink at %rows : !tile.block<query, block_m, heads> -> !tile.tile<[block_m], f32>
  %Y, %L = tile.finish %O, %m, %l factor %factor sink %z : !tile.tile<[block_m, padded_v], f32>, !tile.tile<[block_m], f32>, !tile.tile<[block_m], f32>
  %Ys = tile.map %Y : (!tile.tile<[block_m, padded_v], f32>) -> !tile.tile<[block_m, padded_v], f32> {
  ^body(%y: f32, %row: i32, %column: i32):
    %scaled = arith.mulf %y, %$v_scale : f32
    tile.yield %scaled : f32
  }
  %Yi = tile.convert %Ys : !tile.tile<[block_m, padded_v], f32> -> !tile.tile<[block_m, padded_v], input>
  tile.store %Yi, %o[%rows] : !tile.tile<[block_m, padded_v], input>, !tile.view<[B, H, Sq, d_v], input>[!tile.block<query, block_m, heads>]
  tile.store %L, %lse[%rows] : !tile.tile<[block_m], f32>, !tile.view<[B, H, Sq], f32, contiguous>[!tile.block<query, block_m, heads>]
}
