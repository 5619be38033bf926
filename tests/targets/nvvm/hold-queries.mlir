// RUN: tesela-opt %s --pass-pipeline='builtin.module(tile.kernel(pipe-hold-queries))' --split-input-file --verify-diagnostics | FileCheck %s

// The first three panels of the queries are loaded into registers in front of the loop. The product becomes two, and the
// second one adds to the first one's sum. The values are columns of the same stage, and stay as they are.
// CHECK-LABEL: tile.kernel @latent
// CHECK:       consumers
// CHECK:         %[[REST:.*]] = pipe.slot %[[Q:.*]][%{{.*}}] {first_column = 192 : i64} : {{.*}} -> !tile.tile<[64, 384], bf16, #pipe.shared>
// CHECK:         %[[FIRST:.*]] = pipe.slot %[[Q]][%{{.*}}] : {{.*}} -> !tile.tile<[64, 192], bf16, #pipe.shared>
// CHECK:         %[[HELD:.*]] = pipe.convert %[[FIRST]] : {{.*}} -> !tile.tile<[64, 192], bf16, #pipe.operand<warps = 4>>
// CHECK:         scf.for
// CHECK-DAG:       %[[K2:.*]] = pipe.slot %[[K:.*]][%{{.*}}] {first_column = 192 : i64} : {{.*}} -> !tile.tile<[64, 384], bf16, #pipe.shared>
// CHECK-DAG:       %[[K1:.*]] = pipe.slot %{{.*}}[%{{.*}}] : {{.*}} -> !tile.tile<[64, 192], bf16, #pipe.shared>
// CHECK:           %[[S1:.*]] = tile.dot %[[HELD]], %[[K1]] transposed plus
// CHECK-NEXT:      %[[S:.*]] = tile.dot %[[REST]], %[[K2]] transposed plus %[[S1]]
// CHECK:           tile.reduce max %[[S]]
tile.kernel @latent(%q: !tile.view<[?, ?, ?, 576], bf16>, %k: !tile.view<[?, ?, ?, 576], bf16>, %o: !tile.view<[?, ?, ?], f32>) attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 2, warps = 8, q_in_registers = false, consumers = 2, reference = lazy, query_panels = 3>} {
  %qb = pipe.alloc : !pipe.buffer<1, [64, 576], bf16, panels = true>
  %qc = pipe.open : !pipe.channel<1>
  %kb = pipe.alloc : !pipe.buffer<2, [64, 576], bf16, panels = true>
  %kc = pipe.open : !pipe.channel<2>
  pipe.roles producer 40 {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %four = arith.constant 4 : i32
    %rows = tile.work : !tile.block<query, 64>
    pipe.acquire %qc[%zero] : <1>
    pipe.fill %q[%rows] to %qb on %qc[%zero] : !tile.view<[?, ?, ?, 576], bf16>[!tile.block<query, 64>], !pipe.buffer<1, [64, 576], bf16, panels = true>, !pipe.channel<1>
    scf.for %i = %zero to %four step %one : i32 {
      %keys = tile.block %i of %rows : !tile.block<query, 64> -> !tile.block<key, 64>
      pipe.acquire %kc[%i] : <2>
      pipe.fill %k[%keys] to %kb on %kc[%i] : !tile.view<[?, ?, ?, 576], bf16>[!tile.block<key, 64>], !pipe.buffer<2, [64, 576], bf16, panels = true>, !pipe.channel<2>
    }
  } consumers 2 232 {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %two = arith.constant 2 : i32
    %four = arith.constant 4 : i32
    %rows = tile.work : !tile.block<query, 64>
    pipe.await %qc[%zero] : <1>
    %Q = pipe.slot %qb[%zero] : !pipe.buffer<1, [64, 576], bf16, panels = true> -> !tile.tile<[64, 576], bf16, #pipe.shared>
    %none = tile.constant 0.0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
    %least = tile.constant 0xFF800000 : !tile.tile<[64], f32, #pipe.rows<warps = 4, shares = true>>
    %most = scf.for %i = %zero to %four step %one iter_args(%m = %least) -> (!tile.tile<[64], f32, #pipe.rows<warps = 4, shares = true>>) : i32 {
      %n = arith.remui %i, %two : i32
      pipe.await %kc[%i] : <2>
      %K = pipe.slot %kb[%n] : !pipe.buffer<2, [64, 576], bf16, panels = true> -> !tile.tile<[64, 576], bf16, #pipe.shared>
      %S = tile.dot %Q, %K transposed plus %none : (!tile.tile<[64, 576], bf16, #pipe.shared>, !tile.tile<[64, 576], bf16, #pipe.shared>, !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
      %m2 = tile.reduce max %S from %m {in_shares} : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>> -> !tile.tile<[64], f32, #pipe.rows<warps = 4, shares = true>>
      pipe.release %kc[%i] : <2>
      scf.yield %m2 : !tile.tile<[64], f32, #pipe.rows<warps = 4, shares = true>>
    }
    %all = tile.total %most : !tile.tile<[64], f32, #pipe.rows<warps = 4, shares = true>> -> !tile.tile<[64], f32, #pipe.rows<warps = 4, shares = false>>
    tile.store %all, %o[%rows] : !tile.tile<[64], f32, #pipe.rows<warps = 4, shares = false>>, !tile.view<[?, ?, ?], f32>[!tile.block<query, 64>]
  }
}

// -----

// expected-error @+1 {{expected, with query_panels = 3, a loop with a product of queries and keys that is awaited where it starts, got none; leave query_panels out}}
tile.kernel @no_product(%q: !tile.view<[?, ?, ?, 576], bf16>) attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 2, warps = 8, q_in_registers = false, consumers = 2, query_panels = 3>} {
  pipe.roles producer 40 {
  } consumers 2 232 {
  }
}

// -----

// The whole tile would be in registers, and nothing would be left for the second product.
tile.kernel @all_columns() attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 2, warps = 8, q_in_registers = false, consumers = 2, query_panels = 2>} {
  %qb = pipe.alloc : !pipe.buffer<1, [64, 128], bf16, panels = true>
  %kb = pipe.alloc : !pipe.buffer<1, [64, 128], bf16, panels = true>
  pipe.roles producer 40 {
  } consumers 2 232 {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %Q = pipe.slot %qb[%zero] : !pipe.buffer<1, [64, 128], bf16, panels = true> -> !tile.tile<[64, 128], bf16, #pipe.shared>
    %none = tile.constant 0.0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
    scf.for %i = %zero to %one step %one : i32 {
      %K = pipe.slot %kb[%zero] : !pipe.buffer<1, [64, 128], bf16, panels = true> -> !tile.tile<[64, 128], bf16, #pipe.shared>
      // expected-error @+1 {{expected queries of more than 128 columns (query_panels = 2), got '!tile.tile<[64, 128], bf16, #pipe.shared>'; take fewer panels}}
      %S = tile.dot %Q, %K transposed plus %none : (!tile.tile<[64, 128], bf16, #pipe.shared>, !tile.tile<[64, 128], bf16, #pipe.shared>, !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
    }
  }
}

// -----

tile.kernel @columns(%q: !tile.view<[?, ?, ?, 64], bf16>) {
  %zero = arith.constant 0 : i32
  %buffer = pipe.alloc : !pipe.buffer<1, [64, 128], bf16, panels = true>
  // expected-error @+1 {{expected first_column to be a multiple of 64 in a buffer of panels, and 0 in any other, got 32}}
  %Q = pipe.slot %buffer[%zero] {first_column = 32 : i64} : !pipe.buffer<1, [64, 128], bf16, panels = true> -> !tile.tile<[64, 96], bf16, #pipe.shared>
}

// -----

tile.kernel @rows(%q: !tile.view<[?, ?, ?, 64], bf16>) {
  %zero = arith.constant 0 : i32
  %buffer = pipe.alloc : !pipe.buffer<1, [64, 128], bf16>
  // expected-error @+1 {{expected first_column to be a multiple of 64 in a buffer of panels, and 0 in any other, got 64}}
  %Q = pipe.slot %buffer[%zero] {first_column = 64 : i64} : !pipe.buffer<1, [64, 128], bf16> -> !tile.tile<[64, 64], bf16, #pipe.shared>
}

// -----

tile.kernel @too_many(%q: !tile.view<[?, ?, ?, 64], bf16>) {
  %zero = arith.constant 0 : i32
  %buffer = pipe.alloc : !pipe.buffer<1, [64, 128], bf16, panels = true>
  // expected-error @+1 {{expected columns that the stage has, got columns 64 to 192 of}}
  %Q = pipe.slot %buffer[%zero] {first_column = 64 : i64} : !pipe.buffer<1, [64, 128], bf16, panels = true> -> !tile.tile<[64, 128], bf16, #pipe.shared>
}
