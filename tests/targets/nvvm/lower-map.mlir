// RUN: tesela-opt %s --pipe-assign-fragments --pipe-place-buffers --pipe-lower-to-nvvm --cse | FileCheck %s

// For values that are linear in row and column, the lane's part is computed once, and each element adds a constant. Elements of one
// diagonal (row + 8, column + 8) share it.
// CHECK-LABEL: llvm.func @diagonals
// CHECK: %[[MINUS_ROW:.*]] = arith.muli %{{.*}}, %c-1_i32
// CHECK: %[[LANE:.*]] = arith.addi %[[MINUS_ROW]], %{{.*}} : i32
// CHECK: %[[REAL:.*]] = arith.sitofp %[[LANE]]
// CHECK: %[[POSITION:.*]] = arith.addf %{{.*}}, %[[REAL]] : f32
// CHECK: %[[INDEX:.*]] = arith.addi %{{.*}}, %[[LANE]] : i32
// CHECK: %[[WIDE:.*]] = arith.extsi %[[INDEX]]
// CHECK: %[[START:.*]] = arith.addi %{{.*}}, %[[WIDE]] : i64
// CHECK: llvm.getelementptr %arg7[%[[START]]]
// CHECK: %[[ZERO:.*]] = llvm.load %{{.*}} invariant
// CHECK: %[[A:.*]] = arith.mulf %[[POSITION]], %[[ZERO]]
// CHECK: arith.addf %[[POSITION]], %{{.*}}
// Two rows, four columns: differences -8, -7, 0, 1, 8 and 9.
// CHECK: %c-8_i64 = arith.constant
// CHECK: %c-7_i64 = arith.constant
// CHECK: %c8_i64 = arith.constant
// CHECK: %c9_i64 = arith.constant
// CHECK-NOT: arith.sitofp
// The second row's first maximum is that of -8. The next one, of 0, is shared with the first row.
// CHECK: arith.maxnumf %[[A]],
// CHECK: arith.maxnumf %{{.*}}, %[[A]] :
tile.kernel @diagonals(%o: !tile.view<[?, ?, ?], f32, contiguous>, %first: f32, %$t: !tile.view<[?, ?], f32>, %h: i32, %i: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 16, stages = 1, warps = 4, q_in_registers = false>} {
  %rows = tile.work : !tile.block<query, 64>
  %x = tile.constant 0.0 : !tile.tile<[64, 16], f32>
  %y = tile.map %x : (!tile.tile<[64, 16], f32>) -> !tile.tile<[64, 16], f32> {
  ^bb0(%e: f32, %row: i32, %column: i32):
    %d = arith.subi %column, %row : i32
    %c = arith.sitofp %d : i32 to f32
    %p = arith.addf %first, %c fastmath<reassoc> : f32
    %j = arith.addi %i, %d : i32
    %r = tile.read %$t[%h, %j] {covered} : !tile.view<[?, ?], f32> -> f32
    %s = arith.mulf %p, %r : f32
    tile.yield %s : f32
  }
  %zero = tile.constant 0.0 : !tile.tile<[64], f32>
  %m = tile.reduce max %y from %zero : !tile.tile<[64, 16], f32> -> !tile.tile<[64], f32>
  tile.store %m, %o[%rows] : !tile.tile<[64], f32>, !tile.view<[?, ?, ?], f32, contiguous>[!tile.block<query, 64>]
}

// 0 <= h, h < n0, 15 <= i, i < n1 - 63, and a last stride of 1.
// CHECK-LABEL: llvm.func @covers
// CHECK: arith.cmpi eq, %{{.*}}, %c1_i64
// CHECK: arith.cmpi sge, %[[H:.*]], %c0_i32
// CHECK: arith.cmpi slt, %[[H]],
// CHECK: %[[END:.*]] = arith.addi %{{.*}}, %c-63_i32
// CHECK: arith.cmpi sge, %[[I:.*]], %c15_i32
// CHECK: arith.cmpi slt, %[[I]], %[[END]]
// CHECK: scf.if
tile.kernel @covers(%o: !tile.view<[?, ?, ?], f32, contiguous>, %$t: !tile.view<[?, ?], f32>, %h: i32, %i: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 16, stages = 1, warps = 4, q_in_registers = false>} {
  %rows = tile.work : !tile.block<query, 64>
  %zero = tile.constant 0.0 : !tile.tile<[64], f32>
  %covered = tile.covers %$t[%h, %i] low [0, -15] high [0, 63] : !tile.view<[?, ?], f32>
  scf.if %covered {
    tile.store %zero, %o[%rows] : !tile.tile<[64], f32>, !tile.view<[?, ?, ?], f32, contiguous>[!tile.block<query, 64>]
  }
}

// Four heads share the rows. A lane's two rows, 8 apart, belong to one head and are two positions apart.
// CHECK-LABEL: llvm.func @packed
// CHECK: arith.minui
// CHECK: %[[POSITION:.*]] = arith.shrui %{{.*}}, %c2_i32
// CHECK: %[[REAL:.*]] = arith.sitofp %[[POSITION]]
// CHECK: %cst{{.*}} = arith.constant 2.000000e+00 : f32
// CHECK: arith.addf %[[REAL]], %cst
// CHECK-NOT: arith.sitofp
// CHECK: llvm.return
tile.kernel @packed(%o: !tile.view<[?, ?, ?], f32, contiguous>)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 16, stages = 1, warps = 4, q_in_registers = false, heads = 4>} {
  %rows = tile.work : !tile.block<query, 64, 4>
  %x = tile.constant 0.0 : !tile.tile<[64, 16], f32>
  %y = tile.map %x : (!tile.tile<[64, 16], f32>) -> !tile.tile<[64, 16], f32> {
  ^bb0(%e: f32, %row: i32, %column: i32):
    %two = arith.constant 2 : i32
    %position = arith.shrui %row, %two : i32
    %p = arith.sitofp %position : i32 to f32
    tile.yield %p : f32
  }
  %zero = tile.constant 0.0 : !tile.tile<[64], f32>
  %m = tile.reduce max %y from %zero : !tile.tile<[64, 16], f32> -> !tile.tile<[64], f32>
  tile.store %m, %o[%rows] : !tile.tile<[64], f32>, !tile.view<[?, ?, ?], f32, contiguous>[!tile.block<query, 64, 4>]
}

// An any() of a mask. Each round reads once for all of a lane's columns and rows. A loop over the columns makes one bit for each
// element. The words of the rounds are joined. The bound of the column, a formula, becomes bits without a loop.
// CHECK-LABEL: llvm.func @loop_of_a_mask
// CHECK: bmsk
// CHECK: %[[ANY:.*]]:3 = scf.while (%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}, %{{.*}} = %{{.*}})
// CHECK: nounroll
// CHECK: scf.condition
// CHECK: ^bb0(%{{.*}}: i32, %[[LOW:.*]]: i32, %[[HIGH:.*]]: i32):
// CHECK: %[[READ:.*]] = llvm.load
// CHECK: %[[ROUND:.*]]:3 = scf.while
// CHECK: nounroll
// CHECK-NOT: llvm.load
// CHECK: arith.cmpi eq, %{{.*}}, %[[READ]]
// CHECK: arith.shli
// CHECK: scf.yield
// CHECK: arith.ori %[[LOW]], %[[ROUND]]#1
// CHECK: arith.ori %[[HIGH]], %[[ROUND]]#2
// CHECK: scf.yield
// CHECK: arith.andi %{{.*}}, %[[ANY]]#1
// CHECK-NOT: scf.while
// CHECK: llvm.return
tile.kernel @loop_of_a_mask(%o: !tile.view<[?, ?, ?], f32, contiguous>, %$g: !tile.view<[?], i32>, %n: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 16, stages = 1, warps = 4, q_in_registers = false>} {
  %rows = tile.work : !tile.block<query, 64>
  %x = tile.constant 0.0 : !tile.tile<[64, 16], f32>
  %y = tile.map %x : (!tile.tile<[64, 16], f32>) -> !tile.tile<[64, 16], f32> {
  ^bb0(%e: f32, %row: i32, %column: i32):
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %false = arith.constant false
    %none = arith.constant 0xFF800000 : f32
    %any = scf.for %i = %zero to %n step %one iter_args(%a = %false) -> (i1) : i32 {
      %global = tile.read %$g[%i] : !tile.view<[?], i32> -> i32
      %same = arith.cmpi eq, %column, %global : i32
      %next = arith.ori %a, %same : i1
      scf.yield %next : i1
    }
    %below = arith.cmpi slt, %column, %row : i32
    %keeps = arith.andi %below, %any : i1
    %r = arith.select %keeps, %e, %none : f32
    tile.yield %r : f32
  }
  %zero = tile.constant 0.0 : !tile.tile<[64], f32>
  %m = tile.reduce max %y from %zero : !tile.tile<[64, 16], f32> -> !tile.tile<[64], f32>
  tile.store %m, %o[%rows] : !tile.tile<[64], f32>, !tile.view<[?, ?, ?], f32, contiguous>[!tile.block<query, 64>]
}

// A score with a loop: one loop for eight elements, in two rows and four columns, which share what they read.
// CHECK-LABEL: llvm.func @loop_of_a_score
// CHECK: scf.while
// CHECK: nounroll
// CHECK: scf.condition
// CHECK-COUNT-4: llvm.load
// CHECK-NOT: llvm.load
// CHECK-COUNT-8: arith.addf
// CHECK: scf.yield
// CHECK-NOT: scf.while
// CHECK: llvm.return
tile.kernel @loop_of_a_score(%o: !tile.view<[?, ?, ?], f32, contiguous>, %$t: !tile.view<[?, ?], f32>)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 16, stages = 1, warps = 4, q_in_registers = false>} {
  %rows = tile.work : !tile.block<query, 64>
  %x = tile.constant 0.0 : !tile.tile<[64, 16], f32>
  %y = tile.map %x : (!tile.tile<[64, 16], f32>) -> !tile.tile<[64, 16], f32> {
  ^bb0(%e: f32, %row: i32, %column: i32):
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %eight = arith.constant 8 : i32
    %sum = scf.for %i = %zero to %eight step %one iter_args(%a = %e) -> (f32) : i32 {
      %c = tile.read %$t[%i, %column] : !tile.view<[?, ?], f32> -> f32
      %next = arith.addf %a, %c : f32
      scf.yield %next : f32
    }
    tile.yield %sum : f32
  }
  %zero = tile.constant 0.0 : !tile.tile<[64], f32>
  %m = tile.reduce max %y from %zero : !tile.tile<[64, 16], f32> -> !tile.tile<[64], f32>
  tile.store %m, %o[%rows] : !tile.tile<[64], f32>, !tile.view<[?, ?, ?], f32, contiguous>[!tile.block<query, 64>]
}

// A tile of i1 has one word per row. Of `column < end || id[row] == column * column && row >= 8`, words give the bound of the column and
// what is the same along a row. The rest is gathered bit by bit, and the words are joined. A map of the tile pins the words, so that
// their bits are not taken apart in front of it. Another map of the block rotates them by a byte, so that it shares no test with the
// first.
// CHECK-LABEL: llvm.func @words
// CHECK: %[[BIT:.*]] = llvm.inline_asm{{.*}}"{\0A mov.b32 $0, $1;\0A @$2 or.b32 $0, $0, 1;\0A}", "=r,r,b" %c0_i32
// CHECK: llvm.inline_asm{{.*}}@$2 or.b32 $0, $0, 2;{{.*}} %[[BIT]],
// CHECK: llvm.inline_asm{{.*}}bmsk.clamp.b32
// CHECK: %[[BOTH:.*]] = arith.andi %{{.*}} : i32
// CHECK: %[[WORD:.*]] = arith.ori %{{.*}}, %[[BOTH]] : i32
// CHECK: %[[PINNED:.*]] = llvm.inline_asm has_side_effects{{.*}}"mov.b32 $0, $1;", "=r,r" %[[WORD]]
// CHECK: %[[FIRST:.*]] = arith.andi %[[PINNED]], %c1_i32
// CHECK: %[[KEPT:.*]] = arith.cmpi ne, %[[FIRST]], %c0_i32
// CHECK: arith.select %[[KEPT]], %{{.*}}, %{{.*}} : f32
// CHECK: %[[TURNED:.*]] = llvm.intr.fshl(%[[WORD]], %[[WORD]], %c8_i32)
// CHECK: %[[PINNED2:.*]] = llvm.inline_asm has_side_effects{{.*}}"mov.b32 $0, $1;", "=r,r" %[[TURNED]]
// CHECK: %[[SECOND:.*]] = arith.andi %[[PINNED2]], %c256_i32
// CHECK: arith.cmpi ne, %[[SECOND]], %c0_i32
tile.kernel @words(%o: !tile.view<[?, ?, ?], f32, contiguous>, %$id: !tile.view<[?], i32>, %end: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 16, stages = 1, warps = 4, q_in_registers = false>} {
  %rows = tile.work : !tile.block<query, 64>
  %x = tile.constant 1.0 : !tile.tile<[64, 16], f32>
  %keeps = tile.map : () -> !tile.tile<[64, 16], i1> {
  ^bb0(%row: i32, %column: i32):
    %before = arith.cmpi slt, %column, %end : i32
    %i = tile.read %$id[%row] : !tile.view<[?], i32> -> i32
    %square = arith.muli %column, %column : i32
    %same = arith.cmpi eq, %i, %square : i32
    %eight = arith.constant 8 : i32
    %late = arith.cmpi sge, %row, %eight : i32
    %both = arith.andi %same, %late : i1
    %m = arith.ori %before, %both : i1
    tile.yield %m : i1
  }
  %y = tile.map %x, %keeps : (!tile.tile<[64, 16], f32>, !tile.tile<[64, 16], i1>) -> !tile.tile<[64, 16], f32> {
  ^bb0(%e: f32, %k: i1, %row: i32, %column: i32):
    %none = arith.constant -1.0 : f32
    %s = arith.select %k, %e, %none : f32
    tile.yield %s : f32
  }
  %z = tile.map %y, %keeps : (!tile.tile<[64, 16], f32>, !tile.tile<[64, 16], i1>) -> !tile.tile<[64, 16], f32> {
  ^bb0(%e: f32, %k: i1, %row: i32, %column: i32):
    %twice = arith.addf %e, %e : f32
    %s = arith.select %k, %twice, %e : f32
    tile.yield %s : f32
  }
  %zero = tile.constant 0.0 : !tile.tile<[64], f32>
  %m = tile.reduce max %z from %zero : !tile.tile<[64, 16], f32> -> !tile.tile<[64], f32>
  tile.store %m, %o[%rows] : !tile.tile<[64], f32>, !tile.view<[?, ?, ?], f32, contiguous>[!tile.block<query, 64>]
}

// A condition that repeats along a row: one pattern in front of the loop. Each of a lane's rows takes two lanes' words of it and shifts
// them. A row of 192 columns has two words.
// CHECK-LABEL: llvm.func @patterns
// CHECK: %[[LIMIT:.*]] = arith.addi %arg{{.*}}, %c1_i32
// CHECK-COUNT-32: arith.cmpi slt, %{{.*}}, %[[LIMIT]] : i32
// CHECK-NOT: shfl
// CHECK: scf.for
// CHECK-COUNT-8: shfl.sync.idx
// CHECK-NOT: shfl.sync.idx
// CHECK: scf.yield
tile.kernel @patterns(%o: !tile.view<[?, ?, ?], f32, contiguous>, %period: i32, %factor: i32, %n: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 192, stages = 1, warps = 4, q_in_registers = false>} {
  %rows = tile.work : !tile.block<query, 64>
  %x = tile.constant 0.0 : !tile.tile<[64, 192], f32>
  %none = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %start = tile.constant 0.0 : !tile.tile<[64], f32>
  %m = scf.for %i = %zero to %n step %one iter_args(%most = %start) -> (!tile.tile<[64], f32>) : i32 {
    %limit = arith.addi %n, %one : i32
    %y = tile.map %x : (!tile.tile<[64, 192], f32>) -> !tile.tile<[64, 192], f32> {
    ^bb0(%e: f32, %row: i32, %column: i32):
      %begin = arith.addi %row, %i : i32
      %phase = tile.phase %begin + %column of %period by %factor
      %keeps = arith.cmpi slt, %phase, %limit : i32
      %r = arith.select %keeps, %e, %none : f32
      tile.yield %r : f32
    }
    %next = tile.reduce max %y from %most : !tile.tile<[64, 192], f32> -> !tile.tile<[64], f32>
    scf.yield %next : !tile.tile<[64], f32>
  }
  tile.store %m, %o[%rows] : !tile.tile<[64], f32>, !tile.view<[?, ?, ?], f32, contiguous>[!tile.block<query, 64>]
}
