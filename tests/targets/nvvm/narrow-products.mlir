// RUN: tesela-opt %s --pipe-assign-fragments --pipe-rotate-loop --pipe-stage-operands | FileCheck %s
// RUN: tesela-opt %s --pipe-assign-fragments --pipe-rotate-loop --pipe-stage-operands --pipe-place-buffers --pipe-lower-to-nvvm | FileCheck %s --check-prefix=LOWER

!rows = !tile.block<query, 16>
!keys = !tile.block<key, 32>
!keyView = !tile.view<[B, Hkv, Sk, 64], f8E4M3FN>
!valueView = !tile.view<[B, Hkv, Sk, 80], f8E4M3FN>
!narrow = !tile.tile<[32, 64], f8E4M3FN>
!wide = !tile.tile<[32, 64], bf16>
!narrowValues = !tile.tile<[32, 80], f8E4M3FN>
!wideValues = !tile.tile<[32, 80], bf16>
!outputs = !tile.tile<[16, 80], f32>
!sums = !tile.tile<[16, 32], f32>

// One warp widens in its registers, so nothing is written to shared memory. Queries are loaded in the order in which a lane has the keys'
// elements. In the loop the output, and what the loop computes of it, is in that order; behind the loop it is in the usual one.
// CHECK-LABEL: tile.kernel @products
// CHECK-NOT: pipe.alloc {{.*}}<1, [32,
// CHECK: %[[Q:.*]] = pipe.convert {{.*}} {pipe.narrow} : {{.*}} -> !tile.tile<[16, 64], bf16, #pipe.operand<warps = 1>>
// CHECK: %[[O:.*]] = scf.for
// CHECK: %[[K:.*]] = tile.convert {{.*}}f8E4M3FN, #pipe.shared> -> !tile.tile<[32, 64], bf16, #pipe.shared>
// CHECK: tile.dot %[[Q]], %[[K]] transposed
// CHECK-NOT: pipe.write
// CHECK: %[[V:.*]] = tile.convert {{.*}}f8E4M3FN, #pipe.shared> -> !tile.tile<[32, 80], bf16, #pipe.shared>
// CHECK: tile.dot {{.*}}, %[[V]] plus
// CHECK-NOT: pipe.convert
// CHECK: scf.yield
// CHECK: %[[ORDERED:.*]] = pipe.convert %[[O]] {pipe.narrow} : !tile.tile<[16, 80], f32, #pipe.accumulator<warps = 1>> ->
// CHECK: tile.store %[[ORDERED]]

// Four words of four elements: 32 columns of 16 keys, or 16 keys of 32 columns. Every other element of a word forms a pair.
// LOWER-LABEL: llvm.func @products
// LOWER: prmt.b32
// LOWER: scf.for
// LOWER: %[[K:.*]] = llvm.inline_asm {{.*}}"ldmatrix.sync.aligned.m8n8.x4.shared
// LOWER: %[[WORD:.*]] = llvm.extractvalue %[[K]][0]
// LOWER: arith.shli %[[WORD]]
// LOWER: arith.shrui %[[WORD]]
// LOWER: mma.sync
// LOWER: "ldmatrix.sync.aligned.m8n8.x4.trans.shared
// LOWER-NOT: prmt
// LOWER-NOT: st.shared
// LOWER: shfl.sync.bfly
// LOWER: shfl.sync.idx
tile.kernel @products(in %q: !tile.view<[B, H, Sq, 64], bf16>, in %k: !keyView, in %v: !valueView, out %o: !tile.view<[B, H, Sq, 80], f32>)
    attributes {schedule = #tile.schedule<block_m = 16, block_n = 32, stages = 2, warps = 1, q_in_registers = false>} {
  %rows = tile.work : !rows
  %Q = tile.load %q[%rows] : !tile.view<[B, H, Sq, 64], bf16>[!rows] -> !tile.tile<[16, 64], bf16>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %count = arith.constant 32 : i32
  %high = tile.extent "Sk"
  %S0 = tile.constant 0.0 : !sums
  %O0 = tile.constant 0.0 : !outputs
  %O = scf.for %j = %zero to %high step %one iter_args(%O1 = %O0) -> (!outputs) : i32 {
    %first = arith.muli %j, %count : i32
    %keys = tile.block %first of %rows : !rows -> !keys
    %k8 = tile.load %k[%keys] : !keyView[!keys] -> !narrow
    %K = tile.convert %k8 : !narrow -> !wide
    %S = tile.dot %Q, %K transposed plus %S0 : (!tile.tile<[16, 64], bf16>, !wide, !sums) -> !sums
    %P = tile.convert %S : !sums -> !tile.tile<[16, 32], bf16>
    %half = tile.map %O1 : (!outputs) -> !outputs {
    ^body(%x: f32, %row: i32, %column: i32):
      %y = arith.addf %x, %x : f32
      tile.yield %y : f32
    }
    %v8 = tile.load %v[%keys] : !valueView[!keys] -> !narrowValues
    %V = tile.convert %v8 : !narrowValues -> !wideValues
    %O2 = tile.dot %P, %V plus %half : (!tile.tile<[16, 32], bf16>, !wideValues, !outputs) -> !outputs
    scf.yield %O2 : !outputs
  }
  tile.store %O, %o[%rows] : !outputs, !tile.view<[B, H, Sq, 80], f32>[!rows]
}
