// RUN: tesela-opt %s --tile-inline-variant --tile-decompose --canonicalize | FileCheck %s

// The derivative of cap · tanh(s / cap) is 1 - tanh²: cap cancels. Rows are keys.
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

// CHECK-LABEL: tile.kernel @gradient
// CHECK: tile.map
// CHECK: ^bb0(%[[DS:.*]]: f32, %[[X:.*]]: f32, %{{.*}}: i32, %{{.*}}: i32):
// CHECK: %[[S:.*]] = arith.mulf %scale, %[[X]]
// CHECK: %[[INNER:.*]] = arith.divf %[[S]], %{{.*}} : f32
// CHECK: %[[Y:.*]] = math.tanh %[[INNER]]
// CHECK: %[[SQUARE:.*]] = arith.mulf %[[Y]], %[[Y]]
// CHECK: %[[R:.*]] = arith.subf %{{.*}}, %[[SQUARE]]
// CHECK: %[[DX:.*]] = arith.mulf %[[DS]], %[[R]]
// CHECK-NEXT: tile.yield %[[DX]]
tile.kernel @gradient(%scale: f32, %i: i32, %o: !tile.view<[?, ?, ?, 16], f32>) {
  %keys = tile.work : !tile.block<key, 8>
  %queries = tile.block %i of %keys : !tile.block<key, 8> -> !tile.block<query, 16>
  %x = tile.constant 0.0 : !tile.tile<[8, 16], f32>
  %d = tile.score_gradient %x of %x scaled by %scale at %keys, %queries : !tile.tile<[8, 16], f32>, !tile.block<key, 8>, !tile.block<query, 16>
  tile.store %d, %o[%keys] : !tile.tile<[8, 16], f32>, !tile.view<[?, ?, ?, 16], f32>[!tile.block<key, 8>]
}
