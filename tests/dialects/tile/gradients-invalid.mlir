// RUN: tesela-opt %s -split-input-file -verify-diagnostics

tile.kernel @sums(%$sums: !tile.view<[?, ?], i32>, %x: f32) {
  %zero = arith.constant 0 : i32
  // expected-error@+1 {{expected a view of i32 with 3 axes, two more than there are indices, got}}
  %c = tile.collect %x into %$sums[%zero] : !tile.view<[?, ?], i32>
}

// -----

tile.kernel @deposit(%$g: !tile.view<[?], bf16>, %x: f32) {
  %zero = arith.constant 0 : i32
  // expected-error@+1 {{expected a view of f32 with 1 axes, one for each index, got}}
  %c = tile.deposit %x into %$g[%zero] : !tile.view<[?], bf16>
}

// -----

tile.kernel @put(%$g: !tile.view<[?, ?], i32>, %x: f32) {
  %zero = arith.constant 0 : i32
  // expected-error@+1 {{expected a view of f32, f16 or bf16 with 2 axes, one for each index, got}}
  %c = tile.put %x into %$g[%zero, %zero] : !tile.view<[?, ?], i32>
}

// -----

tile.kernel @lines(%x: f32) {
  %t = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  // expected-error@+1 {{expected lines "elements", "columns" or "diagonals", got "rows"}}
  tile.add_lines "rows" of %t : !tile.tile<[64, 32], f32> {
  ^bb0(%value: f32, %row: i32, %column: i32):
    %y = arith.addf %value, %value : f32
  }
}

// -----

tile.kernel @rows(%scale: f32) {
  %keys = tile.work : !tile.block<key, 64>
  %zero = arith.constant 0 : i32
  %queries = tile.block %zero of %keys : !tile.block<key, 64> -> !tile.block<query, 32>
  %x = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  // expected-error@+1 {{expected rows of queries and columns of keys, got}}
  tile.score_partials %x of %x scaled by %scale at %keys, %queries : !tile.tile<[64, 32], f32>, !tile.block<key, 64>, !tile.block<query, 32>
}
