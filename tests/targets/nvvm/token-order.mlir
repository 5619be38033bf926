// Work items of sequences that lie one after the other: a row block for each 64 tokens and one more for each sequence. All heads of a row
// block are next to each other, and the last row blocks come first.
// RUN: tesela-opt %s --pipe-assign-fragments --pipe-split-roles --pipe-place-buffers --pipe-lower-to-nvvm --canonicalize | FileCheck %s

// CHECK-LABEL: llvm.func @items
// CHECK-SAME: %[[B:[a-z0-9]+]]: i32, %[[H:[a-z0-9]+]]: i32
// CHECK: scf.while (%[[ITEM:[a-z0-9]+]] =
// CHECK: %[[BLOCKS:.*]] = arith.divui %{{.*}}, %c64_i32
// CHECK: %[[ROWS:.*]] = arith.addi %[[BLOCKS]], %[[B]]
// CHECK: %[[ITEMS:.*]] = arith.muli %[[ROWS]]
// CHECK: arith.cmpi ult, %[[ITEM]], %[[ITEMS]]
// A binary search in ascending numbers finds the sequence: one step for each bit of the last sequence's number.
// CHECK: %[[ROW:.*]] = arith.subi
// CHECK: %[[LAST:.*]] = arith.subi %[[B]], %c1_i32
// CHECK: %[[ZEROS:.*]] = "llvm.intr.ctlz"(%[[LAST]]) <{is_zero_poison = false}>
// CHECK: %[[HIGHEST:.*]] = arith.subi %c31_i32, %[[ZEROS]]
// CHECK: %[[STEPS:.*]] = arith.subi %c32_i32, %[[ZEROS]]
// CHECK: %[[SEQUENCE:.*]] = scf.for %[[STEP:[a-z0-9]+]] = %c0_i32 to %[[STEPS]]
// CHECK: %[[SHIFT:.*]] = arith.subi %[[HIGHEST]], %[[STEP]]
// CHECK: arith.shli %c1_i32, %[[SHIFT]]
// CHECK: %[[READ:.*]] = llvm.load %{{.*}} invariant
// CHECK: %[[BELOW:.*]] = arith.minsi %[[READ]]
// CHECK: %[[TOKEN:.*]] = arith.maxsi %[[BELOW]], %c0_i32
// CHECK: %[[BEFORE:.*]] = arith.divui %[[TOKEN]], %c64_i32
// CHECK: arith.addi %[[BEFORE]]
// CHECK: scf.yield
// A block in front of the first sequence is put behind every end.
// CHECK: arith.select %{{.*}}, %{{.*}}, %c1073741824_i32
tile.kernel @items(in %q: !tile.view<[1, H, ?, 64], f16>, out %o: !tile.view<[1, H, ?, 64], f16>, in %starts: !tile.view<[B + 1], i32>)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 2, warps = 4, q_in_registers = false, consumers = 1, persistent = true, output_buffer = true>} {
  %item = tile.work : !tile.block<query, 64>
  %batch, %head, %kv_head, %first = tile.coordinates %item : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %start = tile.read %starts[%batch] : !tile.view<[B + 1], i32> -> i32
  %n = tile.extent "Sq" of_launch
  %rows = tile.sequence %item from %zero of %n, %n {tile.token_order = array<i64: 2, 0>} : !tile.block<query, 64>
  %Qs = tile.ragged %q from %start : !tile.view<[1, H, ?, 64], f16> -> !tile.view<[B, H, Sq, 64], f16>
  %Os = tile.ragged %o from %start : !tile.view<[1, H, ?, 64], f16> -> !tile.view<[B, H, Sq, 64], f16>
  %Q = tile.load %Qs[%rows] : !tile.view<[B, H, Sq, 64], f16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], f16>
  %none = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %S = tile.dot %Q, %Q transposed plus %none : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
  %R = tile.convert %S : !tile.tile<[64, 64], f32> -> !tile.tile<[64, 64], f16>
  tile.store %R, %Os[%rows] : !tile.tile<[64, 64], f16>, !tile.view<[B, H, Sq, 64], f16>[!tile.block<query, 64>]
}
