// RUN: tesela-opt %s --tile-lower-bounds --split-input-file | FileCheck %s

// 80 neighbours touch six granules of 16. They are read without a loop; the last ones are clamped to the box's last granule.
// CHECK-LABEL: tile.kernel @small
// CHECK-SAME: %$doc.summary0: !tile.view<[?, ?, ?], i32>
// CHECK-SAME: tile.summaries = [{axes = array<i64: 0, 1>, capture = "$doc", levels = 1 : i64, rows = 1 : i64}]
tile.kernel @small(%$doc: !tile.view<[?, ?], i32>, %o: !tile.view<[?, ?, ?], f32, contiguous>, %b: i32, %first: i32, %last: i32) {
  // CHECK: %[[BELOW:.*]] = arith.minsi %b,
  // CHECK: %[[BATCH:.*]] = arith.maxsi %[[BELOW]],
  // CHECK: %[[LOW:.*]] = arith.shrsi %first
  // CHECK: arith.minsi %[[LOW]],
  // CHECK: %[[FIRST:.*]] = arith.maxsi
  // CHECK: arith.shrsi %last
  // CHECK: %[[LAST:.*]] = arith.maxsi
  // CHECK: %[[ZERO:.*]] = arith.constant 0 : i32
  // CHECK: tile.read %$doc.summary0[%[[ZERO]], %[[BATCH]], %[[FIRST]]] {covered}
  // CHECK: %[[ONE:.*]] = arith.constant 1 : i32
  // CHECK: tile.read %$doc.summary0[%[[ONE]], %[[BATCH]], %[[FIRST]]] {covered}
  // CHECK: %[[NEXT:.*]] = arith.addi %[[FIRST]]
  // CHECK: %[[CLAMPED:.*]] = arith.minsi %[[NEXT]], %[[LAST]]
  // CHECK: tile.read %$doc.summary0[%{{.*}}, %[[BATCH]], %[[CLAMPED]]] {covered}
  // CHECK-COUNT-9: tile.read
  // CHECK-NOT: tile.read
  // CHECK-NOT: tile.bounds
  %a, %z = tile.bounds %$doc[%b, %first] to [%b, %last] within [1, 80] : !tile.view<[?, ?], i32> -> i32
  %c = arith.cmpi sle, %a, %z : i32
  scf.if %c {
  }
}

// -----

// 4096 neighbours touch nine granules of 512. If the length is not known, a loop reads them.
// CHECK-LABEL: tile.kernel @coarse
// CHECK-SAME: %$doc.summary1: !tile.view<[?, ?], i32>
// CHECK-SAME: levels = 2
tile.kernel @coarse(%$doc: !tile.view<[?], f32>, %first: i32, %last: i32) {
  // CHECK-COUNT-18: tile.read %$doc.summary1
  // CHECK: arith.bitcast %{{.*}} : i32 to f32
  // CHECK: scf.for
  // CHECK-COUNT-2: tile.read %$doc.summary1
  // CHECK-NOT: tile.read
  %a, %z = tile.bounds %$doc[%first] to [%last] within [4096] : !tile.view<[?], f32> -> f32
  %b, %y = tile.bounds %$doc[%first] to [%last] within [0] : !tile.view<[?], f32> -> f32
  %c = arith.cmpf ole, %a, %y : f32
  %d = arith.cmpf ole, %b, %z : f32
  %e = arith.andi %c, %d : i1
  scf.if %e {
  }
}

// -----

// Boxes in two axes: granules of 64 x 16, and a loop over rows of granules if there are many. The
// remaining axis leads.
// CHECK-LABEL: tile.kernel @matrix
// CHECK-SAME: tile.summaries = [{axes = array<i64: 1, 0, 2>, capture = "$m", levels = 1 : i64, rows = 64 : i64}]
tile.kernel @matrix(%$m: !tile.view<[?, ?, ?], i32>, %i: i32, %h: i32, %j: i32, %k: i32, %l: i32) {
  // CHECK: arith.minsi %h,
  // CHECK: %[[H:.*]] = arith.maxsi
  // CHECK-COUNT-20: tile.read %$m.summary0.64.axes1_0_2[%{{.*}}, %[[H]],
  // CHECK: scf.for
  // CHECK-COUNT-24: tile.read %$m.summary0.64.axes1_0_2
  // CHECK-NOT: tile.read
  %a, %z = tile.bounds %$m[%i, %h, %k] to [%j, %h, %l] within [64, 1, 64] : !tile.view<[?, ?, ?], i32> -> i32
  %b, %y = tile.bounds %$m[%i, %h, %k] to [%j, %h, %l] within [128, 1, 176] : !tile.view<[?, ?, ?], i32> -> i32
  %c = arith.cmpi sle, %a, %z : i32
  %d = arith.cmpi sle, %b, %y : i32
  %e = arith.andi %c, %d : i1
  scf.if %e {
  }
}

// -----

// A box of one element is read directly. A box in three axes has no bounds. Neither needs a summary.
// CHECK-LABEL: tile.kernel @without
// CHECK-NOT: summary
tile.kernel @without(%$m: !tile.view<[?, ?, ?], f32>, %i: i32, %j: i32) {
  // CHECK: %[[X:.*]] = tile.read %$m[%i, %i, %j]
  // CHECK: %[[NAN:.*]] = arith.constant 0x7FC00000 : f32
  // CHECK: arith.cmpf ole, %[[X]], %[[X]]
  // CHECK: arith.cmpf ole, %[[NAN]],
  %a, %z = tile.bounds %$m[%i, %i, %j] to [%i, %i, %j] within [1, 1, 1] : !tile.view<[?, ?, ?], f32> -> f32
  %b, %y = tile.bounds %$m[%i, %i, %i] to [%j, %j, %j] within [64, 64, 64] : !tile.view<[?, ?, ?], f32> -> f32
  %c = arith.cmpf ole, %a, %z : f32
  %d = arith.cmpf ole, %b, %y : f32
  %e = arith.andi %c, %d : i1
  scf.if %e {
  }
}

// -----

// The elements of a small box are read in loops over the axes in which it extends. For a larger box nothing is known.
// CHECK-LABEL: tile.kernel @elements
// CHECK-NOT: summary
// CHECK: %[[MOST:.*]] = arith.constant 128 : i32
// CHECK: %[[FURTHER:.*]] = arith.subi %last, %first
// CHECK: %[[CUT:.*]] = arith.minui %[[FURTHER]], %[[MOST]]
// CHECK: %[[COUNT:.*]] = arith.addi %[[CUT]]
// CHECK: %[[SMALL:.*]] = arith.cmpi sle, %{{.*}}, %[[MOST]]
// CHECK: scf.if %[[SMALL]] -> (i1)
// CHECK:   scf.for %[[I:.*]] = %{{.*}} to %[[COUNT]]
// CHECK:     %[[INDEX:.*]] = arith.addi %first, %[[I]]
// CHECK:     %[[ELEMENT:.*]] = tile.read %$chance[%b, %[[INDEX]]]
// CHECK:     arith.cmpi sge, %[[ELEMENT]], %low
// CHECK:     arith.cmpi sle, %[[ELEMENT]], %high
// CHECK: } else {
// CHECK:   arith.constant true
// CHECK-NOT: tile.has_element
tile.kernel @elements(%$chance: !tile.view<[?, ?], i32>, %b: i32, %first: i32, %last: i32, %low: i32, %high: i32) {
  %h = tile.has_element %$chance[%b, %first] to [%b, %last] between %low, %high : !tile.view<[?, ?], i32>
  scf.if %h {
  }
}

// -----

// Tests may compute more than they yield. Unused values are removed.
// CHECK-LABEL: tile.kernel @unneeded
// CHECK-NOT: scf.for
tile.kernel @unneeded(%$chance: !tile.view<[?], i32>, %first: i32, %last: i32) {
  %found, %count = tile.find_blocks from %first to %last : !tile.found_blocks<64> one {
  ^bb0(%low: i32, %high: i32):
    %h = tile.has_element %$chance[%first] to [%last] between %low, %high : !tile.view<[?], i32>
    %t = arith.constant true
    tile.yield %t, %t : i1, i1
  } many {
  ^bb0(%low: i32, %high: i32):
    %t = arith.constant true
    tile.yield %t, %t : i1, i1
  }
}
