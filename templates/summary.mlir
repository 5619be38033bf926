// The lowest and the highest element of each granule of a captured tensor. Proofs about a tile use them
// instead of the elements (compiler/transforms/CaptureSummary.h has the layout).
//
//   low[p, r, g]  = min  x[p, rows r + i, columns g + j]     i < rows, j < columns
//   high[p, r, g] = max  x[p, rows r + i, columns g + j]
//
// All numbers are i32 keys that have the order of the elements. With is_float = 1, x holds floats, and they are read
// as the bits of f32. If the sign bit is set, the key inverts the other bits. So keys have the order of the numbers,
// with -0 below +0. A NaN has no order. It counts as the lowest number in `low` and as the highest in `high`; the
// least and the largest i32, read as keys, are NaNs.
//
// A work item owns block_m granules of one row of granules. The axes before the last two are batches, and
// Sk is the extent of the second of them; heads are rows of granules. Reads clamp their indices, so the last granule
// repeats the last element. If x is itself a summary, its first axis separates low from high, and planes
// is 1. If x is a captured tensor, planes is 0, and low and high are computed from the same elements.
tile.kernel @summary<block_m, rows, columns, planes, element, is_float>(
    %$x: !tile.view<[?, ?, ?, ?, ?], element>, out %summary: !tile.view<[?, ?, ?], i32, contiguous>) {
  %granules = tile.work : !tile.block<query, block_m>
  %batch, %head, %kv_head, %first = tile.coordinates %granules : !tile.block<query, block_m>
  %batches = tile.extent "B"
  %inner = tile.extent "Sk"
  %i0 = arith.divsi %batch, %inner : i32
  %i1 = arith.remsi %batch, %inner : i32
  %row_count = tile.number rows
  %column_count = tile.number columns
  %first_row = arith.muli %head, %row_count : i32
  %first_column = arith.muli %first, %column_count : i32
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %high_plane = tile.number planes
  %float = tile.number is_float
  %is_float = arith.cmpi ne, %float, %zero : i32
  %low0 = tile.map : () -> !tile.tile<[block_m], i32> {
  ^body(%row: i32, %column: i32):
    %most = arith.constant 2147483647 : i32
    tile.yield %most : i32
  }
  %high0 = tile.map : () -> !tile.tile<[block_m], i32> {
  ^body(%row: i32, %column: i32):
    %least = arith.constant -2147483648 : i32
    tile.yield %least : i32
  }

  %low, %high = scf.for %i = %zero to %row_count step %one iter_args(%low1 = %low0, %high1 = %high0)
      -> (!tile.tile<[block_m], i32>, !tile.tile<[block_m], i32>) : i32 {
    %i2 = arith.addi %first_row, %i : i32
    %A = tile.map : () -> !tile.tile<[block_m, columns], i32> {
    ^body(%row: i32, %column: i32):
      %count = tile.number columns
      %start = arith.muli %row, %count : i32
      %offset = arith.addi %start, %column : i32
      %i3 = arith.addi %first_column, %offset : i32
      %element = tile.read %$x[%zero, %i0, %i1, %i2, %i3] : !tile.view<[?, ?, ?, ?, ?], element> -> i32
      tile.yield %element : i32
    }
    %B = tile.map : () -> !tile.tile<[block_m, columns], i32> {
    ^body(%row: i32, %column: i32):
      %count = tile.number columns
      %start = arith.muli %row, %count : i32
      %offset = arith.addi %start, %column : i32
      %i3 = arith.addi %first_column, %offset : i32
      %element = tile.read %$x[%high_plane, %i0, %i1, %i2, %i3] : !tile.view<[?, ?, ?, ?, ?], element> -> i32
      tile.yield %element : i32
    }
    %Low = tile.map %A : (!tile.tile<[block_m, columns], i32>) -> !tile.tile<[block_m, columns], i32> {
    ^body(%bits: i32, %row: i32, %column: i32):
      %below_sign = arith.constant 2147483647 : i32
      %places = arith.constant 31 : i32
      %sign = arith.shrsi %bits, %places : i32
      %turned = arith.andi %sign, %below_sign : i32
      %ordered = arith.xori %bits, %turned : i32
      %magnitude = arith.andi %bits, %below_sign : i32
      %infinity = arith.constant 0x7F800000 : i32
      %is_nan = arith.cmpi sgt, %magnitude, %infinity : i32
      %least = arith.constant -2147483648 : i32
      %key = arith.select %is_nan, %least, %ordered : i32
      %y = arith.select %is_float, %key, %bits : i32
      tile.yield %y : i32
    }
    %High = tile.map %B : (!tile.tile<[block_m, columns], i32>) -> !tile.tile<[block_m, columns], i32> {
    ^body(%bits: i32, %row: i32, %column: i32):
      %below_sign = arith.constant 2147483647 : i32
      %places = arith.constant 31 : i32
      %sign = arith.shrsi %bits, %places : i32
      %turned = arith.andi %sign, %below_sign : i32
      %ordered = arith.xori %bits, %turned : i32
      %magnitude = arith.andi %bits, %below_sign : i32
      %infinity = arith.constant 0x7F800000 : i32
      %is_nan = arith.cmpi sgt, %magnitude, %infinity : i32
      %key = arith.select %is_nan, %below_sign, %ordered : i32
      %y = arith.select %is_float, %key, %bits : i32
      tile.yield %y : i32
    }
    %low2 = tile.reduce min %Low from %low1 {in_shares} : !tile.tile<[block_m, columns], i32> -> !tile.tile<[block_m], i32>
    %high2 = tile.reduce max %High from %high1 {in_shares} : !tile.tile<[block_m, columns], i32> -> !tile.tile<[block_m], i32>
    scf.yield %low2, %high2 : !tile.tile<[block_m], i32>, !tile.tile<[block_m], i32>
  }

  // The numbers of the kinds: 2 is min, 0 is max.
  %least = tile.total %low {kind = 2 : i32} : !tile.tile<[block_m], i32> -> !tile.tile<[block_m], i32>
  %most = tile.total %high {kind = 0 : i32} : !tile.tile<[block_m], i32> -> !tile.tile<[block_m], i32>
  %high_batch = arith.addi %batches, %batch : i32
  %above = tile.block %first batch %high_batch head %head -> !tile.block<query, block_m>
  tile.store %least, %summary[%granules] : !tile.tile<[block_m], i32>, !tile.view<[?, ?, ?], i32, contiguous>[!tile.block<query, block_m>]
  tile.store %most, %summary[%above] : !tile.tile<[block_m], i32>, !tile.view<[?, ?, ?], i32, contiguous>[!tile.block<query, block_m>]
}
