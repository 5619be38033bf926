// The gradients of attention, with the formulas of backward.mlir, in five products for each tile; backward.mlir needs seven.
// Unlike backward_fused.mlir it adds in a fixed order. A work item owns one part of the keys of a key/value head. For each block
// of these keys it computes dK and dV, and adds its part of dQ = scale · dS K to a sum in f32 that belongs to this work item.
//
// The parts take a head's blocks of keys in turn, so that parts have about the same amount of work under a causal mask, too.
// The number of parts depends only on the launch's extents. So the same launch gives the same bits,
// whatever the number of threads is.

// Two numbers for each row: D, and -L / ln 2, which is added to an exponent of two. In a row without keys L = -∞, and the stored
// number is -∞ too, so that P = 0 without a test; D is 0, whatever dL is. A block whose mask keeps all pairs may have such
// rows: those whose scores are all -∞. A work item owns block_m rows of a head.
tile.kernel @backward_rows<block_m, d_v, padded_v, input>(
    in %o: !tile.view<[B, H, Sq, d_v], input>, in %do: !tile.view<[B, H, Sq, d_v], input>,
    in %lse: !tile.view<[B, H, Sq], f32, contiguous>, optional %dlse: !tile.view<[B, H, Sq], f32, contiguous>,
    workspace %row_lse: !tile.view<[B, H, Sq], f32>, workspace %delta: !tile.view<[B, H, Sq], f32>) {
  %rows = tile.work : !tile.block<query, block_m>
  %O = tile.load %o[%rows] : !tile.view<[B, H, Sq, d_v], input>[!tile.block<query, block_m>] -> !tile.tile<[block_m, padded_v], input>
  %dO = tile.load %do[%rows] : !tile.view<[B, H, Sq, d_v], input>[!tile.block<query, block_m>] -> !tile.tile<[block_m, padded_v], input>
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
  %L = tile.load %lse[%rows] : !tile.view<[B, H, Sq], f32, contiguous>[!tile.block<query, block_m>] -> !tile.tile<[block_m], f32>
  %D = tile.map %sum, %dL, %L : (!tile.tile<[block_m], f32>, !tile.tile<[block_m], f32>, !tile.tile<[block_m], f32>) -> !tile.tile<[block_m], f32> {
  ^body(%x: f32, %y: f32, %l: f32, %row: i32, %column: i32):
    %lowest = arith.constant 0xFF800000 : f32
    %is_empty = arith.cmpf oeq, %l, %lowest : f32
    %z = arith.subf %x, %y : f32
    %zero_of_row = arith.constant 0.0 : f32
    %d = arith.select %is_empty, %zero_of_row, %z : f32
    tile.yield %d : f32
  }
  tile.store %D, %delta[%rows] : !tile.tile<[block_m], f32>, !tile.view<[B, H, Sq], f32>[!tile.block<query, block_m>]
  %L2 = tile.map %L : (!tile.tile<[block_m], f32>) -> !tile.tile<[block_m], f32> {
  ^body(%l: f32, %row: i32, %column: i32):
    %lowest = arith.constant 0xFF800000 : f32
    %less_log2e = arith.constant -1.44269504 : f32
    %is_empty = arith.cmpf oeq, %l, %lowest : f32
    %scaled = arith.mulf %l, %less_log2e : f32
    %l2 = arith.select %is_empty, %lowest, %scaled : f32
    tile.yield %l2 : f32
  }
  tile.store %L2, %row_lse[%rows] : !tile.tile<[block_m], f32>, !tile.view<[B, H, Sq], f32>[!tile.block<query, block_m>]
}

// dK, dV, and a sum of dQ for each part. The kernel has about 16 work items with work, or one for each key/value head of each
// batch if there are more. They are items of B + more slots (tile.work_slots); each part of a batch has a slot. A batch has
// (B + more) / B parts, but each part has at least 384 keys: an additional part costs a pass over its dQ.
!sums = !tile.view<[B + (16 ceildiv Hkv), H, Sq, d_qk], f32>
tile.kernel @backward_parts<block_m, block_n, d_qk, d_v, padded_qk, padded_v, input>(
    in %q: !tile.view<[B, H, Sq, d_qk], input>, in %k: !tile.view<[B, Hkv, Sk, d_qk], input>,
    in %v: !tile.view<[B, Hkv, Sk, d_v], input>, in %do: !tile.view<[B, H, Sq, d_v], input>,
    workspace %row_lse: !tile.view<[B, H, Sq], f32>, workspace %delta: !tile.view<[B, H, Sq], f32>,
    workspace %dq_parts: !sums,
    out %dk: !tile.view<[B, Hkv, Sk, d_qk], input>, out %dv: !tile.view<[B, Hkv, Sk, d_v], input>, %scale: f32) {
  // The block has all keys, so there is one block for each key/value head of a slot.
  %slots, %more = tile.work_slots of 16 : !tile.block<key, 1073741824>
  %slot, %any_head, %kv_head, %zero_key = tile.coordinates %slots : !tile.block<key, 1073741824>
  %none = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %batches = tile.extent "B"
  %heads = tile.extent "H"
  %kv_heads = tile.extent "Hkv"
  %query_count = tile.extent "Sq"
  %key_count = tile.extent "Sk"
  %sharing = arith.divui %heads, %kv_heads : i32
  %first_shared = arith.muli %kv_head, %sharing : i32
  %block_keys = tile.number block_n
  %whole_keys = arith.divui %key_count, %block_keys : i32
  %rest_keys = arith.remui %key_count, %block_keys : i32
  %is_last_short = arith.cmpi ne, %rest_keys, %none : i32
  %last_keys = arith.extui %is_last_short : i1 to i32
  %key_blocks = arith.addi %whole_keys, %last_keys : i32
  %block_queries = tile.number block_m
  %whole_queries = arith.divui %query_count, %block_queries : i32
  %rest_queries = arith.remui %query_count, %block_queries : i32
  %are_last_few = arith.cmpi ne, %rest_queries, %none : i32
  %last_queries = arith.extui %are_last_few : i1 to i32
  %query_blocks = arith.addi %whole_queries, %last_queries : i32

  %slot_count = arith.addi %batches, %more : i32
  %wanted = arith.divui %slot_count, %batches : i32
  %least = tile.number 384 ceildiv block_n
  %long_enough = arith.divui %key_blocks, %least : i32
  %most = arith.maxui %long_enough, %one : i32
  %parts = arith.minui %wanted, %most : i32
  %batch = arith.divui %slot, %parts : i32
  %part = arith.remui %slot, %parts : i32
  %has_work = arith.cmpi ult, %batch, %batches : i32
  %zeroed = arith.select %has_work, %query_blocks, %none : i32
  %walked = arith.select %has_work, %key_blocks, %none : i32

  %S0 = tile.constant 0.0 : !tile.tile<[block_m, block_n], f32>
  %dQ0 = tile.constant 0.0 : !tile.tile<[block_m, padded_qk], f32>
  %dK0 = tile.constant 0.0 : !tile.tile<[block_n, padded_qk], f32>
  %dV0 = tile.constant 0.0 : !tile.tile<[block_n, padded_v], f32>
  scf.for %g = %none to %sharing step %one : i32 {
    %own_head = arith.addi %first_shared, %g : i32
    scf.for %i = %none to %zeroed step %one : i32 {
      %first = arith.muli %i, %block_queries : i32
      %sums = tile.block %first batch %slot head %own_head -> !tile.block<query, block_m>
      tile.store %dQ0, %dq_parts[%sums] : !tile.tile<[block_m, padded_qk], f32>, !sums[!tile.block<query, block_m>]
    }
  }

  scf.for %j = %part to %walked step %parts : i32 {
    %first_key = arith.muli %j, %block_keys : i32
    %keys = tile.block %first_key batch %batch head %kv_head -> !tile.block<key, block_n>
    %K = tile.load %k[%keys] : !tile.view<[B, Hkv, Sk, d_qk], input>[!tile.block<key, block_n>] -> !tile.tile<[block_n, padded_qk], input>
    %V = tile.load %v[%keys] : !tile.view<[B, Hkv, Sk, d_v], input>[!tile.block<key, block_n>] -> !tile.tile<[block_n, padded_v], input>
    %dK, %dV = scf.for %g = %none to %sharing step %one iter_args(%dKh = %dK0, %dVh = %dV0)
        -> (!tile.tile<[block_n, padded_qk], f32>, !tile.tile<[block_n, padded_v], f32>) : i32 {
      %own_head = arith.addi %first_shared, %g : i32
      %dKg, %dVg = tile.blocks %first_head, %partial of %keys : !tile.block<key, block_n> -> !tile.block<query, block_m>
          carry (%dK1 = %dKh : !tile.tile<[block_n, padded_qk], f32>, %dV1 = %dVh : !tile.tile<[block_n, padded_v], f32>) {
        %any_batch, %head, %same_kv_head, %first = tile.coordinates %first_head : !tile.block<query, block_m>
        %queries = tile.block %first head %own_head of %first_head : !tile.block<query, block_m> -> !tile.block<query, block_m>
        %sums = tile.block %first batch %slot head %own_head -> !tile.block<query, block_m>
        %Q = tile.load %q[%queries] : !tile.view<[B, H, Sq, d_qk], input>[!tile.block<query, block_m>] -> !tile.tile<[block_m, padded_qk], input>
        %dO = tile.load %do[%queries] : !tile.view<[B, H, Sq, d_v], input>[!tile.block<query, block_m>] -> !tile.tile<[block_m, padded_v], input>
        %L = tile.load %row_lse[%queries] : !tile.view<[B, H, Sq], f32>[!tile.block<query, block_m>] -> !tile.tile<[block_m], f32>
        %D = tile.load %delta[%queries] : !tile.view<[B, H, Sq], f32>[!tile.block<query, block_m>] -> !tile.tile<[block_m], f32>
        %QK = tile.dot %Q, %K transposed plus %S0 : (!tile.tile<[block_m, padded_qk], input>, !tile.tile<[block_n, padded_qk], input>, !tile.tile<[block_m, block_n], f32>) -> !tile.tile<[block_m, block_n], f32>
        %T = tile.score %QK scaled by %scale at %queries, %keys : !tile.tile<[block_m, block_n], f32>, !tile.block<query, block_m>, !tile.block<key, block_n>
        %S = tile.mask %T if %partial at %queries, %keys : !tile.tile<[block_m, block_n], f32>, !tile.block<query, block_m>, !tile.block<key, block_n>
        %P = scf.if %partial -> (!tile.tile<[block_m, block_n], f32>) {
          %kept = tile.map %S, %L : (!tile.tile<[block_m, block_n], f32>, !tile.tile<[block_m], f32>) -> !tile.tile<[block_m, block_n], f32> {
          ^body(%s: f32, %l: f32, %row: i32, %column: i32):
            %log2e = arith.constant 1.44269504 : f32
            %exponent = math.fma %s, %log2e, %l : f32
            %power = math.exp2 %exponent : f32
            %lowest = arith.constant 0xFF800000 : f32
            // A query beyond the end has rows of 0 and may have any score. All blocks that reach beyond the end are partial.
            %query = arith.addi %first, %row : i32
            %is_beyond = arith.cmpi sge, %query, %query_count : i32
            %is_masked = arith.cmpf oeq, %s, %lowest : f32
            %masked = arith.ori %is_beyond, %is_masked : i1
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
        // W = P ∘ ∂score/∂s is a factor of dX. So the derivative needs no registers of its own while dP is computed.
        %W = tile.score_gradient %P of %QK scaled by %scale at %queries, %keys : !tile.tile<[block_m, block_n], f32>, !tile.block<query, block_m>, !tile.block<key, block_n>
        %Pd = tile.dropout %P at %queries, %keys : !tile.tile<[block_m, block_n], f32>, !tile.block<query, block_m>, !tile.block<key, block_n>
        %Pi = tile.convert %Pd : !tile.tile<[block_m, block_n], f32> -> !tile.tile<[block_m, block_n], input>
        %dV2 = tile.dot %Pi transposed, %dO plus %dV1 : (!tile.tile<[block_m, block_n], input>, !tile.tile<[block_m, padded_v], input>, !tile.tile<[block_n, padded_v], f32>) -> !tile.tile<[block_n, padded_v], f32>
        %dP = tile.dot %dO, %V transposed plus %S0 : (!tile.tile<[block_m, padded_v], input>, !tile.tile<[block_n, padded_v], input>, !tile.tile<[block_m, block_n], f32>) -> !tile.tile<[block_m, block_n], f32>
        %dPd = tile.dropout %dP at %queries, %keys : !tile.tile<[block_m, block_n], f32>, !tile.block<query, block_m>, !tile.block<key, block_n>
        %dX = scf.if %partial -> (!tile.tile<[block_m, block_n], f32>) {
          %dPs = tile.dropout_scale %dPd : !tile.tile<[block_m, block_n], f32>
          %kept = tile.map %W, %dPs, %D : (!tile.tile<[block_m, block_n], f32>, !tile.tile<[block_m, block_n], f32>, !tile.tile<[block_m], f32>) -> !tile.tile<[block_m, block_n], f32> {
          ^body(%w: f32, %dp: f32, %d: f32, %row: i32, %column: i32):
            %less = arith.subf %dp, %d fastmath<contract> : f32
            %product = arith.mulf %w, %less : f32
            %zero = arith.constant 0.0 : f32
            %masked = arith.cmpf oeq, %w, %zero : f32
            %ds = arith.select %masked, %zero, %product : f32
            tile.yield %ds : f32
          }
          scf.yield %kept : !tile.tile<[block_m, block_n], f32>
        } else {
          %dPs = tile.dropout_scale %dPd : !tile.tile<[block_m, block_n], f32>
          %all = tile.map %W, %dPs, %D : (!tile.tile<[block_m, block_n], f32>, !tile.tile<[block_m, block_n], f32>, !tile.tile<[block_m], f32>) -> !tile.tile<[block_m, block_n], f32> {
          ^body(%w: f32, %dp: f32, %d: f32, %row: i32, %column: i32):
            %less = arith.subf %dp, %d fastmath<contract> : f32
            %product = arith.mulf %w, %less : f32
            tile.yield %product : f32
          }
          scf.yield %all : !tile.tile<[block_m, block_n], f32>
        }
        %dXi = tile.convert %dX : !tile.tile<[block_m, block_n], f32> -> !tile.tile<[block_m, block_n], input>
        %dK2 = tile.dot %dXi transposed, %Q plus %dK1 : (!tile.tile<[block_m, block_n], input>, !tile.tile<[block_m, padded_qk], input>, !tile.tile<[block_n, padded_qk], f32>) -> !tile.tile<[block_n, padded_qk], f32>
        %dQ1 = tile.load %dq_parts[%sums] : !sums[!tile.block<query, block_m>] -> !tile.tile<[block_m, padded_qk], f32>
        %dQ2 = tile.dot %dXi, %K plus %dQ1 : (!tile.tile<[block_m, block_n], input>, !tile.tile<[block_n, padded_qk], input>, !tile.tile<[block_m, padded_qk], f32>) -> !tile.tile<[block_m, padded_qk], f32>
        tile.store %dQ2, %dq_parts[%sums] : !tile.tile<[block_m, padded_qk], f32>, !sums[!tile.block<query, block_m>]
        tile.yield %dK2, %dV2 : !tile.tile<[block_n, padded_qk], f32>, !tile.tile<[block_n, padded_v], f32>
      }
      scf.yield %dKg, %dVg : !tile.tile<[block_n, padded_qk], f32>, !tile.tile<[block_n, padded_v], f32>
    }
    %dKs = tile.map %dK : (!tile.tile<[block_n, padded_qk], f32>) -> !tile.tile<[block_n, padded_qk], f32> {
    ^body(%x: f32, %row: i32, %column: i32):
      %y = arith.mulf %x, %scale : f32
      tile.yield %y : f32
    }
    %dKi = tile.convert %dKs : !tile.tile<[block_n, padded_qk], f32> -> !tile.tile<[block_n, padded_qk], input>
    %dVs = tile.dropout_scale %dV : !tile.tile<[block_n, padded_v], f32>
    %dVi = tile.convert %dVs : !tile.tile<[block_n, padded_v], f32> -> !tile.tile<[block_n, padded_v], input>
    tile.store %dKi, %dk[%keys] : !tile.tile<[block_n, padded_qk], input>, !tile.view<[B, Hkv, Sk, d_qk], input>[!tile.block<key, block_n>]
    tile.store %dVi, %dv[%keys] : !tile.tile<[block_n, padded_v], input>, !tile.view<[B, Hkv, Sk, d_v], input>[!tile.block<key, block_n>]
  }
}

// dQ, the sum of the parts in ascending order: a work item owns block_m queries of a head.
tile.kernel @backward_queries<block_m, block_n, d_qk, padded_qk, input>(
    workspace %dq_parts: !sums, out %dq: !tile.view<[B, H, Sq, d_qk], input>, %scale: f32) {
  %queries = tile.work : !tile.block<query, block_m>
  %batch, %head, %kv_head, %first = tile.coordinates %queries : !tile.block<query, block_m>
  %none = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %batches = tile.extent "B"
  %key_count = tile.extent "Sk"
  %block_keys = tile.number block_n
  %whole_keys = arith.divui %key_count, %block_keys : i32
  %rest_keys = arith.remui %key_count, %block_keys : i32
  %is_last_short = arith.cmpi ne, %rest_keys, %none : i32
  %last_keys = arith.extui %is_last_short : i1 to i32
  %key_blocks = arith.addi %whole_keys, %last_keys : i32
  %more = tile.more_slots of 16 !tile.block<key, 1073741824>
  %slot_count = arith.addi %batches, %more : i32
  %wanted = arith.divui %slot_count, %batches : i32
  %least = tile.number 384 ceildiv block_n
  %long_enough = arith.divui %key_blocks, %least : i32
  %most = arith.maxui %long_enough, %one : i32
  %dealt = arith.minui %wanted, %most : i32
  %has_keys = arith.cmpi ne, %key_count, %none : i32
  %parts = arith.select %has_keys, %dealt, %none : i32 // without keys no part has written its sum
  %first_slot = arith.muli %batch, %parts : i32
  %dQ0 = tile.constant 0.0 : !tile.tile<[block_m, padded_qk], f32>
  %dQ = scf.for %p = %none to %parts step %one iter_args(%sum = %dQ0) -> (!tile.tile<[block_m, padded_qk], f32>) : i32 {
    %slot = arith.addi %first_slot, %p : i32
    %sums = tile.block %first batch %slot head %head -> !tile.block<query, block_m>
    %dQp = tile.load %dq_parts[%sums] : !sums[!tile.block<query, block_m>] -> !tile.tile<[block_m, padded_qk], f32>
    %next = tile.map %sum, %dQp : (!tile.tile<[block_m, padded_qk], f32>, !tile.tile<[block_m, padded_qk], f32>) -> !tile.tile<[block_m, padded_qk], f32> {
    ^body(%x: f32, %y: f32, %row: i32, %column: i32):
      %z = arith.addf %x, %y : f32
      tile.yield %z : f32
    }
    scf.yield %next : !tile.tile<[block_m, padded_qk], f32>
  }
  %dQs = tile.map %dQ : (!tile.tile<[block_m, padded_qk], f32>) -> !tile.tile<[block_m, padded_qk], f32> {
  ^body(%x: f32, %row: i32, %column: i32):
    %y = arith.mulf %x, %scale : f32
    tile.yield %y : f32
  }
  %dQi = tile.convert %dQs : !tile.tile<[block_m, padded_qk], f32> -> !tile.tile<[block_m, padded_qk], input>
  tile.store %dQi, %dq[%queries] : !tile.tile<[block_m, padded_qk], input>, !tile.view<[B, H, Sq, d_qk], input>[!tile.block<query, block_m>]
}
