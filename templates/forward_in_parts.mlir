// Forward attention over shares of the keys (Flash-Decoding; FlashAttention-2, arXiv:2307.08691): what forward.mlir
// computes, where the queries are too few to keep a device busy. The sequences of a batch are cut into parts as their
// lengths are at this launch, so that one plan serves them all, replayed from a graph too.
//
// About `workers` work items have something to do. They are items of B + more slots (tile.work_slots). A share is as many blocks of
// keys as `more` slots have of all, and 256 keys at least; a sequence with n blocks of keys has ceil(n / share) slots, at
// least one. So there are slots enough: Σ ceil(n / share) <= B + Σ n / share <= B + more.
//
// What an item computes lies in a workspace: o_parts and lse_parts have the slots, the packs of heads and the rows of tiles.
// The second kernel joins the slots of a sequence as merge.mlir does, and adds the variant's sink, once.
!outputs = !tile.view<[B + (workers ceildiv ((Sq ceildiv (block_m ceildiv heads)) * (Hkv * ((H ceildiv Hkv) ceildiv heads)))), Hkv * ((H ceildiv Hkv) ceildiv heads), (Sq ceildiv (block_m ceildiv heads)) * block_m, d_v], f32>
!sums = !tile.view<[B + (workers ceildiv ((Sq ceildiv (block_m ceildiv heads)) * (Hkv * ((H ceildiv Hkv) ceildiv heads)))), Hkv * ((H ceildiv Hkv) ceildiv heads), (Sq ceildiv (block_m ceildiv heads)) * block_m], f32>
tile.kernel @forward_parts<block_m, block_n, heads, workers, d_qk, d_v, padded_qk, padded_v, input>(
    in %q: !tile.view<[B, H, Sq, d_qk], input>, in %k: !tile.view<[B, Hkv, Sk, d_qk], input>,
    in %v: !tile.view<[B, Hkv, Sk, d_v], input>,
    workspace %o_parts: !outputs,
    workspace %lse_parts: !sums,
    %scale: f32) {
  %slots, %more = tile.work_slots of workers : !tile.block<query, block_m, heads>
  %slot, %head, %kv_head, %first = tile.coordinates %slots : !tile.block<query, block_m, heads>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %block_keys = tile.number block_n
  %rest = arith.subi %block_keys, %one : i32
  %batches = tile.extent "B"
  %all = scf.for %i = %zero to %batches step %one iter_args(%sum = %zero) -> (i32) : i32 {
    %n = tile.sequence_keys %i
    %more_keys = arith.addi %n, %rest : i32
    %blocks = arith.divui %more_keys, %block_keys : i32
    %next = arith.addi %sum, %blocks : i32
    scf.yield %next : i32
  }
  %least = tile.number 256 ceildiv block_n
  %up = arith.subi %more, %one : i32
  %all_up = arith.addi %all, %up : i32
  %fair = arith.divui %all_up, %more : i32
  %share = arith.maxui %fair, %least : i32
  %share_up = arith.subi %share, %one : i32
  // The sequence whose slot it is, and which part of its keys. A slot of no sequence has part 1 of 1, which is empty.
  %batch, %part, %parts, %last = scf.for %i = %zero to %batches step %one
      iter_args(%b = %zero, %p = %one, %ps = %one, %next = %zero) -> (i32, i32, i32, i32) : i32 {
    %n = tile.sequence_keys %i
    %more_keys = arith.addi %n, %rest : i32
    %blocks = arith.divui %more_keys, %block_keys : i32
    %blocks_up = arith.addi %blocks, %share_up : i32
    %full = arith.divui %blocks_up, %share : i32
    %own = arith.maxui %full, %one : i32
    %end = arith.addi %next, %own : i32
    %is_behind = arith.cmpi sge, %slot, %next : i32
    %is_before = arith.cmpi slt, %slot, %end : i32
    %is_here = arith.andi %is_behind, %is_before : i1
    %number = arith.subi %slot, %next : i32
    %b2 = arith.select %is_here, %i, %b : i32
    %p2 = arith.select %is_here, %number, %p : i32
    %ps2 = arith.select %is_here, %own, %ps : i32
    scf.yield %b2, %p2, %ps2, %end : i32, i32, i32, i32
  }
  %item = tile.block %first batch %batch head %head -> !tile.block<query, block_m, heads>
  %Q = tile.load %q[%item] : !tile.view<[B, H, Sq, d_qk], input>[!tile.block<query, block_m, heads>] -> !tile.tile<[block_m, padded_qk], input>
  %factor = tile.exponent_factor %scale
  %m0 = tile.constant 0xFF800000 : !tile.tile<[block_m], f32> // -inf
  %l0 = tile.constant 0.0 : !tile.tile<[block_m], f32>
  %O0 = tile.constant 0.0 : !tile.tile<[block_m, padded_v], f32>
  %S0 = tile.constant 0.0 : !tile.tile<[block_m, block_n], f32>

  %m, %l, %O = tile.blocks %keys, %partial of %item : !tile.block<query, block_m, heads> -> !tile.block<key, block_n>
      carry (%m1 = %m0 : !tile.tile<[block_m], f32>, %l1 = %l0 : !tile.tile<[block_m], f32>,
             %O1 = %O0 : !tile.tile<[block_m, padded_v], f32>) part (%part, %parts) {
    %K = tile.load %k[%keys] : !tile.view<[B, Hkv, Sk, d_qk], input>[!tile.block<key, block_n>] -> !tile.tile<[block_n, padded_qk], input>
    %QK = tile.dot %Q, %K transposed plus %S0 : (!tile.tile<[block_m, padded_qk], input>, !tile.tile<[block_n, padded_qk], input>, !tile.tile<[block_m, block_n], f32>) -> !tile.tile<[block_m, block_n], f32>
    %T = tile.score %QK scaled by %scale at %item, %keys : !tile.tile<[block_m, block_n], f32>, !tile.block<query, block_m, heads>, !tile.block<key, block_n>
    %S = tile.mask %T if %partial at %item, %keys : !tile.tile<[block_m, block_n], f32>, !tile.block<query, block_m, heads>, !tile.block<key, block_n>
    %P, %m2, %l2, %alpha = tile.softmax_step %S, %m1, %l1 factor %factor : !tile.tile<[block_m, block_n], f32>, !tile.tile<[block_m], f32>
    %O2 = tile.rescale %O1 by %alpha : !tile.tile<[block_m, padded_v], f32>, !tile.tile<[block_m], f32>
    %Pi = tile.convert %P : !tile.tile<[block_m, block_n], f32> -> !tile.tile<[block_m, block_n], input>
    %V = tile.load %v[%keys] : !tile.view<[B, Hkv, Sk, d_v], input>[!tile.block<key, block_n>] -> !tile.tile<[block_n, padded_v], input>
    %O3 = tile.dot %Pi, %V plus %O2 : (!tile.tile<[block_m, block_n], input>, !tile.tile<[block_n, padded_v], input>, !tile.tile<[block_m, padded_v], f32>) -> !tile.tile<[block_m, padded_v], f32>
    tile.yield %m2, %l2, %O3 : !tile.tile<[block_m], f32>, !tile.tile<[block_m], f32>, !tile.tile<[block_m, padded_v], f32>
  }

  %Y, %L = tile.finish %O, %m, %l factor %factor : !tile.tile<[block_m, padded_v], f32>, !tile.tile<[block_m], f32>
  %H = tile.extent "H"
  %Hkv = tile.extent "Hkv"
  %sharing = arith.divui %H, %Hkv : i32
  %heads = tile.number heads
  %heads_up = arith.subi %heads, %one : i32
  %sharing_up = arith.addi %sharing, %heads_up : i32
  %packs = arith.divui %sharing_up, %heads : i32
  %packs_before = arith.muli %kv_head, %packs : i32
  %heads_before = arith.muli %kv_head, %sharing : i32
  %in_sharing = arith.subi %head, %heads_before : i32
  %in_packs = arith.divui %in_sharing, %heads : i32
  %pack = arith.addi %packs_before, %in_packs : i32
  %tile_row = arith.muli %first, %heads : i32
  // Of the tile the rows that exist: of the positions that are left, and of the heads that share keys.
  %queries = tile.extent "Sq" of_launch
  %positions_left = arith.subi %queries, %first : i32
  %rows_left = arith.muli %positions_left, %heads : i32
  %most_rows = tile.number block_m
  %rows_held = arith.minsi %rows_left, %most_rows : i32
  %held_heads = arith.minsi %heads, %sharing : i32
  %no_heads = arith.subi %heads, %held_heads : i32
  %rows_filled = arith.subi %rows_held, %no_heads : i32
  %end_row = arith.addi %tile_row, %rows_filled : i32
  %results = tile.block %tile_row to %end_row batch %slot head %pack -> !tile.block<query, block_m>
  tile.store %Y, %o_parts[%results] : !tile.tile<[block_m, padded_v], f32>, !outputs[!tile.block<query, block_m>]
  tile.store %L, %lse_parts[%results] : !tile.tile<[block_m], f32>, !sums[!tile.block<query, block_m>]
}

tile.kernel @merge_parts<block_m, block_n, heads, workers, d_v, padded_v, input>(
    workspace %o_parts: !outputs,
    workspace %lse_parts: !sums,
    out %o: !tile.view<[B, H, Sq, d_v], input>, optional %lse: !tile.view<[B, H, Sq], f32, contiguous>) {
  %item = tile.work : !tile.block<query, block_m, heads>
  %batch, %head, %kv_head, %first = tile.coordinates %item : !tile.block<query, block_m, heads>
  %more = tile.more_slots of workers !tile.block<query, block_m, heads>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %block_keys = tile.number block_n
  %rest = arith.subi %block_keys, %one : i32
  %batches = tile.extent "B"
  %all = scf.for %i = %zero to %batches step %one iter_args(%sum = %zero) -> (i32) : i32 {
    %n = tile.sequence_keys %i
    %more_keys = arith.addi %n, %rest : i32
    %blocks = arith.divui %more_keys, %block_keys : i32
    %next = arith.addi %sum, %blocks : i32
    scf.yield %next : i32
  }
  %least = tile.number 256 ceildiv block_n
  %up = arith.subi %more, %one : i32
  %all_up = arith.addi %all, %up : i32
  %fair = arith.divui %all_up, %more : i32
  %share = arith.maxui %fair, %least : i32
  %share_up = arith.subi %share, %one : i32
  // The slots of its sequence.
  %low, %high, %last = scf.for %i = %zero to %batches step %one
      iter_args(%l1 = %zero, %h1 = %zero, %next = %zero) -> (i32, i32, i32) : i32 {
    %n = tile.sequence_keys %i
    %more_keys = arith.addi %n, %rest : i32
    %blocks = arith.divui %more_keys, %block_keys : i32
    %blocks_up = arith.addi %blocks, %share_up : i32
    %full = arith.divui %blocks_up, %share : i32
    %own = arith.maxui %full, %one : i32
    %end = arith.addi %next, %own : i32
    %is_here = arith.cmpi eq, %i, %batch : i32
    %l2 = arith.select %is_here, %next, %l1 : i32
    %h2 = arith.select %is_here, %end, %h1 : i32
    scf.yield %l2, %h2, %end : i32, i32, i32
  }
  %H = tile.extent "H"
  %Hkv = tile.extent "Hkv"
  %sharing = arith.divui %H, %Hkv : i32
  %heads = tile.number heads
  %heads_up = arith.subi %heads, %one : i32
  %sharing_up = arith.addi %sharing, %heads_up : i32
  %packs = arith.divui %sharing_up, %heads : i32
  %packs_before = arith.muli %kv_head, %packs : i32
  %heads_before = arith.muli %kv_head, %sharing : i32
  %in_sharing = arith.subi %head, %heads_before : i32
  %in_packs = arith.divui %in_sharing, %heads : i32
  %pack = arith.addi %packs_before, %in_packs : i32
  %tile_row = arith.muli %first, %heads : i32
  %rows_of_tile = tile.number block_m
  %end_row = arith.addi %tile_row, %rows_of_tile : i32
  %m0 = tile.sink at %item : !tile.block<query, block_m, heads> -> !tile.tile<[block_m], f32>
  %l0 = tile.map %m0 : (!tile.tile<[block_m], f32>) -> !tile.tile<[block_m], f32> {
  ^body(%x: f32, %row: i32, %column: i32):
    %lowest = arith.constant 0xFF800000 : f32
    %absent = arith.cmpf oeq, %x, %lowest : f32
    %none = arith.constant 0.0 : f32
    %unit = arith.constant 1.0 : f32
    %zero_or_nan = arith.subf %x, %x : f32 // NaN of NaN and +inf, which make the row NaN
    %term = arith.addf %unit, %zero_or_nan : f32
    %weight = arith.select %absent, %none, %term : f32
    tile.yield %weight : f32
  }
  %O0 = tile.constant 0.0 : !tile.tile<[block_m, padded_v], f32>

  %m, %l, %O = scf.for %slot = %low to %high step %one
      iter_args(%m1 = %m0, %l1 = %l0, %O1 = %O0)
      -> (!tile.tile<[block_m], f32>, !tile.tile<[block_m], f32>, !tile.tile<[block_m, padded_v], f32>) : i32 {
    %part = tile.block %tile_row to %end_row batch %slot head %pack -> !tile.block<query, block_m>
    %L = tile.load %lse_parts[%part] : !sums[!tile.block<query, block_m>] -> !tile.tile<[block_m], f32>
    %X = tile.load %o_parts[%part] : !outputs[!tile.block<query, block_m>] -> !tile.tile<[block_m, padded_v], f32>
    %m2 = tile.map %m1, %L : (!tile.tile<[block_m], f32>, !tile.tile<[block_m], f32>) -> !tile.tile<[block_m], f32> {
    ^body(%x: f32, %y: f32, %row: i32, %column: i32):
      %max = arith.maxnumf %x, %y : f32
      tile.yield %max : f32
    }
    // -inf less -inf is 0 here: no part had keys so far.
    %alpha = tile.map %m1, %m2 : (!tile.tile<[block_m], f32>, !tile.tile<[block_m], f32>) -> !tile.tile<[block_m], f32> {
    ^body(%x: f32, %y: f32, %row: i32, %column: i32):
      %same = arith.cmpf oeq, %x, %y : f32
      %less = arith.subf %x, %y : f32
      %unit = arith.constant 1.0 : f32
      %power = math.exp %less : f32
      %factor = arith.select %same, %unit, %power : f32
      tile.yield %factor : f32
    }
    %w = tile.map %L, %m2 : (!tile.tile<[block_m], f32>, !tile.tile<[block_m], f32>) -> !tile.tile<[block_m], f32> {
    ^body(%x: f32, %y: f32, %row: i32, %column: i32):
      %lowest = arith.constant 0xFF800000 : f32
      %empty = arith.cmpf oeq, %x, %lowest : f32
      %less = arith.subf %x, %y : f32
      %none = arith.constant 0.0 : f32
      %power = math.exp %less : f32
      %weight = arith.select %empty, %none, %power : f32
      tile.yield %weight : f32
    }
    %l2 = tile.map %l1, %alpha, %w : (!tile.tile<[block_m], f32>, !tile.tile<[block_m], f32>, !tile.tile<[block_m], f32>) -> !tile.tile<[block_m], f32> {
    ^body(%x: f32, %a: f32, %y: f32, %row: i32, %column: i32):
      %scaled = arith.mulf %x, %a : f32
      %sum = arith.addf %scaled, %y : f32
      tile.yield %sum : f32
    }
    %O2 = tile.rescale %O1 by %alpha : !tile.tile<[block_m, padded_v], f32>, !tile.tile<[block_m], f32>
    %O3 = tile.map %O2, %X, %w : (!tile.tile<[block_m, padded_v], f32>, !tile.tile<[block_m, padded_v], f32>, !tile.tile<[block_m], f32>) -> !tile.tile<[block_m, padded_v], f32> {
    ^body(%x: f32, %y: f32, %a: f32, %row: i32, %column: i32):
      %none = arith.constant 0.0 : f32
      %empty = arith.cmpf oeq, %a, %none : f32
      %weighted = arith.mulf %y, %a : f32
      %term = arith.select %empty, %none, %weighted : f32
      %sum = arith.addf %x, %term : f32
      tile.yield %sum : f32
    }
    scf.yield %m2, %l2, %O3 : !tile.tile<[block_m], f32>, !tile.tile<[block_m], f32>, !tile.tile<[block_m, padded_v], f32>
  }

  %inverse = tile.map %l : (!tile.tile<[block_m], f32>) -> !tile.tile<[block_m], f32> {
  ^body(%sum: f32, %row: i32, %column: i32):
    %none = arith.constant 0.0 : f32
    %empty = arith.cmpf oeq, %sum, %none : f32
    %unit = arith.constant 1.0 : f32
    %ratio = arith.divf %unit, %sum : f32
    %y = arith.select %empty, %none, %ratio : f32
    tile.yield %y : f32
  }
  %Y = tile.rescale %O by %inverse : !tile.tile<[block_m, padded_v], f32>, !tile.tile<[block_m], f32>
  %L = tile.map %m, %l : (!tile.tile<[block_m], f32>, !tile.tile<[block_m], f32>) -> !tile.tile<[block_m], f32> {
  ^body(%x: f32, %sum: f32, %row: i32, %column: i32):
    %log = math.log %sum : f32 // of 0: -inf, and x is -inf too
    %y = arith.addf %x, %log : f32
    tile.yield %y : f32
  }
  %Yi = tile.convert %Y : !tile.tile<[block_m, padded_v], f32> -> !tile.tile<[block_m, padded_v], input>
  tile.store %Yi, %o[%item] : !tile.tile<[block_m, padded_v], input>, !tile.view<[B, H, Sq, d_v], input>[!tile.block<query, block_m, heads>]
  tile.store %L, %lse[%item] : !tile.tile<[block_m], f32>, !tile.view<[B, H, Sq], f32, contiguous>[!tile.block<query, block_m, heads>]
}
