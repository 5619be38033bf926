// A kernel that copies a block of rows, down to the LLVM dialect.
// RUN: tesela-opt %s --pipe-assign-fragments --pipe-place-buffers --pipe-lower-to-nvvm | FileCheck %s

// Five extents, then the address and the strides of each view. The tile becomes the pieces that a thread holds.
// CHECK: llvm.mlir.global external @tesela_shared() {addr_space = 3 : i32, alignment = 1024 : i64}
// CHECK-LABEL: llvm.func @double
// CHECK-SAME: (%arg0: i32, %arg1: i32, %arg2: i32, %arg3: i32, %arg4: i32,
// CHECK-SAME: %arg5: !llvm.ptr<1> {llvm.noalias, llvm.readonly}, %arg6: i64, %arg7: i64, %arg8: i64,
// CHECK-SAME: %arg9: !llvm.ptr<1> {llvm.noalias}, %arg10: i64, %arg11: i64, %arg12: i64,
// CHECK-SAME: %[[FACTOR:.*]]: f32)
// CHECK-SAME: nvvm.kernel
// CHECK-SAME: nvvm.reqntid = array<i32: 128>
// CHECK-DAG: nvvm.read.ptx.sreg.tid.x
// CHECK-DAG: nvvm.read.ptx.sreg.ctaid.x
// CHECK: "cp.async.cg.shared.global
// CHECK: "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// CHECK: arith.mulf %{{.*}}, %[[FACTOR]]
// CHECK: "cvt.rn.bf16x2.f32
// CHECK: "st.shared.b32
// CHECK: "st.global.v4.b32
// CHECK-NOT: tile.
// CHECK-NOT: pipe.
tile.kernel @double(%q: !tile.view<[?, ?, ?, 64], bf16>, %o: !tile.view<[?, ?, ?, 64], bf16>, %scale: f32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false>} {
  %rows = tile.work : !tile.block<query, 64>
  %x = tile.load %q[%rows] : !tile.view<[?, ?, ?, 64], bf16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], bf16>
  %c = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %d = tile.dot %x, %x plus %c : (!tile.tile<[64, 64], bf16>, !tile.tile<[64, 64], bf16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
  %y = tile.map %d : (!tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32> {
  ^bb0(%e: f32, %row: i32, %column: i32):
    %r = arith.mulf %e, %scale : f32
    tile.yield %r : f32
  }
  %z = tile.convert %y : !tile.tile<[64, 64], f32> -> !tile.tile<[64, 64], bf16>
  tile.store %z, %o[%rows] : !tile.tile<[64, 64], bf16>, !tile.view<[?, ?, ?, 64], bf16>[!tile.block<query, 64>]
}
