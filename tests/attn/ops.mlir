// RUN: tesela-opt %s | tesela-opt | FileCheck %s
// RUN: tesela-opt %s --mlir-print-op-generic | tesela-opt | FileCheck %s

// CHECK-LABEL: attn.variant @sliding_alibi
// CHECK-SAME: parameters [#attn.scalar<"window", i32, 1024 : i32>, #attn.capture<"slope", f32, ["H"]>]
// CHECK: score {
// CHECK: ^bb0(%[[S:.*]]: f32, %{{.*}}: i32, %[[H:.*]]: i32, %{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32):
// CHECK: attn.read "slope"[%[[H]]] : f32
// CHECK: attn.yield %{{.*}} : f32
// CHECK: } mask {
// CHECK: attn.param "window" : i32
// CHECK: attn.yield %{{.*}} : i1
attn.variant @sliding_alibi
    parameters [#attn.scalar<"window", i32, 1024 : i32>, #attn.capture<"slope", f32, ["H"]>]
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %slope = attn.read "slope"[%h] : f32
  %distance = arith.subi %k, %q : i32
  %d = arith.sitofp %distance : i32 to f32
  %bias = arith.mulf %slope, %d : f32
  %r = arith.addf %s, %bias : f32
  attn.yield %r : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %causal = arith.cmpi sge, %q, %k : i32
  %distance = arith.subi %q, %k : i32
  %window = attn.param "window" : i32
  %near = arith.cmpi slt, %distance, %window : i32
  %m = arith.andi %causal, %near : i1
  attn.yield %m : i1
}

// CHECK-LABEL: attn.variant @everything
// CHECK-SAME: #attn.scalar<"cap", f32>
// CHECK-SAME: #attn.capture<"table", i32, ["B", "2*Sk-1", "3*P+2", "16"]>
attn.variant @everything
    parameters [#attn.scalar<"cap", f32>, #attn.capture<"table", i32, ["B", "2*Sk-1", "3*P+2", "16"]>]
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  // CHECK: attn.param "cap" : f32
  %cap = attn.param "cap" : f32
  // CHECK: attn.to_int %{{.*}} : f32 to i32
  %i = attn.to_int %cap : f32 to i32
  // CHECK: attn.read "table"[%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}] : i32
  %t = attn.read "table"[%b, %k, %q, %i] : i32
  // CHECK: attn.capture_extent "table" axis 2 : i32
  %n = attn.capture_extent "table" axis 2 : i32
  %u = arith.addi %t, %n : i32
  %x = arith.sitofp %u : i32 to f32
  attn.yield %x : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  // CHECK: attn.extent B : i32
  // CHECK: attn.extent H : i32
  // CHECK: attn.extent Hkv : i32
  // CHECK: attn.extent Sq : i32
  // CHECK: attn.extent Sk : i32
  %0 = attn.extent B : i32
  %1 = attn.extent H : i32
  %2 = attn.extent Hkv : i32
  %3 = attn.extent Sq : i32
  %4 = attn.extent Sk : i32
  // CHECK: attn.floor_div %{{.*}}, %{{.*}} : i32
  // CHECK: attn.floor_mod %{{.*}}, %{{.*}} : i32
  %5 = attn.floor_div %3, %4 : i32
  %6 = attn.floor_mod %0, %5 : i32
  %m = arith.cmpi eq, %6, %k : i32
  attn.yield %m : i1
}

// CHECK-LABEL: attn.variant @sinks_and_reductions
attn.variant @sinks_and_reductions parameters [#attn.capture<"z", bf16, ["H"]>, #attn.capture<"g", i32, ["G"]>]
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  attn.yield %s : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %n = arith.constant 4 : i32
  // CHECK: attn.reduce any below %{{.*}} : i1 {
  // CHECK: attn.yield %{{.*}} : i1
  %m = attn.reduce any below %n : i1 {
  ^bb0(%i: i32):
    %x = attn.read "g"[%i] : i32
    %same = arith.cmpi eq, %k, %x : i32
    attn.yield %same : i1
  }
  attn.yield %m : i1
// CHECK: } sink {
} sink {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32):
  %z = attn.read "z"[%h] : f32
  attn.yield %z : f32
}

// CHECK-LABEL: attn.gradient of @sliding_alibi score {
// CHECK: ^bb0(%[[S:.*]]: f32, %{{.*}}: i32, %[[H:.*]]: i32, %{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32):
// CHECK: attn.partial "s" is %[[S]]
// CHECK: attn.rounds below %{{.*}} {
// CHECK: ^bb0(%[[I:.*]]: i32):
// CHECK: attn.partial "slope"[%[[I]]] is %[[S]]
// CHECK: } sink {
// CHECK: attn.partial "slope"[%{{.*}}] is %{{.*}}
attn.gradient of @sliding_alibi score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  attn.partial "s" is %s
  attn.rounds below %h {
  ^bb0(%i: i32):
    attn.partial "slope"[%i] is %s
  }
} sink {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32):
  %x = attn.param "cap" : f32
  attn.partial "slope"[%h] is %x
}
