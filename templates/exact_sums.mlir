// The kernels that run before and after the kernels that sum gradients of parameters (compiler/driver/GradientSums.h).

// Writes zeros: a work item owns block_m · 64 elements of a row of a view [B, H, ?]. The row has Sk elements. Each row of the
// work item's block stands for 64 of them, so Sq is Sk / 64, rounded up.
tile.kernel @clear_elements<block_m>(out %x: !tile.view<[B, H, ?], f32>) {
  %rows = tile.work : !tile.block<query, block_m>
  %batch, %head, %kv_head, %first_row = tile.coordinates %rows : !tile.block<query, block_m>
  %zeros = tile.constant 0.0 : !tile.tile<[block_m], f32>
  %none = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %elements = arith.constant 64 : i32
  %count = tile.number block_m
  %begin = arith.muli %first_row, %elements : i32
  scf.for %i = %none to %elements step %one : i32 {
    %offset = arith.muli %i, %count : i32
    %first = arith.addi %begin, %offset : i32
    %block = tile.block %first batch %batch head %head -> !tile.block<key, block_m>
    tile.store %zeros, %x[%block] : !tile.tile<[block_m], f32>, !tile.view<[B, H, ?], f32>[!tile.block<key, block_m>]
  }
}

// The values of exact sums: a work item owns block_m sums.
tile.kernel @round_sums<block_m>(
    %$sums: !tile.view<[?, ?, ?], i32>, out %gradient: !tile.view<[B, H, Sq], f32, contiguous>) {
  %elements = tile.work : !tile.block<query, block_m>
  %batch, %head, %kv_head, %first = tile.coordinates %elements : !tile.block<query, block_m>
  %values = tile.map : () -> !tile.tile<[block_m], f32> {
  ^body(%row: i32, %column: i32):
    %element = arith.addi %first, %row : i32
    %value = tile.exact_sum %$sums[%element] : !tile.view<[?, ?, ?], i32>
    tile.yield %value : f32
  }
  tile.store %values, %gradient[%elements] : !tile.tile<[block_m], f32>, !tile.view<[B, H, Sq], f32, contiguous>[!tile.block<query, block_m>]
}
