// RUN: tesela-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(tile.kernel(tile-place-views{queries=ragged}))'

// expected-error @+1 {{expected work items of queries, got others: ragged queries and keys, pages and positions are for templates whose kernels have a block of queries each; leave out queries, keys and positions}}
tile.kernel @of_keys(in %k: !tile.view<[B, Hkv, Sk, 64], f16>) {
  %keys = tile.work : !tile.block<key, 64>
}

// -----

tile.kernel @made(in %q: !tile.view<[B, H, Sq, 64], f16>, %n: i32) {
  %item = tile.work : !tile.block<query, 64>
  // expected-error @+1 {{expected no block that is made of the work item's, got one: say its batch and head instead}}
  %rows = tile.block %n of %item : !tile.block<query, 64> -> !tile.block<query, 64>
}

// -----

tile.kernel @two(%n: i32) {
  %item = tile.work : !tile.block<query, 64>
  %z = tile.sink at %item : !tile.block<query, 64> -> !tile.tile<[64], f32>
  %other = tile.block %n batch %n head %n -> !tile.block<query, 64>
  // expected-error @+1 {{expected the rows of the other loops and hooks, got others: where queries or keys are placed, a kernel has one block of queries}}
  %y = tile.sink at %other : !tile.block<query, 64> -> !tile.tile<[64], f32>
}
