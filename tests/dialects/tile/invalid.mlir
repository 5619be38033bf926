// One case for each constraint of the tile dialect's ops. Those of types, arguments and schedules:
// declarations-invalid.mlir. Those of dealt query heads: work-invalid.mlir.
// RUN: tesela-opt %s --split-input-file --verify-diagnostics

// tile.sequence takes a block of queries. Blocks of keys that are made from it end with the sequence's keys.
tile.kernel @k(%keys: !tile.block<key, 64>, %n: i32) {
  // expected-error @+1 {{expected a block of queries, got '!tile.block<key, 64>'}}
  %rows = tile.sequence %keys from %n of %n, %n : !tile.block<key, 64>
}

// -----

#type = f32
// expected-error @+1 {{expected an alias of a #tile.extent, got f32}}
tile.kernel @k(in %x: !tile.view<[B, H, #type, 64], f32>) {}

// -----

tile.kernel @k(in %x: !tile.view<[B, H, ?, 64], f32>, %n: i32) {
  // expected-error @+1 {{expected a view [1, heads, tokens(, D)], got '!tile.view<[B, H, ?, 64], f32>'}}
  %y = tile.ragged %x from %n : !tile.view<[B, H, ?, 64], f32> -> !tile.view<[B, H, Sq, 64], f32>
}

// -----

tile.kernel @k(in %x: !tile.view<[1, H, ?, 64], f32>, %n: i32) {
  // expected-error @+1 {{expected a result of the same rank, elements and columns as the view, neither of them contiguous}}
  %y = tile.ragged %x from %n : !tile.view<[1, H, ?, 64], f32> -> !tile.view<[B, H, Sq, 32], f32>
}

// -----

tile.kernel @k(in %x: !tile.view<[?, H, ?, 64], f32>, in %t: !tile.view<[B, ?], i32>, %b: i32) {
  // expected-error @+1 {{expected pages with a constant number of rows, at least one, got '!tile.view<[?, H, ?, 64], f32>'; bind the parameter `page`}}
  %y = tile.paged %x by %t[%b] : !tile.view<[?, H, ?, 64], f32>, !tile.view<[B, ?], i32> -> !tile.view<[B, H, Sk, 64], f32>
}

// -----

tile.kernel @k(in %x: !tile.view<[?, H, 16, 64], f32>, in %t: !tile.view<[B], i32>, %b: i32) {
  // expected-error @+1 {{expected a table [batch, pages] of i32, got '!tile.view<[B], i32>'}}
  %y = tile.paged %x by %t[%b] : !tile.view<[?, H, 16, 64], f32>, !tile.view<[B], i32> -> !tile.view<[B, H, Sk, 64], f32>
}

// -----

tile.kernel @k(in %x: !tile.view<[?, H, 16], f32>, in %t: !tile.view<[B, ?], i32>, %b: i32) {
  // expected-error @+1 {{expected a view [pages, heads, page, D], got '!tile.view<[?, H, 16], f32>'}}
  %y = tile.paged %x by %t[%b] : !tile.view<[?, H, 16], f32>, !tile.view<[B, ?], i32> -> !tile.view<[B, H, Sk], f32>
}

// -----

tile.kernel @k() {
  // expected-error @+1 {{expected one of the extents B, H, Hkv, Sq and Sk of a launch, got "S"}}
  %s = tile.extent "S"
}

// -----

tile.kernel @k(%v: !tile.view<[?, ?], f32>) {
  %b = tile.work : !tile.block<query, 8>
  // expected-error @+1 {{expected a view [batch, head, position(, D)], got '!tile.view<[?, ?], f32>'}}
  %x = tile.load %v[%b] : !tile.view<[?, ?], f32>[!tile.block<query, 8>] -> !tile.tile<[8], f32>
}

// -----

tile.kernel @k(%v: !tile.view<[?, ?, ?, 64], f32>) {
  %b = tile.work : !tile.block<query, 8>
  // expected-error @+1 {{the tile for this block of the view: expected at least the view's 64 columns, got 32}}
  %x = tile.load %v[%b] : !tile.view<[?, ?, ?, 64], f32>[!tile.block<query, 8>] -> !tile.tile<[8, 32], f32>
}

// -----

tile.kernel @k(%v: !tile.view<[?, ?, ?, 64], f32>, %i: i32) {
  %b = tile.work : !tile.block<query, 8>
  %columns = tile.block %i of %b : !tile.block<query, 8> -> !tile.block<key, 16>
  // expected-error @+1 {{the tile for this block of the view: expected extents 8 x 16, got 8 x 64}}
  %x = tile.load %v[%b, %columns] : !tile.view<[?, ?, ?, 64], f32>[!tile.block<query, 8>, !tile.block<key, 16>] -> !tile.tile<[8, 64], f32>
}

// -----

tile.kernel @k(%v: !tile.view<[?, ?, ?], f32, contiguous>, %i: i32) {
  %b = tile.work : !tile.block<query, 8>
  %columns = tile.block %i of %b : !tile.block<query, 8> -> !tile.block<key, 16>
  // expected-error @+1 {{expected a view [batch, head, position, D], because only some columns are accessed, got '!tile.view<[?, ?, ?], f32, contiguous>'}}
  %x = tile.load %v[%b, %columns] : !tile.view<[?, ?, ?], f32, contiguous>[!tile.block<query, 8>, !tile.block<key, 16>] -> !tile.tile<[8, 16], f32>
}

// -----

tile.kernel @k(%v: !tile.view<[?, ?, ?], f32, contiguous>) {
  %b = tile.work : !tile.block<query, 8>
  %x = tile.constant 0.0 : !tile.tile<[8], f16>
  // expected-error @+1 {{expected elements 'f32', got 'f16'; convert them with tile.convert}}
  tile.store %x, %v[%b] : !tile.tile<[8], f16>, !tile.view<[?, ?, ?], f32, contiguous>[!tile.block<query, 8>]
}

// -----

tile.kernel @k(%v: !tile.view<[?, ?], f32>, %i: i32) {
  // expected-error @+1 {{expected 2 indices, got 1}}
  %x = tile.read %v[%i] : !tile.view<[?, ?], f32> -> f32
}

// -----

tile.kernel @k(%v: !tile.view<[?, ?], f32>, %i: i32) {
  // expected-error @+1 {{expected 2 indices, low and high ends, got 2, 2 and 1}}
  %x = tile.covers %v[%i, %i] low [0, 0] high [7] : !tile.view<[?, ?], f32>
}

// -----

tile.kernel @k(%v: !tile.view<[?], i8>, %i: i32) {
  // expected-error @+1 {{expected an element of type 'i32', as read from '!tile.view<[?], i8>', got 'f32'}}
  %x = tile.read %v[%i] : !tile.view<[?], i8> -> f32
}

// -----

tile.kernel @k() {
  %a = tile.constant 0.0 : !tile.tile<[8], bf16>
  %c = tile.constant 0.0 : !tile.tile<[8, 8], f32>
  // expected-error @+1 {{expected operands of two extents, got '!tile.tile<[8], bf16>' and '!tile.tile<[8], bf16>'}}
  %x = tile.dot %a, %a plus %c : (!tile.tile<[8], bf16>, !tile.tile<[8], bf16>, !tile.tile<[8, 8], f32>) -> !tile.tile<[8, 8], f32>
}

// -----

tile.kernel @k() {
  %a = tile.constant 0.0 : !tile.tile<[8, 16], bf16>
  %b = tile.constant 0.0 : !tile.tile<[16, 8], bf16>
  %c = tile.constant 0.0 : !tile.tile<[8, 16], f32>
  // expected-error @+1 {{left operand: expected extents 8 x 8, got 8 x 16}}
  %x = tile.dot %a, %b transposed plus %c : (!tile.tile<[8, 16], bf16>, !tile.tile<[16, 8], bf16>, !tile.tile<[8, 16], f32>) -> !tile.tile<[8, 16], f32>
}

// -----

tile.kernel @k() {
  %a = tile.constant 0.0 : !tile.tile<[8, 16], bf16>
  %b = tile.constant 0.0 : !tile.tile<[16, 8], f16>
  %c = tile.constant 0.0 : !tile.tile<[8, 8], f32>
  // expected-error @+1 {{expected operands of one element type, got 'bf16' and 'f16'}}
  %x = tile.dot %a, %b plus %c : (!tile.tile<[8, 16], bf16>, !tile.tile<[16, 8], f16>, !tile.tile<[8, 8], f32>) -> !tile.tile<[8, 8], f32>
}

// -----

tile.kernel @k() {
  %a = tile.constant 0.0 : !tile.tile<[8, 8], bf16>
  // expected-error @+1 {{expected the addend and the result to agree, got '!tile.tile<[8, 8], bf16>' and '!tile.tile<[8, 8], f32>'}}
  %x = tile.dot %a, %a plus %a : (!tile.tile<[8, 8], bf16>, !tile.tile<[8, 8], bf16>, !tile.tile<[8, 8], bf16>) -> !tile.tile<[8, 8], f32>
}

// -----

tile.kernel @k() {
  %a = tile.constant 0.0 : !tile.tile<[8, 8], bf16>
  %c = tile.constant 0.0 : !tile.tile<[8, 16], f32>
  // expected-error @+1 {{result: expected extents 8 x 8, got 8 x 16}}
  %x = tile.dot %a, %a plus %c : (!tile.tile<[8, 8], bf16>, !tile.tile<[8, 8], bf16>, !tile.tile<[8, 16], f32>) -> !tile.tile<[8, 16], f32>
}

// -----

tile.kernel @k() {
  %a = tile.constant 0.0 : !tile.tile<[8, 8], bf16>
  // expected-error @+1 {{result: expected elements f32, got 'bf16'; convert them with tile.convert}}
  %x = tile.dot %a, %a plus %a : (!tile.tile<[8, 8], bf16>, !tile.tile<[8, 8], bf16>, !tile.tile<[8, 8], bf16>) -> !tile.tile<[8, 8], bf16>
}

// -----

tile.kernel @k() {
  %a = tile.constant 0.0 : !tile.tile<[8, 8], f32>
  // expected-error @+1 {{result: expected extents 8 x 8, got 8 x 4}}
  %x = tile.convert %a : !tile.tile<[8, 8], f32> -> !tile.tile<[8, 4], bf16>
}

// -----

tile.kernel @k() {
  %a = tile.constant 0.0 : !tile.tile<[8], f32>
  // expected-error @+1 {{expected 3 arguments of the body (an element of each operand, row, column), got 1}}
  %x = tile.map %a : (!tile.tile<[8], f32>) -> !tile.tile<[8], f32> {
  ^body(%e: f32):
    tile.yield %e : f32
  }
}

// -----

tile.kernel @k() {
  %a = tile.constant 0.0 : !tile.tile<[8, 8], f32>
  // expected-error @+1 {{operand 0 has more extents than the result}}
  %x = tile.map %a : (!tile.tile<[8, 8], f32>) -> !tile.tile<[8], f32> {
  ^body(%e: f32, %row: i32, %column: i32):
    tile.yield %e : f32
  }
}

// -----

tile.kernel @k() {
  %a = tile.constant 0.0 : !tile.tile<[4], f32>
  // expected-error @+1 {{operand: expected extents 8, got 4}}
  %x = tile.map %a : (!tile.tile<[4], f32>) -> !tile.tile<[8, 8], f32> {
  ^body(%e: f32, %row: i32, %column: i32):
    tile.yield %e : f32
  }
}

// -----

tile.kernel @k() {
  %a = tile.constant 0.0 : !tile.tile<[8], f16>
  // expected-error @+1 {{expected argument 0 of the body to be 'f16', got 'f32'}}
  %x = tile.map %a : (!tile.tile<[8], f16>) -> !tile.tile<[8], f32> {
  ^body(%e: f32, %row: i32, %column: i32):
    tile.yield %e : f32
  }
}

// -----

tile.kernel @k() {
  // expected-error @+1 {{expected the body to yield one 'f32'}}
  %x = tile.map : () -> !tile.tile<[8], f32> {
  ^body(%row: i32, %column: i32):
    tile.yield %row : i32
  }
}

// -----

tile.kernel @k() {
  %a = tile.constant 0.0 : !tile.tile<[8], f32>
  // expected-error @+1 {{expected a source of two extents, got '!tile.tile<[8], f32>'}}
  %x = tile.reduce max %a from %a : !tile.tile<[8], f32> -> !tile.tile<[8], f32>
}

// -----

tile.kernel @k() {
  %a = tile.constant 0.0 : !tile.tile<[8, 8], f32>
  %b = tile.constant 0.0 : !tile.tile<[4], f32>
  // expected-error @+1 {{result: expected extents 8, got 4}}
  %x = tile.reduce add %a from %b : !tile.tile<[8, 8], f32> -> !tile.tile<[4], f32>
}

// -----

tile.kernel @k() {
  %a = tile.constant 0.0 : !tile.tile<[8, 8], f16>
  %b = tile.constant 0.0 : !tile.tile<[8], f32>
  // expected-error @+1 {{source: expected elements f32, got 'f16'; convert them with tile.convert}}
  %x = tile.reduce add %a from %b : !tile.tile<[8, 8], f16> -> !tile.tile<[8], f32>
}

// -----

tile.kernel @k(%scale: f32) {
  %rows = tile.work : !tile.block<query, 8>
  %s = tile.constant 0.0 : !tile.tile<[8, 8], f32>
  // expected-error @+1 {{expected a block of queries and a block of keys, got '!tile.block<query, 8>' and '!tile.block<query, 8>'}}
  %x = tile.score %s scaled by %scale at %rows, %rows : !tile.tile<[8, 8], f32>, !tile.block<query, 8>, !tile.block<query, 8>
}

// -----

tile.kernel @k(%scale: f32, %i: i32) {
  %rows = tile.work : !tile.block<query, 8>
  %keys = tile.block %i of %rows : !tile.block<query, 8> -> !tile.block<key, 4>
  %s = tile.constant 0.0 : !tile.tile<[8, 8], f32>
  // expected-error @+1 {{scores: expected extents 8 x 4, got 8 x 8}}
  %x = tile.score %s scaled by %scale at %rows, %keys : !tile.tile<[8, 8], f32>, !tile.block<query, 8>, !tile.block<key, 4>
}

// -----

tile.kernel @k(%scale: f32, %i: i32) {
  %rows = tile.work : !tile.block<query, 8>
  %keys = tile.block %i of %rows : !tile.block<query, 8> -> !tile.block<key, 8>
  %s = tile.constant 0.0 : !tile.tile<[8, 8], f16>
  // expected-error @+1 {{scores: expected elements f32, got 'f16'; convert them with tile.convert}}
  %x = tile.score %s scaled by %scale at %rows, %keys : !tile.tile<[8, 8], f16>, !tile.block<query, 8>, !tile.block<key, 8>
}

// -----

tile.kernel @k(%partial: i1, %i: i32) {
  %rows = tile.work : !tile.block<query, 8>
  %keys = tile.block %i of %rows : !tile.block<query, 8> -> !tile.block<key, 8>
  %s = tile.constant 0.0 : !tile.tile<[8, 8], f32>
  // expected-error @+1 {{expected the body to take ('i32', 'i32', 'i32', 'i32', 'i32'), got ('i32')}}
  %x = tile.mask %s if %partial at %rows, %keys : !tile.tile<[8, 8], f32>, !tile.block<query, 8>, !tile.block<key, 8> do {
  ^body(%q: i32):
    tile.yield %partial : i1
  }
}

// -----

tile.kernel @k(%partial: i1, %i: i32) {
  %rows = tile.work : !tile.block<query, 8>
  %keys = tile.block %i of %rows : !tile.block<query, 8> -> !tile.block<key, 8>
  %s = tile.constant 0.0 : !tile.tile<[8, 8], f32>
  // expected-error @+1 {{expected the body to yield one 'i1'}}
  %x = tile.mask %s if %partial at %rows, %keys : !tile.tile<[8, 8], f32>, !tile.block<query, 8>, !tile.block<key, 8> do {
  ^body(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
    tile.yield %q : i32
  }
}

// -----

tile.kernel @k(%factor: f32) {
  %s = tile.constant 0.0 : !tile.tile<[8, 8], f16>
  %m = tile.constant 0.0 : !tile.tile<[8], f32>
  // expected-error @+1 {{scores: expected elements f32, got 'f16'; convert them with tile.convert}}
  %p:4 = tile.softmax_step %s, %m, %m factor %factor : !tile.tile<[8, 8], f16>, !tile.tile<[8], f32>
}

// -----

tile.kernel @k(%factor: f32) {
  %s = tile.constant 0.0 : !tile.tile<[8, 8], f32>
  %m = tile.constant 0.0 : !tile.tile<[4], f32>
  // expected-error @+1 {{row maxima: expected extents 8, got 4}}
  %p:4 = tile.softmax_step %s, %m, %m factor %factor : !tile.tile<[8, 8], f32>, !tile.tile<[4], f32>
}

// -----

tile.kernel @k() {
  %o = tile.constant 0.0 : !tile.tile<[8, 8], f32>
  %a = tile.constant 0.0 : !tile.tile<[4], f32>
  // expected-error @+1 {{factors: expected extents 8, got 4}}
  %x = tile.rescale %o by %a : !tile.tile<[8, 8], f32>, !tile.tile<[4], f32>
}

// -----

tile.kernel @k(%factor: f32) {
  %o = tile.constant 0.0 : !tile.tile<[8, 8], f32>
  %m = tile.constant 0.0 : !tile.tile<[8], f16>
  // expected-error @+1 {{row maxima: expected elements f32, got 'f16'; convert them with tile.convert}}
  %x:2 = tile.finish %o, %m, %m factor %factor : !tile.tile<[8, 8], f32>, !tile.tile<[8], f16>
}

// -----

tile.kernel @k() {
  %rows = tile.work : !tile.block<query, 8>
  // expected-error @+1 {{expected a loop over blocks of keys of a block of queries, or over blocks of queries of a block of keys}}
  tile.blocks %keys, %partial of %rows : !tile.block<query, 8> -> !tile.block<query, 8> {
  }
}

// -----

tile.kernel @k(%found: !tile.found_blocks<32, query>) {
  %rows = tile.work : !tile.block<query, 64>
  // expected-error @+1 {{expected found blocks of the type '!tile.found_blocks<32>', because the loop goes over '!tile.block<key, 32>', got '!tile.found_blocks<32, query>'}}
  "tile.blocks"(%rows, %found) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 1, 0>}> ({
  ^body(%keys: !tile.block<key, 32>, %partial: i1):
    "tile.yield"() : () -> ()
  }) : (!tile.block<query, 64>, !tile.found_blocks<32, query>) -> ()
}

// -----

tile.kernel @k(%low: i32) {
  %rows = tile.work : !tile.block<query, 8>
  // expected-error @+1 {{expected intervals (low, high, ...), got 1 values; give each low end its high end}}
  "tile.blocks"(%rows, %low) <{operandSegmentSizes = array<i32: 1, 0, 1, 0, 0, 0>}> ({
  ^body(%keys: !tile.block<key, 8>, %partial: i1):
    "tile.yield"() : () -> ()
  }) : (!tile.block<query, 8>, i32) -> ()
}

// -----

tile.kernel @k(%x: f32) {
  %rows = tile.work : !tile.block<query, 8>
  // expected-error @+1 {{expected carried values, what the body yields and results to have the same types ('f32'), the body yields ('i1')}}
  %r = tile.blocks %keys, %partial of %rows : !tile.block<query, 8> -> !tile.block<key, 8> carry (%c = %x : f32) {
    tile.yield %partial : i1
  }
}

// -----

tile.kernel @k(%found: !tile.found_blocks<32>, %low: i32, %high: i32) {
  %rows = tile.work : !tile.block<query, 64>
  // expected-error @+1 {{expected either runs and drops or found blocks, got both; the found blocks know which are partial}}
  tile.blocks %keys, %partial of %rows : !tile.block<query, 64> -> !tile.block<key, 32> runs (%low, %high) among %found {
  }
}

// -----

tile.kernel @k(%low: i32, %high: i32) {
  // expected-error @+1 {{expected tests of the first and the last key of a box (i32, i32) that yield whether pairs may be kept and may be dropped (i1, i1)}}
  %found, %count = tile.find_blocks from %low to %high : !tile.found_blocks<32> one {
  ^bb0(%first: i32, %last: i32):
    %keeps = arith.constant true
    tile.yield %keeps : i1
  } many {
  ^bb0(%first: i32, %last: i32):
    %keeps = arith.constant true
    tile.yield %keeps, %keeps : i1, i1
  }
}

// -----

tile.kernel @k(%a: !tile.tile<[8, 8], i32>, %b: !tile.tile<[8], i32>) {
  // expected-error @+1 {{source: expected elements f32, got 'i32'}}
  %x = tile.reduce add %a from %b : !tile.tile<[8, 8], i32> -> !tile.tile<[8], i32>
}

// -----

tile.kernel @k(%a: !tile.tile<[8, 8], f32>, %b: !tile.tile<[8], i32>) {
  // expected-error @+1 {{result: expected elements f32, got 'i32'}}
  %x = tile.reduce min %a from %b : !tile.tile<[8, 8], f32> -> !tile.tile<[8], i32>
}

// -----

tile.kernel @k(%v: !tile.view<[?, ?], f32>) {
  // expected-error @+1 {{expected an axis below 2, got 2}}
  %x = tile.view_extent %v axis 2 : !tile.view<[?, ?], f32>
}

// -----

tile.kernel @k(%v: !tile.view<[?, ?], f32>, %i: i32) {
  // expected-error @+1 {{expected 2 low ends and as many numbers in `within`, got 2 and 1}}
  %a, %z = tile.bounds %v[%i, %i] to [%i, %i] within [1] : !tile.view<[?, ?], f32> -> f32
}

// -----

tile.kernel @k(%v: !tile.view<[?], f32>, %i: i32) {
  // expected-error @+1 {{expected bounds of type 'f32', got 'i32'}}
  %a, %z = tile.bounds %v[%i] to [%i] within [1] : !tile.view<[?], f32> -> i32
}

// -----

tile.kernel @k(in %v: !tile.view<[?, ?], i32>, %i: i32) {
  // expected-error @+1 {{expected 2 low and high ends, got 1 and 1}}
  %h = tile.has_element %v[%i] to [%i] between %i, %i : !tile.view<[?, ?], i32>
}

// -----

tile.kernel @k(in %v: !tile.view<[?], f32>, %i: i32) {
  // expected-error @+1 {{expected a view of i32, got '!tile.view<[?], f32>'}}
  %h = tile.has_element %v[%i] to [%i] between %i, %i : !tile.view<[?], f32>
}

// -----

tile.kernel @truths() {
  // expected-error @+1 {{expected elements that are numbers, got '!tile.tile<[8, 8], i1>'; a tile of i1 is made by tile.map or tile.bernoulli, and read by tile.map}}
  %x = tile.constant 1.0 : !tile.tile<[8, 8], i1>
}

// -----

tile.kernel @converted(%a: !tile.tile<[8, 8], i1>) {
  // expected-error @+1 {{expected elements that are numbers, got '!tile.tile<[8, 8], i1>'}}
  %x = tile.convert %a : !tile.tile<[8, 8], i1> -> !tile.tile<[8, 8], f16>
}

// -----

tile.kernel @packed_columns(%x: !tile.tile<[32, 64], f32>, %i: i32, %partial: i1) {
  %keys = tile.work : !tile.block<key, 32>
  %queries = tile.block %i batch %i head %i -> !tile.block<query, 64, 4>
  // expected-error @+1 {{expected columns of one head, got '!tile.block<query, 64, 4>'; several heads can share rows}}
  %t = tile.mask %x if %partial at %keys, %queries : !tile.tile<[32, 64], f32>, !tile.block<key, 32>, !tile.block<query, 64, 4>
}

// -----

tile.kernel @left_transposed(%a: !tile.tile<[16, 32], f32>, %b: !tile.tile<[24, 8], f32>, %c: !tile.tile<[32, 8], f32>) {
  // expected-error @+1 {{left operand: expected extents 24 x 32, got 16 x 32}}
  %d = tile.dot %a transposed, %b plus %c : (!tile.tile<[16, 32], f32>, !tile.tile<[24, 8], f32>, !tile.tile<[32, 8], f32>) -> !tile.tile<[32, 8], f32>
}

// -----

tile.kernel @values_of_columns(%a: !tile.tile<[16, 32], f32>, %b: !tile.tile<[1, 16], f32>) {
  // expected-error @+1 {{operand: expected extents 1 x 32, got 1 x 16}}
  %d = tile.map %a, %b : (!tile.tile<[16, 32], f32>, !tile.tile<[1, 16], f32>) -> !tile.tile<[16, 32], f32> {
  ^body(%x: f32, %y: f32, %row: i32, %column: i32):
    tile.yield %x : f32
  }
}

// -----

tile.kernel @half_a_part(%part: i32) {
  %rows = tile.work : !tile.block<query, 8>
  // expected-error @+1 {{expected a part and the number of parts, got 1 values; write part (%p, %n)}}
  tile.blocks %keys, %partial of %rows : !tile.block<query, 8> -> !tile.block<key, 16> part (%part) {
    tile.yield
  }
}

// -----

tile.kernel @columns_of_a_row(%v: !tile.view<[?, ?, ?, 72], f32>) {
  %b = tile.work : !tile.block<query, 1>
  %x = tile.constant 0.0 : !tile.tile<[64], f32>
  // expected-error @+1 {{the tile for this block of one row: expected at least the view's 72 columns, got 64}}
  tile.store %x, %v[%b] : !tile.tile<[64], f32>, !tile.view<[?, ?, ?, 72], f32>[!tile.block<query, 1>]
}

// -----

tile.kernel @random_numbers(%i: i32) {
  // expected-error @+1 {{expected a tile of i1 of two extents, got '!tile.tile<[16, 16], f32>'}}
  %t = tile.bernoulli %i, %i from %i, %i, %i, %i at %i, %i : !tile.tile<[16, 16], f32>
}

// -----

tile.kernel @random_extents(%i: i32) {
  // expected-error @+1 {{expected extents that are multiples of 8, got '!tile.tile<[16, 12], i1>'}}
  %t = tile.bernoulli %i, %i from %i, %i, %i, %i at %i, %i : !tile.tile<[16, 12], i1>
}

// -----

tile.kernel @dropout_of_one_axis(%i: i32) {
  %rows = tile.work : !tile.block<query, 16>
  %e = tile.constant 1.0 : !tile.tile<[16, 16], f32>
  // expected-error @+1 {{expected a block of queries and a block of keys}}
  %d = tile.dropout %e at %rows, %rows : !tile.tile<[16, 16], f32>, !tile.block<query, 16>, !tile.block<query, 16>
}

// -----

tile.kernel @k(%none: i1) {
  scf.if %none {
    // expected-error @+1 {{expected to be directly in the body of a tile.kernel, got the parent 'scf.if': place it before loops and branches, or put the operations to be skipped into a branch}}
    tile.leave if %none
  }
}

// -----

tile.kernel @turns_of_numbers(workspace %turns: !tile.view<[B, H, Sk], i32>) {
  %keys = tile.work : !tile.block<key, 128>
  // expected-error @+1 {{expected turns [batch, head, position] of f32, got '!tile.view<[B, H, Sk], i32>'}}
  tile.order_additions by %turns[%keys] : !tile.view<[B, H, Sk], i32>[!tile.block<key, 128>]
}

// -----

tile.kernel @turns_of_queries(workspace %turns: !tile.view<[B, H, Sk], f32>) {
  %rows = tile.work : !tile.block<query, 128>
  // expected-error @+1 {{expected a block of keys, got '!tile.block<query, 128>'}}
  tile.order_additions by %turns[%rows] : !tile.view<[B, H, Sk], f32>[!tile.block<query, 128>]
}
