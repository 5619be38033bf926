// Writes new keys and values into pages, and applies rotary embedding to queries and keys (RoFormer, arXiv:2104.09864), in one launch.
//
// Rotary embedding rotates columns i and partner(i) of a row by an angle that depends on the position and on the pair of columns:
//
//   first:  x cos - y sin        second:  y cos + x sin
//
// Pairs are (2 i, 2 i + 1) if interleaved is 1, and (i, i + rotary / 2) if it is 0. Columns from `rotary` on do not change; `rotary` may
// be 0. cos and sin have a row for each position and a column for each pair. A method that scales positions does so in these tables.
//
// Token i of batch b has the position positions[b, i]. Its key and value are written to row slots[b, i] of the pages; rows are numbered
// through all pages, so the views have pages of one row. A token is not written if the pages have no such row. Position -1 is read as 0.
// The pages have elements of type `element`, which may have 8 bits. They hold K / k_scale and V / v_scale, with a scale for each kv head.
// If a scale's tensor is empty or its element is 0, there is no scale.
//
// A work item owns block_m tokens of a query head. The first query head of each kv head also writes its keys and values.
tile.kernel @write_pages<block_m, d_qk, d_v, padded_qk, padded_v, rotary, interleaved, input, element>(
    in %q: !tile.view<[B, H, Sq, d_qk], input>,
    in %k_new: !tile.view<[B, Hkv, Sq, d_qk], input>, in %v_new: !tile.view<[B, Hkv, Sq, d_v], input>,
    out %o: !tile.view<[B, H, Sq, d_qk], input>,
    out %k: !tile.view<[?, Hkv, 1, d_qk], element>, out %v: !tile.view<[?, Hkv, 1, d_v], element>,
    in %cos: !tile.view<[?, ?], f32>, in %sin: !tile.view<[?, ?], f32>,
    in %positions: !tile.view<[B, Sq], i32>, in %slots: !tile.view<[B, Sq], i32>,
    in %k_scale: !tile.view<[?], f32>, in %v_scale: !tile.view<[?], f32>) {
  %tokens = tile.work : !tile.block<query, block_m>
  %batch, %head, %kv_head, %first = tile.coordinates %tokens : !tile.block<query, block_m>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %rotary = tile.number rotary
  %half = arith.divui %rotary, %two : i32
  %is_interleaved = tile.number interleaved
  %in_turn = arith.cmpi ne, %is_interleaved, %zero : i32
  %X0 = tile.constant 0.0 : !tile.tile<[block_m, padded_qk], f32>
  %V0 = tile.constant 0.0 : !tile.tile<[block_m, padded_v], f32>

  %Q = tile.map %X0 : (!tile.tile<[block_m, padded_qk], f32>) -> !tile.tile<[block_m, padded_qk], f32> {
  ^body(%none: f32, %row: i32, %column: i32):
    %token = arith.addi %first, %row : i32
    %position = tile.read %positions[%batch, %token] : !tile.view<[B, Sq], i32> -> i32
    // pair: the pair's number; is_first: whether this is the pair's first column; other: the pair's other column.
    %is_low = arith.cmpi slt, %column, %half : i32
    %less = arith.subi %column, %half : i32
    %more = arith.addi %column, %half : i32
    %of_half = arith.select %is_low, %column, %less : i32
    %across = arith.select %is_low, %more, %less : i32
    %of_two = arith.divui %column, %two : i32
    %beside = arith.xori %column, %one : i32
    %odd = arith.andi %column, %one : i32
    %is_even = arith.cmpi eq, %odd, %zero : i32
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
    %turned = arith.addf %xc, %ys : f32
    %is_turned = arith.cmpi slt, %column, %rotary : i32
    %z = arith.select %is_turned, %turned, %x : f32
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
  %keys = tile.paged %k by %slots[%batch] : !tile.view<[?, Hkv, 1, d_qk], element>, !tile.view<[B, Sq], i32> -> !tile.view<[B, Hkv, Sk, d_qk], element>
  %values = tile.paged %v by %slots[%batch] : !tile.view<[?, Hkv, 1, d_v], element>, !tile.view<[B, Sq], i32> -> !tile.view<[B, Hkv, Sk, d_v], element>
  %unit = arith.constant 1.0 : f32
  %key_scale = tile.read %k_scale[%kv_head] : !tile.view<[?], f32> -> f32
  %value_scale = tile.read %v_scale[%kv_head] : !tile.view<[?], f32> -> f32
  %nothing = arith.constant 0.0 : f32
  %has_key_scale = arith.cmpf une, %key_scale, %nothing : f32
  %has_value_scale = arith.cmpf une, %value_scale, %nothing : f32
  %key_inverse = arith.divf %unit, %key_scale : f32
  %value_inverse = arith.divf %unit, %value_scale : f32
  %key_factor = arith.select %has_key_scale, %key_inverse, %unit : f32
  %value_factor = arith.select %has_value_scale, %value_inverse, %unit : f32

  %K = tile.map %X0 : (!tile.tile<[block_m, padded_qk], f32>) -> !tile.tile<[block_m, padded_qk], f32> {
  ^body(%none: f32, %row: i32, %column: i32):
    %token = arith.addi %first, %row : i32
    %position = tile.read %positions[%batch, %token] : !tile.view<[B, Sq], i32> -> i32
    %is_low = arith.cmpi slt, %column, %half : i32
    %less = arith.subi %column, %half : i32
    %more = arith.addi %column, %half : i32
    %of_half = arith.select %is_low, %column, %less : i32
    %across = arith.select %is_low, %more, %less : i32
    %of_two = arith.divui %column, %two : i32
    %beside = arith.xori %column, %one : i32
    %odd = arith.andi %column, %one : i32
    %is_even = arith.cmpi eq, %odd, %zero : i32
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
    %turned = arith.addf %xc, %ys : f32
    %is_turned = arith.cmpi slt, %column, %rotary : i32
    %z = arith.select %is_turned, %turned, %x : f32
    %scaled = arith.mulf %z, %key_factor : f32
    tile.yield %scaled : f32
  }
  %Ki = tile.convert %K : !tile.tile<[block_m, padded_qk], f32> -> !tile.tile<[block_m, padded_qk], element>
  tile.store %Ki, %keys[%rows] : !tile.tile<[block_m, padded_qk], element>, !tile.view<[B, Hkv, Sk, d_qk], element>[!tile.block<query, block_m>]

  %V = tile.map %V0 : (!tile.tile<[block_m, padded_v], f32>) -> !tile.tile<[block_m, padded_v], f32> {
  ^body(%none: f32, %row: i32, %column: i32):
    %token = arith.addi %first, %row : i32
    %x = tile.read %v_new[%batch, %kv_head, %token, %column] : !tile.view<[B, Hkv, Sq, d_v], input> -> f32
    %scaled = arith.mulf %x, %value_factor : f32
    tile.yield %scaled : f32
  }
  %Vi = tile.convert %V : !tile.tile<[block_m, padded_v], f32> -> !tile.tile<[block_m, padded_v], element>
  tile.store %Vi, %values[%rows] : !tile.tile<[block_m, padded_v], element>, !tile.view<[B, Hkv, Sk, d_v], element>[!tile.block<query, block_m>]
}
