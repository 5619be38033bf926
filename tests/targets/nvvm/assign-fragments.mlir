// RUN: tesela-opt %s --split-input-file --pipe-assign-fragments | FileCheck %s

#schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = true>

// A product's right operand stays in the buffer to which it is loaded; the left operand comes into registers. The loads of a loop's
// body move to its top, between two barriers. An output is stored through a buffer, here in the place of one that is not read any more.
// CHECK-LABEL: tile.kernel @product
tile.kernel @product(%q: !tile.view<[?, ?, ?, 64], f16>, %k: !tile.view<[?, ?, ?, 64], f16>,
                     %o: !tile.view<[?, ?, ?, 64], f16>, %low: i32, %high: i32, %one: i32)
    attributes {schedule = #schedule} {
  // CHECK: %[[Q:.*]] = pipe.alloc : <1, [64, 64], f16>
  // CHECK: %[[O:.*]] = pipe.alloc over %[[Q]]
  // CHECK: %[[K:.*]] = pipe.alloc : <1, [64, 64], f16>
  %rows = tile.work : !tile.block<query, 64>
  // CHECK: pipe.copy %q[%{{.*}}] to %[[Q]]
  // CHECK-NEXT: pipe.commit
  %x = tile.load %q[%rows] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], f16>
  // CHECK: tile.constant {{.*}} : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
  %c = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  // CHECK: pipe.wait 0
  // CHECK-NEXT: pipe.barrier
  // CHECK: %[[QS:.*]] = pipe.slot %[[Q]]
  // CHECK: %[[QR:.*]] = pipe.convert %[[QS]] : {{.*}} -> !tile.tile<[64, 64], f16, #pipe.operand<warps = 4>>
  // CHECK: scf.for
  %r = scf.for %j = %low to %high step %one iter_args(%acc = %c) -> (!tile.tile<[64, 64], f32>) : i32 {
    // CHECK: tile.block
    // CHECK-NEXT: pipe.barrier
    // CHECK: pipe.copy %k[%{{.*}}] to %[[K]]
    // CHECK-NEXT: pipe.commit
    // CHECK-NEXT: pipe.wait 0
    // CHECK-NEXT: pipe.barrier
    // CHECK: %[[KS:.*]] = pipe.slot %[[K]]{{.*}} -> !tile.tile<[64, 64], f16, #pipe.shared>
    %keys = tile.block %j of %rows : !tile.block<query, 64> -> !tile.block<key, 64>
    %y = tile.load %k[%keys] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
    // CHECK: tile.dot %[[QR]], %[[KS]] transposed
    %d = tile.dot %x, %y transposed plus %acc : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
    scf.yield %d : !tile.tile<[64, 64], f32>
  }
  %z = tile.convert %r : !tile.tile<[64, 64], f32> -> !tile.tile<[64, 64], f16>
  // CHECK: pipe.barrier
  // CHECK-NEXT: pipe.write %{{.*}} to %[[O]]
  // CHECK-NEXT: pipe.barrier
  // CHECK-NEXT: pipe.store %[[O]]
  tile.store %z, %o[%rows] : !tile.tile<[64, 64], f16>, !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>]
}

// -----

#schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 1, warps = 4, q_in_registers = false>

// Sums are shares until tile.total, also when a loop carries them. Maxima are not shares.
// CHECK-LABEL: tile.kernel @shares
tile.kernel @shares(%low: i32, %high: i32, %one: i32) attributes {schedule = #schedule} {
  // CHECK: %[[L:.*]] = tile.constant {{.*}} : !tile.tile<[64], f32, #pipe.rows<warps = 4, shares = true>>
  %l = tile.constant 0.0 : !tile.tile<[64], f32>
  // CHECK: tile.constant {{.*}} : !tile.tile<[64], f32, #pipe.rows<warps = 4, shares = false>>
  %m = tile.constant 0.0 : !tile.tile<[64], f32>
  %x = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  // CHECK: tile.reduce max {{.*}} -> !tile.tile<[64], f32, #pipe.rows<warps = 4, shares = false>>
  %max = tile.reduce max %x from %m : !tile.tile<[64, 64], f32> -> !tile.tile<[64], f32>
  // CHECK: scf.for {{.*}} -> (!tile.tile<[64], f32, #pipe.rows<warps = 4, shares = true>>)
  %sum = scf.for %j = %low to %high step %one iter_args(%s = %l) -> (!tile.tile<[64], f32>) : i32 {
    %t = tile.reduce add %x from %s : !tile.tile<[64, 64], f32> -> !tile.tile<[64], f32>
    scf.yield %t : !tile.tile<[64], f32>
  }
  // CHECK: tile.total {{.*}} shares = true>> -> !tile.tile<[64], f32, #pipe.rows<warps = 4, shares = false>>
  %total = tile.total %sum : !tile.tile<[64], f32> -> !tile.tile<[64], f32>
}
