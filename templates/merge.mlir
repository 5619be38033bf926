// Joins partial results (Flash-Decoding; FlashAttention-2, arXiv:2307.08691). Part p used some of the keys and
// stored its own O_p, with element type `part`, and L_p = log Σ exp S.
//
//   L = log Σ_p exp L_p          O = Σ_p exp(L_p - L) O_p
//
// A sink counts as one more part, with the output 0. The kernels of the parts must not include the sink, so that it counts once.
//
// A work item owns block_m rows of one head and loops over the parts. The views have the parts as
// batches: part p of batch b is batch p · B + b, so they are [P, B, H, Sq, D] and [P, B, H, Sq]. The
// launch does not check that P is `parts`. The views' batches may have any stride.
// m, l: running maxima of L_p and sums of exp(L_p - m); O: the output before the division by l. The
// output O_p of a part without keys (L_p = -inf) is ignored.
tile.kernel @merge<block_m, d_v, part, output>(
    in %o_parts: !tile.view<[?, H, Sq, d_v], part>,
    in %lse_parts: !tile.view<[?, H, Sq], f32>,
    out %o: !tile.view<[B, H, Sq, d_v], output>,
    optional %lse: !tile.view<[B, H, Sq], f32, contiguous>, %$parts: i32) {
  %rows = tile.work : !tile.block<query, block_m>
  %batch, %head, %kv_head, %first = tile.coordinates %rows : !tile.block<query, block_m>
  %batches = tile.extent "B"
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %m0 = tile.sink at %rows : !tile.block<query, block_m> -> !tile.tile<[block_m], f32>
  %l0 = tile.map %m0 : (!tile.tile<[block_m], f32>) -> !tile.tile<[block_m], f32> {
  ^body(%x: f32, %row: i32, %column: i32):
    %lowest = arith.constant 0xFF800000 : f32
    %absent = arith.cmpf oeq, %x, %lowest : f32
    %none = arith.constant 0.0 : f32
    %unit = arith.constant 1.0 : f32
    %zero_or_nan = arith.subf %x, %x : f32 // NaN if x is NaN or +inf; this makes the row NaN
    %term = arith.addf %unit, %zero_or_nan : f32
    %weight = arith.select %absent, %none, %term : f32
    tile.yield %weight : f32
  }
  %O0 = tile.constant 0.0 : !tile.tile<[block_m, d_v], f32>

  %m, %l, %O = scf.for %p = %zero to %$parts step %one
      iter_args(%m1 = %m0, %l1 = %l0, %O1 = %O0)
      -> (!tile.tile<[block_m], f32>, !tile.tile<[block_m], f32>, !tile.tile<[block_m, d_v], f32>) : i32 {
    %before = arith.muli %p, %batches : i32
    %part_batch = arith.addi %before, %batch : i32
    %part = tile.block %first batch %part_batch head %head -> !tile.block<query, block_m>
    %L = tile.load %lse_parts[%part] : !tile.view<[?, H, Sq], f32>[!tile.block<query, block_m>] -> !tile.tile<[block_m], f32>
    %Xp = tile.load %o_parts[%part] : !tile.view<[?, H, Sq, d_v], part>[!tile.block<query, block_m>] -> !tile.tile<[block_m, d_v], part>
    %X = tile.convert %Xp : !tile.tile<[block_m, d_v], part> -> !tile.tile<[block_m, d_v], f32>
    %m2 = tile.map %m1, %L : (!tile.tile<[block_m], f32>, !tile.tile<[block_m], f32>) -> !tile.tile<[block_m], f32> {
    ^body(%x: f32, %y: f32, %row: i32, %column: i32):
      %max = arith.maxnumf %x, %y : f32
      tile.yield %max : f32
    }
    // -inf minus -inf counts as 0 here: no part had keys so far.
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
    %O2 = tile.rescale %O1 by %alpha : !tile.tile<[block_m, d_v], f32>, !tile.tile<[block_m], f32>
    %O3 = tile.map %O2, %X, %w : (!tile.tile<[block_m, d_v], f32>, !tile.tile<[block_m, d_v], f32>, !tile.tile<[block_m], f32>) -> !tile.tile<[block_m, d_v], f32> {
    ^body(%x: f32, %y: f32, %a: f32, %row: i32, %column: i32):
      %none = arith.constant 0.0 : f32
      %empty = arith.cmpf oeq, %a, %none : f32
      %weighted = arith.mulf %y, %a : f32
      %term = arith.select %empty, %none, %weighted : f32
      %sum = arith.addf %x, %term : f32
      tile.yield %sum : f32
    }
    scf.yield %m2, %l2, %O3 : !tile.tile<[block_m], f32>, !tile.tile<[block_m], f32>, !tile.tile<[block_m, d_v], f32>
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
  %Y = tile.rescale %O by %inverse : !tile.tile<[block_m, d_v], f32>, !tile.tile<[block_m], f32>
  %L = tile.map %m, %l : (!tile.tile<[block_m], f32>, !tile.tile<[block_m], f32>) -> !tile.tile<[block_m], f32> {
  ^body(%x: f32, %sum: f32, %row: i32, %column: i32):
    %log = math.log %sum : f32 // log 0 is -inf; then x is -inf too
    %y = arith.addf %x, %log : f32
    tile.yield %y : f32
  }
  %Yi = tile.convert %Y : !tile.tile<[block_m, d_v], f32> -> !tile.tile<[block_m, d_v], output>
  tile.store %Yi, %o[%rows] : !tile.tile<[block_m, d_v], output>, !tile.view<[B, H, Sq, d_v], output>[!tile.block<query, block_m>]
  tile.store %L, %lse[%rows] : !tile.tile<[block_m], f32>, !tile.view<[B, H, Sq], f32, contiguous>[!tile.block<query, block_m>]
}
