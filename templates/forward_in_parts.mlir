// Forward attention over parts of the keys (Flash-Decoding; FlashAttention-2, arXiv:2307.08691). It computes what forward.mlir
// computes, and is for launches with too few queries to keep a device busy. The kernel cuts the sequences of a batch into parts
// by their lengths at this launch. So one plan serves all lengths, also when it is replayed from a CUDA graph.
//
// About `workers` work items have work, or `workers / shares_of_equal` if the batch has several sequences of equal length. They
// are items of B + more slots (tile.work_slots). `%share` is the number of blocks of keys for each slot: all blocks divided by
// the number of slots that can run at once, but at least 256 keys. A sequence with n blocks of keys has n / share slots, rounded
// to the nearest, and at least one. That is at most n / share + 1 for a sequence and at most B + more in all.
//
// A sequence with one slot needs no other kernel. If a sequence has several slots, each slot stores its rows in a workspace, and
// `dealt` says which slots these are. The second kernel joins them like merge.mlir. The first part includes the variant's sink.
!outputs = !tile.view<[B + (workers ceildiv ((Sq ceildiv (block_m ceildiv heads)) * (Hkv * ((H ceildiv Hkv) ceildiv heads)))), H, Sq, d_v], f32>
!sums = !tile.view<[B + (workers ceildiv ((Sq ceildiv (block_m ceildiv heads)) * (Hkv * ((H ceildiv Hkv) ceildiv heads)))), H, Sq], f32>
tile.kernel @forward_parts<block_m, block_n, heads, workers, shares_of_equal, d_qk, d_v, padded_qk, padded_v, input>(
    in %q: !tile.view<[B, H, Sq, d_qk], input>, in %k: !tile.view<[B, Hkv, Sk, d_qk], input>,
    in %v: !tile.view<[B, Hkv, Sk, d_v], input>,
    workspace %o_parts: !outputs, workspace %lse_parts: !sums, workspace %dealt: !tile.view<[B, 2, 1], i32>,
    out %o: !tile.view<[B, H, Sq, d_v], input>, optional %lse: !tile.view<[B, H, Sq], f32, contiguous>, %scale: f32) {
  %slots, %more = tile.work_slots of workers : !tile.block<query, block_m, heads>
  %place, %head, %kv_head, %first = tile.coordinates %slots : !tile.block<query, block_m, heads>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %three = arith.constant 3 : i32
  %block_keys = tile.number block_n
  %rest = arith.subi %block_keys, %one : i32
  %batches = tile.extent "B"
  %all, %most = scf.for %i = %zero to %batches step %one iter_args(%sum = %zero, %max = %zero) -> (i32, i32) : i32 {
    %n = tile.sequence_keys %i
    %more_keys = arith.addi %n, %rest : i32
    %blocks = arith.divui %more_keys, %block_keys : i32
    %next = arith.addi %sum, %blocks : i32
    %larger = arith.maxui %max, %blocks : i32
    scf.yield %next, %larger : i32, i32
  }
  // `shares`: how many slots can have work at the same time, the workers divided by the work items of one slot.
  %items = tile.work_items !tile.block<query, block_m, heads>
  %items_of_one = arith.divui %items, %batches : i32
  %workers = tile.number workers
  %whole = arith.divui %workers, %items_of_one : i32
  %shares = arith.maxui %whole, %one : i32
  %up = arith.subi %shares, %one : i32
  %all_up = arith.addi %all, %up : i32
  %fair = arith.divui %all_up, %shares : i32
  // If several sequences have equal lengths, shares_of_equal neighbouring long parts are joined: equal parts end at the same
  // time, and each thread block that runs at once has one. If lengths differ, parts are short, so that the last thread blocks
  // to finish do not run long alone.
  %all_equal = arith.muli %most, %batches : i32
  %are_equal = arith.cmpi eq, %all_equal, %all : i32
  %are_several = arith.cmpi sgt, %batches, %one : i32
  %may_join = arith.andi %are_equal, %are_several : i1
  %least = tile.number 256 ceildiv block_n
  %least_twice = arith.addi %least, %least : i32
  %is_long = arith.cmpi uge, %fair, %least_twice : i32
  %are_joined = arith.andi %may_join, %is_long : i1
  %times = tile.number shares_of_equal
  %joined = arith.muli %fair, %times : i32
  %chosen = arith.select %are_joined, %joined, %fair : i32
  %share = arith.maxui %chosen, %least : i32
  // A sequence of n blocks has n / share slots, rounded to the nearest, and at least one. A product replaces the division. It may
  // give one slot more if n and share exceed 65536, but then it does so everywhere.
  %half_share = arith.shrui %share, %one : i32
  %highest = arith.constant -1 : i32
  %inverse_less = arith.divui %highest, %share : i32
  %inverse_wide = arith.extui %inverse_less : i32 to i64
  %one_wide = arith.constant 1 : i64
  %word = arith.constant 32 : i64
  %inverse = arith.addi %inverse_wide, %one_wide : i64
  %most_up = arith.addi %most, %half_share : i32
  %wide_most = arith.extui %most_up : i32 to i64
  %product_most = arith.muli %wide_most, %inverse : i64
  %high_most = arith.shrui %product_most, %word : i64
  %nearest_most = arith.trunci %high_most : i64 to i32
  %slots_most = arith.maxui %nearest_most, %one : i32
  // No search is needed if the longest sequence has one slot (then all have one), or if all sequences have equal lengths.
  %are_whole = arith.cmpi eq, %slots_most, %one : i32
  %are_known = arith.ori %are_whole, %are_equal : i1
  %batch_known = arith.divui %place, %slots_most : i32
  %before_known = arith.muli %batch_known, %slots_most : i32
  %part_known = arith.subi %place, %before_known : i32
  %is_within = arith.cmpi ult, %batch_known, %batches : i32
  %is_known = arith.andi %are_known, %is_within : i1
  %parts_known = arith.select %is_known, %slots_most, %zero : i32
  %first_known = arith.select %is_known, %batch_known, %zero : i32
  // Otherwise the slots are numbered in three searches over the sequences: first sequences whose parts have at least `share`
  // blocks, then those with at least half of it, and last the shorter ones, which have one slot each. So the slots that
  // start last end soon. Slots that belong to no sequence come after all others and have no parts.
  %searched = arith.select %are_known, %zero, %batches : i32
  %batch, %parts, %number, %last = scf.for %class = %zero to %three step %one
      iter_args(%b1 = %first_known, %ps1 = %parts_known, %p1 = %part_known, %next1 = %zero) -> (i32, i32, i32, i32) : i32 {
    %is_found = arith.cmpi ult, %place, %next1 : i32
    %to_search = arith.select %is_found, %zero, %searched : i32
    %b2, %ps2, %p2, %next2 = scf.for %i = %zero to %to_search step %one
        iter_args(%b = %b1, %ps = %ps1, %p = %p1, %next = %next1) -> (i32, i32, i32, i32) : i32 {
      %n = tile.sequence_keys %i
      %more_keys = arith.addi %n, %rest : i32
      %blocks = arith.divui %more_keys, %block_keys : i32
      %blocks_up = arith.addi %blocks, %half_share : i32
      %blocks_wide = arith.extui %blocks_up : i32 to i64
      %product = arith.muli %blocks_wide, %inverse : i64
      %high = arith.shrui %product, %word : i64
      %nearest = arith.trunci %high : i64 to i32
      %own = arith.maxui %nearest, %one : i32
      %whole_shares = arith.muli %own, %share : i32
      %is_shorter = arith.cmpi ult, %blocks, %whole_shares : i32
      %is_short = arith.cmpi ult, %blocks, %half_share : i32
      %shorter = arith.extui %is_shorter : i1 to i32
      %short = arith.extui %is_short : i1 to i32
      %own_class = arith.addi %shorter, %short : i32
      %is_of_these = arith.cmpi eq, %own_class, %class : i32
      %slots_here = arith.select %is_of_these, %own, %zero : i32
      %within = arith.subi %place, %next : i32
      %is_here = arith.cmpi ult, %within, %slots_here : i32
      %b3 = arith.select %is_here, %i, %b : i32
      %ps3 = arith.select %is_here, %own, %ps : i32
      %p3 = arith.select %is_here, %within, %p : i32
      %end = arith.addi %next, %slots_here : i32
      scf.yield %b3, %ps3, %p3, %end : i32, i32, i32, i32
    }
    scf.yield %b2, %ps2, %p2, %next2 : i32, i32, i32, i32
  }
  // A slot that belongs to no sequence has no work.
  %is_none = arith.cmpi eq, %parts, %zero : i32
  tile.leave if %is_none
  %item = tile.block %first batch %batch head %head -> !tile.block<query, block_m, heads>
  %Q = tile.load %q[%item] : !tile.view<[B, H, Sq, d_qk], input>[!tile.block<query, block_m, heads>] -> !tile.tile<[block_m, padded_qk], input>
  %factor = tile.exponent_factor %scale
  %m0 = tile.constant 0xFF800000 : !tile.tile<[block_m], f32> // -inf
  %l0 = tile.constant 0.0 : !tile.tile<[block_m], f32>
  %O0 = tile.constant 0.0 : !tile.tile<[block_m, padded_v], f32>
  %S0 = tile.constant 0.0 : !tile.tile<[block_m, block_n], f32>

  %m, %l, %O = tile.blocks %keys, %partial of %item : !tile.block<query, block_m, heads> -> !tile.block<key, block_n>
      carry (%m1 = %m0 : !tile.tile<[block_m], f32>, %l1 = %l0 : !tile.tile<[block_m], f32>,
             %O1 = %O0 : !tile.tile<[block_m, padded_v], f32>) part (%number, %parts) {
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

  %sink = tile.sink at %item : !tile.block<query, block_m, heads> -> !tile.tile<[block_m], f32>
  %is_first_part = arith.cmpi eq, %number, %zero : i32
  %z = tile.map %sink : (!tile.tile<[block_m], f32>) -> !tile.tile<[block_m], f32> {
  ^body(%x: f32, %row: i32, %column: i32):
    %lowest = arith.constant 0xFF800000 : f32
    %y = arith.select %is_first_part, %x, %lowest : f32
    tile.yield %y : f32
  }
  %Y, %L = tile.finish %O, %m, %l factor %factor sink %z : !tile.tile<[block_m, padded_v], f32>, !tile.tile<[block_m], f32>, !tile.tile<[block_m], f32>
  %is_single = arith.cmpi eq, %parts, %one : i32
  scf.if %is_single {
    %Yi = tile.convert %Y : !tile.tile<[block_m, padded_v], f32> -> !tile.tile<[block_m, padded_v], input>
    tile.store %Yi, %o[%item] : !tile.tile<[block_m, padded_v], input>, !tile.view<[B, H, Sq, d_v], input>[!tile.block<query, block_m, heads>]
    tile.store %L, %lse[%item] : !tile.tile<[block_m], f32>, !tile.view<[B, H, Sq], f32, contiguous>[!tile.block<query, block_m, heads>]
  } else {
    %results = tile.block %first batch %place head %head -> !tile.block<query, block_m, heads>
    tile.store %Y, %o_parts[%results] : !tile.tile<[block_m, padded_v], f32>, !outputs[!tile.block<query, block_m, heads>]
    tile.store %L, %lse_parts[%results] : !tile.tile<[block_m], f32>, !sums[!tile.block<query, block_m, heads>]
  }
  // The first slot of each sequence stores the number of its slots and its own number. The other slots follow it.
  %rows_dealt = arith.extui %is_first_part : i1 to i32
  scf.for %i = %zero to %two step %one : i32 {
    %is_count = arith.cmpi eq, %i, %zero : i32
    %value = arith.select %is_count, %parts, %place : i32
    %values = tile.map : () -> !tile.tile<[block_m], i32> {
    ^body(%row: i32, %column: i32):
      tile.yield %value : i32
    }
    %line = tile.block %zero to %rows_dealt batch %batch head %i -> !tile.block<query, block_m>
    tile.store %values, %dealt[%line] : !tile.tile<[block_m], i32>, !tile.view<[B, 2, 1], i32>[!tile.block<query, block_m>]
  }
}

// Joins the parts. A work item owns the row of a head or, if a launch has many rows, those of some heads one after the other,
// because then most sequences have one part and need no join. The rows of its tiles are the columns of the output, and the columns
// are parts. So all threads load, and a step joins 16 parts (8 if block_m is more than 64, or heads are wider than 256).
tile.kernel @merge_parts<block_m, heads, workers, d_v, padded_v, input>(
    workspace %o_parts: !outputs, workspace %lse_parts: !sums, workspace %dealt: !tile.view<[B, 2, 1], i32>,
    out %o: !tile.view<[B, H, Sq, d_v], input>, optional %lse: !tile.view<[B, H, Sq], f32, contiguous>) {
  %batch, %position, %first_head, %end_head = tile.work_heads of 2048 ceildiv (padded_v ceildiv 256)
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %columns = tile.number (2 ceildiv ((block_m ceildiv 64) * (padded_v ceildiv 256))) * 8
  %parts = tile.read %dealt[%batch, %zero, %zero] : !tile.view<[B, 2, 1], i32> -> i32
  %begin = tile.read %dealt[%batch, %one, %zero] : !tile.view<[B, 2, 1], i32> -> i32
  %are_several = arith.cmpi sgt, %parts, %one : i32
  %end = arith.select %are_several, %end_head, %first_head : i32
  scf.for %head = %first_head to %end step %one : i32 {
    %item = tile.block %position batch %batch head %head -> !tile.block<query, 1>
    %m0 = tile.constant 0xFF800000 : !tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64)], f32> // -inf
    %l0 = tile.constant 0.0 : !tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64)], f32>
    %O0 = tile.constant 0.0 : !tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64)], f32>
    %m, %l, %O = scf.for %p = %zero to %parts step %columns
        iter_args(%m1 = %m0, %l1 = %l0, %O1 = %O0)
        -> (!tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64)], f32>, !tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64)], f32>, !tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64)], f32>) : i32 {
      %left = arith.subi %parts, %p : i32
      %last = arith.subi %left, %one : i32
      %Lp = tile.map : () -> !tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64), (2 ceildiv ((block_m ceildiv 64) * (padded_v ceildiv 256))) * 8], f32> {
      ^body(%row: i32, %column: i32):
        %lowest = arith.constant 0xFF800000 : f32
        %is_part = arith.cmpi slt, %column, %left : i32
        %held = arith.minsi %column, %last : i32
        %part = arith.addi %p, %held : i32
        %slot = arith.addi %begin, %part : i32
        %x = tile.read %lse_parts[%slot, %head, %position] : !sums -> f32
        %y = arith.select %is_part, %x, %lowest : f32
        tile.yield %y : f32
      }
      %X = tile.map : () -> !tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64), (2 ceildiv ((block_m ceildiv 64) * (padded_v ceildiv 256))) * 8], f32> {
      ^body(%row: i32, %column: i32):
        %held = arith.minsi %column, %last : i32
        %part = arith.addi %p, %held : i32
        %slot = arith.addi %begin, %part : i32
        %x = tile.read %o_parts[%slot, %head, %position, %row] : !outputs -> f32
        tile.yield %x : f32
      }
      %m2 = tile.reduce max %Lp from %m1 : !tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64), (2 ceildiv ((block_m ceildiv 64) * (padded_v ceildiv 256))) * 8], f32> -> !tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64)], f32>
      // -inf minus -inf counts as 0 here: no part had keys so far.
      %alpha = tile.map %m1, %m2 : (!tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64)], f32>, !tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64)], f32>) -> !tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64)], f32> {
      ^body(%x: f32, %y: f32, %row: i32, %column: i32):
        %same = arith.cmpf oeq, %x, %y : f32
        %less = arith.subf %x, %y : f32
        %unit = arith.constant 1.0 : f32
        %power = math.exp %less : f32
        %factor = arith.select %same, %unit, %power : f32
        tile.yield %factor : f32
      }
      %W = tile.map %Lp, %m2 : (!tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64), (2 ceildiv ((block_m ceildiv 64) * (padded_v ceildiv 256))) * 8], f32>, !tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64)], f32>) -> !tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64), (2 ceildiv ((block_m ceildiv 64) * (padded_v ceildiv 256))) * 8], f32> {
      ^body(%x: f32, %y: f32, %row: i32, %column: i32):
        %lowest = arith.constant 0xFF800000 : f32
        %empty = arith.cmpf oeq, %x, %lowest : f32
        %less = arith.subf %x, %y : f32
        %none = arith.constant 0.0 : f32
        %power = math.exp %less : f32
        %weight = arith.select %empty, %none, %power : f32
        tile.yield %weight : f32
      }
      %l2 = tile.map %l1, %alpha : (!tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64)], f32>, !tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64)], f32>) -> !tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64)], f32> {
      ^body(%x: f32, %a: f32, %row: i32, %column: i32):
        %y = arith.mulf %x, %a : f32
        tile.yield %y : f32
      }
      %l3 = tile.reduce add %W from %l2 : !tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64), (2 ceildiv ((block_m ceildiv 64) * (padded_v ceildiv 256))) * 8], f32> -> !tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64)], f32>
      // The output of a part without keys is ignored.
      %Z = tile.map %X, %W : (!tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64), (2 ceildiv ((block_m ceildiv 64) * (padded_v ceildiv 256))) * 8], f32>, !tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64), (2 ceildiv ((block_m ceildiv 64) * (padded_v ceildiv 256))) * 8], f32>) -> !tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64), (2 ceildiv ((block_m ceildiv 64) * (padded_v ceildiv 256))) * 8], f32> {
      ^body(%x: f32, %w: f32, %row: i32, %column: i32):
        %none = arith.constant 0.0 : f32
        %empty = arith.cmpf oeq, %w, %none : f32
        %weighted = arith.mulf %x, %w : f32
        %y = arith.select %empty, %none, %weighted : f32
        tile.yield %y : f32
      }
      %O2 = tile.map %O1, %alpha : (!tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64)], f32>, !tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64)], f32>) -> !tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64)], f32> {
      ^body(%x: f32, %a: f32, %row: i32, %column: i32):
        %y = arith.mulf %x, %a : f32
        tile.yield %y : f32
      }
      %O3 = tile.reduce add %Z from %O2 : !tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64), (2 ceildiv ((block_m ceildiv 64) * (padded_v ceildiv 256))) * 8], f32> -> !tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64)], f32>
      scf.yield %m2, %l3, %O3 : !tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64)], f32>, !tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64)], f32>, !tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64)], f32>
    }
    %sum = tile.total %l : !tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64)], f32> -> !tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64)], f32>
    %product = tile.total %O : !tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64)], f32> -> !tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64)], f32>
    %Y = tile.map %product, %sum : (!tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64)], f32>, !tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64)], f32>) -> !tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64)], f32> {
    ^body(%x: f32, %total: f32, %row: i32, %column: i32):
      %none = arith.constant 0.0 : f32
      %empty = arith.cmpf oeq, %total, %none : f32
      %ratio = arith.divf %x, %total : f32
      %y = arith.select %empty, %none, %ratio : f32
      tile.yield %y : f32
    }
    %L = tile.map %m, %sum : (!tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64)], f32>, !tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64)], f32>) -> !tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64)], f32> {
    ^body(%x: f32, %total: f32, %row: i32, %column: i32):
      %log = math.log %total : f32 // log 0 is -inf; then x is -inf too
      %y = arith.addf %x, %log : f32
      tile.yield %y : f32
    }
    %Yi = tile.convert %Y : !tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64)], f32> -> !tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64)], input>
    tile.store %Yi, %o[%item] : !tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64)], input>, !tile.view<[B, H, Sq, d_v], input>[!tile.block<query, 1>]
    tile.store %L, %lse[%item] : !tile.tile<[(padded_v ceildiv ((block_m ceildiv 64) * 64)) * ((block_m ceildiv 64) * 64)], f32>, !tile.view<[B, H, Sq], f32, contiguous>[!tile.block<query, 1>]
  }
}
