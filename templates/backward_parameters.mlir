// The gradients of a variant's scalars and captured tensors. Let dS be as in backward.mlir, and t[i] an element that a pair reads:
//
//   dt[i] = Σ dS · ∂score/∂t[i]      over all pairs      + Σ dz · ∂sink/∂t[i]      over all rows
//
// where z is the sink of a row. A sink is a term of the softmax without a value: dz = -exp(z - L) · D.
//
// D and dL, the gradient of L, are those of backward.mlir. The hooks become additions that are exact or have a fixed order, so the same
// launch gives the same bits.

// D, and the additions of the rows (sinks): a work item owns block_m rows of a head.
tile.kernel @parameter_rows<block_m, d_v, padded_v, input>(
    in %o: !tile.view<[B, H, Sq, d_v], input>, in %do: !tile.view<[B, H, Sq, d_v], input>,
    in %lse: !tile.view<[B, H, Sq], f32, contiguous>, optional %dlse: !tile.view<[B, H, Sq], f32, contiguous>,
    workspace %delta: !tile.view<[B, H, Sq], f32, contiguous>) {
  %rows = tile.work : !tile.block<query, block_m>
  %O = tile.load %o[%rows] : !tile.view<[B, H, Sq, d_v], input>[!tile.block<query, block_m>] -> !tile.tile<[block_m, padded_v], input>
  %dO = tile.load %do[%rows] : !tile.view<[B, H, Sq, d_v], input>[!tile.block<query, block_m>] -> !tile.tile<[block_m, padded_v], input>
  %L = tile.load %lse[%rows] : !tile.view<[B, H, Sq], f32, contiguous>[!tile.block<query, block_m>] -> !tile.tile<[block_m], f32>
  %Of = tile.convert %O : !tile.tile<[block_m, padded_v], input> -> !tile.tile<[block_m, padded_v], f32>
  %dOf = tile.convert %dO : !tile.tile<[block_m, padded_v], input> -> !tile.tile<[block_m, padded_v], f32>
  %product = tile.map %Of, %dOf : (!tile.tile<[block_m, padded_v], f32>, !tile.tile<[block_m, padded_v], f32>) -> !tile.tile<[block_m, padded_v], f32> {
  ^body(%x: f32, %y: f32, %row: i32, %column: i32):
    %z = arith.mulf %x, %y : f32
    tile.yield %z : f32
  }
  %zero = tile.constant 0.0 : !tile.tile<[block_m], f32>
  %shares = tile.reduce add %product from %zero : !tile.tile<[block_m, padded_v], f32> -> !tile.tile<[block_m], f32>
  %sum = tile.total %shares : !tile.tile<[block_m], f32> -> !tile.tile<[block_m], f32>
  %dL = tile.load %dlse[%rows] : !tile.view<[B, H, Sq], f32, contiguous>[!tile.block<query, block_m>] -> !tile.tile<[block_m], f32>
  %D = tile.map %sum, %dL : (!tile.tile<[block_m], f32>, !tile.tile<[block_m], f32>) -> !tile.tile<[block_m], f32> {
  ^body(%x: f32, %y: f32, %row: i32, %column: i32):
    %z = arith.subf %x, %y : f32
    tile.yield %z : f32
  }
  tile.store %D, %delta[%rows] : !tile.tile<[block_m], f32>, !tile.view<[B, H, Sq], f32, contiguous>[!tile.block<query, block_m>]
  %Z = tile.sink at %rows : !tile.block<query, block_m> -> !tile.tile<[block_m], f32>
  %dZ = tile.map %Z, %L, %D : (!tile.tile<[block_m], f32>, !tile.tile<[block_m], f32>, !tile.tile<[block_m], f32>) -> !tile.tile<[block_m], f32> {
  ^body(%z: f32, %l: f32, %d: f32, %row: i32, %column: i32):
    %lowest = arith.constant 0xFF800000 : f32
    %none = arith.cmpf oeq, %z, %lowest : f32
    %less = arith.subf %z, %l : f32
    %share = math.exp %less : f32
    %taken = arith.mulf %share, %d : f32
    %lost = arith.negf %taken : f32
    %no_term = arith.constant 0.0 : f32
    %dz = arith.select %none, %no_term, %lost : f32
    tile.yield %dz : f32
  }
  tile.sink_partials %dZ at %rows : !tile.tile<[block_m], f32>, !tile.block<query, block_m>
}

// The additions of the pairs: a work item owns block_m queries of a head and loops over the blocks of keys that they need. If
// sum_batches is 1, it does so for these queries of every batch; if sum_heads is 1, of every head.
tile.kernel @parameter_pairs<block_m, block_n, d_qk, d_v, padded_qk, padded_v, input, sum_batches, sum_heads>(
    in %q: !tile.view<[B, H, Sq, d_qk], input>, in %k: !tile.view<[B, Hkv, Sk, d_qk], input>,
    in %v: !tile.view<[B, Hkv, Sk, d_v], input>, in %do: !tile.view<[B, H, Sq, d_v], input>,
    in %lse: !tile.view<[B, H, Sq], f32, contiguous>, workspace %delta: !tile.view<[B, H, Sq], f32, contiguous>,
    %scale: f32) {
  %own = tile.work : !tile.block<query, block_m>
  %own_batch, %own_head, %own_kv_head, %first = tile.coordinates %own : !tile.block<query, block_m>
  %none = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %all_batches = tile.extent "B"
  %all_heads = tile.extent "H"
  %sum_of_batches = tile.number sum_batches
  %sum_of_heads = tile.number sum_heads
  %sums_batches = arith.cmpi ne, %sum_of_batches, %none : i32
  %sums_heads = arith.cmpi ne, %sum_of_heads, %none : i32
  %batches = arith.select %sums_batches, %all_batches, %one : i32
  %heads = arith.select %sums_heads, %all_heads, %one : i32
  %pairs = arith.muli %batches, %heads : i32
  // The items of the first batch (or head) do the work of the other batches (or heads).
  %later_batch = arith.select %sums_batches, %own_batch, %none : i32
  %later_head = arith.select %sums_heads, %own_head, %none : i32
  %later = arith.ori %later_batch, %later_head : i32
  %has_some = arith.cmpi eq, %later, %none : i32
  %count = arith.select %has_some, %pairs, %none : i32
  %S0 = tile.constant 0.0 : !tile.tile<[block_m, block_n], f32>
  %query_count = tile.extent "Sq"
  %rows = tile.number block_m
  %end = arith.addi %first, %rows : i32
  %reaches_beyond = arith.cmpi sgt, %end, %query_count : i32

  scf.for %i = %none to %count step %one : i32 {
    %next_batch = arith.divui %i, %heads : i32
    %next_head = arith.remui %i, %heads : i32
    %batch = arith.addi %own_batch, %next_batch : i32
    %head = arith.addi %own_head, %next_head : i32
    %queries = tile.block %first batch %batch head %head of %own : !tile.block<query, block_m> -> !tile.block<query, block_m>
    %Q = tile.load %q[%queries] : !tile.view<[B, H, Sq, d_qk], input>[!tile.block<query, block_m>] -> !tile.tile<[block_m, padded_qk], input>
    %dO = tile.load %do[%queries] : !tile.view<[B, H, Sq, d_v], input>[!tile.block<query, block_m>] -> !tile.tile<[block_m, padded_v], input>
    %Ln = tile.load %lse[%queries] : !tile.view<[B, H, Sq], f32, contiguous>[!tile.block<query, block_m>] -> !tile.tile<[block_m], f32>
    %D = tile.load %delta[%queries] : !tile.view<[B, H, Sq], f32, contiguous>[!tile.block<query, block_m>] -> !tile.tile<[block_m], f32>
    // P = exp2(S · log2(e) + L), where L here is -L / ln 2 of the launch; -inf in a row without keys, so that P = 0.
    %L = tile.map %Ln : (!tile.tile<[block_m], f32>) -> !tile.tile<[block_m], f32> {
    ^body(%l: f32, %row: i32, %column: i32):
      %lowest = arith.constant 0xFF800000 : f32
      %less_log2e = arith.constant -1.44269504 : f32
      %is_empty = arith.cmpf oeq, %l, %lowest : f32
      %scaled = arith.mulf %l, %less_log2e : f32
      %l2 = arith.select %is_empty, %lowest, %scaled : f32
      tile.yield %l2 : f32
    }
    tile.blocks %keys, %partial of %queries : !tile.block<query, block_m> -> !tile.block<key, block_n> {
      %K = tile.load %k[%keys] : !tile.view<[B, Hkv, Sk, d_qk], input>[!tile.block<key, block_n>] -> !tile.tile<[block_n, padded_qk], input>
      %V = tile.load %v[%keys] : !tile.view<[B, Hkv, Sk, d_v], input>[!tile.block<key, block_n>] -> !tile.tile<[block_n, padded_v], input>
      // If this is false, every pair of the tile exists and is kept.
      %has_others = arith.ori %partial, %reaches_beyond : i1
      %QK = tile.dot %Q, %K transposed plus %S0 : (!tile.tile<[block_m, padded_qk], input>, !tile.tile<[block_n, padded_qk], input>, !tile.tile<[block_m, block_n], f32>) -> !tile.tile<[block_m, block_n], f32>
      %T = tile.score %QK scaled by %scale at %queries, %keys : !tile.tile<[block_m, block_n], f32>, !tile.block<query, block_m>, !tile.block<key, block_n>
      %S = tile.mask %T if %partial at %queries, %keys : !tile.tile<[block_m, block_n], f32>, !tile.block<query, block_m>, !tile.block<key, block_n>
      %P = scf.if %has_others -> (!tile.tile<[block_m, block_n], f32>) {
        %kept = tile.map %S, %L : (!tile.tile<[block_m, block_n], f32>, !tile.tile<[block_m], f32>) -> !tile.tile<[block_m, block_n], f32> {
        ^body(%s: f32, %l: f32, %row: i32, %column: i32):
          %log2e = arith.constant 1.44269504 : f32
          %exponent = math.fma %s, %log2e, %l : f32
          %power = math.exp2 %exponent : f32
          %lowest = arith.constant 0xFF800000 : f32
          %masked = arith.cmpf oeq, %s, %lowest : f32
          %zero = arith.constant 0.0 : f32
          %p = arith.select %masked, %zero, %power : f32
          tile.yield %p : f32
        }
        scf.yield %kept : !tile.tile<[block_m, block_n], f32>
      } else {
        %all = tile.map %S, %L : (!tile.tile<[block_m, block_n], f32>, !tile.tile<[block_m], f32>) -> !tile.tile<[block_m, block_n], f32> {
        ^body(%s: f32, %l: f32, %row: i32, %column: i32):
          %log2e = arith.constant 1.44269504 : f32
          %exponent = math.fma %s, %log2e, %l : f32
          %power = math.exp2 %exponent : f32
          tile.yield %power : f32
        }
        scf.yield %all : !tile.tile<[block_m, block_n], f32>
      }
      %dP = tile.dot %dO, %V transposed plus %S0 : (!tile.tile<[block_m, padded_v], input>, !tile.tile<[block_n, padded_v], input>, !tile.tile<[block_m, block_n], f32>) -> !tile.tile<[block_m, block_n], f32>
      %dPd = tile.dropout %dP at %queries, %keys : !tile.tile<[block_m, block_n], f32>, !tile.block<query, block_m>, !tile.block<key, block_n>
      %dS = scf.if %has_others -> (!tile.tile<[block_m, block_n], f32>) {
        %dPs = tile.dropout_scale %dPd : !tile.tile<[block_m, block_n], f32>
        %kept = tile.map %P, %dPs, %D : (!tile.tile<[block_m, block_n], f32>, !tile.tile<[block_m, block_n], f32>, !tile.tile<[block_m], f32>) -> !tile.tile<[block_m, block_n], f32> {
        ^body(%p: f32, %dp: f32, %d: f32, %row: i32, %column: i32):
          %less = arith.subf %dp, %d fastmath<contract> : f32
          %product = arith.mulf %p, %less : f32
          %zero = arith.constant 0.0 : f32
          %query = arith.addi %first, %row : i32
          %exists = arith.cmpi slt, %query, %query_count : i32
          %has_share = arith.cmpf une, %p, %zero : f32
          %counts = arith.andi %has_share, %exists : i1
          %ds = arith.select %counts, %product, %zero : f32
          tile.yield %ds : f32
        }
        scf.yield %kept : !tile.tile<[block_m, block_n], f32>
      } else {
        %dPs = tile.dropout_scale %dPd : !tile.tile<[block_m, block_n], f32>
        %all = tile.map %P, %dPs, %D : (!tile.tile<[block_m, block_n], f32>, !tile.tile<[block_m, block_n], f32>, !tile.tile<[block_m], f32>) -> !tile.tile<[block_m, block_n], f32> {
        ^body(%p: f32, %dp: f32, %d: f32, %row: i32, %column: i32):
          %less = arith.subf %dp, %d fastmath<contract> : f32
          %product = arith.mulf %p, %less : f32
          tile.yield %product : f32
        }
        scf.yield %all : !tile.tile<[block_m, block_n], f32>
      }
      tile.score_partials %dS of %QK scaled by %scale at %queries, %keys : !tile.tile<[block_m, block_n], f32>, !tile.block<query, block_m>, !tile.block<key, block_n>
    }
  }
}
