// RUN: tesela-opt %s --pipe-assign-fragments --pipe-place-buffers --pipe-lower-to-nvvm | FileCheck %s

// Sums of a tile's lines: of 16 columns a lane has four groups of neighbours. Two rows that are 8 apart are added up by the lane, two
// that are neighbours by an exchange of half of what each has; what is left goes to shared memory, 16 sets of it for 64 rows.
// CHECK-LABEL: llvm.func @columns
// CHECK-NOT: st.shared
// CHECK: bar.sync 0
// CHECK-COUNT-2: shfl.sync.bfly
// CHECK: st.shared
// CHECK-NOT: shfl.sync.bfly
// CHECK: bar.sync 0
// CHECK: scf.for
// CHECK-COUNT-16: llvm.load
// CHECK-NOT: llvm.load
// CHECK: llvm.atomicrmw
tile.kernel @columns(%x: !tile.view<[B, H, Sq, 16], f32>, %sums: !tile.view<[?, ?, ?], i32>)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 16, stages = 1, warps = 4, q_in_registers = false>} {
  %rows = tile.work : !tile.block<query, 64>
  %X = tile.load %x[%rows] : !tile.view<[B, H, Sq, 16], f32>[!tile.block<query, 64>] -> !tile.tile<[64, 16], f32>
  tile.add_lines "columns" of %X : !tile.tile<[64, 16], f32> {
  ^body(%value: f32, %row: i32, %column: i32):
    %c = tile.collect %value into %sums[%column] : !tile.view<[?, ?, ?], i32>
  }
}

// Of diagonals the kernel clears its memory first: beside what a pair of rows has there are zeros. The two groups of a row and those
// beside them are 4 exchanges.
// CHECK-LABEL: llvm.func @diagonals
// CHECK: scf.for
// CHECK: st.shared
// CHECK: bar.sync 0
// CHECK-COUNT-4: shfl.sync.idx
// CHECK: bar.sync 0
// CHECK: scf.for
// CHECK-COUNT-16: llvm.load
// CHECK: llvm.atomicrmw
tile.kernel @diagonals(%x: !tile.view<[B, H, Sq, 16], f32>, %sums: !tile.view<[?, ?, ?], i32>)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 16, stages = 1, warps = 4, q_in_registers = false>} {
  %rows = tile.work : !tile.block<query, 64>
  %X = tile.load %x[%rows] : !tile.view<[B, H, Sq, 16], f32>[!tile.block<query, 64>] -> !tile.tile<[64, 16], f32>
  tile.add_lines "diagonals" of %X : !tile.tile<[64, 16], f32> {
  ^body(%value: f32, %row: i32, %column: i32):
    %d = arith.subi %column, %row : i32
    %c = tile.collect %value into %sums[%d] : !tile.view<[?, ?, ?], i32>
  }
}
