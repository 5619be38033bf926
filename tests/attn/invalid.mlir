// RUN: tesela-opt %s --split-input-file --allow-unregistered-dialect --verify-diagnostics

// expected-error @+1 {{expects the score's arguments to be}}
attn.variant @arguments parameters []
score {
^bb0(%s: f32):
  attn.yield %s : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %m = arith.constant true
  attn.yield %m : i1
}

// -----

attn.variant @mask_type parameters []
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  attn.yield %s : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %x = arith.constant 1.0 : f32
  // expected-error @+1 {{gives 'f32', but a mask is 'i1'}}
  attn.yield %x : f32
}

// -----

// expected-error @+1 {{has two parameters called 'w'; rename one}}
attn.variant @twice parameters [#attn.scalar<"w", i32>, #attn.scalar<"w", f32>]
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  attn.yield %s : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %m = arith.constant true
  attn.yield %m : i1
}

// -----

// expected-error @+1 {{parameters are #attn.scalar or #attn.capture}}
attn.variant @parameter parameters [42 : i32]
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  attn.yield %s : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %m = arith.constant true
  attn.yield %m : i1
}

// -----

attn.variant @undeclared parameters [#attn.capture<"t", f32, ["H"]>]
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  // expected-error @+1 {{reads 't', which is not a scalar parameter of @undeclared}}
  %t = attn.param "t" : f32
  attn.yield %t : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %m = arith.constant true
  attn.yield %m : i1
}

// -----

attn.variant @param_type parameters [#attn.scalar<"w", i32>]
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  // expected-error @+1 {{gives 'f32', but 'w' is declared as 'i32'}}
  %w = attn.param "w" : f32
  attn.yield %w : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %m = arith.constant true
  attn.yield %m : i1
}

// -----

attn.variant @read_name parameters []
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  // expected-error @+1 {{reads 't', which is not a captured tensor of @read_name}}
  %t = attn.read "t"[%h] : f32
  attn.yield %t : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %m = arith.constant true
  attn.yield %m : i1
}

// -----

attn.variant @read_rank parameters [#attn.capture<"t", f32, ["H"]>]
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  // expected-error @+1 {{has 2 indices, but 't' has 1 axes; give one index for each axis}}
  %t = attn.read "t"[%h, %k] : f32
  attn.yield %t : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %m = arith.constant true
  attn.yield %m : i1
}

// -----

attn.variant @extent_name parameters [#attn.scalar<"w", i32>]
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  attn.yield %s : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  // expected-error @+1 {{asks for 'w', which is not a captured tensor of @extent_name}}
  %n = attn.capture_extent "w" axis 0 : i32
  %m = arith.cmpi slt, %k, %n : i32
  attn.yield %m : i1
}

// -----

attn.variant @extent_axis parameters [#attn.capture<"t", f32, ["H"]>]
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  attn.yield %s : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  // expected-error @+1 {{asks for axis 1 of 't', which has 1 axes}}
  %n = attn.capture_extent "t" axis 1 : i32
  %m = arith.cmpi slt, %k, %n : i32
  attn.yield %m : i1
}

// -----

attn.variant @read_type parameters [#attn.capture<"t", i32, ["H"]>]
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  // expected-error @+1 {{is declared with elements of 'i32'}}
  %t = attn.read "t"[%h] : f32
  attn.yield %t : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %m = arith.constant true
  attn.yield %m : i1
}

// -----

// expected-error @+1 {{the default of scalar parameter 'w' is 'f32'; it must be 'i32'}}
"test.op"() {p = #attn.scalar<"w", i32, 1.0 : f32>} : () -> ()

// -----

// expected-error @+1 {{scalar parameter 'w' is 'i64'; it must be i32 or f32}}
"test.op"() {p = #attn.scalar<"w", i64>} : () -> ()

// -----

// expected-error @+1 {{captured tensor 't' has elements of 'f64'; they must be i32, f32, f16, bf16 or i1}}
"test.op"() {p = #attn.capture<"t", f64, ["H"]>} : () -> ()

// -----

attn.variant @read_half parameters [#attn.capture<"t", f16, ["H"]>]
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  attn.yield %s : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  // expected-error @+1 {{gives 'i1', but 't' is declared with elements of 'f16', which are read as 'f32'}}
  %m = attn.read "t"[%h] : i1
  attn.yield %m : i1
}

// -----

// expected-error @+1 {{has the extent "2*"; write it as "H", "2*Sk", "P-1" or "16"}}
"test.op"() {p = #attn.capture<"t", f32, ["2*"]>} : () -> ()

// -----

// expected-error @+1 {{captured tensor 't' has no extents}}
"test.op"() {p = #attn.capture<"t", f32, []>} : () -> ()

// -----

// expected-error @+1 {{needs at least one index}}
%t = attn.read "t"[] : f32

// -----

// expected-error @+1 {{expects the sink's arguments to be 'i32', 'i32', 'i32', 'i32' (b h hkv q)}}
attn.variant @sink_of_a_key parameters []
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  attn.yield %s : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %m = arith.constant true
  attn.yield %m : i1
} sink {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %z = arith.constant 0.0 : f32
  attn.yield %z : f32
}

// -----

%n = arith.constant 4 : i32
// expected-error @+1 {{any cannot combine 'i32'; any and all combine i1, sum combines i32 or f32}}
%x = attn.reduce any below %n : i32 {
^bb0(%i: i32):
  attn.yield %i : i32
}

// -----

%n = arith.constant 4 : i32
// expected-error @+1 {{expects its block to end with attn.yield of 'f32', the type of its result}}
%x = attn.reduce sum below %n : f32 {
^bb0(%i: i32):
  attn.yield %i : i32
}

// -----

// expected-error @+1 {{expects the score's arguments to be}}
attn.gradient of @v score {
^bb0(%s: f32, %b: i32):
}

// -----

// expected-error @+1 {{expects the sink's arguments to be}}
attn.gradient of @v score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
} sink {
^bb0(%s: f32):
}

// -----

attn.gradient of @v score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  // expected-error @+1 {{expects its block to take the index, an i32, but it takes ('f32')}}
  attn.rounds below %b {
  ^bb0(%i: f32):
  }
}

