// RUN: tesela-opt %s --split-input-file --attn-differentiate --verify-diagnostics

attn.variant @no_rule parameters []
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %zero = arith.constant 0.0 : f32
  // expected-error @+1 {{'arith.maximumf' op has no rule to be differentiated by; write the score with the operations that the table of transforms/ReverseSweep.h has, or add a rule to it}}
  %r = arith.maximumf %s, %zero : f32
  attn.yield %r : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %true = arith.constant true
  attn.yield %true : i1
}

// -----

// The same in a sink.
attn.variant @no_rule_in_sink parameters [#attn.capture<"z", f32, ["H"]>]
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  attn.yield %s : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %true = arith.constant true
  attn.yield %true : i1
} sink {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32):
  %z = attn.read "z"[%h] : f32
  // expected-error @+1 {{'math.rsqrt' op has no rule to be differentiated by}}
  %r = math.rsqrt %z : f32
  attn.yield %r : f32
}

// -----

// An op whose result is not used needs no rule.
attn.variant @constant parameters []
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %one = arith.constant 1.0 : f32
  %two = math.rsqrt %one : f32
  %r = arith.mulf %s, %two : f32
  attn.yield %r : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %true = arith.constant true
  attn.yield %true : i1
}
