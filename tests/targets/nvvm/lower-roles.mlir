// A product with roles, down to the LLVM dialect: which instructions there are, and in which role's branch.
// RUN: tesela-opt %s --pipe-assign-fragments --pipe-split-roles --pipe-place-buffers --pipe-lower-to-nvvm | FileCheck %s

// The tensor maps come last, in the constant parameter space.
// CHECK-LABEL: llvm.func @products
// CHECK-SAME: !llvm.ptr {llvm.align = 64 : i64, llvm.byval = !llvm.array<128 x i8>, nvvm.grid_constant}
// CHECK-SAME: nvvm.kernel
// CHECK-SAME: nvvm.minctasm = 2
// CHECK-SAME: nvvm.reqntid = array<i32: 256>
// One thread's arrival fills a stage, and the arrivals of four warps empty it. Three channels have five stages in all.
// CHECK: "mbarrier.init.shared::cta.b64 [$0], 1;"
// CHECK-NEXT: {{.*}}"mbarrier.init.shared::cta.b64 [$0+8], 4;"
// CHECK-NEXT: {{.*}}"mbarrier.init.shared::cta.b64 [$0], 1;"
// CHECK-NEXT: {{.*}}"mbarrier.init.shared::cta.b64 [$0+16], 4;"
// CHECK-NEXT: {{.*}}"mbarrier.init.shared::cta.b64 [$0+8], 1;"
// CHECK-NEXT: {{.*}}"mbarrier.init.shared::cta.b64 [$0+24], 4;"
// CHECK-NEXT: {{.*}}"mbarrier.init.shared::cta.b64 [$0], 1;"
// CHECK-NEXT: {{.*}}"mbarrier.init.shared::cta.b64 [$0+16], 4;"
// CHECK-NEXT: {{.*}}"mbarrier.init.shared::cta.b64 [$0+8], 1;"
// CHECK-NEXT: {{.*}}"mbarrier.init.shared::cta.b64 [$0+24], 4;"
// CHECK-NEXT: {{.*}}"fence.mbarrier_init.release.cluster;"
// CHECK: "bar.sync 0;"
// The producer.
// CHECK: "setmaxnreg.dec.sync.aligned.u32 56;"
// CHECK: mbarrier.try_wait.parity
// CHECK: mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], 16384;
// CHECK-COUNT-2: cp.async.bulk.tensor.4d.shared::cluster.global
// CHECK: scf.for
// CHECK: mbarrier.try_wait.parity
// CHECK: mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], 20480;
// CHECK-COUNT-2: cp.async.bulk.tensor.4d.shared::cluster.global
// CHECK: mbarrier.try_wait.parity
// CHECK: mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], 20480;
// CHECK-COUNT-2: cp.async.bulk.tensor.4d.shared::cluster.global
// CHECK-NOT: cp.async.bulk.tensor
// The consumers: Q Kᵀ from shared memory; P V with P in registers and the depth along the rows of V.
// CHECK: "setmaxnreg.inc.sync.aligned.u32 200;"
// CHECK: mbarrier.try_wait.parity
// CHECK: scf.for
// CHECK: mbarrier.try_wait.parity
// CHECK: wgmma.fence.sync.aligned;
// CHECK-SAME: wgmma.mma_async.sync.aligned.m64n80k16.f32.bf16.bf16 {{[{][^}]+[}]}}, da, db, 0, 1, 1, 0, 0;
// CHECK-SAME: wgmma.commit_group.sync.aligned;
// CHECK-SAME: wgmma.wait_group.sync.aligned 0;
// CHECK: mbarrier.arrive.shared::cta.b64 _
// CHECK: mbarrier.try_wait.parity
// CHECK: wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {{[{][^}]+[}]}}, {{[{][^}]+[}]}}, db, 1, 1, 1, 1;
// CHECK: mbarrier.arrive.shared::cta.b64 _
// CHECK: st.shared.b32
// CHECK: fence.proxy.async.shared::cta;
// CHECK: bar.sync $0, 128;
// CHECK-COUNT-2: cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group
// CHECK: cp.async.bulk.commit_group;
// CHECK: cp.async.bulk.wait_group.read 0;
// CHECK-NOT: {{pipe|tile}}.{{[a-z]}}
tile.kernel @products(%q: !tile.view<[?, ?, ?, 128], bf16>, %k: !tile.view<[?, ?, ?, 128], bf16>,
                      %v: !tile.view<[?, ?, ?, 128], bf16>, %o: !tile.view<[?, ?, ?, 128], bf16>)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 80, stages = 2, warps = 4, q_in_registers = false, consumers = 1>} {
  %low = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %high = arith.constant 7 : i32
  %rows = tile.work : !tile.block<query, 64>
  %Q = tile.load %q[%rows] : !tile.view<[?, ?, ?, 128], bf16>[!tile.block<query, 64>] -> !tile.tile<[64, 128], bf16>
  %S0 = tile.constant 0.0 : !tile.tile<[64, 80], f32>
  %O0 = tile.constant 0.0 : !tile.tile<[64, 128], f32>
  %O = scf.for %j = %low to %high step %one iter_args(%O1 = %O0) -> (!tile.tile<[64, 128], f32>) : i32 {
    %keys = tile.block %j of %rows : !tile.block<query, 64> -> !tile.block<key, 80>
    %K = tile.load %k[%keys] : !tile.view<[?, ?, ?, 128], bf16>[!tile.block<key, 80>] -> !tile.tile<[80, 128], bf16>
    %S = tile.dot %Q, %K transposed plus %S0 : (!tile.tile<[64, 128], bf16>, !tile.tile<[80, 128], bf16>, !tile.tile<[64, 80], f32>) -> !tile.tile<[64, 80], f32>
    %P = tile.convert %S : !tile.tile<[64, 80], f32> -> !tile.tile<[64, 80], bf16>
    %V = tile.load %v[%keys] : !tile.view<[?, ?, ?, 128], bf16>[!tile.block<key, 80>] -> !tile.tile<[80, 128], bf16>
    %O2 = tile.dot %P, %V plus %O1 : (!tile.tile<[64, 80], bf16>, !tile.tile<[80, 128], bf16>, !tile.tile<[64, 128], f32>) -> !tile.tile<[64, 128], f32>
    scf.yield %O2 : !tile.tile<[64, 128], f32>
  }
  %R = tile.convert %O : !tile.tile<[64, 128], f32> -> !tile.tile<[64, 128], bf16>
  tile.store %R, %o[%rows] : !tile.tile<[64, 128], bf16>, !tile.view<[?, ?, ?, 128], bf16>[!tile.block<query, 64>]
}

// Four heads share the rows: boxes of rank 5, and rows that compute their own head and position.
// CHECK-LABEL: llvm.func @packed
// CHECK: cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [$0], [$1, {$2, $3, $4, $5, $6}], [$7];
// CHECK: cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [$0, {$1, $2, $3, $4, $5}], [$6];
tile.kernel @packed(%q: !tile.view<[?, ?, ?, 64], bf16>, %k: !tile.view<[?, ?, ?, 64], bf16>, %o: !tile.view<[?, ?, ?, 64], bf16>)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false, consumers = 1, heads = 4>} {
  %zero = arith.constant 0 : i32
  %rows = tile.work : !tile.block<query, 64, 4>
  %keys = tile.block %zero of %rows : !tile.block<query, 64, 4> -> !tile.block<key, 64>
  %Q = tile.load %q[%rows] : !tile.view<[?, ?, ?, 64], bf16>[!tile.block<query, 64, 4>] -> !tile.tile<[64, 64], bf16>
  %K = tile.load %k[%keys] : !tile.view<[?, ?, ?, 64], bf16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], bf16>
  %S0 = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %S = tile.dot %Q, %K transposed plus %S0 : (!tile.tile<[64, 64], bf16>, !tile.tile<[64, 64], bf16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
  %R = tile.convert %S : !tile.tile<[64, 64], f32> -> !tile.tile<[64, 64], bf16>
  tile.store %R, %o[%rows] : !tile.tile<[64, 64], bf16>, !tile.view<[?, ?, ?, 64], bf16>[!tile.block<query, 64, 4>]
}
