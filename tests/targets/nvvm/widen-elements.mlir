// RUN: tesela-opt %s --pipe-assign-fragments --pipe-rotate-loop --pipe-stage-operands | FileCheck %s --check-prefix=STAGE
// RUN: tesela-opt %s --pipe-assign-fragments --pipe-rotate-loop --pipe-stage-operands --pipe-place-buffers --pipe-lower-to-nvvm | FileCheck %s --check-prefix=LOWER

!rows = !tile.block<query, 64>
!keys = !tile.block<key, 32>
!keyView = !tile.view<[B, Hkv, Sk, 64], f8E4M3FN>
!valueView = !tile.view<[B, Hkv, Sk, 80], f8E4M3FN>
!narrow = !tile.tile<[32, 64], f8E4M3FN>
!wide = !tile.tile<[32, 64], bf16>
!narrowValues = !tile.tile<[32, 80], f8E4M3FN>
!wideValues = !tile.tile<[32, 80], bf16>
!outputs = !tile.tile<[64, 80], f32>
!sums = !tile.tile<[64, 32], f32>

// Elements of 8 bits are copied ahead as others are, and widened from shared memory to shared memory. Each of two tiles in a loop is read
// between its own barrier and that of the other: no barrier stands in front of a write.
// STAGE-LABEL: tile.kernel @products
// STAGE-DAG: %[[KEYS:.*]] = pipe.alloc : <2, [32, 64], f8E4M3FN>
// STAGE-DAG: %[[VALUES:.*]] = pipe.alloc : <2, [32, 80], f8E4M3FN>
// STAGE-DAG: %[[K:.*]] = pipe.alloc : <1, [32, 64], bf16>
// STAGE-DAG: %[[V:.*]] = pipe.alloc : <1, [32, 80], bf16>
// STAGE: scf.for
// STAGE: pipe.copy
// STAGE: %[[K8:.*]] = pipe.slot %[[KEYS]]
// STAGE: %[[V8:.*]] = pipe.slot %[[VALUES]]
// STAGE-NOT: tile.convert %[[K8]]
// STAGE-NOT: pipe.barrier
// STAGE: pipe.write %[[K8]] to %[[K]]
// STAGE-NEXT: pipe.barrier
// STAGE-NEXT: %[[WIDE:.*]] = pipe.slot %[[K]]
// STAGE-NEXT: tile.dot %{{.*}}, %[[WIDE]] transposed
// STAGE-NOT: pipe.barrier
// STAGE: pipe.write %[[V8]] to %[[V]]
// STAGE-NEXT: pipe.barrier

// A thread takes 16 elements: four words, eight pairs. The bits move to their places in bf16, and a multiplication by 2^120 undoes the
// scaling. Then a product that is infinite only for NaN is multiplied by 0 and added: NaN where the element is NaN.
// LOWER-LABEL: llvm.func @products
// LOWER: scf.for
// LOWER: ld.shared.v4.b32
// LOWER: prmt.b32
// LOWER: %[[WIDE:.*]] = llvm.inline_asm {{.*}}"fma.rn.bf16x2
// LOWER: %[[BEYOND:.*]] = llvm.inline_asm {{.*}}"fma.rn.bf16x2{{.*}} %[[WIDE]],
// LOWER-DAG: %[[NUMBERS:.*]] = llvm.bitcast %[[WIDE]] : i32 to vector<2xbf16>
// LOWER-DAG: %[[INFINITE:.*]] = llvm.bitcast %[[BEYOND]] : i32 to vector<2xbf16>
// LOWER: llvm.intr.fma(%[[INFINITE]], %{{.*}}, %[[NUMBERS]])
// LOWER-NOT: scf.if
// LOWER: st.shared.v4.b32
// LOWER: st.shared.v4.b32
// LOWER: ldmatrix
tile.kernel @products(in %q: !tile.view<[B, H, Sq, 64], bf16>, in %k: !keyView, in %v: !valueView, out %o: !tile.view<[B, H, Sq, 80], f32>)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 32, stages = 2, warps = 4, q_in_registers = false>} {
  %rows = tile.work : !rows
  %Q = tile.load %q[%rows] : !tile.view<[B, H, Sq, 64], bf16>[!rows] -> !tile.tile<[64, 64], bf16>
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
    %S = tile.dot %Q, %K transposed plus %S0 : (!tile.tile<[64, 64], bf16>, !wide, !sums) -> !sums
    %P = tile.convert %S : !sums -> !tile.tile<[64, 32], bf16>
    %v8 = tile.load %v[%keys] : !valueView[!keys] -> !narrowValues
    %V = tile.convert %v8 : !narrowValues -> !wideValues
    %O2 = tile.dot %P, %V plus %O1 : (!tile.tile<[64, 32], bf16>, !wideValues, !outputs) -> !outputs
    scf.yield %O2 : !outputs
  }
  tile.store %O, %o[%rows] : !outputs, !tile.view<[B, H, Sq, 80], f32>[!rows]
}
