// RUN: tesela-opt %s --tile-lower-scores | FileCheck %s

// s + slope · (k - q): the read of the slope and its quotient stand before the loop, a tile's first position
// in it. Each element costs one sum, which its diagonal shares, and one fma. The exponents include the scale.
// CHECK-LABEL: tile.kernel @alibi
tile.kernel @alibi(%scale: f32, %factor: f32, %slope: !tile.view<[?], f32>) {
  %rows = tile.work : !tile.block<query, 8>
  %m = tile.constant 0.0 : !tile.tile<[8], f32>
  %x = tile.constant 0.0 : !tile.tile<[8, 16], f32>
  // CHECK: %{{.*}}, %[[HEAD:.*]], %{{.*}}, %[[QUERY:.*]] = tile.coordinates
  // CHECK: %[[SLOPE:.*]] = tile.read %slope[%[[HEAD]]]
  // CHECK: %[[INVERSE:.*]] = arith.divf %{{.*}}, %scale
  // CHECK: %[[C:.*]] = arith.mulf %scale, %factor
  // CHECK: %[[COEFFICIENT:.*]] = arith.mulf %[[SLOPE]], %[[INVERSE]]
  // CHECK: tile.blocks
  // CHECK: %{{.*}}, %{{.*}}, %{{.*}}, %[[KEY:.*]] = tile.coordinates
  // CHECK: %[[FIRST:.*]] = arith.subi %[[KEY]], %[[QUERY]]
  // CHECK: %[[REAL:.*]] = arith.sitofp %[[FIRST]]
  // CHECK: %[[T:.*]] = tile.map
  // CHECK-NEXT: ^bb0(%[[E:.*]]: f32, %[[ROW:.*]]: i32, %[[COLUMN:.*]]: i32):
  // CHECK: %[[OFFSET:.*]] = arith.subi %[[COLUMN]], %[[ROW]]
  // CHECK-NEXT: %[[EXACT:.*]] = arith.sitofp %[[OFFSET]]
  // CHECK-NEXT: %[[POSITION:.*]] = arith.addf %[[REAL]], %[[EXACT]] fastmath<reassoc>
  // CHECK-NEXT: %[[R:.*]] = math.fma %[[COEFFICIENT]], %[[POSITION]], %[[E]]
  // CHECK-NEXT: tile.yield %[[R]]
  // CHECK: tile.softmax_step %[[T]], {{.*}} factor %[[C]]
  tile.blocks %keys, %partial of %rows : !tile.block<query, 8> -> !tile.block<key, 16> {
    %s = tile.score %x scaled by %scale at %rows, %keys : !tile.tile<[8, 16], f32>, !tile.block<query, 8>, !tile.block<key, 16> do {
    ^bb0(%e: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
      %d = arith.subi %k, %q : i32
      %f = arith.sitofp %d : i32 to f32
      %a = tile.read %slope[%h] : !tile.view<[?], f32> -> f32
      %p = arith.mulf %a, %f : f32
      %r = arith.addf %e, %p : f32
      tile.yield %r : f32
    }
    %p:4 = tile.softmax_step %s, %m, %m factor %factor : !tile.tile<[8, 16], f32>, !tile.tile<[8], f32>
  }
}

// cap · tanh(s / cap): one product and one tanh. The exponents include |cap|, since cap may have either sign.
// CHECK-LABEL: tile.kernel @softcap
tile.kernel @softcap(%scale: f32, %factor: f32, %cap: f32) {
  %rows = tile.work : !tile.block<query, 8>
  %m = tile.constant 0.0 : !tile.tile<[8], f32>
  %x = tile.constant 0.0 : !tile.tile<[8, 16], f32>
  // CHECK: %[[INVERSE:.*]] = arith.divf %{{.*}}, %cap
  // CHECK: %[[INNER:.*]] = arith.mulf %scale, %[[INVERSE]]
  // CHECK: %[[SIGN:.*]] = math.copysign %{{.*}}, %cap
  // CHECK: %[[MAGNITUDE:.*]] = math.absf %cap
  // CHECK: %[[SAFE:.*]] = arith.maxnumf %[[MAGNITUDE]]
  // CHECK: %[[NUMBER:.*]] = arith.cmpf ord
  // CHECK: %[[HELD:.*]] = arith.select %[[NUMBER]], %[[SAFE]]
  // CHECK: %[[C:.*]] = arith.mulf %[[HELD]], %factor
  // CHECK: %[[A:.*]] = arith.mulf %[[INNER]], %[[SIGN]]
  // CHECK: tile.blocks
  // CHECK: %[[T:.*]] = tile.map
  // CHECK-NEXT: ^bb0(%[[E:.*]]: f32,
  // CHECK: %[[ARGUMENT:.*]] = arith.mulf %[[A]], %[[E]]
  // CHECK-NEXT: %[[R:.*]] = math.tanh %[[ARGUMENT]]
  // CHECK-NEXT: tile.yield %[[R]]
  // CHECK: tile.softmax_step {{.*}} factor %[[C]]
  tile.blocks %keys, %partial of %rows : !tile.block<query, 8> -> !tile.block<key, 16> {
    %s = tile.score %x scaled by %scale at %rows, %keys : !tile.tile<[8, 16], f32>, !tile.block<query, 8>, !tile.block<key, 16> do {
    ^bb0(%e: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
      %d = arith.divf %e, %cap : f32
      %f = math.tanh %d : f32
      %r = arith.mulf %cap, %f : f32
      tile.yield %r : f32
    }
    %t = tile.mask %s if %partial at %rows, %keys : !tile.tile<[8, 16], f32>, !tile.block<query, 8>, !tile.block<key, 16>
    %p:4 = tile.softmax_step %t, %m, %m factor %factor : !tile.tile<[8, 16], f32>, !tile.tile<[8], f32>
  }
}

// A score with other users keeps its value, and so does a score whose scale may be negative.
// CHECK-LABEL: tile.kernel @kept
tile.kernel @kept(%scale: f32, %factor: f32, %weight: f32, %i: i32) {
  %rows = tile.work : !tile.block<query, 8>
  %keys = tile.block %i of %rows : !tile.block<query, 8> -> !tile.block<key, 8>
  %m = tile.constant 0.0 : !tile.tile<[8], f32>
  %x = tile.constant 0.0 : !tile.tile<[8, 8], f32>
  // CHECK: %[[A:.*]] = arith.mulf %scale, %weight
  // CHECK: tile.map
  // CHECK: arith.mulf %[[A]], %{{.*}}
  // CHECK: tile.softmax_step {{.*}} factor %factor
  %s = tile.score %x scaled by %scale at %rows, %keys : !tile.tile<[8, 8], f32>, !tile.block<query, 8>, !tile.block<key, 8> do {
  ^bb0(%e: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
    %r = arith.mulf %e, %weight : f32
    tile.yield %r : f32
  }
  %p:4 = tile.softmax_step %s, %m, %m factor %factor : !tile.tile<[8, 8], f32>, !tile.tile<[8], f32>
}

// CHECK-LABEL: tile.kernel @seen
tile.kernel @seen(%scale: f32, %factor: f32, %i: i32) {
  %rows = tile.work : !tile.block<query, 8>
  %keys = tile.block %i of %rows : !tile.block<query, 8> -> !tile.block<key, 8>
  %m = tile.constant 0.0 : !tile.tile<[8], f32>
  %x = tile.constant 0.0 : !tile.tile<[8, 8], f32>
  // CHECK: %[[S:.*]] = tile.map
  // CHECK: arith.mulf %scale, %{{.*}}
  // CHECK: tile.softmax_step %[[S]], {{.*}} factor %factor
  %s = tile.score %x scaled by %scale at %rows, %keys : !tile.tile<[8, 8], f32>, !tile.block<query, 8>, !tile.block<key, 8>
  %c = tile.convert %s : !tile.tile<[8, 8], f32> -> !tile.tile<[8, 8], bf16>
  %p:4 = tile.softmax_step %s, %m, %m factor %factor : !tile.tile<[8, 8], f32>, !tile.tile<[8], f32>
}

// A value that may leave i32 is converted as a whole: k - q + n must wrap as in the language. abs of k - q + 1
// cannot wrap. A quotient of two elements may be rounded twice.
// CHECK-LABEL: tile.kernel @whole
tile.kernel @whole(%scale: f32, %n: i32, %i: i32) {
  %rows = tile.work : !tile.block<query, 8>
  %keys = tile.block %i of %rows : !tile.block<query, 8> -> !tile.block<key, 8>
  %x = tile.constant 0.0 : !tile.tile<[8, 8], f32>
  // CHECK: %[[BASE:.*]] = arith.addi %{{.*}}, %n
  // CHECK: tile.map
  // CHECK: %[[MAGNITUDE:.*]] = math.absf
  // CHECK: %[[OFFSET:.*]] = arith.subi
  // CHECK-NEXT: %[[INDEX:.*]] = arith.addi %[[BASE]], %[[OFFSET]]
  // CHECK-NEXT: %[[WHOLE:.*]] = arith.sitofp %[[INDEX]]
  // CHECK: arith.divf %[[WHOLE]], %[[MAGNITUDE]] fastmath<arcp>
  %s = tile.score %x scaled by %scale at %rows, %keys : !tile.tile<[8, 8], f32>, !tile.block<query, 8>, !tile.block<key, 8> do {
  ^bb0(%e: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %nearer = arith.subi %k, %q : i32
    %d = arith.addi %nearer, %one : i32
    %negated = arith.subi %zero, %d : i32
    %greater = arith.cmpi sgt, %negated, %d : i32
    %absolute = arith.select %greater, %negated, %d : i32
    %y = arith.sitofp %absolute : i32 to f32
    %w = arith.addi %d, %n : i32
    %f = arith.sitofp %w : i32 to f32
    %r = arith.divf %f, %y : f32
    tile.yield %r : f32
  }
  %c = tile.convert %s : !tile.tile<[8, 8], f32> -> !tile.tile<[8, 8], bf16>
}

// An exact score keeps its f32 ops unchanged.
// CHECK-LABEL: tile.kernel @exact
tile.kernel @exact(%scale: f32, %factor: f32, %n: f32, %i: i32) {
  %rows = tile.work : !tile.block<query, 8>
  %keys = tile.block %i of %rows : !tile.block<query, 8> -> !tile.block<key, 8>
  %m = tile.constant 0.0 : !tile.tile<[8], f32>
  %x = tile.constant 0.0 : !tile.tile<[8, 8], f32>
  // CHECK: tile.map
  // CHECK-NEXT: ^bb0(%[[E:.*]]: f32,
  // CHECK-NEXT: %[[S:.*]] = arith.mulf %scale, %[[E]]
  // CHECK-NEXT: %[[Q:.*]] = arith.divf %[[S]], %n : f32
  // CHECK-NEXT: arith.addf %[[Q]], %n : f32
  // CHECK: tile.softmax_step {{.*}} factor %factor
  %s = tile.score %x scaled by %scale at %rows, %keys {exact} : !tile.tile<[8, 8], f32>, !tile.block<query, 8>, !tile.block<key, 8> do {
  ^bb0(%e: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
    %a = arith.divf %e, %n : f32
    %r = arith.addf %a, %n : f32
    tile.yield %r : f32
  }
  %p:4 = tile.softmax_step %s, %m, %m factor %factor : !tile.tile<[8, 8], f32>, !tile.tile<[8], f32>
}

// Rows of four heads: q follows from the row's position, h differs from row to row.
// CHECK-LABEL: tile.kernel @packed
tile.kernel @packed(%scale: f32, %factor: f32, %slope: !tile.view<[?], f32>) {
  %rows = tile.work : !tile.block<query, 8, 4>
  %m = tile.constant 0.0 : !tile.tile<[8], f32>
  %x = tile.constant 0.0 : !tile.tile<[8, 16], f32>
  // CHECK: %{{.*}}, %[[HEAD:.*]], %{{.*}}, %{{.*}} = tile.coordinates
  // CHECK: tile.map
  // CHECK-NEXT: ^bb0(%{{.*}}: f32, %[[ROW:.*]]: i32, %[[COLUMN:.*]]: i32):
  // CHECK: %[[POSITION:.*]] = arith.shrui %[[ROW]], %c2_i32
  // CHECK: %[[OFFSET:.*]] = arith.andi %[[ROW]], %c3_i32
  // CHECK: %[[OWN:.*]] = arith.addi %[[HEAD]], %[[OFFSET]]
  // CHECK: arith.subi %[[COLUMN]], %[[POSITION]]
  // CHECK: tile.read %slope[%[[OWN]]]
  tile.blocks %keys, %partial of %rows : !tile.block<query, 8, 4> -> !tile.block<key, 16> {
    %s = tile.score %x scaled by %scale at %rows, %keys : !tile.tile<[8, 16], f32>, !tile.block<query, 8, 4>, !tile.block<key, 16> do {
    ^bb0(%e: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
      %d = arith.subi %k, %q : i32
      %f = arith.sitofp %d : i32 to f32
      %a = tile.read %slope[%h] : !tile.view<[?], f32> -> f32
      %p = arith.mulf %a, %f : f32
      %r = arith.addf %e, %p : f32
      tile.yield %r : f32
    }
    %p:4 = tile.softmax_step %s, %m, %m factor %factor : !tile.tile<[8, 16], f32>, !tile.tile<[8], f32>
  }
}

// A block of queries that names its head: what the score reads for the head is read in front of the loop over blocks.
// CHECK-LABEL: tile.kernel @head
// CHECK: scf.for %[[H:.*]] = %from to %to
// CHECK: tile.read %slopes[%[[H]]]
// CHECK: scf.for
// CHECK-NOT: tile.read
// CHECK: tile.map
tile.kernel @head(%slopes: !tile.view<[H], f32>, %scale: f32, %from: i32, %to: i32) {
  %keys = tile.work : !tile.block<key, 8>
  %one = arith.constant 1 : i32
  %x = tile.constant 0.0 : !tile.tile<[8, 16], f32>
  scf.for %own = %from to %to step %one : i32 {
    scf.for %j = %from to %to step %one : i32 {
      %queries = tile.block %j head %own of %keys : !tile.block<key, 8> -> !tile.block<query, 16>
      %s = tile.score %x scaled by %scale at %keys, %queries : !tile.tile<[8, 16], f32>, !tile.block<key, 8>, !tile.block<query, 16> do {
      ^bb0(%e: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
        %slope = tile.read %slopes[%h] : !tile.view<[H], f32> -> f32
        %d = arith.subi %k, %q : i32
        %f = arith.sitofp %d : i32 to f32
        %y = arith.mulf %slope, %f : f32
        %r = arith.addf %e, %y : f32
        tile.yield %r : f32
      }
      %c = tile.convert %s : !tile.tile<[8, 16], f32> -> !tile.tile<[8, 16], bf16>
    }
  }
}
