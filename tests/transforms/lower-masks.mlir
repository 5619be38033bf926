// RUN: tesela-opt %s --tile-lower-masks | FileCheck %s
// RUN: tesela-opt %s --tile-lower-masks --tile-decompose | FileCheck %s --check-prefix=CORE

// A mask is a branch for the whole block. k < Sk is a part of the mask.
// CHECK-LABEL: tile.kernel @true
tile.kernel @true(%partial: i1, %i: i32) {
  %rows = tile.work : !tile.block<query, 8>
  // CHECK: %[[KEYS:.*]] = tile.block
  %keys = tile.block %i of %rows : !tile.block<query, 8> -> !tile.block<key, 16>
  // CHECK: %[[X:.*]] = tile.constant
  %x = tile.constant 0.0 : !tile.tile<[8, 16], f32>
  // CHECK: scf.if %partial
  // CHECK: %{{.*}}, %{{.*}}, %{{.*}}, %[[FIRST:.*]] = tile.coordinates %[[KEYS]]
  // CHECK: %[[SK:.*]] = tile.extent "Sk"
  // CHECK: %[[END:.*]] = arith.subi %[[SK]], %[[FIRST]] : i32
  // CHECK: tile.map %[[X]]
  // CHECK-NEXT: ^bb0(%[[E:.*]]: f32, %{{.*}}: i32, %[[COLUMN:.*]]: i32):
  // CHECK-NEXT: %[[INSIDE:.*]] = arith.cmpi slt, %[[COLUMN]], %[[END]]
  // CHECK: arith.select %[[INSIDE]], %[[E]]
  // CHECK: scf.yield
  // CHECK: } else {
  // CHECK-NEXT: scf.yield %[[X]]
  %t = tile.mask %x if %partial at %rows, %keys : !tile.tile<[8, 16], f32>, !tile.block<query, 8>, !tile.block<key, 16>
}

// q >= k && q - k < window gives two bounds of the column. A bound that may leave i32 is clamped.
// CHECK-LABEL: tile.kernel @window
tile.kernel @window(%window: i32, %i: i32, %partial: i1) {
  %rows = tile.work : !tile.block<query, 8>
  // CHECK: %[[KEYS:.*]] = tile.block
  %keys = tile.block %i of %rows : !tile.block<query, 8> -> !tile.block<key, 16>
  %x = tile.constant 0.0 : !tile.tile<[8, 16], f32>
  // CHECK: %{{.*}}, %{{.*}}, %{{.*}}, %[[QUERY:.*]] = tile.coordinates
  // CHECK: %{{.*}}, %{{.*}}, %{{.*}}, %[[FIRST:.*]] = tile.coordinates %[[KEYS]]
  // CHECK: tile.map
  // CHECK-NEXT: ^bb0(%{{.*}}: f32, %[[ROW:.*]]: i32, %[[COLUMN:.*]]: i32):
  // CHECK: %[[Q:.*]] = arith.addi %[[QUERY]], %[[ROW]] : i32
  // q - k >= 0 is j < q - first + 1.
  // CHECK: %[[NEXT:.*]] = arith.addi %[[Q]], %c1_i32
  // CHECK: %[[HIGH:.*]] = arith.subi %[[NEXT]], %[[FIRST]] : i32
  // CHECK: arith.cmpi slt, %[[COLUMN]], %[[HIGH]] : i32
  // CHECK: arith.extsi %{{.*}} : i32 to i64
  // CHECK: arith.maxsi
  // CHECK: arith.minsi
  // CHECK: %[[LOW:.*]] = arith.trunci
  // CHECK: arith.cmpi sge, %[[COLUMN]], %[[LOW]] : i32
  %t = tile.mask %x if %partial at %rows, %keys : !tile.tile<[8, 16], f32>, !tile.block<query, 8>, !tile.block<key, 16> do {
  ^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
    %causal = arith.cmpi sge, %q, %k : i32
    %d = arith.subi %q, %k : i32
    %near = arith.cmpi slt, %d, %window : i32
    %m = arith.andi %causal, %near : i1
    tile.yield %m : i1
  }
}

// A sum with a launch's number is a bound if the number is small, which is tested before the loop. Otherwise it is computed
// for each element.
// CHECK-LABEL: tile.kernel @sums
tile.kernel @sums(%first_q: i32, %first_k: i32, %i: i32, %partial: i1) {
  %rows = tile.work : !tile.block<query, 8>
  %keys = tile.block %i of %rows : !tile.block<query, 8> -> !tile.block<key, 16>
  %x = tile.constant 0.0 : !tile.tile<[8, 16], f32>
  // CHECK-DAG: arith.cmpi sge, %first_q, %c-536870912_i32
  // CHECK-DAG: arith.cmpi sge, %c536870911_i32{{.*}}, %first_k
  // CHECK-DAG: %[[SK:.*]] = tile.extent "Sk"
  // CHECK-DAG: arith.cmpi sge, %c536870912_i32{{.*}}, %[[SK]]
  // CHECK: scf.if %partial
  // CHECK: scf.if %{{.*}} -> (!tile.tile<[8, 16], f32>) {
  // CHECK: tile.map %{{.*}} :
  // CHECK-NEXT: ^bb0(%{{.*}}: f32, %{{.*}}: i32, %[[COLUMN:.*]]: i32):
  // CHECK: %[[BOUND:.*]] = arith.subi %{{.*}}, %first_k : i32
  // CHECK: arith.cmpi slt, %[[COLUMN]], %[[BOUND]] : i32
  // CHECK: } else {
  // CHECK: tile.map %{{.*}} {tile.seldom}
  // CHECK: %[[K:.*]] = arith.addi %{{.*}}, %first_k : i32
  // CHECK: arith.cmpi sge, %{{.*}}, %[[K]] : i32
  %t = tile.mask %x if %partial at %rows, %keys : !tile.tile<[8, 16], f32>, !tile.block<query, 8>, !tile.block<key, 16> do {
  ^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
    %all_q = arith.addi %q, %first_q : i32
    %all_k = arith.addi %k, %first_k : i32
    %m = arith.cmpi sge, %all_q, %all_k : i32
    tile.yield %m : i1
  }
}

// Constants and values of a row are not numbers of the launch, so there is no test and only one version.
// CHECK-LABEL: tile.kernel @sums_of_no_launch
// CHECK: scf.if
// CHECK: tile.map %
// CHECK-NOT: tile.map
tile.kernel @sums_of_no_launch(%w: !tile.view<[?, ?], i32>, %i: i32) {
  %rows = tile.work : !tile.block<query, 8>
  %keys = tile.block %i of %rows : !tile.block<query, 8> -> !tile.block<key, 16>
  %x = tile.constant 0.0 : !tile.tile<[8, 16], f32>
  %always = arith.constant true
  %t = tile.mask %x if %always at %rows, %keys : !tile.tile<[8, 16], f32>, !tile.block<query, 8>, !tile.block<key, 16> do {
  ^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
    %twenty = arith.constant 20 : i32
    %s = arith.addi %k, %twenty : i32
    %m = arith.cmpi sge, %q, %s : i32
    %of_row = tile.read %w[%b, %q] : !tile.view<[?, ?], i32> -> i32
    %r = arith.addi %k, %of_row : i32
    %n = arith.cmpi sge, %r, %q : i32
    %both = arith.andi %m, %n : i1
    tile.yield %both : i1
  }
}

// id[b, q] == id[b, k]: the ids of the rows are a tile that is read before the loop. Only the last tile tests k < Sk.
// CHECK-LABEL: tile.kernel @documents
tile.kernel @documents(%id: !tile.view<[?, ?], i32>) {
  %rows = tile.work : !tile.block<query, 8>
  %x = tile.constant 0.0 : !tile.tile<[8, 16], f32>
  // CHECK: %[[IDS:.*]] = tile.map : () -> !tile.tile<[8], i32> {
  // CHECK: %[[I:.*]] = tile.read %id[%{{.*}}, %{{.*}}]
  // CHECK: tile.yield %[[I]] : i32
  // CHECK: tile.blocks
  // CHECK: %[[LEFT:.*]] = arith.subi %{{.*}}, %{{.*}} : i32
  // CHECK: %[[INSIDE:.*]] = arith.cmpi sge, %[[LEFT]], %c16_i32
  // CHECK: scf.if %[[INSIDE]]
  // CHECK: tile.map %{{.*}}, %[[IDS]] :
  // CHECK-NEXT: ^bb0(%{{.*}}: f32, %[[ID:.*]]: i32, %{{.*}}: i32, %{{.*}}: i32):
  // CHECK-NOT: arith.cmpi slt
  // CHECK: %[[J:.*]] = tile.read %id
  // CHECK: arith.cmpi eq, %[[ID]], %[[J]]
  // CHECK: } else {
  // CHECK: tile.map %{{.*}}, %[[IDS]] {tile.seldom}
  // CHECK: arith.cmpi slt
  tile.blocks %keys, %partial of %rows : !tile.block<query, 8> -> !tile.block<key, 16> {
    %t = tile.mask %x if %partial at %rows, %keys : !tile.tile<[8, 16], f32>, !tile.block<query, 8>, !tile.block<key, 16> do {
    ^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
      %i = tile.read %id[%b, %q] : !tile.view<[?, ?], i32> -> i32
      %j = tile.read %id[%b, %k] : !tile.view<[?, ?], i32> -> i32
      %m = arith.cmpi eq, %i, %j : i32
      tile.yield %m : i1
    }
  }
}

// abs(q % w - k % w) <= r: the row's remainder is computed before the loop. If w >= 16, a row of a block has at most
// two quotients, and one division gives both. If 0 < w < 16, it gives a period. Otherwise each element is
// divided.
// CHECK-LABEL: tile.kernel @remainders
// CORE-LABEL: tile.kernel @remainders
// CORE-NOT: attn.floor_mod
tile.kernel @remainders(%w: i32, %r: i32) {
  %rows = tile.work : !tile.block<query, 8>
  %x = tile.constant 0.0 : !tile.tile<[8, 16], f32>
  // CHECK: %[[REMAINDERS:.*]] = tile.map : () -> !tile.tile<[8], i32> {
  // CHECK: attn.floor_mod
  // CHECK: %[[LARGE:.*]] = arith.cmpi sge, %w, %c16_i32
  // CHECK: tile.blocks
  // CHECK: %{{.*}}, %{{.*}}, %{{.*}}, %[[FIRST:.*]] = tile.coordinates
  // CHECK: scf.if %[[LARGE]]
  // CHECK: %[[QUOTIENT:.*]] = arith.divui %[[FIRST]], %w
  // CHECK: %[[PRODUCT:.*]] = arith.muli %[[QUOTIENT]], %w
  // CHECK: %[[REST:.*]] = arith.subi %[[FIRST]], %[[PRODUCT]]
  // CHECK: %[[NEXT:.*]] = arith.subi %w, %[[REST]]
  // CHECK: tile.map %{{.*}}, %[[REMAINDERS]] :
  // CHECK: %[[OVER:.*]] = arith.cmpi sge, %{{.*}}, %[[NEXT]]
  // CHECK-NOT: attn.floor_mod
  // CHECK: arith.select %[[OVER]], %{{.*}}, %{{.*}} : i1
  // CHECK: } else {
  // CHECK: scf.if
  // CHECK: tile.map %{{.*}}, %[[REMAINDERS]] :
  // CHECK-NOT: attn.floor_mod
  // CHECK: tile.phase
  // CHECK: } else {
  // CHECK: tile.map %{{.*}}, %[[REMAINDERS]] {tile.seldom}
  // CHECK: attn.floor_mod
  tile.blocks %keys, %partial of %rows : !tile.block<query, 8> -> !tile.block<key, 16> {
    %t = tile.mask %x if %partial at %rows, %keys : !tile.tile<[8, 16], f32>, !tile.block<query, 8>, !tile.block<key, 16> do {
    ^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
      %i = attn.floor_mod %q, %w : i32
      %j = attn.floor_mod %k, %w : i32
      %d = arith.subi %i, %j : i32
      %zero = arith.constant 0 : i32
      %n = arith.subi %zero, %d : i32
      %isNegative = arith.cmpi sgt, %n, %d : i32
      %a = arith.select %isNegative, %n, %d : i32
      %m = arith.cmpi sle, %a, %r : i32
      tile.yield %m : i1
    }
  }
}

// Constant divisors: a quotient by less than the number of columns has a bound; by more, it is split. Neither needs
// a branch.
// CHECK-LABEL: tile.kernel @constants
tile.kernel @constants(%i: i32, %partial: i1) {
  %rows = tile.work : !tile.block<query, 8>
  %keys = tile.block %i of %rows : !tile.block<query, 8> -> !tile.block<key, 16>
  %x = tile.constant 0.0 : !tile.tile<[8, 16], f32>
  // CHECK: scf.if %partial
  // CHECK: arith.divui %{{.*}}, %c100_i32
  // CHECK: %[[FOURS:.*]] = arith.divui %[[FIRST:.*]], %[[FOUR:.*]] : i32
  // CHECK: %[[WHOLE:.*]] = arith.muli %[[FOURS]], %[[FOUR]]
  // CHECK: %[[PHASE:.*]] = arith.subi %[[FIRST]], %[[WHOLE]]
  // CHECK: tile.map
  // CHECK: arith.cmpi sge
  // k / 4 < q is first + j < 4 * (q - first / 4) + first - first % 4.
  // CHECK: %[[LEFT:.*]] = arith.subi %{{.*}}, %[[FOURS]]
  // CHECK: %[[LEAST:.*]] = arith.maxsi %[[LEFT]], %c0_i32
  // CHECK: %[[HELD:.*]] = arith.minsi %[[LEAST]], %c16_i32
  // CHECK: %[[KEYS:.*]] = arith.muli %[[HELD]], %[[FOUR]]
  // CHECK: %[[BOUND:.*]] = arith.subi %[[KEYS]], %[[PHASE]]
  // CHECK: arith.cmpi slt, %{{.*}}, %[[BOUND]]
  // CHECK-NOT: seldom
  // CHECK: scf.yield
  %t = tile.mask %x if %partial at %rows, %keys : !tile.tile<[8, 16], f32>, !tile.block<query, 8>, !tile.block<key, 16> do {
  ^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
    %four = arith.constant 4 : i32
    %hundred = arith.constant 100 : i32
    %c = attn.floor_div %k, %four : i32
    %d = attn.floor_div %k, %hundred : i32
    %near = arith.cmpi slt, %c, %q : i32
    %far = arith.cmpi slt, %d, %q : i32
    %m = arith.andi %near, %far : i1
    tile.yield %m : i1
  }
}

// A reduction that depends on the key is computed for each element, with the values that it uses from outside. A reduction
// that depends only on the row is a tile of rows. Both become loops over scalars later.
// CHECK-LABEL: tile.kernel @reductions
// CORE-LABEL: tile.kernel @reductions
tile.kernel @reductions(%n: i32, %i: i32, %partial: i1, %$g: !tile.view<[?], i32>) {
  %rows = tile.work : !tile.block<query, 8>
  %keys = tile.block %i of %rows : !tile.block<query, 8> -> !tile.block<key, 16>
  %x = tile.constant 0.0 : !tile.tile<[8, 16], f32>
  // CHECK: %{{.*}}, %{{.*}}, %{{.*}}, %[[QUERY:.*]] = tile.coordinates
  // CHECK: %[[LISTED:.*]] = tile.map : () -> !tile.tile<[8], i32>
  // CHECK: ^bb0(%[[ROW:.*]]: i32, %{{.*}}: i32):
  // CHECK: %[[Q:.*]] = arith.addi %[[QUERY]], %[[ROW]] : i32
  // CHECK: attn.reduce any below %n
  // CHECK: arith.cmpi eq, %[[Q]], %{{.*}} : i32
  // CHECK: arith.extui
  // CHECK: scf.if %partial
  // CHECK: %{{.*}}, %{{.*}}, %{{.*}}, %[[FIRST:.*]] = tile.coordinates
  // CHECK: tile.map %{{.*}}, %[[LISTED]]
  // CHECK: ^bb0(%{{.*}}: f32, %{{.*}}: i32, %{{.*}}: i32, %[[COLUMN:.*]]: i32):
  // CHECK: %[[K:.*]] = arith.addi %[[FIRST]], %[[COLUMN]] : i32
  // CHECK: attn.reduce any below %n
  // CHECK: tile.read %$g
  // CHECK: arith.cmpi eq, %[[K]], %{{.*}} : i32
  // CHECK: } else {

  // CORE: tile.map : () -> !tile.tile<[8], i32>
  // CORE: %[[FALSE:.*]] = arith.constant false
  // CORE: scf.for %[[I:.*]] = %{{.*}} to %n step %{{.*}} iter_args(%[[JOINED:.*]] = %[[FALSE]]) -> (i1) : i32
  // CORE: %[[G:.*]] = tile.read %$g[%[[I]]]
  // CORE: %[[SAME:.*]] = arith.cmpi eq, %{{.*}}, %[[G]]
  // CORE: %[[NEXT:.*]] = arith.ori %[[JOINED]], %[[SAME]]
  // CORE: scf.yield %[[NEXT]] : i1
  // CORE: scf.if %partial
  // CORE: scf.for
  // CORE-NOT: attn.reduce
  // CORE: } else {
  %t = tile.mask %x if %partial at %rows, %keys : !tile.tile<[8, 16], f32>, !tile.block<query, 8>, !tile.block<key, 16> do {
  ^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
    %fromHere = attn.reduce any below %n : i1 {
    ^bb0(%j: i32):
      %g = tile.read %$g[%j] : !tile.view<[?], i32> -> i32
      %same = arith.cmpi eq, %q, %g : i32
      attn.yield %same : i1
    }
    %toThere = attn.reduce any below %n : i1 {
    ^bb0(%j: i32):
      %g = tile.read %$g[%j] : !tile.view<[?], i32> -> i32
      %same = arith.cmpi eq, %k, %g : i32
      attn.yield %same : i1
    }
    %m = arith.ori %fromHere, %toThere : i1
    tile.yield %m : i1
  }
}

// If each row has its own divisor (here computed before the loop), it is not the divisor of the whole tile, so no
// branch tests whether it is large.
// CHECK-LABEL: tile.kernel @divisor_of_a_row
tile.kernel @divisor_of_a_row(%i: i32, %partial: i1) {
  %rows = tile.work : !tile.block<query, 8>
  %keys = tile.block %i of %rows : !tile.block<query, 8> -> !tile.block<key, 16>
  %x = tile.constant 0.0 : !tile.tile<[8, 16], f32>
  // CHECK: scf.if %partial
  // CHECK-NOT: scf.if
  // CHECK: tile.map
  // CHECK: attn.floor_mod
  // CHECK: scf.yield
  %t = tile.mask %x if %partial at %rows, %keys : !tile.tile<[8, 16], f32>, !tile.block<query, 8>, !tile.block<key, 16> do {
  ^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
    %d = arith.subi %h, %q : i32
    %n = attn.floor_mod %q, %d : i32
    %r = attn.floor_mod %k, %n : i32
    %m = arith.cmpi sgt, %r, %k : i32
    tile.yield %m : i1
  }
}

// If warpgroups overlap products and blocks are found by tests, a tile of its own says which elements are kept. It
// is computed before the selection, and needs no scores.
// CHECK-LABEL: tile.kernel @ahead
tile.kernel @ahead(%$id: !tile.view<[?], i32>, %low: i32, %high: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 16, stages = 2, warps = 4, q_in_registers = false, consumers = 1, overlap = true>} {
  %rows = tile.work : !tile.block<query, 64>
  // CHECK: %[[X:.*]] = tile.constant
  %x = tile.constant 0.0 : !tile.tile<[64, 16], f32>
  %found, %count = tile.find_blocks from %low to %high : !tile.found_blocks<16> one {
  ^bb0(%first: i32, %last: i32):
    %keeps = arith.cmpi sle, %first, %high : i32
    tile.yield %keeps, %keeps : i1, i1
  } many {
  ^bb0(%first: i32, %last: i32):
    %keeps = arith.cmpi sle, %first, %high : i32
    tile.yield %keeps, %keeps : i1, i1
  }
  // CHECK: %[[IDS:.*]] = tile.map : () -> !tile.tile<[64], i32>
  // CHECK: tile.blocks %{{.*}}, %[[PARTIAL:.*]] of
  tile.blocks %keys, %partial of %rows : !tile.block<query, 64> -> !tile.block<key, 16> among %found {
    // CHECK: %[[KEEPS:.*]] = scf.if %[[PARTIAL]] -> (!tile.tile<[64, 16], i1>)
    // CHECK: tile.map %[[IDS]] : (!tile.tile<[64], i32>) -> !tile.tile<[64, 16], i1>
    // CHECK: %[[SAME:.*]] = arith.cmpi eq
    // CHECK-NEXT: tile.yield %[[SAME]] : i1
    // CHECK: tile.map %[[IDS]] {tile.seldom} : (!tile.tile<[64], i32>) -> !tile.tile<[64, 16], i1>
    // CHECK: } else {
    // CHECK: tile.map : () -> !tile.tile<[64, 16], i1>
    // CHECK: %[[ALL:.*]] = arith.constant true
    // CHECK-NEXT: tile.yield %[[ALL]] : i1
    // CHECK: scf.if %[[PARTIAL]] -> (!tile.tile<[64, 16], f32>)
    // CHECK-NEXT: %[[T:.*]] = tile.map %[[X]], %[[KEEPS]]
    // CHECK-NEXT: ^bb0(%[[E:.*]]: f32, %[[K:.*]]: i1,
    // CHECK: arith.select %[[K]], %[[E]], %{{.*}} : f32
    // CHECK: scf.yield %[[T]]
    // CHECK: } else {
    // CHECK-NEXT: scf.yield %[[X]]
    %t = tile.mask %x if %partial at %rows, %keys : !tile.tile<[64, 16], f32>, !tile.block<query, 64>, !tile.block<key, 16> do {
    ^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
      %i = tile.read %$id[%q] : !tile.view<[?], i32> -> i32
      %j = tile.read %$id[%k] : !tile.view<[?], i32> -> i32
      %same = arith.cmpi eq, %i, %j : i32
      tile.yield %same : i1
    }
  }
}

// Many found blocks may be partial, so the loop has no divisions. If extents, divisors and the values added to
// positions are small, no bound needs 64 bits.
// CHECK-LABEL: tile.kernel @found_remainders
tile.kernel @found_remainders(%w: i32, %r: i32, %low: i32, %high: i32) {
  %rows = tile.work : !tile.block<query, 8>
  %x = tile.constant 0.0 : !tile.tile<[8, 16], f32>
  %found, %count = tile.find_blocks from %low to %high : !tile.found_blocks<16> one {
  ^bb0(%first: i32, %last: i32):
    %keeps = arith.cmpi sle, %first, %high : i32
    tile.yield %keeps, %keeps : i1, i1
  } many {
  ^bb0(%first: i32, %last: i32):
    %keeps = arith.cmpi sle, %first, %high : i32
    tile.yield %keeps, %keeps : i1, i1
  }
  // CHECK: arith.cmpi sge, %w, %c16_i32
  // CHECK: %[[DIVISOR:.*]] = arith.maxui %w, %c1_i32
  // CHECK: %[[RECIPROCAL:.*]] = arith.divui %c-1_i32, %[[DIVISOR]]
  // CHECK: arith.cmpi sge, %r, %c-536870912_i32
  // CHECK: arith.cmpi sge, %c536870911_i32{{.*}}, %r
  // CHECK: arith.cmpi sge, %c536870911_i32{{.*}}, %w
  // CHECK: %[[KEYS:.*]] = tile.extent "Sk"
  // CHECK: arith.cmpi sge, %c536870912_i32{{.*}}, %[[KEYS]]
  // CHECK: %[[SMALL:.*]] = arith.andi %{{.*}}, %{{.*}} : i1
  // CHECK-NEXT: %[[COMMON:.*]] = arith.andi %{{.*}}, %[[SMALL]]
  // CHECK: arith.andi %{{.*}}, %[[SMALL]]
  // CHECK: tile.blocks
  // CHECK: %{{.*}}, %{{.*}}, %{{.*}}, %[[FIRST:.*]] = tile.coordinates
  // CHECK: scf.if %[[COMMON]]
  // CHECK-DAG: %[[WIDE:.*]] = arith.extui %[[FIRST]] : i32 to i64
  // CHECK-DAG: %[[FACTOR:.*]] = arith.extui %[[RECIPROCAL]] : i32 to i64
  // CHECK: %[[LONG:.*]] = arith.muli %[[WIDE]], %[[FACTOR]]
  // CHECK: %[[HIGH:.*]] = arith.shrui %[[LONG]], %c32_i64
  // CHECK: %[[QUOTIENT:.*]] = arith.trunci %[[HIGH]]
  // CHECK: %[[PRODUCT:.*]] = arith.muli %[[QUOTIENT]], %w
  // CHECK: %[[LEFT:.*]] = arith.subi %[[FIRST]], %[[PRODUCT]]
  // CHECK: %[[MORE:.*]] = arith.cmpi uge, %[[LEFT]], %w
  // CHECK: %[[REST:.*]] = arith.select %[[MORE]], %{{.*}}, %[[LEFT]]
  // CHECK: %[[NEXT:.*]] = arith.subi %w, %[[REST]]
  // CHECK: tile.map
  // CHECK-NOT: arith.extsi
  // CHECK: %[[OVER:.*]] = arith.cmpi sge, %{{.*}}, %[[NEXT]]
  // CHECK-NOT: arith.extsi
  // CHECK: arith.select %[[OVER]], %{{.*}}, %{{.*}} : i1
  // CHECK: } else {
  // CHECK: tile.phase
  // CHECK: } else {
  // CHECK: tile.seldom
  // CHECK: attn.floor_mod
  tile.blocks %keys, %partial of %rows : !tile.block<query, 8> -> !tile.block<key, 16> among %found {
    %t = tile.mask %x if %partial at %rows, %keys : !tile.tile<[8, 16], f32>, !tile.block<query, 8>, !tile.block<key, 16> do {
    ^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
      %i = attn.floor_mod %q, %w : i32
      %j = attn.floor_mod %k, %w : i32
      %d = arith.subi %i, %j : i32
      %m = arith.cmpi sle, %d, %r : i32
      tile.yield %m : i1
    }
  }
}

// (q - k) % 3 == 0 falls with the key: the remainder of k - q - 1 is 2. A row's own remainder only changes the start.
// The comparison < has two phases in a period of 6.
// CHECK-LABEL: tile.kernel @periods
tile.kernel @periods(%i: i32, %partial: i1) {
  %rows = tile.work : !tile.block<query, 8>
  %keys = tile.block %i of %rows : !tile.block<query, 8> -> !tile.block<key, 16>
  %x = tile.constant 0.0 : !tile.tile<[8, 16], f32>
  // CHECK: %[[ROWS:.*]] = tile.map : () -> !tile.tile<[8], i32>
  // CHECK: %[[DIVISOR:.*]] = arith.constant 3 : i32
  // CHECK: %[[FACTOR:.*]] = arith.constant 349526 : i32
  // CHECK: %[[DOUBLE:.*]] = arith.constant 6 : i32
  // CHECK: %[[OF_DOUBLE:.*]] = arith.constant 174763 : i32
  // CHECK: %[[LAST:.*]] = arith.subi %[[DIVISOR]], %{{.*}}
  // CHECK: tile.map %{{.*}}, %[[ROWS]] :
  // CHECK-NEXT: ^bb0(%{{.*}}: f32, %[[OF_ROW:.*]]: i32, %{{.*}}: i32, %[[J:.*]]: i32):
  // CHECK: %[[QUOTIENT:.*]] = arith.divui %[[T:.*]], %[[DIVISOR]]
  // CHECK: %[[WHOLE:.*]] = arith.muli %[[QUOTIENT]], %[[DIVISOR]]
  // CHECK: arith.subi %[[T]], %[[WHOLE]]
  // CHECK: %[[START:.*]] = arith.select
  // CHECK: %[[PHASE:.*]] = tile.phase %[[START]] + %[[J]] of %[[DIVISOR]] by %[[FACTOR]]
  // CHECK: %[[REMAINDER:.*]] = arith.subi %[[LAST]], %[[PHASE]]
  // CHECK: arith.cmpi eq, %[[REMAINDER]], %c0_i32
  // CHECK: %[[EARLIER:.*]] = arith.subi %[[KEY_START:.*]], %[[OF_ROW]]
  // CHECK: %[[WRAPPED:.*]] = arith.addi %[[EARLIER]], %[[DIVISOR]]
  // CHECK: %[[OTHER:.*]] = arith.minui %[[EARLIER]], %[[WRAPPED]]
  // CHECK: tile.phase %[[OTHER]] + %[[J]] of %[[DIVISOR]] by %[[FACTOR]]
  // CHECK: arith.cmpi eq
  // CHECK: %[[A:.*]] = tile.phase %[[KEY_START]] + %[[J]] of %[[DOUBLE]] by %[[OF_DOUBLE]]
  // CHECK: arith.cmpi slt, %[[A]], %[[DIVISOR]]
  // CHECK: %[[B:.*]] = tile.phase %{{.*}} + %[[J]] of %[[DOUBLE]] by %[[OF_DOUBLE]]
  // CHECK: arith.cmpi slt, %[[B]], %[[DIVISOR]]
  // CHECK: arith.xori
  %t = tile.mask %x if %partial at %rows, %keys : !tile.tile<[8, 16], f32>, !tile.block<query, 8>, !tile.block<key, 16> do {
  ^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
    %three = arith.constant 3 : i32
    %zero = arith.constant 0 : i32
    %d = arith.subi %q, %k : i32
    %distance = attn.floor_mod %d, %three : i32
    %row = attn.floor_mod %q, %three : i32
    %column = attn.floor_mod %k, %three : i32
    %strided = arith.cmpi eq, %distance, %zero : i32
    %same = arith.cmpi eq, %column, %row : i32
    %before = arith.cmpi slt, %column, %row : i32
    %either = arith.ori %strided, %same : i1
    %m = arith.ori %either, %before : i1
    tile.yield %m : i1
  }
}

// Rows are keys and columns queries: a bound of the query, and q < Sq instead of k < Sk.
// CHECK-LABEL: tile.kernel @rows_of_keys
tile.kernel @rows_of_keys(%i: i32, %partial: i1) {
  %keys = tile.work : !tile.block<key, 8>
  %queries = tile.block %i of %keys : !tile.block<key, 8> -> !tile.block<query, 16>
  %x = tile.constant 0.0 : !tile.tile<[8, 16], f32>
  // CHECK: %{{.*}}, %{{.*}}, %{{.*}}, %[[KEY:.*]] = tile.coordinates %{{.*}} : <key, 8>
  // CHECK: %{{.*}}, %{{.*}}, %{{.*}}, %[[QUERY:.*]] = tile.coordinates %{{.*}} : <query, 16>
  // CHECK: %[[SQ:.*]] = tile.extent "Sq"
  // CHECK: %[[LEFT:.*]] = arith.subi %[[SQ]], %[[QUERY]]
  // CHECK: tile.map
  // CHECK-NEXT: ^bb0(%{{.*}}: f32, %[[ROW:.*]]: i32, %[[J:.*]]: i32):
  // CHECK: %[[K:.*]] = arith.addi %[[KEY]], %[[ROW]]
  // CHECK: %[[INSIDE:.*]] = arith.cmpi slt, %[[J]], %[[LEFT]]
  // CHECK: %[[BOUND:.*]] = arith.subi %[[K]], %[[QUERY]]
  // CHECK: %[[SEES:.*]] = arith.cmpi sge, %[[J]], %[[BOUND]]
  // CHECK: arith.andi %[[INSIDE]], %[[SEES]]
  %t = tile.mask %x if %partial at %keys, %queries : !tile.tile<[8, 16], f32>, !tile.block<key, 8>, !tile.block<query, 16> do {
  ^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
    %m = arith.cmpi sge, %q, %k : i32
    tile.yield %m : i1
  }
}
