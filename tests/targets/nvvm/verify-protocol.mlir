// Programs that keep the protocol. hand-written-forward.mlir is another one, with persistent thread blocks.
// RUN: tesela-opt %s --split-input-file --pipe-verify-protocol | FileCheck %s

// A channel that is used once needs no release, and the output lies over its buffer, of which a warpgroup reads only its own rows. Two
// products are in flight at once.
// CHECK-LABEL: tile.kernel @over
tile.kernel @over(%q: !tile.view<[?, ?, ?, 64], f16>, %o: !tile.view<[?, ?, ?, 64], f16>, %high: i32) {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %a = pipe.alloc : !pipe.buffer<1, [64, 64], f16, panels = true>
  %ac = pipe.open : !pipe.channel<1>
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %bc = pipe.open : !pipe.channel<2>
  %out = pipe.alloc over %a : !pipe.buffer<1, [64, 64], f16, panels = true>, : !pipe.buffer<1, [64, 64], f16, panels = true>
  // The producer fills in another order than the consumers await.
  pipe.roles producer 56 {
    pipe.acquire %bc[%zero] : !pipe.channel<2>
    pipe.fill %q[%rows] to %b on %bc[%zero] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
    pipe.acquire %ac[%zero] : !pipe.channel<1>
    pipe.fill %q[%rows] to %a on %ac[%zero] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<1, [64, 64], f16, panels = true>, !pipe.channel<1>
    %first = arith.addi %zero, %one : i32
    %last = scf.for %j = %one to %high step %one iter_args(%n = %first) -> (i32) : i32 {
      pipe.acquire %bc[%n] : !pipe.channel<2>
      pipe.fill %q[%rows] to %b on %bc[%n] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
      %m = arith.addi %n, %one : i32
      scf.yield %m : i32
    }
  } consumers 1 256 {
    %none = tile.constant 0.0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
    %y = tile.constant 0.0 : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>
    pipe.await %ac[%zero] : !pipe.channel<1>
    %A = pipe.slot %a[%zero] : !pipe.buffer<1, [64, 64], f16, panels = true> -> !tile.tile<[64, 64], f16, #pipe.shared>
    pipe.await %bc[%zero] : !pipe.channel<2>
    pipe.release %bc[%zero] : !pipe.channel<2>
    %first = arith.addi %zero, %one : i32
    %last = scf.for %j = %one to %high step %one iter_args(%n = %first) -> (i32) : i32 {
      pipe.await %bc[%n] : !pipe.channel<2>
      %stage = arith.remui %n, %two : i32
      %B = pipe.slot %b[%stage] : !pipe.buffer<2, [64, 64], f16, panels = true> -> !tile.tile<[64, 64], f16, #pipe.shared>
      %s = pipe.dot_start %A, %B plus %none : (!tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4, in_flight = true>>
      %t = pipe.dot_start %A, %B transposed plus %none : (!tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4, in_flight = true>>
      %S = pipe.dot_wait %s pending 1 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4, in_flight = true>> -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
      %T = pipe.dot_wait %t pending 0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4, in_flight = true>> -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
      pipe.release %bc[%n] : !pipe.channel<2>
      %m = arith.addi %n, %one : i32
      scf.yield %m : i32
    }
    pipe.write %y to %out[%zero] : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>, !pipe.buffer<1, [64, 64], f16, panels = true>
    pipe.empty_out %out to %o[%rows] : !pipe.buffer<1, [64, 64], f16, panels = true>, !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>]
    pipe.drain
  }
}

// -----

// A received number is the one that was sent: here it says how often a loop runs.
// CHECK-LABEL: tile.kernel @received
tile.kernel @received(%q: !tile.view<[?, ?, ?, 64], f16>, %high: i32) {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  %w = pipe.open : !pipe.channel<1 words = 1>
  pipe.roles producer 56 {
    %more = arith.addi %high, %one : i32
    pipe.acquire %w[%zero] : !pipe.channel<1 words = 1>
    pipe.send %more to %w[%zero] : !pipe.channel<1 words = 1>
    %last = scf.for %j = %zero to %more step %one iter_args(%n = %zero) -> (i32) : i32 {
      pipe.acquire %c[%n] : !pipe.channel<2>
      pipe.fill %q[%rows] to %b on %c[%n] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
      %m = arith.addi %n, %one : i32
      scf.yield %m : i32
    }
  } consumers 1 256 {
    %more = pipe.receive %w[%zero] : !pipe.channel<1 words = 1> -> i32
    %last = scf.for %j = %zero to %more step %one iter_args(%n = %zero) -> (i32) : i32 {
      pipe.await %c[%n] : !pipe.channel<2>
      pipe.release %c[%n] : !pipe.channel<2>
      %m = arith.addi %n, %one : i32
      scf.yield %m : i32
    }
  }
}

// -----

// Parts of a use, one for each warpgroup; and turns.
// CHECK-LABEL: tile.kernel @parts
tile.kernel @parts(%q: !tile.view<[?, ?, ?, 64], f16>, %high: i32) {
  %rows = tile.work : !tile.block<query, 128>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %b = pipe.alloc : !pipe.buffer<1, [128, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<1 parts = 2>
  pipe.roles producer 24 {
    %last = scf.for %j = %zero to %high step %one iter_args(%n = %zero) -> (i32) : i32 {
      pipe.acquire %c[%n] : !pipe.channel<1 parts = 2>
      pipe.fill %q[%rows] to %b on %c[%n] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 128>], !pipe.buffer<1, [128, 64], f16, panels = true>, !pipe.channel<1 parts = 2>
      pipe.acquire %c[%n] part 1 : !pipe.channel<1 parts = 2>
      pipe.fill %q[%rows] to %b on %c[%n] part 1 : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 128>], !pipe.buffer<1, [128, 64], f16, panels = true>, !pipe.channel<1 parts = 2>
      %m = arith.addi %n, %one : i32
      scf.yield %m : i32
    }
  } consumers 2 240 {
    pipe.open_turns
    %last = scf.for %j = %zero to %high step %one iter_args(%n = %zero) -> (i32) : i32 {
      pipe.begin_turn
      pipe.await %c[%n] : !pipe.channel<1 parts = 2>
      pipe.end_turn
      pipe.release %c[%n] : !pipe.channel<1 parts = 2>
      %m = arith.addi %n, %one : i32
      scf.yield %m : i32
    }
  }
}

// -----

// Without roles there is nothing to compare.
// CHECK-LABEL: tile.kernel @none
tile.kernel @none() {
}
