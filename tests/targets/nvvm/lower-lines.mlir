// RUN: tesela-opt %s --pipe-assign-fragments --pipe-place-buffers --pipe-lower-to-nvvm | FileCheck %s

// Sums of a tile's columns. Of 16 columns a lane has two neighbours in each of two groups. The lane adds up its two rows, which are 8
// apart. Two lanes with neighbouring rows exchange half of what each has. The rest goes to shared memory: 16 sets for 64 rows.
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

// For diagonals the kernel clears the memory first, because a pair of rows has zeros beside its own diagonals. The two groups of a row
// and the groups beside them take 4 exchanges.
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
