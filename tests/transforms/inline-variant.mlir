// RUN: tesela-opt %s --split-input-file --tile-inline-variant | FileCheck %s

// A score and a mask with parameters: the used parameters become arguments, in the variant's order.
attn.variant @both parameters [#attn.scalar<"unused", i32>, #attn.scalar<"window", i32>, #attn.capture<"slope", f32, ["H"]>]
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %slope = attn.read "slope"[%h] : f32
  %r = arith.addf %s, %slope : f32
  attn.yield %r : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %window = attn.param "window" : i32
  %sk = attn.extent Sk : i32
  %x = arith.addi %window, %sk : i32
  %m = arith.cmpi slt, %q, %x : i32
  attn.yield %m : i1
}
// CHECK-NOT: attn.variant
// CHECK-LABEL: tile.kernel @k(%scale: f32, %partial: i1, %i: i32, %$window: i32, %$slope: !tile.view<[?], f32>)
tile.kernel @k(%scale: f32, %partial: i1, %i: i32) {
  %rows = tile.work : !tile.block<query, 8>
  %keys = tile.block %i of %rows : !tile.block<query, 8> -> !tile.block<key, 8>
  %x = tile.constant 0.0 : !tile.tile<[8, 8], f32>
  // A score that is not s itself includes the scale, so the factor is log2(e).
  // CHECK: %[[FACTOR:.*]] = arith.constant 1.44269502 : f32
  %factor = tile.exponent_factor %scale
  // CHECK: tile.score {{.*}} do {
  // CHECK-NEXT: ^bb0(%[[S:.*]]: f32, %{{.*}}: i32, %[[H:.*]]: i32, %{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32):
  // CHECK-NEXT: %[[SLOPE:.*]] = tile.read %$slope[%[[H]]] : <[?], f32> -> f32
  // CHECK-NEXT: %[[R:.*]] = arith.addf %[[S]], %[[SLOPE]]
  // CHECK-NEXT: tile.yield %[[R]] : f32
  %s = tile.score %x scaled by %scale at %rows, %keys : !tile.tile<[8, 8], f32>, !tile.block<query, 8>, !tile.block<key, 8>
  // CHECK: tile.mask {{.*}} do {
  // CHECK: %[[SK:.*]] = tile.extent "Sk"
  // CHECK: %[[SUM:.*]] = arith.addi %$window, %[[SK]]
  // CHECK: arith.cmpi slt, %{{.*}}, %[[SUM]]
  %t = tile.mask %s if %partial at %rows, %keys : !tile.tile<[8, 8], f32>, !tile.block<query, 8>, !tile.block<key, 8>
  // CHECK: tile.softmax_step {{.*}} factor %[[FACTOR]]
  %m = tile.constant 0.0 : !tile.tile<[8], f32>
  %p:4 = tile.softmax_step %t, %m, %m factor %factor : !tile.tile<[8, 8], f32>, !tile.tile<[8], f32>
}

// -----

// A tensor of which only an extent is used is an argument, too.
attn.variant @extent parameters [#attn.capture<"at", i32, ["2*M"]>]
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  attn.yield %s : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %n = attn.capture_extent "at" axis 0 : i32
  %m = arith.cmpi slt, %k, %n : i32
  attn.yield %m : i1
}
// CHECK-LABEL: tile.kernel @k(%scale: f32, %partial: i1, %i: i32, %$at: !tile.view<[?], i32>)
tile.kernel @k(%scale: f32, %partial: i1, %i: i32) {
  %rows = tile.work : !tile.block<query, 8>
  %keys = tile.block %i of %rows : !tile.block<query, 8> -> !tile.block<key, 8>
  %x = tile.constant 0.0 : !tile.tile<[8, 8], f32>
  // CHECK: tile.mask {{.*}} do {
  // CHECK: %[[N:.*]] = tile.view_extent %$at axis 0
  // CHECK: arith.cmpi slt, %{{.*}}, %[[N]]
  %t = tile.mask %x if %partial at %rows, %keys : !tile.tile<[8, 8], f32>, !tile.block<query, 8>, !tile.block<key, 8>
}

// -----

// A tensor of bool is a view of bytes; f16 elements are widened to f32.
attn.variant @small_types parameters [#attn.capture<"on", i1, ["Sq", "Sk"]>, #attn.capture<"half", f16, ["H"]>]
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %t = attn.read "half"[%h] : f32
  %r = arith.addf %s, %t : f32
  attn.yield %r : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %m = attn.read "on"[%q, %k] : i1
  attn.yield %m : i1
}
// CHECK-LABEL: tile.kernel @k(
// CHECK-SAME: %$on: !tile.view<[?, ?], i8>, %$half: !tile.view<[?], f16>
tile.kernel @k(%scale: f32, %partial: i1, %i: i32) {
  %rows = tile.work : !tile.block<query, 8>
  %keys = tile.block %i of %rows : !tile.block<query, 8> -> !tile.block<key, 8>
  %x = tile.constant 0.0 : !tile.tile<[8, 8], f32>
  // CHECK: tile.read %$half[%{{.*}}] : <[?], f16> -> f32
  %s = tile.score %x scaled by %scale at %rows, %keys : !tile.tile<[8, 8], f32>, !tile.block<query, 8>, !tile.block<key, 8>
  // CHECK: %[[BYTE:.*]] = tile.read %$on[%{{.*}}, %{{.*}}] : <[?, ?], i8> -> i32
  // CHECK: arith.cmpi ne, %[[BYTE]], %{{.*}} : i32
  %t = tile.mask %s if %partial at %rows, %keys : !tile.tile<[8, 8], f32>, !tile.block<query, 8>, !tile.block<key, 8>
  %m = tile.constant 0.0 : !tile.tile<[8], f32>
  %factor = tile.exponent_factor %scale
  %p:4 = tile.softmax_step %t, %m, %m factor %factor : !tile.tile<[8, 8], f32>, !tile.tile<[8], f32>
}

// -----

// If the score is s itself, no op remains, and the factor includes the scale. In masks, exp becomes its exact form.
attn.variant @identity parameters []
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  attn.yield %s : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %x = arith.sitofp %k : i32 to f32
  %e = math.exp %x : f32
  %m = arith.cmpf olt, %e, %x : f32
  attn.yield %m : i1
}
// CHECK-LABEL: tile.kernel @k(%scale: f32, %partial: i1, %i: i32) {
tile.kernel @k(%scale: f32, %partial: i1, %i: i32) {
  %rows = tile.work : !tile.block<query, 8>
  %keys = tile.block %i of %rows : !tile.block<query, 8> -> !tile.block<key, 8>
  %x = tile.constant 0.0 : !tile.tile<[8, 8], f32>
  // CHECK: %[[LOG2E:.*]] = arith.constant 1.44269502 : f32
  // CHECK: arith.mulf %scale, %[[LOG2E]] : f32
  %factor = tile.exponent_factor %scale
  // CHECK-NOT: tile.score
  %s = tile.score %x scaled by %scale at %rows, %keys : !tile.tile<[8, 8], f32>, !tile.block<query, 8>, !tile.block<key, 8>
  // CHECK: tile.mask {{.*}} do {
  // CHECK-NOT: math.exp
  %t = tile.mask %s if %partial at %rows, %keys : !tile.tile<[8, 8], f32>, !tile.block<query, 8>, !tile.block<key, 8>
}

// -----

// An exact score uses the functions of ExactMath.h, like a mask.
attn.variant @exact parameters [] attributes {exact_score}
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %r = math.tanh %s : f32
  attn.yield %r : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %m = arith.cmpi slt, %q, %k : i32
  attn.yield %m : i1
}
// CHECK-LABEL: tile.kernel @k(%scale: f32, %i: i32) {
tile.kernel @k(%scale: f32, %i: i32) {
  %rows = tile.work : !tile.block<query, 8>
  %keys = tile.block %i of %rows : !tile.block<query, 8> -> !tile.block<key, 8>
  %x = tile.constant 0.0 : !tile.tile<[8, 8], f32>
  // CHECK: tile.score {{.*}} {exact}
  // CHECK-NOT: math.tanh
  %s = tile.score %x scaled by %scale at %rows, %keys : !tile.tile<[8, 8], f32>, !tile.block<query, 8>, !tile.block<key, 8>
}
