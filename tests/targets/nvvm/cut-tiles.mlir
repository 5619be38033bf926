// RUN: tesela-opt %s --pass-pipeline='builtin.module(tile.kernel(pipe-assign-fragments,pipe-stage-operands,pipe-split-roles,pipe-place-buffers,pipe-verify-protocol,pipe-run-roles))' | FileCheck %s
// RUN: tesela-opt %s --pass-pipeline='builtin.module(tile.kernel(pipe-assign-fragments,pipe-stage-operands,pipe-split-roles,pipe-place-buffers),pipe-lower-to-nvvm)' | FileCheck %s --check-prefix=CODE

// Two warpgroups have the same 64 rows. Each has half of the columns of a product, and rows are joined in shared memory.
// The values are the first columns of the keys' stage, so one copy brings both.

!rows = !tile.block<query, 64>
!keys = !tile.block<key, 64>
!keyView = !tile.view<[B, Hkv, Sk, 192], bf16>
!valueView = !tile.view<[B, Hkv, Sk, 128], bf16>
!outView = !tile.view<[B, H, Sq, 128], bf16>

// CHECK-LABEL: tile.kernel @forward
// CHECK: pipe.roles
// CHECK: pipe.fill %q
// CHECK: pipe.fill %k
// CHECK-NOT: pipe.fill
// CHECK: consumers 2
// CHECK: pipe.alloc {{.*}} : <1, [64, 64], bf16, panels = true>
// CHECK: %[[K:.*]] = pipe.slot %[[BUFFER:[0-9]+]][%[[STAGE:[0-9]+]]] : <2, {{.*}} -> !tile.tile<[64, 192], bf16, #pipe.shared>
// CHECK: %[[V:.*]] = pipe.slot %[[BUFFER]][%[[STAGE]]] : {{.*}} -> !tile.tile<[64, 128], bf16, #pipe.shared>
// CHECK: tile.dot %{{.*}}, %[[K]] transposed
// CHECK-SAME: -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
// CHECK: tile.reduce max {{.*}}pipe.parts_offset
// CHECK-SAME: -> !tile.tile<[64], f32, #pipe.rows<warps = 4, shares = false>>
// CHECK: pipe.barrier
// CHECK-NEXT: pipe.write
// CHECK-NEXT: pipe.barrier
// CHECK-NEXT: %[[P:.*]] = pipe.slot
// CHECK: tile.dot %[[P]], %[[V]] plus
// CHECK-SAME: -> !tile.tile<[64, 128], f32, #pipe.accumulator<warps = 4>>
// CHECK: pipe.release
// CHECK: tile.store

// Each warpgroup multiplies with 32 of the keys, and with 64 of the columns.
// CODE-LABEL: llvm.func @forward
// CODE: wgmma.mma_async.sync.aligned.m64n32k16
// CODE: bar.sync $0, 256;
// CODE: wgmma.mma_async.sync.aligned.m64n64k16
tile.kernel @forward(in %q: !tile.view<[B, H, Sq, 192], bf16>, in %k: !keyView, out %o: !outView) attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, warps = 8, stages = 2, q_in_registers = false, reference = follow, consumers = 2>} {
  %rows = tile.work : !rows
  %Q = tile.load %q[%rows] : !tile.view<[B, H, Sq, 192], bf16>[!rows] -> !tile.tile<[64, 192], bf16>
  %zero = tile.constant 0.0 : !tile.tile<[64, 128], f32>
  %none = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %lowest = tile.constant 0xFF800000 : !tile.tile<[64], f32>
  %batch, %head, %kv, %first = tile.coordinates %rows : !rows
  %low = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %high = tile.extent "Sk"
  %n = arith.constant 64 : i32
  %end = arith.ceildivui %high, %n : i32
  %sum = scf.for %j = %low to %end step %one iter_args(%O = %zero) -> (!tile.tile<[64, 128], f32>) : i32 {
    %at = arith.muli %j, %n : i32
    %keys = tile.block %at of %rows : !rows -> !keys
    %K = tile.load %k[%keys] : !keyView[!keys] -> !tile.tile<[64, 192], bf16>
    %S = tile.dot %Q, %K transposed plus %none : (!tile.tile<[64, 192], bf16>, !tile.tile<[64, 192], bf16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    %m = tile.reduce max %S from %lowest : !tile.tile<[64, 64], f32> -> !tile.tile<[64], f32>
    %T = tile.map %S, %m : (!tile.tile<[64, 64], f32>, !tile.tile<[64], f32>) -> !tile.tile<[64, 64], f32> {
    ^body(%x: f32, %y: f32, %row: i32, %column: i32):
      %z = arith.subf %x, %y : f32
      tile.yield %z : f32
    }
    %P = tile.convert %T : !tile.tile<[64, 64], f32> -> !tile.tile<[64, 64], bf16>
    %v = tile.first_columns %k : !keyView -> !valueView
    %V = tile.load %v[%keys] : !valueView[!keys] -> !tile.tile<[64, 128], bf16>
    %O2 = tile.dot %P, %V plus %O : (!tile.tile<[64, 64], bf16>, !tile.tile<[64, 128], bf16>, !tile.tile<[64, 128], f32>) -> !tile.tile<[64, 128], f32>
    scf.yield %O2 : !tile.tile<[64, 128], f32>
  }
  %Y = tile.convert %sum : !tile.tile<[64, 128], f32> -> !tile.tile<[64, 128], bf16>
  tile.store %Y, %o[%rows] : !tile.tile<[64, 128], bf16>, !outView[!rows]
}
