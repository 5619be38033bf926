// RUN: tesela-opt %s --pipe-assign-fragments --pipe-split-roles --pipe-place-buffers | FileCheck %s
// RUN: tesela-opt %s --pipe-assign-fragments --pipe-split-roles --pipe-place-buffers --pipe-run-roles --pipe-lower-to-nvvm | FileCheck %s --check-prefix=CODE

// A warpgroup keeps the sums of its 79 diagonals in 128 slots. The body uses three values that may change: the first query, the first
// key and the head.
// CHECK-LABEL: tile.kernel @distances
// CHECK: tile.add_lines "diagonals" of %{{.*}} {pipe.kept_offset = {{[0-9]+}} : i64, pipe.kept_values = array<i64: {{[0-9]+, [0-9]+, [0-9]+}}>, pipe.lines_offset
// CHECK: tile.add_kept

// Two barriers of the warpgroup. Behind the second one a thread adds its line to its slot, or adds the slot to memory.
// CODE-LABEL: llvm.func @distances
// CODE: bar.sync $0, 128
// CODE: shfl.sync.idx
// CODE: bar.sync $0, 128
// CODE: ld.shared.v4
// CODE-COUNT-16: llvm.load
// CODE: llvm.atomicrmw
// CODE: st.shared.v4
// Behind the loop, the sums that are left are added.
// CODE: ld.shared.v4
// CODE: llvm.atomicrmw

// Without tile.add_kept nothing is kept.
// CHECK-LABEL: tile.kernel @without
// CHECK-NOT: kept
tile.kernel @distances(%q: !tile.view<[B, H, Sq, 64], bf16>, %k: !tile.view<[B, Hkv, Sk, 64], bf16>, %sums: !tile.view<[?, ?, ?, ?], i32>)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 16, stages = 1, warps = 4, q_in_registers = false, consumers = 1>} {
  %rows = tile.work : !tile.block<query, 64>
  %b, %h, %hkv, %first = tile.coordinates %rows : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %size = arith.constant 16 : i32
  %count = tile.extent "B"
  %Q = tile.load %q[%rows] : !tile.view<[B, H, Sq, 64], bf16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], bf16>
  %none = tile.constant 0.0 : !tile.tile<[64, 16], f32>
  scf.for %n = %zero to %count step %one : i32 {
    %begin = arith.muli %n, %size : i32
    %keys = tile.block %begin of %rows : !tile.block<query, 64> -> !tile.block<key, 16>
    %kb, %kh, %kkv, %column = tile.coordinates %keys : !tile.block<key, 16>
    %K = tile.load %k[%keys] : !tile.view<[B, Hkv, Sk, 64], bf16>[!tile.block<key, 16>] -> !tile.tile<[16, 64], bf16>
    %S = tile.dot %Q, %K transposed plus %none : (!tile.tile<[64, 64], bf16>, !tile.tile<[16, 64], bf16>, !tile.tile<[64, 16], f32>) -> !tile.tile<[64, 16], f32>
    tile.add_lines "diagonals" of %S : !tile.tile<[64, 16], f32> {
    ^body(%value: f32, %i: i32, %j: i32):
      %row = arith.addi %first, %i : i32
      %key = arith.addi %column, %j : i32
      %d = arith.subi %key, %row : i32
      %c = tile.collect %value into %sums[%kh, %d] : !tile.view<[?, ?, ?, ?], i32>
    }
  }
  tile.add_kept
}

tile.kernel @without(%q: !tile.view<[B, H, Sq, 64], bf16>, %k: !tile.view<[B, Hkv, Sk, 64], bf16>, %sums: !tile.view<[?, ?, ?, ?], i32>)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 16, stages = 1, warps = 4, q_in_registers = false, consumers = 1>} {
  %rows = tile.work : !tile.block<query, 64>
  %b, %h, %hkv, %first = tile.coordinates %rows : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %keys = tile.block %zero of %rows : !tile.block<query, 64> -> !tile.block<key, 16>
  %kb, %kh, %kkv, %column = tile.coordinates %keys : !tile.block<key, 16>
  %Q = tile.load %q[%rows] : !tile.view<[B, H, Sq, 64], bf16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], bf16>
  %K = tile.load %k[%keys] : !tile.view<[B, Hkv, Sk, 64], bf16>[!tile.block<key, 16>] -> !tile.tile<[16, 64], bf16>
  %none = tile.constant 0.0 : !tile.tile<[64, 16], f32>
  %S = tile.dot %Q, %K transposed plus %none : (!tile.tile<[64, 64], bf16>, !tile.tile<[16, 64], bf16>, !tile.tile<[64, 16], f32>) -> !tile.tile<[64, 16], f32>
  tile.add_lines "diagonals" of %S : !tile.tile<[64, 16], f32> {
  ^body(%value: f32, %i: i32, %j: i32):
    %row = arith.addi %first, %i : i32
    %key = arith.addi %column, %j : i32
    %d = arith.subi %key, %row : i32
    %c = tile.collect %value into %sums[%h, %d] : !tile.view<[?, ?, ?, ?], i32>
  }
}
