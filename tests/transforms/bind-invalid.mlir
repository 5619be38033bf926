// RUN: tesela-opt %s --split-input-file --verify-diagnostics --tile-bind=bindings=d=64,e=32,input=bf16

// expected-error @+1 {{the template's parameter "n" has no value: bind it with bindings=n=…}}
tile.kernel @unbound<d, n>() {
}

// -----

tile.kernel @no_parameter<d>() {
  // expected-error @+1 {{'!tile.tile<[64, m], f32>' names something that is no parameter of the template}}
  %x = tile.constant 0.0 : !tile.tile<[d, m], f32>
}

// -----

// An element type in place of an extent.
tile.kernel @kind<d, input>() {
  // expected-error @+1 {{'!tile.tile<[64, input], f32>' names something that is no parameter of the template}}
  %x = tile.constant 0.0 : !tile.tile<[d, input], f32>
}

// -----

// Extents that may be equal before bind, and differ after it.
tile.kernel @clash<d, e, input>(%q: !tile.view<[?, ?, ?, d], input>) {
  %rows = tile.work : !tile.block<query, d>
  // expected-error @+1 {{the tile for this block of the view: expected at least the view's 64 columns, got 32}}
  %x = tile.load %q[%rows] : !tile.view<[?, ?, ?, d], input>[!tile.block<query, d>] -> !tile.tile<[d, e], input>
}

// -----

tile.kernel @dealt<d>() {
  // expected-error @+1 {{its workers name something that is no parameter of the template}}
  %keys = tile.work dealt to workers : !tile.block<key, 64>
}

// -----

tile.kernel @parts<d>() {
  // expected-error @+1 {{its workers name something that is no parameter of the template}}
  %parts = tile.head_parts of workers !tile.block<key, 64>
}

// -----

tile.kernel @number<d>() {
  // expected-error @+1 {{its extent names something that is no parameter of the template}}
  %n = tile.number m * 2
}

// -----

// Types that are invalid with known extents.
// expected-error @+1 {{expected a tile with positive extents, got the extent 0}}
tile.kernel @empty<d>() {
  %x = tile.constant 0.0 : !tile.tile<[d + -64], f32>
}

// -----

// expected-error @+1 {{expected the number of heads that share 64 rows to be a power of two that divides the number of rows, got 96}}
tile.kernel @heads<d, e>() {
  %rows = tile.work : !tile.block<query, d, e * 3>
}
