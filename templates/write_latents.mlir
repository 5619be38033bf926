// Writes the new rows of a latent cache into pages, and applies rotary embedding to queries and rows, in one launch. A row is a key; its
// first columns are also the value (multi-head latent attention, DeepSeek-V2, arXiv:2405.04434, in its absorbed form).
//
// A row is wider than a tile. So each of its `pieces` pieces of d_qk columns counts as a head: piece p of head h is head h * pieces + p
// of q, k_new, o and k. The last `rotary` columns of each last piece are rotated, as in write_pages.mlir; `rotary` may be 0. positions,
// slots, cos and sin are as there.
//
// A work item owns block_m tokens of a piece of q. For the pieces of the rows see write_pages.mlir: they are the kv heads.
tile.kernel @write_latents<block_m, d_qk, padded_qk, rotary, interleaved, pieces, input>(
    in %q: !tile.view<[B, H, Sq, d_qk], input>, in %k_new: !tile.view<[B, Hkv, Sq, d_qk], input>,
    out %o: !tile.view<[B, H, Sq, d_qk], input>, out %k: !tile.view<[?, Hkv, 1, d_qk], input>,
    in %cos: !tile.view<[?, ?], f32>, in %sin: !tile.view<[?, ?], f32>,
    in %positions: !tile.view<[B, Sq], i32>, in %slots: !tile.view<[B, Sq], i32>) {
  %tokens = tile.work : !tile.block<query, block_m>
  %batch, %head, %kv_head, %first = tile.coordinates %tokens : !tile.block<query, block_m>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %columns = tile.number d_qk
  %rotary = tile.number rotary
  %half = arith.divui %rotary, %two : i32
  %from = arith.subi %columns, %rotary : i32
  %is_interleaved = tile.number interleaved
  %in_turn = arith.cmpi ne, %is_interleaved, %zero : i32
  %pieces = tile.number pieces
  %last = arith.subi %pieces, %one : i32
  %piece_of_q = arith.remui %head, %pieces : i32
  %ends_q = arith.cmpi eq, %piece_of_q, %last : i32
  %piece_of_k = arith.remui %kv_head, %pieces : i32
  %ends_k = arith.cmpi eq, %piece_of_k, %last : i32
  %X0 = tile.constant 0.0 : !tile.tile<[block_m, padded_qk], f32>

  %Q = tile.map %X0 : (!tile.tile<[block_m, padded_qk], f32>) -> !tile.tile<[block_m, padded_qk], f32> {
  ^body(%none: f32, %row: i32, %column: i32):
    %token = arith.addi %first, %row : i32
    %position = tile.read %positions[%batch, %token] : !tile.view<[B, Sq], i32> -> i32
    // turned: the column among those that are rotated, or a negative number; other: the pair's other column.
    %turned = arith.subi %column, %from : i32
    %is_low = arith.cmpi slt, %turned, %half : i32
    %less = arith.subi %turned, %half : i32
    %of_half = arith.select %is_low, %turned, %less : i32
    %minus_half = arith.subi %column, %half : i32
    %plus_half = arith.addi %column, %half : i32
    %across = arith.select %is_low, %plus_half, %minus_half : i32
    %of_two = arith.divsi %turned, %two : i32
    %odd = arith.andi %turned, %one : i32
    %is_even = arith.cmpi eq, %odd, %zero : i32
    %before = arith.subi %column, %one : i32
    %behind = arith.addi %column, %one : i32
    %beside = arith.select %is_even, %behind, %before : i32
    %pair = arith.select %in_turn, %of_two, %of_half : i32
    %other = arith.select %in_turn, %beside, %across : i32
    %is_first = arith.select %in_turn, %is_even, %is_low : i1
    %x = tile.read %q[%batch, %head, %token, %column] : !tile.view<[B, H, Sq, d_qk], input> -> f32
    %y = tile.read %q[%batch, %head, %token, %other] : !tile.view<[B, H, Sq, d_qk], input> -> f32
    %c = tile.read %cos[%position, %pair] : !tile.view<[?, ?], f32> -> f32
    %s = tile.read %sin[%position, %pair] : !tile.view<[?, ?], f32> -> f32
    %minus = arith.negf %s : f32
    %signed = arith.select %is_first, %minus, %s : f32
    %xc = arith.mulf %x, %c : f32
    %ys = arith.mulf %y, %signed : f32
    %sum = arith.addf %xc, %ys : f32
    %is_behind = arith.cmpi sge, %turned, %zero : i32
    %is_turned = arith.andi %is_behind, %ends_q : i1
    %z = arith.select %is_turned, %sum, %x : f32
    tile.yield %z : f32
  }
  %Qi = tile.convert %Q : !tile.tile<[block_m, padded_qk], f32> -> !tile.tile<[block_m, padded_qk], input>
  tile.store %Qi, %o[%tokens] : !tile.tile<[block_m, padded_qk], input>, !tile.view<[B, H, Sq, d_qk], input>[!tile.block<query, block_m>]

  %H = tile.extent "H"
  %Hkv = tile.extent "Hkv"
  %sharing = arith.divui %H, %Hkv : i32
  %first_head = arith.muli %kv_head, %sharing : i32
  %writes = arith.cmpi eq, %head, %first_head : i32
  %queries = tile.extent "Sq"
  %end = arith.select %writes, %queries, %zero : i32
  %rows = tile.block %first to %end batch %batch head %kv_head -> !tile.block<query, block_m>
  %keys = tile.paged %k by %slots[%batch] : !tile.view<[?, Hkv, 1, d_qk], input>, !tile.view<[B, Sq], i32> -> !tile.view<[B, Hkv, Sk, d_qk], input>
  %K = tile.map %X0 : (!tile.tile<[block_m, padded_qk], f32>) -> !tile.tile<[block_m, padded_qk], f32> {
  ^body(%none: f32, %row: i32, %column: i32):
    %token = arith.addi %first, %row : i32
    %position = tile.read %positions[%batch, %token] : !tile.view<[B, Sq], i32> -> i32
    // turned: the column among those that are rotated, or a negative number; other: the pair's other column.
    %turned = arith.subi %column, %from : i32
    %is_low = arith.cmpi slt, %turned, %half : i32
    %less = arith.subi %turned, %half : i32
    %of_half = arith.select %is_low, %turned, %less : i32
    %minus_half = arith.subi %column, %half : i32
    %plus_half = arith.addi %column, %half : i32
    %across = arith.select %is_low, %plus_half, %minus_half : i32
    %of_two = arith.divsi %turned, %two : i32
    %odd = arith.andi %turned, %one : i32
    %is_even = arith.cmpi eq, %odd, %zero : i32
    %before = arith.subi %column, %one : i32
    %behind = arith.addi %column, %one : i32
    %beside = arith.select %is_even, %behind, %before : i32
    %pair = arith.select %in_turn, %of_two, %of_half : i32
    %other = arith.select %in_turn, %beside, %across : i32
    %is_first = arith.select %in_turn, %is_even, %is_low : i1
    %x = tile.read %k_new[%batch, %kv_head, %token, %column] : !tile.view<[B, Hkv, Sq, d_qk], input> -> f32
    %y = tile.read %k_new[%batch, %kv_head, %token, %other] : !tile.view<[B, Hkv, Sq, d_qk], input> -> f32
    %c = tile.read %cos[%position, %pair] : !tile.view<[?, ?], f32> -> f32
    %s = tile.read %sin[%position, %pair] : !tile.view<[?, ?], f32> -> f32
    %minus = arith.negf %s : f32
    %signed = arith.select %is_first, %minus, %s : f32
    %xc = arith.mulf %x, %c : f32
    %ys = arith.mulf %y, %signed : f32
    %sum = arith.addf %xc, %ys : f32
    %is_behind = arith.cmpi sge, %turned, %zero : i32
    %is_turned = arith.andi %is_behind, %ends_k : i1
    %z = arith.select %is_turned, %sum, %x : f32
    tile.yield %z : f32
  }
  %Ki = tile.convert %K : !tile.tile<[block_m, padded_qk], f32> -> !tile.tile<[block_m, padded_qk], input>
  tile.store %Ki, %keys[%rows] : !tile.tile<[block_m, padded_qk], input>, !tile.view<[B, Hkv, Sk, d_qk], input>[!tile.block<query, block_m>]
}
