// The gradients of attention, with the formulas of backward.mlir. The kernel of the keys also computes dQ, so a tile needs five
// products; backward.mlir needs seven. A work item of keys computes dSᵀ and adds its part of dQ = scale · dS K to a sum in f32
// that all work items share (FlashAttention-2, arXiv:2307.08691, algorithm 2, line 15).
//
// The order of these additions is not fixed, so the last bits of dQ may differ from launch to launch, unless the schedule has
// add_in_turn. dK and dV do not differ.

// With few key/value heads there are few blocks of keys. Then the query heads of a key/value head are dealt to several work items,
// its parts (tile.head_parts). Each part stores its sums of dK and dV in f32, in the place of its last query head (axis 1), and another kernel
// adds them up in a fixed order. With one part nothing is stored there, and that kernel has no work items.
#sharing = #tile.extent<H ceildiv Hkv>
#items = #tile.extent<(Sk ceildiv block_m) * (B * Hkv)>
#most_parts = #tile.extent<1 max (-1 + ((1 + workers) ceildiv #items))>
#parts = #tile.extent<#sharing ceildiv (#sharing ceildiv #most_parts)>
#stored_heads = #tile.extent<H * ((-1 + #parts) ceildiv #parts)>
!dk_parts = !tile.view<[B, #stored_heads, Sk, d_qk], f32>
!dv_parts = !tile.view<[B, #stored_heads, Sk, d_v], f32>

// D and -L / ln 2 for each row (backward.mlir), and zeros where dQ will be summed. A work item owns block_m rows of a head.
tile.kernel @backward_rows<block_m, d_qk, d_v, padded_qk, padded_v, input>(
    in %o: !tile.view<[B, H, Sq, d_v], input>, in %do: !tile.view<[B, H, Sq, d_v], input>,
    in %lse: !tile.view<[B, H, Sq], f32, contiguous>, optional %dlse: !tile.view<[B, H, Sq], f32, contiguous>,
    workspace %row_lse: !tile.view<[B, H, Sq], f32>, workspace %delta: !tile.view<[B, H, Sq], f32>,
    workspace %dq_sum: !tile.view<[B, H, Sq, d_qk], f32>) {
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
  %dQ0 = tile.constant 0.0 : !tile.tile<[block_m, padded_qk], f32>
  tile.store %dQ0, %dq_sum[%rows] : !tile.tile<[block_m, padded_qk], f32>, !tile.view<[B, H, Sq, d_qk], f32>[!tile.block<query, block_m>]
}

// dK, dV and the sums of dQ: a work item owns block_m keys of a key/value head. It loops over its part of the query
// heads that share this head, and over the blocks of queries that need the keys. The rows of its tiles are keys.
tile.kernel @backward_keys<block_m, block_n, d_qk, d_v, padded_qk, padded_v, input, workers>(
    in %q: !tile.view<[B, H, Sq, d_qk], input>, in %k: !tile.view<[B, Hkv, Sk, d_qk], input>,
    in %v: !tile.view<[B, Hkv, Sk, d_v], input>, in %do: !tile.view<[B, H, Sq, d_v], input>,
    workspace %row_lse: !tile.view<[B, H, Sq], f32>, workspace %delta: !tile.view<[B, H, Sq], f32>,
    workspace %dq_sum: !tile.view<[B, H, Sq, d_qk], f32>,
    workspace %dk_parts: !dk_parts, workspace %dv_parts: !dv_parts,
    out %dk: !tile.view<[B, Hkv, Sk, d_qk], input>, out %dv: !tile.view<[B, Hkv, Sk, d_v], input>, %scale: f32) {
  %keys = tile.work dealt to workers : !tile.block<key, block_m>
  %part = tile.work_part of %keys : !tile.block<key, block_m>
  %parts = tile.head_parts of workers !tile.block<key, block_m>
  %key_batch, %key_head, %kv_head_of_keys, %first_key = tile.coordinates %keys : !tile.block<key, block_m>
  %K = tile.load %k[%keys] : !tile.view<[B, Hkv, Sk, d_qk], input>[!tile.block<key, block_m>] -> !tile.tile<[block_m, padded_qk], input>
  %V = tile.load %v[%keys] : !tile.view<[B, Hkv, Sk, d_v], input>[!tile.block<key, block_m>] -> !tile.tile<[block_m, padded_v], input>
  %none = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %key_count = tile.extent "Sk"
  %heads = tile.extent "H"
  %kv_heads = tile.extent "Hkv"
  %sharing = arith.divui %heads, %kv_heads : i32
  %first_shared = arith.muli %key_head, %sharing : i32
  %before = arith.muli %part, %sharing : i32
  %heads_before = arith.divui %before, %parts : i32
  %own_first = arith.addi %first_shared, %heads_before : i32
  %through = arith.addi %before, %sharing : i32
  %heads_through = arith.divui %through, %parts : i32
  %own_end = arith.addi %first_shared, %heads_through : i32
  %S0 = tile.constant 0.0 : !tile.tile<[block_m, block_n], f32>
  %dQ0 = tile.constant 0.0 : !tile.tile<[block_n, padded_qk], f32>
  %dK0 = tile.constant 0.0 : !tile.tile<[block_m, padded_qk], f32>
  %dV0 = tile.constant 0.0 : !tile.tile<[block_m, padded_v], f32>

  %dK, %dV = scf.for %own_head = %own_first to %own_end step %one iter_args(%dKh = %dK0, %dVh = %dV0)
      -> (!tile.tile<[block_m, padded_qk], f32>, !tile.tile<[block_m, padded_v], f32>) : i32 {
    %dKg, %dVg = tile.blocks %first_head, %partial of %keys : !tile.block<key, block_m> -> !tile.block<query, block_n>
        carry (%dK1 = %dKh : !tile.tile<[block_m, padded_qk], f32>, %dV1 = %dVh : !tile.tile<[block_m, padded_v], f32>) {
      %batch, %head, %kv_head, %first = tile.coordinates %first_head : !tile.block<query, block_n>
      %queries = tile.block %first head %own_head of %first_head : !tile.block<query, block_n> -> !tile.block<query, block_n>
      %Q = tile.load %q[%queries] : !tile.view<[B, H, Sq, d_qk], input>[!tile.block<query, block_n>] -> !tile.tile<[block_n, padded_qk], input>
      %dO = tile.load %do[%queries] : !tile.view<[B, H, Sq, d_v], input>[!tile.block<query, block_n>] -> !tile.tile<[block_n, padded_v], input>
      %L = tile.load %row_lse[%queries] : !tile.view<[B, H, Sq], f32>[!tile.block<query, block_n>] -> !tile.tile<[1, block_n], f32>
      %D = tile.load %delta[%queries] : !tile.view<[B, H, Sq], f32>[!tile.block<query, block_n>] -> !tile.tile<[1, block_n], f32>
      %KQ = tile.dot %K, %Q transposed plus %S0 : (!tile.tile<[block_m, padded_qk], input>, !tile.tile<[block_n, padded_qk], input>, !tile.tile<[block_m, block_n], f32>) -> !tile.tile<[block_m, block_n], f32>
      %T = tile.score %KQ scaled by %scale at %keys, %queries : !tile.tile<[block_m, block_n], f32>, !tile.block<key, block_m>, !tile.block<query, block_n>
      %S = tile.mask %T if %partial at %keys, %queries : !tile.tile<[block_m, block_n], f32>, !tile.block<key, block_m>, !tile.block<query, block_n>
      %P = scf.if %partial -> (!tile.tile<[block_m, block_n], f32>) {
        %kept = tile.map %S, %L : (!tile.tile<[block_m, block_n], f32>, !tile.tile<[1, block_n], f32>) -> !tile.tile<[block_m, block_n], f32> {
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
        %all = tile.map %S, %L : (!tile.tile<[block_m, block_n], f32>, !tile.tile<[1, block_n], f32>) -> !tile.tile<[block_m, block_n], f32> {
        ^body(%s: f32, %l: f32, %row: i32, %column: i32):
          %log2e = arith.constant 1.44269504 : f32
          %exponent = math.fma %s, %log2e, %l : f32
          %power = math.exp2 %exponent : f32
          tile.yield %power : f32
        }
        scf.yield %all : !tile.tile<[block_m, block_n], f32>
      }
      // W = P ∘ ∂score/∂s is a factor of dX. So the derivative needs no registers of its own while dP is computed.
      %W = tile.score_gradient %P of %KQ scaled by %scale at %keys, %queries : !tile.tile<[block_m, block_n], f32>, !tile.block<key, block_m>, !tile.block<query, block_n>
      %Pd = tile.dropout %P at %keys, %queries : !tile.tile<[block_m, block_n], f32>, !tile.block<key, block_m>, !tile.block<query, block_n>
      %Pi = tile.convert %Pd : !tile.tile<[block_m, block_n], f32> -> !tile.tile<[block_m, block_n], input>
      %dV2 = tile.dot %Pi, %dO plus %dV1 : (!tile.tile<[block_m, block_n], input>, !tile.tile<[block_n, padded_v], input>, !tile.tile<[block_m, padded_v], f32>) -> !tile.tile<[block_m, padded_v], f32>
      %dP = tile.dot %V, %dO transposed plus %S0 : (!tile.tile<[block_m, padded_v], input>, !tile.tile<[block_n, padded_v], input>, !tile.tile<[block_m, block_n], f32>) -> !tile.tile<[block_m, block_n], f32>
      %dPd = tile.dropout %dP at %keys, %queries : !tile.tile<[block_m, block_n], f32>, !tile.block<key, block_m>, !tile.block<query, block_n>
      %dX = scf.if %partial -> (!tile.tile<[block_m, block_n], f32>) {
        %dPs = tile.dropout_scale %dPd : !tile.tile<[block_m, block_n], f32>
        %kept = tile.map %W, %dPs, %D : (!tile.tile<[block_m, block_n], f32>, !tile.tile<[block_m, block_n], f32>, !tile.tile<[1, block_n], f32>) -> !tile.tile<[block_m, block_n], f32> {
        ^body(%w: f32, %dp: f32, %d: f32, %row: i32, %column: i32):
          %less = arith.subf %dp, %d fastmath<contract> : f32
          %product = arith.mulf %w, %less : f32
          %zero = arith.constant 0.0 : f32
          // A key beyond the end has a row of zeros in K and may have P = ∞. It must not be part of a sum of dQ. If a block of
          // keys reaches beyond the end, all its tiles are partial.
          %key = arith.addi %first_key, %row : i32
          %exists = arith.cmpi slt, %key, %key_count : i32
          %nonzero = arith.cmpf one, %w, %zero : f32
          %counts = arith.andi %nonzero, %exists : i1
          %ds = arith.select %counts, %product, %zero : f32
          tile.yield %ds : f32
        }
        scf.yield %kept : !tile.tile<[block_m, block_n], f32>
      } else {
        %dPs = tile.dropout_scale %dPd : !tile.tile<[block_m, block_n], f32>
        %all = tile.map %W, %dPs, %D : (!tile.tile<[block_m, block_n], f32>, !tile.tile<[block_m, block_n], f32>, !tile.tile<[1, block_n], f32>) -> !tile.tile<[block_m, block_n], f32> {
        ^body(%w: f32, %dp: f32, %d: f32, %row: i32, %column: i32):
          %less = arith.subf %dp, %d fastmath<contract> : f32
          %product = arith.mulf %w, %less : f32
          tile.yield %product : f32
        }
        scf.yield %all : !tile.tile<[block_m, block_n], f32>
      }
      %dXi = tile.convert %dX : !tile.tile<[block_m, block_n], f32> -> !tile.tile<[block_m, block_n], input>
      %dK2 = tile.dot %dXi, %Q plus %dK1 : (!tile.tile<[block_m, block_n], input>, !tile.tile<[block_n, padded_qk], input>, !tile.tile<[block_m, padded_qk], f32>) -> !tile.tile<[block_m, padded_qk], f32>
      %dQ = tile.dot %dXi transposed, %K plus %dQ0 : (!tile.tile<[block_m, block_n], input>, !tile.tile<[block_m, padded_qk], input>, !tile.tile<[block_n, padded_qk], f32>) -> !tile.tile<[block_n, padded_qk], f32>
      tile.accumulate %dQ, %dq_sum[%queries] : !tile.tile<[block_n, padded_qk], f32>, !tile.view<[B, H, Sq, d_qk], f32>[!tile.block<query, block_n>]
      tile.yield %dK2, %dV2 : !tile.tile<[block_m, padded_qk], f32>, !tile.tile<[block_m, padded_v], f32>
    }
    scf.yield %dKg, %dVg : !tile.tile<[block_m, padded_qk], f32>, !tile.tile<[block_m, padded_v], f32>
  }

  // One of the two blocks is empty, so the work item stores either results or sums. The key/value head follows from the end of the
  // loop: then the loop's registers need not hold it.
  %own_last = arith.subi %own_end, %one : i32
  %stored_head = arith.divui %own_last, %sharing : i32
  %is_whole = arith.cmpi eq, %parts, %one : i32
  %end_of_results = arith.select %is_whole, %key_count, %none : i32
  %end_of_sums = arith.select %is_whole, %none, %key_count : i32
  %results = tile.block %first_key to %end_of_results head %stored_head of %keys : !tile.block<key, block_m> -> !tile.block<key, block_m>
  %sums = tile.block %first_key to %end_of_sums head %own_last of %keys : !tile.block<key, block_m> -> !tile.block<key, block_m>
  %dKs = tile.map %dK : (!tile.tile<[block_m, padded_qk], f32>) -> !tile.tile<[block_m, padded_qk], f32> {
  ^body(%x: f32, %row: i32, %column: i32):
    %y = arith.mulf %x, %scale : f32
    tile.yield %y : f32
  }
  tile.store %dKs, %dk_parts[%sums] : !tile.tile<[block_m, padded_qk], f32>, !dk_parts[!tile.block<key, block_m>]
  %dKi = tile.convert %dKs : !tile.tile<[block_m, padded_qk], f32> -> !tile.tile<[block_m, padded_qk], input>
  %dVs = tile.dropout_scale %dV : !tile.tile<[block_m, padded_v], f32>
  tile.store %dVs, %dv_parts[%sums] : !tile.tile<[block_m, padded_v], f32>, !dv_parts[!tile.block<key, block_m>]
  %dVi = tile.convert %dVs : !tile.tile<[block_m, padded_v], f32> -> !tile.tile<[block_m, padded_v], input>
  tile.store %dKi, %dk[%results] : !tile.tile<[block_m, padded_qk], input>, !tile.view<[B, Hkv, Sk, d_qk], input>[!tile.block<key, block_m>]
  tile.store %dVi, %dv[%results] : !tile.tile<[block_m, padded_v], input>, !tile.view<[B, Hkv, Sk, d_v], input>[!tile.block<key, block_m>]
}

// dK and dV from the sums of the parts: a work item owns block_m keys of a key/value head.
tile.kernel @backward_joined_keys<block_m, d_qk, d_v, padded_qk, padded_v, input, workers>(
    workspace %dk_parts: !dk_parts, workspace %dv_parts: !dv_parts,
    out %dk: !tile.view<[B, Hkv, Sk, d_qk], input>, out %dv: !tile.view<[B, Hkv, Sk, d_v], input>) {
  %keys = tile.work dealt to workers joined : !tile.block<key, block_m>
  %parts = tile.head_parts of workers !tile.block<key, block_m>
  %batch, %head, %kv_head, %first = tile.coordinates %keys : !tile.block<key, block_m>
  %none = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %heads = tile.extent "H"
  %kv_heads = tile.extent "Hkv"
  %sharing = arith.divui %heads, %kv_heads : i32
  %first_shared = arith.muli %head, %sharing : i32
  %before_first = arith.subi %first_shared, %one : i32
  %dK0 = tile.constant 0.0 : !tile.tile<[block_m, padded_qk], f32>
  %dK = scf.for %p = %none to %parts step %one iter_args(%dK1 = %dK0) -> (!tile.tile<[block_m, padded_qk], f32>) : i32 {
    %next = arith.addi %p, %one : i32
    %through = arith.muli %next, %sharing : i32
    %heads_through = arith.divui %through, %parts : i32
    %place = arith.addi %before_first, %heads_through : i32
    %part = tile.block %first head %place of %keys : !tile.block<key, block_m> -> !tile.block<key, block_m>
    %dKp = tile.load %dk_parts[%part] : !dk_parts[!tile.block<key, block_m>] -> !tile.tile<[block_m, padded_qk], f32>
    %dK2 = tile.map %dK1, %dKp : (!tile.tile<[block_m, padded_qk], f32>, !tile.tile<[block_m, padded_qk], f32>) -> !tile.tile<[block_m, padded_qk], f32> {
    ^body(%x: f32, %y: f32, %row: i32, %column: i32):
      %z = arith.addf %x, %y : f32
      tile.yield %z : f32
    }
    scf.yield %dK2 : !tile.tile<[block_m, padded_qk], f32>
  }
  %dKi = tile.convert %dK : !tile.tile<[block_m, padded_qk], f32> -> !tile.tile<[block_m, padded_qk], input>
  tile.store %dKi, %dk[%keys] : !tile.tile<[block_m, padded_qk], input>, !tile.view<[B, Hkv, Sk, d_qk], input>[!tile.block<key, block_m>]
  %dV0 = tile.constant 0.0 : !tile.tile<[block_m, padded_v], f32>
  %dV = scf.for %p = %none to %parts step %one iter_args(%dV1 = %dV0) -> (!tile.tile<[block_m, padded_v], f32>) : i32 {
    %next = arith.addi %p, %one : i32
    %through = arith.muli %next, %sharing : i32
    %heads_through = arith.divui %through, %parts : i32
    %place = arith.addi %before_first, %heads_through : i32
    %part = tile.block %first head %place of %keys : !tile.block<key, block_m> -> !tile.block<key, block_m>
    %dVp = tile.load %dv_parts[%part] : !dv_parts[!tile.block<key, block_m>] -> !tile.tile<[block_m, padded_v], f32>
    %dV2 = tile.map %dV1, %dVp : (!tile.tile<[block_m, padded_v], f32>, !tile.tile<[block_m, padded_v], f32>) -> !tile.tile<[block_m, padded_v], f32> {
    ^body(%x: f32, %y: f32, %row: i32, %column: i32):
      %z = arith.addf %x, %y : f32
      tile.yield %z : f32
    }
    scf.yield %dV2 : !tile.tile<[block_m, padded_v], f32>
  }
  %dVi = tile.convert %dV : !tile.tile<[block_m, padded_v], f32> -> !tile.tile<[block_m, padded_v], input>
  tile.store %dVi, %dv[%keys] : !tile.tile<[block_m, padded_v], input>, !tile.view<[B, Hkv, Sk, d_v], input>[!tile.block<key, block_m>]
}

// dQ from its sums: a work item owns block_m queries of a head.
tile.kernel @backward_queries<block_m, d_qk, padded_qk, input>(
    workspace %dq_sum: !tile.view<[B, H, Sq, d_qk], f32>, out %dq: !tile.view<[B, H, Sq, d_qk], input>, %scale: f32) {
  %queries = tile.work : !tile.block<query, block_m>
  %dQ = tile.load %dq_sum[%queries] : !tile.view<[B, H, Sq, d_qk], f32>[!tile.block<query, block_m>] -> !tile.tile<[block_m, padded_qk], f32>
  %dQs = tile.map %dQ : (!tile.tile<[block_m, padded_qk], f32>) -> !tile.tile<[block_m, padded_qk], f32> {
  ^body(%x: f32, %row: i32, %column: i32):
    %y = arith.mulf %x, %scale : f32
    tile.yield %y : f32
  }
  %dQi = tile.convert %dQs : !tile.tile<[block_m, padded_qk], f32> -> !tile.tile<[block_m, padded_qk], input>
  tile.store %dQi, %dq[%queries] : !tile.tile<[block_m, padded_qk], input>, !tile.view<[B, H, Sq, d_qk], input>[!tile.block<query, block_m>]
}
