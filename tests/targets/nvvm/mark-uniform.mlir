// RUN: tesela-opt %s --pipe-mark-uniform | FileCheck %s

// A loop over three runs of blocks. It adds to memory, so the numbers among which it chooses are marked, in front of the loop. The count
// of uses is not.
// CHECK-LABEL: tile.kernel @adds
// CHECK: scf.for %[[USE:.*]] = %
// CHECK-DAG: %[[A:.*]] = pipe.uniform %a
// CHECK-DAG: %[[B:.*]] = pipe.uniform %b
// CHECK-DAG: %[[C:.*]] = pipe.uniform %c
// CHECK-DAG: %[[I:.*]] = pipe.uniform %i
// CHECK-DAG: %[[J:.*]] = pipe.uniform %j
// CHECK-NOT: pipe.uniform
// CHECK: scf.while
// CHECK-SAME: = %[[USE]])
// CHECK: arith.cmpi sge, %{{.*}}, %[[I]]
// CHECK: arith.select %{{.*}}, %[[B]], %[[A]]
// CHECK: arith.cmpi sge, %{{.*}}, %[[J]]
// CHECK: arith.select %{{.*}}, %[[C]], %{{.*}}
// CHECK: arith.cmpi slt, %{{.*}}, %end
tile.kernel @adds(%dq: !tile.view<[B, H, Sq, 128], f32>, %a: i32, %b: i32, %c: i32, %i: i32, %j: i32, %end: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %keys = tile.work : !tile.block<key, 128>
  %sums = pipe.alloc : !pipe.buffer<1, [64, 128], f32, panels = true>
  pipe.roles producer 24 {
  } consumers 2 240 {
    scf.for %use = %zero to %one step %one : i32 {
      %n:2 = scf.while (%k = %zero, %u = %use) : (i32, i32) -> (i32, i32) {
        %second = arith.cmpi sge, %k, %i : i32
        %x = arith.select %second, %b, %a : i32
        %third = arith.cmpi sge, %k, %j : i32
        %y = arith.select %third, %c, %x : i32
        %first = arith.addi %k, %y : i32
        %queries = tile.block %first of %keys : !tile.block<key, 128> -> !tile.block<query, 64>
        pipe.add_out %sums to %dq[%queries] : !pipe.buffer<1, [64, 128], f32, panels = true>, !tile.view<[B, H, Sq, 128], f32>[!tile.block<query, 64>]
        pipe.drain
        %next = arith.addi %k, %one : i32
        %more = arith.cmpi slt, %next, %end : i32
        scf.condition(%more) %next, %u : i32, i32
      } do {
      ^bb0(%k: i32, %u: i32):
        scf.yield %k, %u : i32, i32
      } attributes {pipe.counted}
    }
  }
}

// The same choice in a loop that adds nothing to memory: the count of uses is marked. A loop that chooses among its own numbers has no
// marks, and neither has one that is not counted.
// CHECK-LABEL: tile.kernel @keeps
// CHECK: scf.for %[[COUNT:.*]] = %
// CHECK: %[[SHARED:.*]] = pipe.uniform %[[COUNT]]
// CHECK-NOT: pipe.uniform
// CHECK: scf.while
// CHECK-SAME: = %[[SHARED]])
// CHECK: arith.select %{{.*}}, %b, %a
// CHECK-NOT: pipe.uniform
// CHECK: scf.while
// CHECK-SAME: = %[[COUNT]])
// CHECK-NOT: pipe.uniform
tile.kernel @keeps(%a: i32, %b: i32, %i: i32, %end: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  pipe.roles producer 24 {
  } consumers 2 240 {
    scf.for %use = %zero to %one step %one : i32 {
      %n:2 = scf.while (%k = %zero, %u = %use) : (i32, i32) -> (i32, i32) {
        %second = arith.cmpi sge, %k, %i : i32
        %x = arith.select %second, %b, %a : i32
        %next = arith.addi %k, %x : i32
        %more = arith.cmpi slt, %next, %end : i32
        scf.condition(%more) %next, %u : i32, i32
      } do {
      ^bb0(%k: i32, %u: i32):
        scf.yield %k, %u : i32, i32
      } attributes {pipe.counted}
      %m:2 = scf.while (%k = %zero, %u = %use) : (i32, i32) -> (i32, i32) {
        %second = arith.cmpi sge, %k, %i : i32
        %x = arith.select %second, %b, %u : i32
        %next = arith.addi %k, %x : i32
        %more = arith.cmpi slt, %next, %end : i32
        scf.condition(%more) %next, %u : i32, i32
      } do {
      ^bb0(%k: i32, %u: i32):
        scf.yield %k, %u : i32, i32
      } attributes {pipe.counted}
      %o:2 = scf.while (%k = %zero, %u = %use) : (i32, i32) -> (i32, i32) {
        %second = arith.cmpi sge, %k, %i : i32
        %x = arith.select %second, %b, %a : i32
        %next = arith.addi %k, %x : i32
        %more = arith.cmpi slt, %next, %end : i32
        scf.condition(%more) %next, %u : i32, i32
      } do {
      ^bb0(%k: i32, %u: i32):
        scf.yield %k, %u : i32, i32
      }
    }
  }
}
