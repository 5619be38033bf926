// Every op and type of the tile dialect, through its text and through the generic form.
// RUN: tesela-opt %s | tesela-opt | FileCheck %s
// RUN: tesela-opt %s --mlir-print-op-generic | tesela-opt | FileCheck %s

// The example of tile.kernel.
// CHECK-LABEL: tile.kernel @copy<rows, d, input>(in %x: !tile.view<[B, H, Sq, d], input>, out %y: !tile.view<[B, H, Sq, d], input>) {
tile.kernel @copy<rows, d, input>(in %x: !tile.view<[B, H, Sq, d], input>,
                                  out %y: !tile.view<[B, H, Sq, d], input>) {
  // CHECK: %[[BLOCK:.*]] = tile.work : <query, rows>
  %block = tile.work : !tile.block<query, rows>
  // CHECK: %[[X:.*]] = tile.load %x[%[[BLOCK]]] : <[B, H, Sq, d], input>[<query, rows>] -> !tile.tile<[rows, d], input>
  %tile = tile.load %x[%block] : !tile.view<[B, H, Sq, d], input>[!tile.block<query, rows>] -> !tile.tile<[rows, d], input>
  // CHECK: tile.store %[[X]], %y[%[[BLOCK]]] : !tile.tile<[rows, d], input>, <[B, H, Sq, d], input>[<query, rows>]
  tile.store %tile, %y[%block] : !tile.tile<[rows, d], input>, !tile.view<[B, H, Sq, d], input>[!tile.block<query, rows>]
}

// An interface: roles, extents of the launch and expressions of them, contiguous views.
// CHECK-LABEL: tile.kernel @interface<d, input>(in %x: !tile.view<[B, Hkv, Sk, d], input>, in %any: !tile.view<[?, 4, Sq, d + 8], input>, workspace %sums: !tile.view<[B, H, Sq ceildiv 64, 2], f32>, optional %lse: !tile.view<[B, H, Sq], f32, contiguous>, %$n: i32, %scale: f32) {
tile.kernel @interface<d, input>(in %x: !tile.view<[B, Hkv, Sk, d], input>, in %any: !tile.view<[?, 4, Sq, d + 8], input>,
                                 workspace %sums: !tile.view<[B, H, Sq ceildiv 64, 2], f32>,
                                 optional %lse: !tile.view<[B, H, Sq], f32, contiguous>, %$n: i32, %scale: f32) {
}

// Computed extents. Different symbols may have equal values, so they are accepted.
// CHECK-LABEL: tile.kernel @parametric<m, n, d, input>
tile.kernel @parametric<m, n, d, input>(%q: !tile.view<[?, ?, ?, d], input>) {
  // CHECK: tile.constant 0.000000e+00 : !tile.tile<[m, (d ceildiv 16) * 16], f32>
  %a = tile.constant 0.0 : !tile.tile<[m, (d ceildiv 16) * 16], f32>
  // CHECK: tile.constant 0.000000e+00 : !tile.tile<[m + 1, 2 * n], input>
  %b = tile.constant 0.0 : !tile.tile<[m + 1, 2 * n], input>
  // CHECK: tile.constant 0.000000e+00 : !tile.tile<[(m + n) * (m ceildiv 2)], i32>
  %c = tile.constant 0.0 : !tile.tile<[(m + n) * (m ceildiv 2)], i32>
  %rows = tile.work : !tile.block<query, m>
  // CHECK: tile.load {{.*}} -> !tile.tile<[n, 64], bf16>
  %x = tile.load %q[%rows] : !tile.view<[?, ?, ?, d], input>[!tile.block<query, m>] -> !tile.tile<[n, 64], bf16>
}

// CHECK-LABEL: tile.kernel @bound
// CHECK-SAME: (%q: !tile.view<[?, ?, ?, 32], bf16>, %lse: !tile.view<[?, ?, ?], f32, contiguous>, %scale: f32, %$t: !tile.view<[?, ?], i32>)
// CHECK-SAME: attributes {schedule = #tile.schedule<block_m = 64, block_n = 16, stages = 2, warps = 4, q_in_registers = false>}
tile.kernel @bound(%q: !tile.view<[?, ?, ?, 32], bf16>, %lse: !tile.view<[?, ?, ?], f32, contiguous>, %scale: f32,
                   %$t: !tile.view<[?, ?], i32>)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 16, stages = 2, warps = 4, q_in_registers = false>} {
  %rows = tile.work : !tile.block<query, 64>
  // CHECK: %[[BATCH:.*]], %[[HEAD:.*]], %[[KV:.*]], %[[FIRST:.*]] = tile.coordinates %{{.*}} : <query, 64>
  %batch, %head, %kv_head, %first = tile.coordinates %rows : !tile.block<query, 64>
  // CHECK: tile.block %[[FIRST]] of %{{.*}} : !tile.block<query, 64> -> <key, 16>
  %other = tile.block %first of %rows : !tile.block<query, 64> -> !tile.block<key, 16>
  // CHECK: tile.extent "Sk"
  %sk = tile.extent "Sk"
  // CHECK: tile.read %$t[%[[BATCH]], %[[HEAD]]] : <[?, ?], i32> -> i32
  %r = tile.read %$t[%batch, %head] : !tile.view<[?, ?], i32> -> i32
  // CHECK: tile.view_extent %$t axis 1 : <[?, ?], i32>
  %n = tile.view_extent %$t axis 1 : !tile.view<[?, ?], i32>
  // CHECK: tile.bounds %$t[%[[BATCH]], %[[HEAD]]] to{{ ?}}[%[[BATCH]], %{{.*}}] within [1, 0] : <[?, ?], i32> -> i32
  %least, %largest = tile.bounds %$t[%batch, %head] to [%batch, %n] within [1, 0] : !tile.view<[?, ?], i32> -> i32
  // CHECK: tile.has_element %$t[%[[BATCH]], %[[HEAD]]] to{{ ?}}[%[[BATCH]], %{{.*}}] between %{{.*}}, %{{.*}} : <[?, ?], i32>
  %has = tile.has_element %$t[%batch, %head] to [%batch, %n] between %least, %largest : !tile.view<[?, ?], i32>
  // CHECK: tile.covers %$t[%[[BATCH]], %[[HEAD]]] low [0, -3] high [1, 3] : <[?, ?], i32>
  %covered = tile.covers %$t[%batch, %head] low [0, -3] high [1, 3] : !tile.view<[?, ?], i32>
  // CHECK: tile.exponent_factor %scale
  %factor = tile.exponent_factor %scale
  %q0 = tile.load %q[%rows] : !tile.view<[?, ?, ?, 32], bf16>[!tile.block<query, 64>] -> !tile.tile<[64, 32], bf16>
  %s0 = tile.constant 0.0 : !tile.tile<[64, 16], f32>
  %o0 = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  // CHECK: %[[M:.*]] = tile.constant 0xFF800000 : !tile.tile<[64], f32>
  %m0 = tile.constant 0xFF800000 : !tile.tile<[64], f32>
  // CHECK: %{{.*}}:2 = tile.blocks %[[KEYS:.*]], %[[PARTIAL:.*]] of %{{.*}} : !tile.block<query, 64> -> !tile.block<key, 16>
  // CHECK-SAME: carry (%[[M1:.*]] = %[[M]] : !tile.tile<[64], f32>, %{{.*}} = %{{.*}} : !tile.tile<[64, 32], f32>)
  // CHECK-SAME: runs (%[[FIRST]], %{{.*}}) drops (%[[BATCH]], %[[HEAD]]) {
  %m, %o = tile.blocks %keys, %partial of %rows : !tile.block<query, 64> -> !tile.block<key, 16>
      carry (%m1 = %m0 : !tile.tile<[64], f32>, %o1 = %o0 : !tile.tile<[64, 32], f32>)
      runs (%first, %sk) drops (%batch, %head) {
    %k = tile.load %q[%keys] : !tile.view<[?, ?, ?, 32], bf16>[!tile.block<key, 16>] -> !tile.tile<[16, 32], bf16>
    // CHECK: tile.load %q[%{{.*}}, %[[KEYS]]] : <[?, ?, ?, 32], bf16>[<query, 64>, !tile.block<key, 16>] -> !tile.tile<[64, 16], bf16>
    %columns = tile.load %q[%rows, %keys] : !tile.view<[?, ?, ?, 32], bf16>[!tile.block<query, 64>, !tile.block<key, 16>] -> !tile.tile<[64, 16], bf16>
    // CHECK: tile.dot %{{.*}}, %{{.*}} transposed plus
    %s = tile.dot %q0, %k transposed plus %s0 : (!tile.tile<[64, 32], bf16>, !tile.tile<[16, 32], bf16>, !tile.tile<[64, 16], f32>) -> !tile.tile<[64, 16], f32>
    // CHECK: tile.score %{{.*}} scaled by %scale at %{{.*}}, %[[KEYS]] : !tile.tile<[64, 16], f32>, <query, 64>, <key, 16>
    %hook = tile.score %s scaled by %scale at %rows, %keys : !tile.tile<[64, 16], f32>, !tile.block<query, 64>, !tile.block<key, 16>
    // CHECK: tile.score {{.*}} do {
    // CHECK-NEXT: ^bb0(%[[S:.*]]: f32, %{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32):
    // CHECK: tile.yield %{{.*}} : f32
    %scored = tile.score %hook scaled by %scale at %rows, %keys : !tile.tile<[64, 16], f32>, !tile.block<query, 64>, !tile.block<key, 16> do {
    ^body(%x: f32, %b: i32, %h: i32, %hkv: i32, %qi: i32, %ki: i32):
      %y = arith.addf %x, %x : f32
      tile.yield %y : f32
    }
    // CHECK: tile.mask %{{.*}} if %[[PARTIAL]] at %{{.*}}, %[[KEYS]] : !tile.tile<[64, 16], f32>, <query, 64>, <key, 16> do {
    %t = tile.mask %scored if %partial at %rows, %keys : !tile.tile<[64, 16], f32>, !tile.block<query, 64>, !tile.block<key, 16> do {
    ^body(%b: i32, %h: i32, %hkv: i32, %qi: i32, %ki: i32):
      %keep = arith.cmpi sge, %qi, %ki : i32
      tile.yield %keep : i1
    }
    // CHECK: tile.softmax_step %{{.*}}, %[[M1]], %[[M1]] factor %{{.*}} : !tile.tile<[64, 16], f32>, !tile.tile<[64], f32>
    %p, %m2, %l2, %alpha = tile.softmax_step %t, %m1, %m1 factor %factor : !tile.tile<[64, 16], f32>, !tile.tile<[64], f32>
    // CHECK: tile.reduce max %{{.*}} from %{{.*}} : !tile.tile<[64, 16], f32> -> !tile.tile<[64], f32>
    %max = tile.reduce max %p from %m2 : !tile.tile<[64, 16], f32> -> !tile.tile<[64], f32>
    // CHECK: tile.reduce add
    %sum = tile.reduce add %p from %l2 : !tile.tile<[64, 16], f32> -> !tile.tile<[64], f32>
    // CHECK: %[[OWN:.*]] = tile.reduce max %{{.*}} from %{{.*}} {in_shares} : !tile.tile<[64, 16], f32> -> !tile.tile<[64], f32>
    %own = tile.reduce max %p from %m2 {in_shares} : !tile.tile<[64, 16], f32> -> !tile.tile<[64], f32>
    // CHECK: tile.any_positive %[[OWN]] : !tile.tile<[64], f32>
    %any = tile.any_positive %own : !tile.tile<[64], f32>
    // CHECK: tile.any_positive %[[OWN]] group : !tile.tile<[64], f32>
    %together = tile.any_positive %own group : !tile.tile<[64], f32>
    // CHECK: tile.dot {{.*}} {again}
    %anew = tile.dot %q0, %k transposed plus %s0 {again} : (!tile.tile<[64, 32], bf16>, !tile.tile<[16, 32], bf16>, !tile.tile<[64, 16], f32>) -> !tile.tile<[64, 16], f32>
    // CHECK: tile.total %{{.*}} : !tile.tile<[64], f32> -> !tile.tile<[64], f32>
    %total = tile.total %sum : !tile.tile<[64], f32> -> !tile.tile<[64], f32>
    // CHECK: tile.rescale %{{.*}} by %{{.*}} : !tile.tile<[64, 32], f32>, !tile.tile<[64], f32>
    %o2 = tile.rescale %o1 by %alpha : !tile.tile<[64, 32], f32>, !tile.tile<[64], f32>
    // CHECK: tile.map %{{.*}}, %{{.*}} : (!tile.tile<[64, 32], f32>, !tile.tile<[64], f32>) -> !tile.tile<[64, 32], f32> {
    // CHECK-NEXT: ^bb0(%{{.*}}: f32, %{{.*}}: f32, %{{.*}}: i32, %{{.*}}: i32):
    %scaled = tile.map %o2, %alpha : (!tile.tile<[64, 32], f32>, !tile.tile<[64], f32>) -> !tile.tile<[64, 32], f32> {
    ^body(%x: f32, %a: f32, %row: i32, %column: i32):
      %y = arith.mulf %x, %a : f32
      tile.yield %y : f32
    }
    // CHECK: tile.yield %{{.*}}, %{{.*}} : !tile.tile<[64], f32>, !tile.tile<[64, 32], f32>
    tile.yield %m2, %scaled : !tile.tile<[64], f32>, !tile.tile<[64, 32], f32>
  }
  // CHECK: tile.finish %{{.*}}, %{{.*}}, %{{.*}} factor %{{.*}} : !tile.tile<[64, 32], f32>, !tile.tile<[64], f32>
  %y, %l = tile.finish %o, %m, %m factor %factor : !tile.tile<[64, 32], f32>, !tile.tile<[64], f32>
  // CHECK: tile.convert %{{.*}} : !tile.tile<[64, 32], f32> -> !tile.tile<[64, 32], bf16>
  %yi = tile.convert %y : !tile.tile<[64, 32], f32> -> !tile.tile<[64, 32], bf16>
  // CHECK: tile.store %{{.*}}, %lse[%{{.*}}] : !tile.tile<[64], f32>, <[?, ?, ?], f32, contiguous>[<query, 64>]
  tile.store %l, %lse[%rows] : !tile.tile<[64], f32>, !tile.view<[?, ?, ?], f32, contiguous>[!tile.block<query, 64>]
  // A loop without carried values.
  // CHECK: tile.blocks %{{.*}}, %{{.*}} of %{{.*}} : !tile.block<query, 64> -> !tile.block<key, 16> {
  // CHECK-NEXT: }
  tile.blocks %keys, %partial of %rows : !tile.block<query, 64> -> !tile.block<key, 16> {
  }
}

// The transpose: the blocks of queries of a block of keys.
// CHECK-LABEL: tile.kernel @transpose
tile.kernel @transpose(%low: i32, %high: i32) {
  // CHECK: %[[ROWS:.*]] = tile.work : <key, 16>
  %rows = tile.work : !tile.block<key, 16>
  %x = tile.constant 0.0 : !tile.tile<[64, 16], f32>
  // CHECK: tile.blocks %[[QUERIES:.*]], %[[PARTIAL:.*]] of %[[ROWS]] : !tile.block<key, 16> -> !tile.block<query, 64> runs (%low, %high) {
  tile.blocks %queries, %partial of %rows : !tile.block<key, 16> -> !tile.block<query, 64> runs (%low, %high) {
    // CHECK: tile.mask %{{.*}} if %[[PARTIAL]] at %[[QUERIES]], %[[ROWS]] : !tile.tile<[64, 16], f32>, <query, 64>, <key, 16>
    %t = tile.mask %x if %partial at %queries, %rows : !tile.tile<[64, 16], f32>, !tile.block<query, 64>, !tile.block<key, 16>
  }
  // CHECK: %[[FOUND:.*]], %{{.*}} = tile.find_blocks from %low to %high : <32, query> one {
  %found, %count = tile.find_blocks from %low to %high : !tile.found_blocks<32, query> one {
  ^bb0(%first: i32, %last: i32):
    %keeps = arith.constant true
    tile.yield %keeps, %keeps : i1, i1
  } many {
  ^bb0(%first: i32, %last: i32):
    %keeps = arith.constant true
    tile.yield %keeps, %keeps : i1, i1
  }
  // CHECK: tile.blocks %{{.*}} of %[[ROWS]] : !tile.block<key, 16> -> !tile.block<query, 64, 2> among %[[FOUND]] {
  tile.blocks %queries, %partial of %rows : !tile.block<key, 16> -> !tile.block<query, 64, 2> among %found {
  }
}

// Sequences of different lengths, in tensors of tokens and of pages.
// CHECK-LABEL: tile.kernel @sequences
tile.kernel @sequences<page>(in %q: !tile.view<[1, H, ?, 64], f16>, in %k: !tile.view<[?, Hkv, page, 64], f16>,
    in %table: !tile.view<[B, ?], i32>, %batch: i32, %from: i32, %length: i32) {
  %item = tile.work : !tile.block<query, 64>
  // CHECK: %[[LAUNCH:.*]] = tile.extent "Sq" of_launch
  %queries = tile.extent "Sq" of_launch
  // CHECK: %[[ROWS:.*]] = tile.sequence %{{.*}} from %from of %[[LAUNCH]], %length : <query, 64>
  %rows = tile.sequence %item from %from of %queries, %length : !tile.block<query, 64>
  // CHECK: %[[QS:.*]] = tile.ragged %q from %from : <[1, H, ?, 64], f16> -> <[B, H, Sq, 64], f16>
  %qs = tile.ragged %q from %from : !tile.view<[1, H, ?, 64], f16> -> !tile.view<[B, H, Sq, 64], f16>
  // CHECK: %{{.*}} = tile.paged %k by %table[%batch] : <[?, Hkv, page, 64], f16>, <[B, ?], i32> -> <[B, Hkv, Sk, 64], f16>
  %ks = tile.paged %k by %table[%batch] : !tile.view<[?, Hkv, page, 64], f16>, !tile.view<[B, ?], i32> -> !tile.view<[B, Hkv, Sk, 64], f16>
  // CHECK: tile.load %[[QS]][%[[ROWS]]]
  %Q = tile.load %qs[%rows] : !tile.view<[B, H, Sq, 64], f16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], f16>
  // CHECK: tile.find_blocks from %from to %length below %length : <64> one {
  %found, %count = tile.find_blocks from %from to %length below %length : !tile.found_blocks<64> one {
  ^bb0(%first: i32, %last: i32):
    %keeps = arith.constant true
    tile.yield %keeps, %keeps : i1, i1
  } many {
  ^bb0(%first: i32, %last: i32):
    %keeps = arith.constant true
    tile.yield %keeps, %keeps : i1, i1
  }
}

// Encodings, and attributes outside types.
// CHECK-LABEL: tile.kernel @attributes
// CHECK-SAME: a = #tile.symbol<"d">
// CHECK-SAME: b = #tile.extent<1 + (d ceildiv 2)>
// CHECK-SAME: c = !tile.tile<[128, 64], f32, #pipe.accumulator<warps = 4>>
// CHECK-SAME: e = !tile.element<"input">
tile.kernel @attributes<d>() attributes {
    a = #tile.symbol<"d">, b = #tile.extent<1 + (d ceildiv 2)>,
    c = !tile.tile<[128, 64], f32, #pipe.accumulator<warps = 4>>, e = !tile.element<"input">} {
}

// Fields with a default are printed only if they differ from it.
// CHECK-LABEL: tile.kernel @items
// CHECK-SAME: consumers = 2, reference = recompute, overlap = true, persistent = true, output_buffer = true, group_keys = 4096>
tile.kernel @items(%item: i32) attributes {schedule = #tile.schedule<block_m = 128, block_n = 16, stages = 2, warps = 8, q_in_registers = false, consumers = 2, reference = recompute, overlap = true, persistent = true, output_buffer = true, group_keys = 4096>} {
  // CHECK: tile.work item %item : <query, 128>
  %rows = tile.work item %item : !tile.block<query, 128>
  // CHECK: tile.work_items !tile.block<query, 128>
  %count = tile.work_items !tile.block<query, 128>
}

// Reductions of integers, and numbers that depend on a template's parameters.
// CHECK-LABEL: tile.kernel @numbers<columns>
tile.kernel @numbers<columns>() {
  // CHECK: tile.number columns * 2
  %n = tile.number columns * 2
  %x = tile.map : () -> !tile.tile<[64, columns], i32> {
  ^body(%row: i32, %column: i32):
    tile.yield %column : i32
  }
  %start = tile.map : () -> !tile.tile<[64], i32> {
  ^body(%row: i32, %column: i32):
    tile.yield %n : i32
  }
  // CHECK: tile.reduce min %{{.*}} from %{{.*}} {in_shares} : !tile.tile<[64, columns], i32> -> !tile.tile<[64], i32>
  %low = tile.reduce min %x from %start {in_shares} : !tile.tile<[64, columns], i32> -> !tile.tile<[64], i32>
}

// tile.phase: where the columns of a row stand in a period.
// CHECK-LABEL: tile.kernel @phases
tile.kernel @phases(%period: i32, %factor: i32) {
  %x = tile.map : () -> !tile.tile<[64, 16], i32> {
  ^body(%row: i32, %column: i32):
    %start = arith.constant 0 : i32
    // CHECK: tile.phase %{{.*}} + %{{.*}} of %period by %factor
    %p = tile.phase %start + %column of %period by %factor
    tile.yield %p : i32
  }
}

// Blocks made from coordinates, tiles with a value for each column, products with either operand transposed, and scores
// whose rows are keys.
// CHECK-LABEL: tile.kernel @orientations
tile.kernel @orientations(%x: !tile.view<[?, ?, ?, 16], f32>, %lse: !tile.view<[?, ?, ?], f32, contiguous>, %i: i32, %scale: f32, %partial: i1) {
  // CHECK: %[[KEYS:.*]] = tile.work : <key, 32>
  %keys = tile.work : !tile.block<key, 32>
  // CHECK: %[[QUERIES:.*]] = tile.block %i batch %i head %i -> <query, 8>
  %queries = tile.block %i batch %i head %i -> !tile.block<query, 8>
  // CHECK: tile.load %lse[%[[QUERIES]]] : <[?, ?, ?], f32, contiguous>[<query, 8>] -> !tile.tile<[1, 8], f32>
  %l = tile.load %lse[%queries] : !tile.view<[?, ?, ?], f32, contiguous>[!tile.block<query, 8>] -> !tile.tile<[1, 8], f32>
  %q = tile.load %x[%queries] : !tile.view<[?, ?, ?, 16], f32>[!tile.block<query, 8>] -> !tile.tile<[8, 16], f32>
  %k = tile.load %x[%keys] : !tile.view<[?, ?, ?, 16], f32>[!tile.block<key, 32>] -> !tile.tile<[32, 16], f32>
  %zero = tile.constant 0.0 : !tile.tile<[32, 8], f32>
  // CHECK: %[[S:.*]] = tile.dot %{{.*}}, %{{.*}} transposed plus
  %s = tile.dot %k, %q transposed plus %zero : (!tile.tile<[32, 16], f32>, !tile.tile<[8, 16], f32>, !tile.tile<[32, 8], f32>) -> !tile.tile<[32, 8], f32>
  // CHECK: %[[T:.*]] = tile.score %[[S]] scaled by %scale at %[[KEYS]], %[[QUERIES]] : !tile.tile<[32, 8], f32>, <key, 32>, <query, 8>
  %t = tile.score %s scaled by %scale at %keys, %queries : !tile.tile<[32, 8], f32>, !tile.block<key, 32>, !tile.block<query, 8>
  // CHECK: tile.mask %[[T]] if %partial at %[[KEYS]], %[[QUERIES]]
  %m = tile.mask %t if %partial at %keys, %queries : !tile.tile<[32, 8], f32>, !tile.block<key, 32>, !tile.block<query, 8>
  // CHECK: tile.score_gradient %{{.*}} of %[[S]] scaled by %scale at %[[KEYS]], %[[QUERIES]]
  %d = tile.score_gradient %m of %s scaled by %scale at %keys, %queries : !tile.tile<[32, 8], f32>, !tile.block<key, 32>, !tile.block<query, 8>
  // CHECK: tile.map %{{.*}}, %{{.*}} : (!tile.tile<[32, 8], f32>, !tile.tile<[1, 8], f32>) -> !tile.tile<[32, 8], f32>
  %y = tile.map %d, %l : (!tile.tile<[32, 8], f32>, !tile.tile<[1, 8], f32>) -> !tile.tile<[32, 8], f32> {
  ^body(%a: f32, %b: f32, %row: i32, %column: i32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  }
  %none = tile.constant 0.0 : !tile.tile<[8, 16], f32>
  // CHECK: tile.dot %{{.*}} transposed, %{{.*}} plus
  %dq = tile.dot %y transposed, %k plus %none : (!tile.tile<[32, 8], f32>, !tile.tile<[32, 16], f32>, !tile.tile<[8, 16], f32>) -> !tile.tile<[8, 16], f32>
}

// A part of a block's keys: a slot of a sequence, whose rows lie in another place.
// CHECK-LABEL: tile.kernel @split<workers>
tile.kernel @split<workers>() {
  // CHECK: %[[SLOTS:.*]], %[[MORE:.*]] = tile.work_slots of 2 * workers : <query, 8>
  %slots, %more = tile.work_slots of 2 * workers : !tile.block<query, 8>
  // CHECK: tile.more_slots of workers !tile.block<query, 8>
  %parts = tile.more_slots of workers !tile.block<query, 8>
  %part, %head, %kv_head, %first = tile.coordinates %slots : !tile.block<query, 8>
  // CHECK: tile.sequence_keys %[[MORE]]
  %end = tile.sequence_keys %more
  // CHECK: %[[ROWS:.*]] = tile.block %{{.*}} to %{{.*}} batch %{{.*}} head %{{.*}} -> <query, 8>
  %rows = tile.block %first to %end batch %part head %head -> !tile.block<query, 8>
  // CHECK: tile.blocks %{{.*}}, %{{.*}} of %[[ROWS]] : !tile.block<query, 8> -> !tile.block<key, 16> part (%{{.*}}, %{{.*}}) {
  tile.blocks %keys, %partial of %rows : !tile.block<query, 8> -> !tile.block<key, 16> part (%part, %parts) {
    tile.yield
  }
}

// Query heads that are dealt to several work items, and the kernel that joins their results. Aliases stand for extents.
#parts = #tile.extent<H ceildiv workers>
#stored = #tile.extent<B * (1 max (-1 + #parts))>
// CHECK-LABEL: tile.kernel @dealt<workers>
// CHECK-SAME: workspace %sums: !tile.view<[B * (1 max (-1 + (H ceildiv workers))), Hkv, Sk, 64], f32>
tile.kernel @dealt<workers>(workspace %sums: !tile.view<[#stored, Hkv, Sk, 64], f32>) {
  // CHECK: tile.work dealt to workers : <key, 64>
  %item = tile.work dealt to workers : !tile.block<key, 64>
  // CHECK: tile.work_part of %{{.*}} : <key, 64>
  %part = tile.work_part of %item : !tile.block<key, 64>
  // CHECK: tile.at_end of %{{.*}} part %{{.*}} : <key, 64>
  %at_end = tile.at_end of %item part %part : !tile.block<key, 64>
  // CHECK: tile.head_parts of 2 * workers !tile.block<key, 64>
  %count = tile.head_parts of 2 * workers !tile.block<key, 64>
  // CHECK: tile.work dealt to 528 joined : <key, 64>
  %joined = tile.work dealt to 528 joined : !tile.block<key, 64>
  // CHECK: tile.work dealt to 528 order last_keys_first : <key, 64>
  %late = tile.work dealt to 528 order last_keys_first : !tile.block<key, 64>
  // CHECK: tile.work order last_keys_first_but_at_end : <key, 64>
  %longest = tile.work order last_keys_first_but_at_end : !tile.block<key, 64>
  // CHECK: tile.work : <key, 64>
  %early = tile.work order first_keys_first : !tile.block<key, 64>
  // CHECK: tile.work_items !tile.block<key, 64> dealt to workers
  %items = tile.work_items !tile.block<key, 64> dealt to workers
}

// Other kinds of work items: rows of neighbouring heads, and an item without work.
// CHECK-LABEL: tile.kernel @heads<most>
tile.kernel @heads<most>() {
  // CHECK: %[[BATCH:.*]], %{{.*}}, %[[FIRST:.*]], %[[END:.*]] = tile.work_heads of 2 * most
  %batch, %position, %first, %end = tile.work_heads of 2 * most
  %none = arith.cmpi sge, %first, %end : i32
  // CHECK: tile.leave if %{{.*}}
  tile.leave if %none
}

// CHECK-LABEL: tile.kernel @dropout
tile.kernel @dropout(%p: !tile.view<[?, ?, ?], f32, contiguous>, %i: i32) {
  // CHECK: %[[ROWS:.*]] = tile.work : <query, 64>
  %rows = tile.work : !tile.block<query, 64>
  %keys = tile.block %i of %rows : !tile.block<query, 64> -> !tile.block<key, 32>
  %e = tile.constant 1.0 : !tile.tile<[64, 32], f32>
  // CHECK: %[[D:.*]] = tile.dropout %{{.*}} at %[[ROWS]], %{{.*}} : !tile.tile<[64, 32], f32>, <query, 64>, <key, 32>
  %d = tile.dropout %e at %rows, %keys : !tile.tile<[64, 32], f32>, !tile.block<query, 64>, !tile.block<key, 32>
  // CHECK: tile.dropout_scale %[[D]] : !tile.tile<[64, 32], f32>
  %y = tile.dropout_scale %d : !tile.tile<[64, 32], f32>
  // CHECK: tile.bernoulli %{{.*}}, %{{.*}} from %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} at %{{.*}}, %{{.*}} : !tile.tile<[64, 32], i1>
  %t = tile.bernoulli %i, %i from %i, %i, %i, %i at %i, %i : !tile.tile<[64, 32], i1>
  // CHECK: tile.bernoulli {{.*}} transposed : !tile.tile<[64, 32], i1>
  %u = tile.bernoulli %i, %i from %i, %i, %i, %i at %i, %i transposed : !tile.tile<[64, 32], i1>
}
