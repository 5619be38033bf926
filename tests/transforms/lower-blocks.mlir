// RUN: tesela-opt %s --tile-lower-blocks | FileCheck %s

// Without ranges, every block of [0, Sk) runs, and all are partial.
// CHECK-LABEL: tile.kernel @all
tile.kernel @all() {
  %rows = tile.work : !tile.block<query, 64>
  %x = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  // CHECK: %[[SK:.*]] = tile.extent "Sk"
  // CHECK: arith.divui %[[SK]]
  // CHECK: scf.for %[[J:.*]] = {{.*}} : i32 {
  // CHECK: %[[TRUE:.*]] = arith.constant true
  // CHECK: %[[FIRST:.*]] = arith.muli %[[J]], %{{.*}} : i32
  // CHECK-NEXT: %[[KEYS:.*]] = tile.block %[[FIRST]] of %{{.*}} : !tile.block<query, 64> -> <key, 32>
  // CHECK: tile.mask %{{.*}} if %[[TRUE]] at %{{.*}}, %[[KEYS]]
  tile.blocks %keys, %partial of %rows : !tile.block<query, 64> -> !tile.block<key, 32> {
    %t = tile.mask %x if %partial at %rows, %keys : !tile.tile<[64, 32], f32>, !tile.block<query, 64>, !tile.block<key, 32>
  }
}

// The blocks of a run. A block is partial if it has a dropped key or reaches beyond Sk.
// CHECK-LABEL: tile.kernel @run
tile.kernel @run(%low: i32, %high: i32, %first: i32, %end: i32, %x: f32) {
  %rows = tile.work : !tile.block<query, 64>
  // CHECK: %[[LOW_BLOCK:.*]] = arith.divui %low
  // CHECK: arith.divui %high
  // CHECK: arith.remui %high
  // CHECK: %[[EMPTY:.*]] = arith.cmpi sge, %low, %high
  // CHECK: %[[HIGH_BLOCK:.*]] = arith.select %[[EMPTY]], %[[LOW_BLOCK]]
  // CHECK: %[[FIRST_DROP:.*]] = arith.divui %first
  // CHECK-NOT: arith.select
  // CHECK: %[[COLUMNS:.*]] = arith.maxsi
  // CHECK: %[[SOME:.*]] = arith.minsi %[[COLUMNS]]
  // CHECK: %[[MOST:.*]] = arith.muli %[[SOME]]
  // CHECK: %[[BEFORE:.*]] = arith.minsi %{{.*}}, %[[MOST]]
  // CHECK: %[[ALL:.*]] = arith.addi %[[BEFORE]], %[[COLUMNS]]
  // CHECK: arith.remui %[[ALL]]
  // CHECK: %[[DROPS:.*]] = arith.addi
  // CHECK: %[[SK:.*]] = tile.extent "Sk"
  // CHECK: %[[BROKEN:.*]] = arith.divui %[[SK]]
  // CHECK: %[[R:.*]] = scf.for %[[J:.*]] = %[[LOW_BLOCK]] to %[[HIGH_BLOCK]] step %{{.*}} iter_args(%[[C:.*]] = %x) -> (f32) : i32 {
  // CHECK: %[[TAIL:.*]] = arith.cmpi eq, %[[J]], %[[BROKEN]]
  // CHECK: %[[PLACE:.*]] = arith.subi %[[J]], %[[FIRST_DROP]]
  // CHECK: %[[INSIDE:.*]] = arith.cmpi ult, %[[PLACE]], %[[DROPS]]
  // CHECK: %[[PARTIAL:.*]] = arith.ori %[[TAIL]], %[[INSIDE]]
  // CHECK: %[[Y:.*]] = arith.select %[[PARTIAL]], %[[C]]
  // CHECK: scf.yield %[[Y]] : f32
  %r = tile.blocks %keys, %partial of %rows : !tile.block<query, 64> -> !tile.block<key, 32>
      carry (%c = %x : f32) runs (%low, %high) drops (%first, %end) {
    %zero = arith.constant 0.0 : f32
    %y = arith.select %partial, %c, %zero : f32
    tile.yield %y : f32
  }
  // CHECK: arith.addf %[[R]]
  %sum = arith.addf %r, %r : f32
}

// The transpose: positions of queries. A block with queries on both sides of Sq is partial.
// CHECK-LABEL: tile.kernel @queries
tile.kernel @queries(%low: i32, %high: i32) {
  // CHECK: %[[ROWS:.*]] = tile.work : <key, 32>
  %rows = tile.work : !tile.block<key, 32>
  %x = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  // CHECK: %[[POSITIONS:.*]] = arith.constant 16 : i32
  // CHECK: arith.divui %low, %[[POSITIONS]]
  // CHECK: %[[SQ:.*]] = tile.extent "Sq"
  // CHECK: %[[BROKEN:.*]] = arith.divui %[[SQ]], %[[POSITIONS]]
  // CHECK: scf.for %[[J:.*]] =
  // CHECK: %[[PARTIAL:.*]] = arith.cmpi eq, %[[J]], %[[BROKEN]]
  // CHECK: %[[FIRST:.*]] = arith.muli %[[J]], %{{.*}} : i32
  // CHECK-NEXT: %[[QUERIES:.*]] = tile.block %[[FIRST]] of %[[ROWS]] : !tile.block<key, 32> -> <query, 64, 4>
  // CHECK: tile.mask %{{.*}} if %[[PARTIAL]] at %[[QUERIES]], %[[ROWS]]
  tile.blocks %queries, %partial of %rows : !tile.block<key, 32> -> !tile.block<query, 64, 4> runs (%low, %high) {
    %t = tile.mask %x if %partial at %queries, %rows : !tile.tile<[64, 32], f32>, !tile.block<query, 64, 4>, !tile.block<key, 32>
  }
}

// Two runs are sorted, and the loop counts their blocks.
// CHECK-LABEL: tile.kernel @runs
tile.kernel @runs(%a: i32, %b: i32, %c: i32, %d: i32) {
  %rows = tile.work : !tile.block<query, 64>
  %x = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  // CHECK: %[[IN_ORDER:.*]] = arith.cmpi sle
  // CHECK-COUNT-4: arith.select %[[IN_ORDER]]
  // CHECK: scf.for %[[N:.*]] = %{{.*}} to %[[COUNT:.*]] step %{{.*}} : i32 {
  // CHECK: %[[FARTHER:.*]] = arith.cmpi sge, %[[N]]
  // CHECK: %[[OFFSET:.*]] = arith.select %[[FARTHER]]
  // CHECK: %[[INDEX:.*]] = arith.addi %[[N]], %[[OFFSET]]
  // CHECK: %[[FIRST:.*]] = arith.muli %[[INDEX]], %{{.*}} : i32
  // CHECK-NEXT: tile.block %[[FIRST]]
  tile.blocks %keys, %partial of %rows : !tile.block<query, 64> -> !tile.block<key, 32> runs (%a, %b, %c, %d) {
    %t = tile.mask %x if %partial at %rows, %keys : !tile.tile<[64, 32], f32>, !tile.block<query, 64>, !tile.block<key, 32>
  }
}

// Found blocks: the loop counts them; tile.found_block gives their indices.
// CHECK-LABEL: tile.kernel @found
tile.kernel @found(%low: i32, %high: i32, %limit: i32) {
  %rows = tile.work : !tile.block<query, 64>
  %x = tile.constant 0.0 : !tile.tile<[64, 32], f32>
  // CHECK: %[[FOUND:.*]], %[[COUNT:.*]] = tile.find_blocks
  %found, %count = tile.find_blocks from %low to %high : !tile.found_blocks<32> one {
  ^bb0(%first: i32, %last: i32):
    %keeps = arith.cmpi sle, %first, %limit : i32
    %drops = arith.cmpi sgt, %last, %limit : i32
    tile.yield %keeps, %drops : i1, i1
  } many {
  ^bb0(%first: i32, %last: i32):
    %keeps = arith.cmpi sle, %first, %limit : i32
    %drops = arith.cmpi sgt, %last, %limit : i32
    tile.yield %keeps, %drops : i1, i1
  }
  // CHECK: scf.for %[[N:.*]] = %{{.*}} to %[[COUNT]]
  // CHECK: %[[INDEX:.*]], %[[PARTIAL:.*]] = tile.found_block %[[FOUND]][%[[N]]]
  // CHECK: %[[FIRST:.*]] = arith.muli %[[INDEX]], %{{.*}} : i32
  // CHECK-NEXT: tile.block %[[FIRST]]
  // CHECK: tile.mask %{{.*}} if %[[PARTIAL]]
  tile.blocks %keys, %partial of %rows : !tile.block<query, 64> -> !tile.block<key, 32> among %found {
    %t = tile.mask %x if %partial at %rows, %keys : !tile.tile<[64, 32], f32>, !tile.block<query, 64>, !tile.block<key, 32>
  }
}

// In descending order. If there are no blocks, the first block is used, for passes that always run the first iteration.
// CHECK-LABEL: tile.kernel @descending
tile.kernel @descending(%low: i32, %high: i32, %x: f32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 32, stages = 1, warps = 4, q_in_registers = false, last_keys_first = true>} {
  %rows = tile.work : !tile.block<query, 64>
  // CHECK: %[[FIRST:.*]] = arith.divui %low
  // CHECK: %[[END:.*]] = arith.select %{{.*}}, %[[FIRST]]
  // CHECK: %[[SECOND:.*]] = arith.addi %[[FIRST]]
  // CHECK: %[[SOME:.*]] = arith.maxsi %[[END]], %[[SECOND]]
  // CHECK: %[[SUM:.*]] = arith.addi %[[FIRST]], %[[SOME]]
  // CHECK: %[[ENDS:.*]] = arith.subi %[[SUM]]
  // CHECK: scf.for %[[J:.*]] = %[[FIRST]] to %[[END]]
  // CHECK: %[[BLOCK:.*]] = arith.subi %[[ENDS]], %[[J]]
  // CHECK: %[[FIRST:.*]] = arith.muli %[[BLOCK]], %{{.*}} : i32
  // CHECK-NEXT: tile.block %[[FIRST]]
  %r = tile.blocks %keys, %partial of %rows : !tile.block<query, 64> -> !tile.block<key, 32>
      carry (%c = %x : f32) runs (%low, %high) {
    tile.yield %c : f32
  }
}

// In the order of the work item: at the end of a launch the last block of queries comes first.
// CHECK-LABEL: tile.kernel @turned_at_end
tile.kernel @turned_at_end(%low: i32, %high: i32, %x: f32) {
  // CHECK: %[[KEYS:.*]] = tile.work dealt to 528
  %keys = tile.work dealt to 528 order last_keys_first_but_at_end : !tile.block<key, 64>
  // CHECK: %[[FIRST:.*]] = arith.divui %low
  // CHECK: %[[END:.*]] = arith.select %{{.*}}, %[[FIRST]]
  // CHECK: %[[PART:.*]] = tile.work_part of %[[KEYS]]
  // CHECK: %[[ATEND:.*]] = tile.at_end of %[[KEYS]] part %[[PART]]
  // CHECK: %[[SOME:.*]] = arith.maxsi %[[END]]
  // CHECK: %[[SUM:.*]] = arith.addi %[[FIRST]], %[[SOME]]
  // CHECK: %[[OFFSET:.*]] = arith.select %[[ATEND]], %[[SUM]], %{{.*}} : i32
  // CHECK: %[[FLIPS:.*]] = arith.extsi %[[ATEND]]
  // CHECK: scf.for %[[J:.*]] = %[[FIRST]] to %[[END]]
  // CHECK: %[[FLIPPED:.*]] = arith.xori %[[J]], %[[FLIPS]]
  // CHECK: %[[BLOCK:.*]] = arith.addi %[[FLIPPED]], %[[OFFSET]]
  // CHECK: %[[FIRST:.*]] = arith.muli %[[BLOCK]], %{{.*}} : i32
  // CHECK-NEXT: tile.block %[[FIRST]]
  %r = tile.blocks %queries, %partial of %keys : !tile.block<key, 64> -> !tile.block<query, 32>
      carry (%c = %x : f32) runs (%low, %high) {
    tile.yield %c : f32
  }
}

// A part of the blocks: sizes of parts differ by at most one, and the larger parts come first.
// CHECK-LABEL: tile.kernel @part
tile.kernel @part(%low: i32, %high: i32, %p: i32, %n: i32) {
  %rows = tile.work : !tile.block<query, 64>
  // CHECK: %[[COUNT:.*]] = arith.subi %[[END:.*]], %[[FIRST:.*]] : i32
  // CHECK: %[[WHOLE:.*]] = arith.divui %[[COUNT]], %n
  // CHECK: %[[REST:.*]] = arith.remui %[[COUNT]], %n
  // CHECK: %[[ALL:.*]] = arith.muli %[[WHOLE]], %p
  // CHECK: %[[MORE:.*]] = arith.minui %p, %[[REST]]
  // CHECK: %[[BEFORE:.*]] = arith.addi %[[ALL]], %[[MORE]]
  // CHECK: %[[FROM:.*]] = arith.addi %[[FIRST]], %[[BEFORE]]
  // If the part is empty, an iteration that runs nevertheless gets the block behind the end, which is partial.
  // CHECK: %[[NONE:.*]] = arith.cmpi sge, %[[FROM]], %[[TO:.*]] : i32
  // CHECK: %[[BEHIND:.*]] = arith.addi %{{.*}}, %{{.*}} : i32
  // CHECK: scf.for %[[I:.*]] = %[[FROM]] to %[[TO]]
  // CHECK: %[[BLOCK:.*]] = arith.select %[[NONE]], %[[BEHIND]], %[[I]]
  // CHECK: arith.ori %[[NONE]]
  // CHECK: arith.muli %[[BLOCK]]
  tile.blocks %keys, %partial of %rows : !tile.block<query, 64> -> !tile.block<key, 32> runs (%low, %high) part (%p, %n) {
    tile.yield
  }
}
