// In a loop over sequences each lane does its own iterations, 32 at a time.
// RUN: tesela-opt %s --pipe-assign-fragments --pipe-place-buffers --pipe-lower-to-nvvm --canonicalize | FileCheck %s

// The slots of all sequences, and of the longest one; and the sequence of slot %place, which is that of the lane whose slots, behind
// those of the lanes below, contain it.
// CHECK-LABEL: llvm.func @shares
// CHECK-SAME: %[[B:[a-z0-9]+]]: i32
// CHECK: %[[ALL:.*]]:2 = scf.for %[[I:[a-z0-9]+]] = %c0_i32 to %[[B]] step %c32_i32 iter_args(%[[SUM:[a-z0-9]+]] = %c0_i32, %[[MOST:[a-z0-9]+]] = %c0_i32)
// CHECK: %[[NUMBER:.*]] = arith.addi %[[I]], %{{.*}}
// CHECK: %[[EXISTS:.*]] = arith.cmpi slt, %[[NUMBER]], %[[B]]
// CHECK: %[[LAST:.*]] = arith.subi %[[B]], %c1_i32
// CHECK: arith.minsi %[[NUMBER]], %[[LAST]]
// CHECK: %[[N:.*]] = llvm.load %{{.*}} invariant
// CHECK: %[[OWN:.*]] = arith.select %[[EXISTS]], %[[N]], %c0_i32
// CHECK: %[[TOTAL:.*]] = nvvm.redux.sync{{ +}}add %[[OWN]]
// CHECK: arith.addi %[[SUM]], %[[TOTAL]]
// CHECK: %[[LARGEST:.*]] = nvvm.redux.sync{{ +}}umax
// CHECK: arith.maxui %[[MOST]], %[[LARGEST]]
//
// CHECK: scf.for {{.*}}step %c32_i32 iter_args(%[[FOUND:[a-z0-9]+]] = %c0_i32, %[[BEFORE:[a-z0-9]+]] = %c0_i32)
// CHECK-COUNT-5: nvvm.shfl.sync{{ +}}up
// CHECK: %[[UP_TO:.*]] = arith.select
// CHECK: %[[LESS:.*]] = arith.subi %[[UP_TO]], %[[HERE:.*]] :
// CHECK: %[[FIRST:.*]] = arith.addi %[[BEFORE]], %[[LESS]]
// CHECK: nvvm.shfl.sync{{ +}}idx %{{.*}}, %[[UP_TO]], %c31_i32
// CHECK: %[[WITHIN:.*]] = arith.subi %{{.*}}, %[[FIRST]]
// CHECK: %[[IS_HERE:.*]] = arith.cmpi ult, %[[WITHIN]]
// CHECK: %[[IS_ONE:.*]] = arith.andi %{{.*}}, %[[IS_HERE]]
// CHECK: %[[ONES:.*]] = nvvm.vote.sync{{ +}}ballot %{{.*}}, %[[IS_ONE]]
// CHECK: "llvm.intr.ctlz"(%[[ONES]])
// CHECK: %[[VALUE:.*]] = nvvm.shfl.sync{{ +}}idx
// CHECK: arith.select %{{.*}}, %[[VALUE]], %[[FOUND]]
//
// Values that are carried in any other form keep the loop as it is.
// CHECK: scf.for {{.*}}iter_args(%{{[a-z0-9]+}} = %c1_i32)
// CHECK-NOT: nvvm.
// CHECK: arith.muli
tile.kernel @shares(in %lengths: !tile.view<[B], i32>, out %found: !tile.view<[B, 2, 4], i32>) attributes {schedule = #tile.schedule<block_m = 16, block_n = 32, stages = 2, warps = 1, q_in_registers = false>} {
  %item = tile.work : !tile.block<query, 16>
  %place, %head, %kv_head, %first = tile.coordinates %item : !tile.block<query, 16>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %batches = tile.extent "B"
  %all, %most = scf.for %i = %zero to %batches step %one iter_args(%sum = %zero, %max = %zero) -> (i32, i32) : i32 {
    %n = tile.read %lengths[%i] : !tile.view<[B], i32> -> i32
    %next = arith.addi %sum, %n : i32
    %larger = arith.maxui %max, %n : i32
    scf.yield %next, %larger : i32, i32
  }
  %b, %end = scf.for %i = %zero to %batches step %one iter_args(%found_so_far = %zero, %before = %zero) -> (i32, i32) : i32 {
    %n = tile.read %lengths[%i] : !tile.view<[B], i32> -> i32
    %within = arith.subi %place, %before : i32
    %is_here = arith.cmpi ult, %within, %n : i32
    %next = arith.select %is_here, %i, %found_so_far : i32
    %next_before = arith.addi %before, %n : i32
    scf.yield %next, %next_before : i32, i32
  }
  %product = scf.for %i = %zero to %batches step %one iter_args(%so_far = %one) -> (i32) : i32 {
    %n = tile.read %lengths[%i] : !tile.view<[B], i32> -> i32
    %next = arith.muli %so_far, %n : i32
    scf.yield %next : i32
  }
  %s = arith.addi %all, %most : i32
  %t = arith.addi %b, %end : i32
  %u = arith.addi %s, %t : i32
  %v = arith.addi %u, %product : i32
  %values = tile.map : () -> !tile.tile<[16], i32> {
  ^body(%row: i32, %column: i32):
    tile.yield %v : i32
  }
  tile.store %values, %found[%item] : !tile.tile<[16], i32>, !tile.view<[B, 2, 4], i32>[!tile.block<query, 16>]
}
