// RUN: tesela-opt %s --split-input-file --pipe-assign-fragments --pipe-split-roles | FileCheck %s

// All threads find out together, in front of the roles, whether a work item has something to do.
// CHECK-LABEL: tile.kernel @leaves
tile.kernel @leaves(%q: !tile.view<[?, ?, ?, 128], f16>, %k: !tile.view<[?, ?, ?, 128], f16>, %o: !tile.view<[?, ?, ?, 64], f16>, %count: i32)
    attributes {schedule = #tile.schedule<block_m = 128, block_n = 64, stages = 2, warps = 8, q_in_registers = false, consumers = 2>} {
  // CHECK: %[[ROWS:.*]] = tile.work
  // CHECK: %[[NONE:.*]] = arith.cmpi
  // CHECK-NEXT: tile.leave if %[[NONE]]
  // CHECK: pipe.roles producer
  // CHECK-NOT: tile.leave
  // CHECK: pipe.fill %{{.*}}[%[[ROWS]]]
  // CHECK: consumers 2
  // CHECK-NOT: tile.leave
  // CHECK: pipe.await
  %rows = tile.work : !tile.block<query, 128>
  %batch, %head, %kv_head, %first = tile.coordinates %rows : !tile.block<query, 128>
  %none = arith.cmpi sge, %batch, %count : i32
  tile.leave if %none
  %zero = arith.constant 0 : i32
  %keys = tile.block %zero of %rows : !tile.block<query, 128> -> !tile.block<key, 64>
  %Q = tile.load %q[%rows] : !tile.view<[?, ?, ?, 128], f16>[!tile.block<query, 128>] -> !tile.tile<[128, 128], f16>
  %K = tile.load %k[%keys] : !tile.view<[?, ?, ?, 128], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 128], f16>
  %S0 = tile.constant 0.0 : !tile.tile<[128, 64], f32>
  %S = tile.dot %Q, %K transposed plus %S0 : (!tile.tile<[128, 128], f16>, !tile.tile<[64, 128], f16>, !tile.tile<[128, 64], f32>) -> !tile.tile<[128, 64], f32>
  %O = tile.convert %S : !tile.tile<[128, 64], f32> -> !tile.tile<[128, 64], f16>
  tile.store %O, %o[%rows] : !tile.tile<[128, 64], f16>, !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 128>]
}

// -----

// The producer fills in the order of the loads. Both roles count the uses of each channel. A consumer awaits each tile where it was loaded
// and releases it after its last use. It does not release a tile that is loaded only once. The left operand comes in parts, one for each
// warpgroup's rows. The output lies over the first buffer.
// CHECK-LABEL: tile.kernel @two
tile.kernel @two(%q: !tile.view<[?, ?, ?, 128], f16>, %k: !tile.view<[?, ?, ?, 128], f16>,
                 %v: !tile.view<[?, ?, ?, 128], f16>, %o: !tile.view<[?, ?, ?, 128], f16>,
                 %low: i32, %high: i32, %one: i32)
    attributes {schedule = #tile.schedule<block_m = 128, block_n = 64, stages = 2, warps = 8, q_in_registers = false, consumers = 2>} {
  %rows = tile.work : !tile.block<query, 128>
  // CHECK-DAG: %[[Q:.*]] = pipe.alloc : <1, [128, 128], f16, panels = true>
  // CHECK-DAG: %[[QC:.*]] = pipe.open : <1 parts = 2>
  // CHECK: %[[K:.*]] = pipe.alloc : <2, [64, 128], f16, panels = true>
  // CHECK: %[[KC:.*]] = pipe.open : <2>
  // CHECK: %[[V:.*]] = pipe.alloc : <2, [64, 128], f16, panels = true>
  // CHECK: %[[VC:.*]] = pipe.open : <2>
  // CHECK: %[[O:.*]] = pipe.alloc over %[[Q]]
  // CHECK: pipe.roles producer 40 {
  // CHECK: %[[ZERO:.*]] = arith.constant 0 : i32
  // CHECK: %[[ROWS:.*]] = tile.work :
  // CHECK-NEXT: pipe.acquire %[[QC]][%[[ZERO]]] :
  // CHECK-NEXT: pipe.fill %q[%[[ROWS]]] to %[[Q]] on %[[QC]][%[[ZERO]]] :
  // CHECK-NEXT: pipe.acquire %[[QC]][%[[ZERO]]] part 1
  // CHECK-NEXT: pipe.fill %q[%[[ROWS]]] to %[[Q]] on %[[QC]][%[[ZERO]]] part 1
  // CHECK: scf.for %[[J:.*]] = %low to %high step %one iter_args(%[[KN:.*]] = %[[ZERO]], %[[VN:.*]] = %[[ZERO]])
  // CHECK-NEXT: %[[KEYS:.*]] = tile.block %[[J]] of %[[ROWS]]
  // CHECK-NEXT: pipe.acquire %[[KC]][%[[KN]]]
  // CHECK-NEXT: pipe.fill %k[%[[KEYS]]] to %[[K]] on %[[KC]][%[[KN]]]
  // CHECK: %[[KN1:.*]] = arith.addi %[[KN]]
  // CHECK-NEXT: pipe.acquire %[[VC]][%[[VN]]]
  // CHECK-NEXT: pipe.fill %v[%[[KEYS]]] to %[[V]] on %[[VC]][%[[VN]]]
  // CHECK: %[[VN1:.*]] = arith.addi %[[VN]]
  // CHECK-NEXT: scf.yield %[[KN1]], %[[VN1]] : i32, i32
  // CHECK-NEXT: }
  // CHECK-NEXT: } consumers 2 232 {
  // CHECK-NOT: tile.load
  // CHECK: %[[WORK:.*]] = tile.work :
  // CHECK: pipe.await %[[QC]]
  // CHECK: %[[QT:.*]] = pipe.slot %[[Q]]
  %Q = tile.load %q[%rows] : !tile.view<[?, ?, ?, 128], f16>[!tile.block<query, 128>] -> !tile.tile<[128, 128], f16>
  %S0 = tile.constant 0.0 : !tile.tile<[128, 64], f32>
  %O0 = tile.constant 0.0 : !tile.tile<[128, 128], f32>
  // CHECK-NOT: pipe.release %[[QC]]
  // CHECK: scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %[[KUSE:.*]] = %{{.*}}, %[[VUSE:.*]] = %{{.*}})
  %O = scf.for %j = %low to %high step %one iter_args(%O1 = %O0) -> (!tile.tile<[128, 128], f32>) : i32 {
    %keys = tile.block %j of %rows : !tile.block<query, 128> -> !tile.block<key, 64>
    // CHECK: %[[STAGE:.*]] = arith.remui %[[KUSE]]
    // CHECK-NEXT: pipe.await %[[KC]][%[[KUSE]]]
    // CHECK-NEXT: %[[KT:.*]] = pipe.slot %[[K]][%[[STAGE]]]
    // CHECK-NEXT: tile.dot %[[QT]], %[[KT]] transposed
    // CHECK-NEXT: pipe.release %[[KC]][%[[KUSE]]]
    %K = tile.load %k[%keys] : !tile.view<[?, ?, ?, 128], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 128], f16>
    %S = tile.dot %Q, %K transposed plus %S0 : (!tile.tile<[128, 128], f16>, !tile.tile<[64, 128], f16>, !tile.tile<[128, 64], f32>) -> !tile.tile<[128, 64], f32>
    %P = tile.convert %S : !tile.tile<[128, 64], f32> -> !tile.tile<[128, 64], f16>
    // CHECK: pipe.await %[[VC]][%[[VUSE]]]
    // CHECK-NEXT: %[[VT:.*]] = pipe.slot %[[V]]
    // CHECK: tile.dot %{{.*}}, %[[VT]] plus
    // CHECK-NEXT: pipe.release %[[VC]][%[[VUSE]]]
    %V = tile.load %v[%keys] : !tile.view<[?, ?, ?, 128], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 128], f16>
    %O2 = tile.dot %P, %V plus %O1 : (!tile.tile<[128, 64], f16>, !tile.tile<[64, 128], f16>, !tile.tile<[128, 128], f32>) -> !tile.tile<[128, 128], f32>
    scf.yield %O2 : !tile.tile<[128, 128], f32>
  }
  // CHECK-NOT: pipe.release
  %R = tile.convert %O : !tile.tile<[128, 128], f32> -> !tile.tile<[128, 128], f16>
  // CHECK: pipe.write %{{.*}} to %[[O]]
  // CHECK-NEXT: pipe.empty_out %[[O]] to %o[%[[WORK]]]
  // CHECK-NEXT: pipe.drain
  // CHECK-NOT: tile.store
  tile.store %R, %o[%rows] : !tile.tile<[128, 128], f16>, !tile.view<[?, ?, ?, 128], f16>[!tile.block<query, 128>]
}

// -----

// CHECK-LABEL: tile.kernel @one
// CHECK: pipe.roles producer 56
// CHECK: consumers 1 200
tile.kernel @one(%low: i32, %high: i32, %step: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 2, warps = 4, q_in_registers = false, consumers = 1>} {
  scf.for %j = %low to %high step %step : i32 {
  }
}

// -----

// CHECK-LABEL: tile.kernel @three
// CHECK: pipe.roles producer 32
// CHECK: consumers 3 160
tile.kernel @three(%low: i32, %high: i32, %step: i32)
    attributes {schedule = #tile.schedule<block_m = 192, block_n = 64, stages = 2, warps = 12, q_in_registers = false, consumers = 3>} {
  scf.for %j = %low to %high step %step : i32 {
  }
}

// -----

// Without consumers all warps copy and compute: nothing is split.
// CHECK-LABEL: tile.kernel @none
// CHECK-NOT: pipe.roles
tile.kernel @none(%low: i32, %high: i32, %step: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 2, warps = 4, q_in_registers = false>} {
  scf.for %j = %low to %high step %step : i32 {
  }
}

// -----

// All warpgroups read what a loop loads until the end, so no output lies over it, whatever its shape.
// CHECK-LABEL: tile.kernel @wider
// CHECK: pipe.alloc : <1, [64, 64], f16, panels = true>
// CHECK: pipe.alloc : <1, [64, 128], f16, panels = true>
// CHECK: pipe.alloc : <1, [64, 128], f16, panels = true>
// CHECK-NOT: pipe.alloc
tile.kernel @wider(%q: !tile.view<[?, ?, ?, 64], f16>, %v: !tile.view<[?, ?, ?, 128], f16>,
                   %o: !tile.view<[?, ?, ?, 128], f16>, %low: i32, %high: i32, %one: i32)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false, consumers = 1>} {
  %rows = tile.work : !tile.block<query, 64>
  %Q = tile.load %q[%rows] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], f16>
  %O0 = tile.constant 0.0 : !tile.tile<[64, 128], f32>
  %O = scf.for %j = %low to %high step %one iter_args(%O1 = %O0) -> (!tile.tile<[64, 128], f32>) : i32 {
    %keys = tile.block %j of %rows : !tile.block<query, 64> -> !tile.block<key, 64>
    %V = tile.load %v[%keys] : !tile.view<[?, ?, ?, 128], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 128], f16>
    %O2 = tile.dot %Q, %V plus %O1 : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 128], f16>, !tile.tile<[64, 128], f32>) -> !tile.tile<[64, 128], f32>
    scf.yield %O2 : !tile.tile<[64, 128], f32>
  }
  %R = tile.convert %O : !tile.tile<[64, 128], f32> -> !tile.tile<[64, 128], f16>
  tile.store %R, %o[%rows] : !tile.tile<[64, 128], f16>, !tile.view<[?, ?, ?, 128], f16>[!tile.block<query, 64>]
}
