// The last kernel for sequences with a shared prefix (tile-share-prefix). It joins two results for each query: that of the
// prefix, in workspaces, and that of the query's own keys, in o and lse.
//
//   L = log(exp L_1 + exp L_2)          O = exp(L_1 - L) O_1 + exp(L_2 - L) O_2
tile.kernel @join_prefix<block_m, d_v, input>(
    workspace %o_of_prefix: !tile.view<[B * 1, H, Sq, d_v], f32>, workspace %lse_of_prefix: !tile.view<[B * 1, H, Sq], f32>,
    out %o: !tile.view<[B, H, Sq, d_v], input>, out %lse: !tile.view<[B, H, Sq], f32, contiguous>) {
  %rows = tile.work : !tile.block<query, block_m>
  %L1 = tile.load %lse_of_prefix[%rows] : !tile.view<[B * 1, H, Sq], f32>[!tile.block<query, block_m>] -> !tile.tile<[block_m], f32>
  %L2 = tile.load %lse[%rows] : !tile.view<[B, H, Sq], f32, contiguous>[!tile.block<query, block_m>] -> !tile.tile<[block_m], f32>
  %O1 = tile.load %o_of_prefix[%rows] : !tile.view<[B * 1, H, Sq, d_v], f32>[!tile.block<query, block_m>] -> !tile.tile<[block_m, d_v], f32>
  %Oi = tile.load %o[%rows] : !tile.view<[B, H, Sq, d_v], input>[!tile.block<query, block_m>] -> !tile.tile<[block_m, d_v], input>
  %O2 = tile.convert %Oi : !tile.tile<[block_m, d_v], input> -> !tile.tile<[block_m, d_v], f32>
  %L = tile.map %L1, %L2 : (!tile.tile<[block_m], f32>, !tile.tile<[block_m], f32>) -> !tile.tile<[block_m], f32> {
  ^body(%x: f32, %y: f32, %row: i32, %column: i32):
    %lowest = arith.constant 0xFF800000 : f32 // -inf; if x and y are both -inf, their differences to m are NaN
    %m = arith.maxnumf %x, %y : f32 // if one is NaN, m is the other; the difference is NaN, and so is the row
    %x_empty = arith.cmpf oeq, %x, %lowest : f32
    %y_empty = arith.cmpf oeq, %y, %lowest : f32
    %are_empty = arith.andi %x_empty, %y_empty : i1
    %x_less = arith.subf %x, %m : f32
    %y_less = arith.subf %y, %m : f32
    %x_power = math.exp %x_less : f32
    %y_power = math.exp %y_less : f32
    %sum = arith.addf %x_power, %y_power : f32
    %log = math.log %sum : f32
    %both = arith.addf %m, %log : f32
    %z = arith.select %are_empty, %lowest, %both : f32
    tile.yield %z : f32
  }
  %w1 = tile.map %L1, %L : (!tile.tile<[block_m], f32>, !tile.tile<[block_m], f32>) -> !tile.tile<[block_m], f32> {
  ^body(%x: f32, %both: f32, %row: i32, %column: i32):
    %lowest = arith.constant 0xFF800000 : f32
    %none = arith.constant 0.0 : f32
    %is_empty = arith.cmpf oeq, %x, %lowest : f32
    %less = arith.subf %x, %both : f32
    %power = math.exp %less : f32
    %w = arith.select %is_empty, %none, %power : f32
    tile.yield %w : f32
  }
  %w2 = tile.map %L2, %L : (!tile.tile<[block_m], f32>, !tile.tile<[block_m], f32>) -> !tile.tile<[block_m], f32> {
  ^body(%x: f32, %both: f32, %row: i32, %column: i32):
    %lowest = arith.constant 0xFF800000 : f32
    %none = arith.constant 0.0 : f32
    %is_empty = arith.cmpf oeq, %x, %lowest : f32
    %less = arith.subf %x, %both : f32
    %power = math.exp %less : f32
    %w = arith.select %is_empty, %none, %power : f32
    tile.yield %w : f32
  }
  %Y1 = tile.rescale %O1 by %w1 : !tile.tile<[block_m, d_v], f32>, !tile.tile<[block_m], f32>
  %Y = tile.map %Y1, %O2, %w2 : (!tile.tile<[block_m, d_v], f32>, !tile.tile<[block_m, d_v], f32>, !tile.tile<[block_m], f32>) -> !tile.tile<[block_m, d_v], f32> {
  ^body(%x: f32, %y: f32, %w: f32, %row: i32, %column: i32):
    %weighted = arith.mulf %y, %w : f32
    %sum = arith.addf %x, %weighted : f32
    tile.yield %sum : f32
  }
  %Yi = tile.convert %Y : !tile.tile<[block_m, d_v], f32> -> !tile.tile<[block_m, d_v], input>
  tile.store %Yi, %o[%rows] : !tile.tile<[block_m, d_v], input>, !tile.view<[B, H, Sq, d_v], input>[!tile.block<query, block_m>]
  tile.store %L, %lse[%rows] : !tile.tile<[block_m], f32>, !tile.view<[B, H, Sq], f32, contiguous>[!tile.block<query, block_m>]
}
