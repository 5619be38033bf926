// RUN: tesela-opt %s --tile-inline-variant --tile-lower-scores --canonicalize --split-input-file | FileCheck %s

// The derivative of cap · tanh(s / cap) is 1 - tanh²: cap cancels. The rows are keys.
attn.variant @softcap parameters [#attn.scalar<"cap", f32>]
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %cap = attn.param "cap" : f32
  %inner = arith.divf %s, %cap : f32
  %y = math.tanh %inner : f32
  %r = arith.mulf %cap, %y : f32
  attn.yield %r : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %true = arith.constant true
  attn.yield %true : i1
}

// The quotient by a uniform value becomes a product.
// CHECK-LABEL: tile.kernel @gradient
// CHECK: %[[INVERSE:.*]] = arith.divf %{{.*}}, %{{.*}} : f32
// CHECK: %[[FACTOR:.*]] = arith.mulf %scale, %[[INVERSE]]
// CHECK: tile.map
// CHECK: ^bb0(%[[DS:.*]]: f32, %[[X:.*]]: f32, %{{.*}}: i32, %{{.*}}: i32):
// CHECK: %[[INNER:.*]] = arith.mulf %[[FACTOR]], %[[X]]
// CHECK: %[[Y:.*]] = math.tanh %[[INNER]]
// CHECK: %[[SQUARE:.*]] = arith.mulf %[[Y]], %[[Y]]
// CHECK: %[[R:.*]] = math.fma %{{.*}}, %[[SQUARE]]
// CHECK: %[[DX:.*]] = arith.mulf %[[DS]], %[[R]]
// CHECK-NEXT: tile.yield %[[DX]]
tile.kernel @gradient(%scale: f32, %i: i32, %o: !tile.view<[?, ?, ?, 16], f32>) {
  %keys = tile.work : !tile.block<key, 8>
  %queries = tile.block %i of %keys : !tile.block<key, 8> -> !tile.block<query, 16>
  %x = tile.constant 0.0 : !tile.tile<[8, 16], f32>
  %d = tile.score_gradient %x of %x scaled by %scale at %keys, %queries : !tile.tile<[8, 16], f32>, !tile.block<key, 8>, !tile.block<query, 16>
  tile.store %d, %o[%keys] : !tile.tile<[8, 16], f32>, !tile.view<[?, ?, ?, 16], f32>[!tile.block<key, 8>]
}

// -----

// A derivative that does not read the product of Q and K moves down to its first use. A derivative of 1 needs no op.
attn.variant @scaled parameters [#attn.scalar<"slope", f32>]
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %slope = attn.param "slope" : f32
  %r = arith.mulf %slope, %s : f32
  attn.yield %r : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %true = arith.constant true
  attn.yield %true : i1
}

// CHECK-LABEL: tile.kernel @late
// CHECK: tile.store %[[X:.*]], %o
// CHECK-NEXT: %[[D:.*]] = tile.map %[[X]], %[[X]]
// CHECK: tile.store %[[D]], %o
tile.kernel @late(%scale: f32, %i: i32, %o: !tile.view<[?, ?, ?, 16], f32>) {
  %keys = tile.work : !tile.block<key, 8>
  %queries = tile.block %i of %keys : !tile.block<key, 8> -> !tile.block<query, 16>
  %x = tile.constant 0.0 : !tile.tile<[8, 16], f32>
  %d = tile.score_gradient %x of %x scaled by %scale at %keys, %queries : !tile.tile<[8, 16], f32>, !tile.block<key, 8>, !tile.block<query, 16>
  tile.store %x, %o[%keys] : !tile.tile<[8, 16], f32>, !tile.view<[?, ?, ?, 16], f32>[!tile.block<key, 8>]
  tile.store %d, %o[%keys] : !tile.tile<[8, 16], f32>, !tile.view<[?, ?, ?, 16], f32>[!tile.block<key, 8>]
}

// -----

attn.variant @moved parameters [#attn.scalar<"slope", f32>]
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %slope = attn.param "slope" : f32
  %r = arith.addf %slope, %s : f32
  attn.yield %r : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %true = arith.constant true
  attn.yield %true : i1
}

// CHECK-LABEL: tile.kernel @one
// CHECK: %[[X:.*]] = tile.constant
// CHECK-NOT: tile.map
// CHECK: tile.store %[[X]], %o
tile.kernel @one(%scale: f32, %i: i32, %o: !tile.view<[?, ?, ?, 16], f32>) {
  %keys = tile.work : !tile.block<key, 8>
  %queries = tile.block %i of %keys : !tile.block<key, 8> -> !tile.block<query, 16>
  %x = tile.constant 0.0 : !tile.tile<[8, 16], f32>
  %d = tile.score_gradient %x of %x scaled by %scale at %keys, %queries : !tile.tile<[8, 16], f32>, !tile.block<key, 8>, !tile.block<query, 16>
  tile.store %d, %o[%keys] : !tile.tile<[8, 16], f32>, !tile.view<[?, ?, ?, 16], f32>[!tile.block<key, 8>]
}

// -----

// A derivative that may be infinite is not used if the pair's weight is 0.
attn.variant @quotient parameters []
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %d = arith.subi %q, %k : i32
  %f = arith.sitofp %d : i32 to f32
  %r = arith.divf %s, %f : f32
  attn.yield %r : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %true = arith.constant true
  attn.yield %true : i1
}

// CHECK-LABEL: tile.kernel @infinite
// CHECK: ^bb0(%[[W:.*]]: f32, %{{.*}}: f32, %{{.*}}: i32, %{{.*}}: i32):
// CHECK: arith.divf
// CHECK: %[[PRODUCT:.*]] = arith.mulf %[[W]],
// CHECK: %[[NOTHING:.*]] = arith.cmpf oeq, %[[W]], %[[ZERO:.*]] : f32
// CHECK: %[[R:.*]] = arith.select %[[NOTHING]], %[[ZERO]], %[[PRODUCT]]
// CHECK-NEXT: tile.yield %[[R]]
tile.kernel @infinite(%scale: f32, %i: i32, %o: !tile.view<[?, ?, ?, 16], f32>) {
  %keys = tile.work : !tile.block<key, 8>
  %queries = tile.block %i of %keys : !tile.block<key, 8> -> !tile.block<query, 16>
  %x = tile.constant 0.0 : !tile.tile<[8, 16], f32>
  %d = tile.score_gradient %x of %x scaled by %scale at %keys, %queries : !tile.tile<[8, 16], f32>, !tile.block<key, 8>, !tile.block<query, 16>
  tile.store %d, %o[%keys] : !tile.tile<[8, 16], f32>, !tile.view<[?, ?, ?, 16], f32>[!tile.block<key, 8>]
}
