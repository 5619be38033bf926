// RUN: tesela-opt %s --attn-differentiate | FileCheck %s

// The rule of each op, in the order of transforms/ReverseSweep.h.

// v = a + b, v = a - b, v = -a.
// CHECK-LABEL: attn.gradient of @sum_and_difference
// CHECK: %[[ONE:.*]] = arith.constant 1.000000e+00
// CHECK: attn.partial "s" is %[[ONE]]
// CHECK-NEXT: attn.partial "c" is %[[ONE]]
// CHECK-NEXT: attn.partial "x"[%{{.*}}] is %[[ONE]]
attn.variant @sum_and_difference parameters [#attn.scalar<"c", f32>, #attn.capture<"x", f32, ["H"]>]
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %c = attn.param "c" : f32
  %x = attn.read "x"[%h] : f32
  %a = arith.addf %s, %x : f32
  %n = arith.negf %c : f32
  %r = arith.subf %a, %n : f32
  attn.yield %r : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %true = arith.constant true
  attn.yield %true : i1
}

// v = a · b; the same value as both factors gives 2 · a.
// CHECK-LABEL: attn.gradient of @product
// CHECK: ^bb0(%[[S:[^:]*]]: f32
// CHECK: %[[C:.*]] = attn.param "c"
// CHECK: %[[A:.*]] = arith.mulf %[[S]], %[[S]]
// CHECK: %[[TWO:.*]] = arith.constant 2.000000e+00
// CHECK: %[[TWO_C:.*]] = arith.mulf %[[TWO]], %[[C]]
// CHECK: %[[R:.*]] = arith.mulf %[[TWO_C]], %[[S]]
// CHECK: attn.partial "s" is %[[R]]
// CHECK-NEXT: attn.partial "c" is %[[A]]
attn.variant @product parameters [#attn.scalar<"c", f32>]
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %c = attn.param "c" : f32
  %a = arith.mulf %s, %s : f32
  %r = arith.mulf %a, %c : f32
  attn.yield %r : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %true = arith.constant true
  attn.yield %true : i1
}

// v = a / b: 1 / b, and -v / b. Uniform values are divided first.
// CHECK-LABEL: attn.gradient of @quotient
// CHECK: %[[C:.*]] = attn.param "c"
// CHECK: %[[V:.*]] = arith.divf %{{.*}}, %[[C]]
// CHECK: %[[ONE:.*]] = arith.constant 1.000000e+00
// CHECK: %[[BY:.*]] = arith.divf %[[ONE]], %[[C]]
// CHECK-DAG: %[[M:.*]] = arith.mulf %[[BY]], %[[V]]
// CHECK-DAG: %[[N:.*]] = arith.negf %[[M]]
// CHECK: attn.partial "s" is %[[BY]]
// CHECK-NEXT: attn.partial "c" is %[[N]]
attn.variant @quotient parameters [#attn.scalar<"c", f32>]
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %c = attn.param "c" : f32
  %r = arith.divf %s, %c : f32
  attn.yield %r : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %true = arith.constant true
  attn.yield %true : i1
}

// v = |a|: -1 where a < 0, else 1.
// CHECK-LABEL: attn.gradient of @absolute
// CHECK: ^bb0(%[[S:[^:]*]]: f32
// CHECK: %[[ZERO:.*]] = arith.constant 0.0
// CHECK: %[[C:.*]] = arith.cmpf olt, %[[S]], %[[ZERO]]
// CHECK-DAG: %[[MINUS:.*]] = arith.constant -1.0
// CHECK-DAG: %[[ONE:.*]] = arith.constant 1.0
// CHECK: %[[R:.*]] = arith.select %[[C]], %[[MINUS]], %[[ONE]]
// CHECK: attn.partial "s" is %[[R]]
attn.variant @absolute parameters []
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %r = math.absf %s : f32
  attn.yield %r : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %true = arith.constant true
  attn.yield %true : i1
}

// v = exp(a): v.
// CHECK-LABEL: attn.gradient of @exponential
// CHECK: ^bb0(%[[S:[^:]*]]: f32
// CHECK: %[[R:.*]] = math.exp %[[S]]
// CHECK: attn.partial "s" is %[[R]]
attn.variant @exponential parameters []
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %r = math.exp %s : f32
  attn.yield %r : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %true = arith.constant true
  attn.yield %true : i1
}

// v = log(a): 1 / a.
// CHECK-LABEL: attn.gradient of @logarithm
// CHECK: ^bb0(%[[S:[^:]*]]: f32
// CHECK: %[[ONE:.*]] = arith.constant 1.0
// CHECK: %[[R:.*]] = arith.divf %[[ONE]], %[[S]]
// CHECK: attn.partial "s" is %[[R]]
attn.variant @logarithm parameters []
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %r = math.log %s : f32
  attn.yield %r : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %true = arith.constant true
  attn.yield %true : i1
}

// v = sqrt(a): 1 / 2 / v.
// CHECK-LABEL: attn.gradient of @root
// CHECK: ^bb0(%[[S:[^:]*]]: f32
// CHECK: %[[V:.*]] = math.sqrt %[[S]]
// CHECK: %[[HALF:.*]] = arith.constant 5.000000e-01
// CHECK: %[[R:.*]] = arith.divf %[[HALF]], %[[V]]
// CHECK: attn.partial "s" is %[[R]]
attn.variant @root parameters []
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %r = math.sqrt %s : f32
  attn.yield %r : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %true = arith.constant true
  attn.yield %true : i1
}

// v = tanh(a): 1 - v².
// CHECK-LABEL: attn.gradient of @tangent
// CHECK: ^bb0(%[[S:[^:]*]]: f32
// CHECK: %[[V:.*]] = math.tanh %[[S]]
// CHECK: %[[VV:.*]] = arith.mulf %[[V]], %[[V]]
// CHECK: %[[R:.*]] = arith.subf %{{.*}}, %[[VV]]
// CHECK: attn.partial "s" is %[[R]]
attn.variant @tangent parameters []
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %r = math.tanh %s : f32
  attn.yield %r : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %true = arith.constant true
  attn.yield %true : i1
}

// v = sin(a): cos(a).
// CHECK-LABEL: attn.gradient of @sine
// CHECK: ^bb0(%[[S:[^:]*]]: f32
// CHECK: %[[R:.*]] = math.cos %[[S]]
// CHECK: attn.partial "s" is %[[R]]
attn.variant @sine parameters []
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %r = math.sin %s : f32
  attn.yield %r : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %true = arith.constant true
  attn.yield %true : i1
}

// v = cos(a): -sin(a).
// CHECK-LABEL: attn.gradient of @cosine
// CHECK: ^bb0(%[[S:[^:]*]]: f32
// CHECK: %[[V:.*]] = math.sin %[[S]]
// CHECK: %[[R:.*]] = arith.negf %[[V]]
// CHECK: attn.partial "s" is %[[R]]
attn.variant @cosine parameters []
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %r = math.cos %s : f32
  attn.yield %r : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %true = arith.constant true
  attn.yield %true : i1
}

// floor, int(), conditions and indices have the derivative 0.
// CHECK-LABEL: attn.gradient of @steps
// CHECK: %[[P:.*]] = arith.cmpf ogt
// CHECK-DAG: %[[ONE:.*]] = arith.constant 1.0
// CHECK-DAG: %[[ZERO:.*]] = arith.constant 0.0
// CHECK: %[[X:.*]] = arith.select %[[P]], %[[ONE]], %[[ZERO]]
// CHECK: attn.partial "s" is %[[ONE]]
// CHECK-NEXT: attn.partial "x"[%{{.*}}] is %[[X]]
// CHECK-NEXT: }
attn.variant @steps parameters [#attn.capture<"x", f32, ["H"]>, #attn.scalar<"c", f32>]
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %c = attn.param "c" : f32
  %i = attn.to_int %s : f32 to i32
  %x = attn.read "x"[%i] : f32
  %f = math.floor %c : f32
  %p = arith.cmpf ogt, %s, %c : f32
  %y = arith.select %p, %x, %f : f32
  %r = arith.addf %y, %s : f32
  attn.yield %r : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %true = arith.constant true
  attn.yield %true : i1
}

// v = c ? a : b. A side that is not computed gives 0, never 0 · inf: the quotient is inside the `?:`.
// CHECK-LABEL: attn.gradient of @sides
// CHECK: ^bb0(%[[S:[^:]*]]: f32
// CHECK: %[[P:.*]] = arith.cmpf ogt
// CHECK: %[[Q:.*]] = arith.divf %{{.*}}, %[[S]]
// CHECK: %[[R:.*]] = arith.select %[[P]], %[[Q]], %{{.*}}
// CHECK: attn.partial "s" is %[[R]]
attn.variant @sides parameters []
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %zero = arith.constant 0.0 : f32
  %p = arith.cmpf ogt, %s, %zero : f32
  %l = math.log %s : f32
  %r = arith.select %p, %l, %zero : f32
  attn.yield %r : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %true = arith.constant true
  attn.yield %true : i1
}

// Terms of both sides of one condition are joined in one `?:`.
// CHECK-LABEL: attn.gradient of @both_sides
// CHECK: %[[C:.*]] = attn.param "c"
// CHECK: %[[D:.*]] = attn.param "d"
// CHECK: %[[R:.*]] = arith.select %{{.*}}, %[[C]], %[[D]]
// CHECK: attn.partial "s" is %[[R]]
attn.variant @both_sides parameters [#attn.scalar<"c", f32>, #attn.scalar<"d", f32>]
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %c = attn.param "c" : f32
  %d = attn.param "d" : f32
  %p = arith.cmpi sgt, %q, %k : i32
  %x = arith.mulf %s, %c : f32
  %y = arith.mulf %s, %d : f32
  %r = arith.select %p, %x, %y : f32
  attn.yield %r : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %true = arith.constant true
  attn.yield %true : i1
}

// The derivative of a value that two conditions use is used if one of them holds.
// CHECK-LABEL: attn.gradient of @two_conditions
// CHECK: %[[P:.*]] = arith.cmpi sgt, %{{.*}}, %[[K:.*]] :
// CHECK: %[[O:.*]] = arith.cmpi sgt
// CHECK: %[[EITHER:.*]] = arith.ori %[[O]], %[[P]]
// CHECK: arith.divf
// CHECK: %[[R:.*]] = arith.select %[[EITHER]]
// CHECK: attn.partial "c" is %[[R]]
attn.variant @two_conditions parameters [#attn.scalar<"c", f32>]
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %c = attn.param "c" : f32
  %zero = arith.constant 0.0 : f32
  %p = arith.cmpi sgt, %q, %k : i32
  %o = arith.cmpi sgt, %q, %h : i32
  %l = math.log %c : f32
  %x = arith.select %p, %l, %zero : f32
  %y = arith.select %o, %l, %zero : f32
  %r = arith.addf %x, %y : f32
  attn.yield %r : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %true = arith.constant true
  attn.yield %true : i1
}

// v = Σ f(i, a): factors that are the same in all rounds stand before the sum. A read in a sum becomes attn.rounds.
// CHECK-LABEL: attn.gradient of @reduction
// CHECK: ^bb0(%[[S:[^:]*]]: f32
// CHECK: %[[V:.*]] = attn.reduce sum
// CHECK: %[[SUM:.*]] = attn.reduce sum below %[[N:.*]] : f32
// CHECK: %[[X:.*]] = attn.read
// CHECK: attn.yield %[[X]]
// CHECK: %[[Y:.*]] = arith.mulf %[[S]], %[[SUM]]
// CHECK: %[[R:.*]] = arith.addf %[[V]], %[[Y]]
// CHECK: attn.partial "s" is %[[R]]
// CHECK: attn.rounds below %[[N]] {
// CHECK-NEXT: ^bb0(%[[I:.*]]: i32):
// CHECK: %[[SS:.*]] = arith.mulf %[[S]], %[[S]]
// CHECK: attn.partial "x"[%[[I]]] is %[[SS]]
attn.variant @reduction parameters [#attn.capture<"x", f32, ["N"]>, #attn.scalar<"n", i32>]
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %n = attn.param "n" : i32
  %v = attn.reduce sum below %n : f32 {
  ^bb0(%i: i32):
    %x = attn.read "x"[%i] : f32
    %y = arith.mulf %x, %s : f32
    attn.yield %y : f32
  }
  %r = arith.mulf %v, %s : f32
  attn.yield %r : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %true = arith.constant true
  attn.yield %true : i1
}

// A sum of equal terms is a product with the number of rounds.
// CHECK-LABEL: attn.gradient of @count
// CHECK: %[[R:.*]] = arith.constant 5.0
// CHECK: attn.partial "s" is %[[R]]
attn.variant @count parameters [#attn.scalar<"n", i32>]
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %five = arith.constant 5 : i32
  %r = attn.reduce sum below %five : f32 {
  ^bb0(%i: i32):
    attn.yield %s : f32
  }
  attn.yield %r : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %true = arith.constant true
  attn.yield %true : i1
}

// Equal reads are one read with one derivative.
// CHECK-LABEL: attn.gradient of @equal_reads
// CHECK: %[[TWO:.*]] = arith.constant 2.0
// CHECK: attn.partial "x"[%{{.*}}] is %[[TWO]]
// CHECK-NEXT: }
attn.variant @equal_reads parameters [#attn.capture<"x", f32, ["H"]>]
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %x = attn.read "x"[%h] : f32
  %x2 = attn.read "x"[%h] : f32
  %a = arith.addf %s, %x : f32
  %r = arith.addf %a, %x2 : f32
  attn.yield %r : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %true = arith.constant true
  attn.yield %true : i1
}

// A sink has its own derivatives, and none by s.
// CHECK-LABEL: attn.gradient of @with_a_sink
// CHECK: %[[MINUS:.*]] = arith.constant -1.0
// CHECK: attn.partial "s" is %[[MINUS]]
// CHECK: } sink {
// CHECK: %[[Z:.*]] = attn.read "z"
// CHECK: %[[E:.*]] = math.exp %[[Z]]
// CHECK-NEXT: attn.partial "z"[%{{.*}}] is %[[E]]
attn.variant @with_a_sink parameters [#attn.capture<"z", f16, ["H"]>]
score {
^bb0(%s: f32, %b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %r = arith.negf %s : f32
  attn.yield %r : f32
} mask {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32, %k: i32):
  %true = arith.constant true
  attn.yield %true : i1
} sink {
^bb0(%b: i32, %h: i32, %hkv: i32, %q: i32):
  %z = attn.read "z"[%h] : f32
  %e = math.exp %z : f32
  attn.yield %e : f32
}
