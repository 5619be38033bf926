// Each constraint of pipe-run-roles (Passes.td), violated once.
// RUN: tesela-opt %s --split-input-file --verify-diagnostics --pipe-run-roles

// R5: the consumers want the number first, the producer sends it after the loop, for which two stages are too few.
tile.kernel @k(%q: !tile.view<[?, ?, ?, 64], f16>) {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %three = arith.constant 3 : i32
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  %w = pipe.open : !pipe.channel<1 words = 1>
  pipe.roles producer 56 {
    %n0 = scf.for %j = %zero to %three step %one iter_args(%n = %zero) -> (i32) : i32 {
      pipe.acquire %c[%n] : !pipe.channel<2>
      pipe.fill %q[%rows] to %b on %c[%n] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
      %m = arith.addi %n, %one : i32
      scf.yield %m : i32
    }
    // expected-note @-5 {{the producer waits here}}
    pipe.acquire %w[%zero] : !pipe.channel<1 words = 1>
    pipe.send %one to %w[%zero] : !pipe.channel<1 words = 1>
  } consumers 1 256 {
    // expected-error @+1 {{waits forever: the roles wait for each other; await in the order in which the producer fills, release earlier, or give the channel more stages}}
    %x = pipe.receive %w[%zero] : !pipe.channel<1 words = 1> -> i32
    %n0 = scf.for %j = %zero to %three step %one iter_args(%n = %zero) -> (i32) : i32 {
      pipe.await %c[%n] : !pipe.channel<2>
      pipe.release %c[%n] : !pipe.channel<2>
      %m = arith.addi %n, %one : i32
      scf.yield %m : i32
    }
  }
}

// -----

// R5: the place of use 1 of %do is that of use 0 of %q, which the consumers release too late. Two stages of its own would be enough.
tile.kernel @k(%q: !tile.view<[?, ?, ?, 64], f16>, %do: !tile.view<[?, ?, ?, 64], f16>) {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %qb = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %db = pipe.alloc over %qb : !pipe.buffer<2, [64, 64], f16, panels = true>, {crossed} : !pipe.buffer<2, [64, 64], f16, panels = true>
  %qc = pipe.open : !pipe.channel<2>
  %dc = pipe.open : !pipe.channel<2>
  pipe.roles producer 56 {
    %n0 = scf.for %j = %zero to %two step %one iter_args(%n = %zero) -> (i32) : i32 {
      pipe.acquire %qc[%n] : !pipe.channel<2>
      pipe.fill %q[%rows] to %qb on %qc[%n] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
      // expected-note @+1 {{the producer waits here}}
      pipe.acquire %dc[%n] : !pipe.channel<2>
      pipe.fill %do[%rows] to %db on %dc[%n] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
      %m = arith.addi %n, %one : i32
      scf.yield %m : i32
    }
  } consumers 1 256 {
    %n0 = scf.for %j = %zero to %two step %one iter_args(%n = %zero) -> (i32) : i32 {
      pipe.await %qc[%n] : !pipe.channel<2>
      // expected-error @+1 {{waits forever: the roles wait for each other; await in the order in which the producer fills, release earlier, or give the channel more stages}}
      pipe.await %dc[%n] : !pipe.channel<2>
      pipe.release %dc[%n] : !pipe.channel<2>
      %m = arith.addi %n, %one : i32
      scf.yield %m : i32
    }
    pipe.release %qc[%zero] : !pipe.channel<2>
    pipe.release %qc[%one] : !pipe.channel<2>
  }
}

// -----

// R2: a stage is read after its release.
tile.kernel @k(%q: !tile.view<[?, ?, ?, 64], f16>) {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  pipe.roles producer 56 {
    %n0 = scf.for %j = %zero to %two step %one iter_args(%n = %zero) -> (i32) : i32 {
      pipe.acquire %c[%n] : !pipe.channel<2>
      pipe.fill %q[%rows] to %b on %c[%n] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
      %m = arith.addi %n, %one : i32
      scf.yield %m : i32
    }
  } consumers 1 256 {
    %none = tile.constant 0.0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
    %n0 = scf.for %j = %zero to %two step %one iter_args(%n = %zero) -> (i32) : i32 {
      pipe.await %c[%n] : !pipe.channel<2>
      %stage = arith.remui %n, %two : i32
      %t = pipe.slot %b[%stage] : !pipe.buffer<2, [64, 64], f16, panels = true> -> !tile.tile<[64, 64], f16, #pipe.shared>
      pipe.release %c[%n] : !pipe.channel<2>
      // expected-error @+1 {{expected to read a stage between its pipe.await and its pipe.release; it may be written at any other time}}
      %s = tile.dot %t, %t transposed plus %none : (!tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
      %m = arith.addi %n, %one : i32
      scf.yield %m : i32
    }
  }
}

// -----

// R2: a product in flight reads a stage that is released already.
tile.kernel @k(%q: !tile.view<[?, ?, ?, 64], f16>) {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  pipe.roles producer 56 {
    %n0 = scf.for %j = %zero to %two step %one iter_args(%n = %zero) -> (i32) : i32 {
      pipe.acquire %c[%n] : !pipe.channel<2>
      pipe.fill %q[%rows] to %b on %c[%n] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
      %m = arith.addi %n, %one : i32
      scf.yield %m : i32
    }
  } consumers 1 256 {
    %none = tile.constant 0.0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
    %n0 = scf.for %j = %zero to %two step %one iter_args(%n = %zero) -> (i32) : i32 {
      pipe.await %c[%n] : !pipe.channel<2>
      %stage = arith.remui %n, %two : i32
      %t = pipe.slot %b[%stage] : !pipe.buffer<2, [64, 64], f16, panels = true> -> !tile.tile<[64, 64], f16, #pipe.shared>
      // expected-note @+1 {{the product starts here}}
      %f = pipe.dot_start %t, %t transposed plus %none : (!tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4, in_flight = true>>
      // expected-error @+1 {{expected a pipe.dot_wait before the release of a stage that a product reads; it may be written from here on}}
      pipe.release %c[%n] : !pipe.channel<2>
      %s = pipe.dot_wait %f pending 0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4, in_flight = true>> -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
      %m = arith.addi %n, %one : i32
      scf.yield %m : i32
    }
  }
}

// -----

// R2: the stage is not that of the use.
tile.kernel @k(%q: !tile.view<[?, ?, ?, 64], f16>) {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  pipe.roles producer 56 {
    %n0 = scf.for %j = %zero to %two step %one iter_args(%n = %zero) -> (i32) : i32 {
      pipe.acquire %c[%n] : !pipe.channel<2>
      pipe.fill %q[%rows] to %b on %c[%n] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
      %m = arith.addi %n, %one : i32
      scf.yield %m : i32
    }
  } consumers 1 256 {
    %none = tile.constant 0.0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
    %n0 = scf.for %j = %zero to %two step %one iter_args(%n = %zero) -> (i32) : i32 {
      pipe.await %c[%n] : !pipe.channel<2>
      %t = pipe.slot %b[%zero] : !pipe.buffer<2, [64, 64], f16, panels = true> -> !tile.tile<[64, 64], f16, #pipe.shared>
      // expected-error @+1 {{expected to read a stage between its pipe.await and its pipe.release; it may be written at any other time}}
      %s = tile.dot %t, %t transposed plus %none : (!tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
      pipe.release %c[%n] : !pipe.channel<2>
      %m = arith.addi %n, %one : i32
      scf.yield %m : i32
    }
  }
}

// -----

// R2: a buffer that nobody fills.
tile.kernel @k(%q: !tile.view<[?, ?, ?, 64], f16>) {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  %other = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  pipe.roles producer 56 {
    pipe.acquire %c[%zero] : !pipe.channel<2>
    pipe.fill %q[%rows] to %b on %c[%zero] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
  } consumers 1 256 {
    %none = tile.constant 0.0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
    %t = pipe.slot %other[%zero] : !pipe.buffer<2, [64, 64], f16, panels = true> -> !tile.tile<[64, 64], f16, #pipe.shared>
    // expected-error @+1 {{expected a buffer that the producer fills, got one without a pipe.fill; fill it or do not read it}}
    %s = tile.dot %t, %t transposed plus %none : (!tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
    pipe.await %c[%zero] : !pipe.channel<2>
    pipe.release %c[%zero] : !pipe.channel<2>
  }
}

// -----

// R2: two channels fill one buffer.
tile.kernel @k(%q: !tile.view<[?, ?, ?, 64], f16>) {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  %d = pipe.open : !pipe.channel<2>
  pipe.roles producer 56 {
    pipe.acquire %c[%zero] : !pipe.channel<2>
    pipe.fill %q[%rows] to %b on %c[%zero] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
    pipe.acquire %d[%zero] : !pipe.channel<2>
    // expected-error @+1 {{expected one channel to fill a buffer, got a second one; the two would write over each other}}
    pipe.fill %q[%rows] to %b on %d[%zero] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
  } consumers 1 256 {
    pipe.await %c[%zero] : !pipe.channel<2>
    pipe.release %c[%zero] : !pipe.channel<2>
    pipe.await %d[%zero] : !pipe.channel<2>
    pipe.release %d[%zero] : !pipe.channel<2>
  }
}

// -----

// R3: written again before it has left.
tile.kernel @k(%q: !tile.view<[?, ?, ?, 64], f16>) {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  %o = pipe.alloc : !pipe.buffer<1, [64, 64], f16, panels = true>
  pipe.roles producer 56 {
    pipe.acquire %c[%zero] : !pipe.channel<2>
    pipe.fill %q[%rows] to %b on %c[%zero] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
  } consumers 1 256 {
    pipe.await %c[%zero] : !pipe.channel<2>
    pipe.release %c[%zero] : !pipe.channel<2>
    %y = tile.constant 0.0 : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>
    pipe.write %y to %o[%zero] : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>, !pipe.buffer<1, [64, 64], f16, panels = true>
    pipe.empty_out %o to %q[%rows] : !pipe.buffer<1, [64, 64], f16, panels = true>, !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>]
    // expected-error @+1 {{expected the buffer's rows to have left before others are written; put pipe.empty_out and pipe.drain before it}}
    pipe.write %y to %o[%zero] : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>, !pipe.buffer<1, [64, 64], f16, panels = true>
    pipe.empty_out %o to %q[%rows] : !pipe.buffer<1, [64, 64], f16, panels = true>, !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>]
    pipe.drain
  }
}

// -----

// R3: written in a loop, whose next iteration does not wait.
tile.kernel @k(%q: !tile.view<[?, ?, ?, 64], f16>) {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  %o = pipe.alloc : !pipe.buffer<1, [64, 64], f16, panels = true>
  pipe.roles producer 56 {
    pipe.acquire %c[%zero] : !pipe.channel<2>
    pipe.fill %q[%rows] to %b on %c[%zero] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
  } consumers 1 256 {
    pipe.await %c[%zero] : !pipe.channel<2>
    pipe.release %c[%zero] : !pipe.channel<2>
    %y = tile.constant 0.0 : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>
    scf.for %j = %zero to %two step %one : i32 {
      // expected-error @+1 {{expected the buffer's rows to have left before others are written}}
      pipe.write %y to %o[%zero] : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>, !pipe.buffer<1, [64, 64], f16, panels = true>
      pipe.empty_out %o to %q[%rows] : !pipe.buffer<1, [64, 64], f16, panels = true>, !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>]
    }
    pipe.drain
  }
}

// -----

// R3: nothing was written.
tile.kernel @k(%q: !tile.view<[?, ?, ?, 64], f16>) {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  %o = pipe.alloc : !pipe.buffer<1, [64, 64], f16, panels = true>
  pipe.roles producer 56 {
    pipe.acquire %c[%zero] : !pipe.channel<2>
    pipe.fill %q[%rows] to %b on %c[%zero] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
  } consumers 1 256 {
    pipe.await %c[%zero] : !pipe.channel<2>
    pipe.release %c[%zero] : !pipe.channel<2>
    // expected-error @+1 {{expected a pipe.write to the buffer before it, got none since it left last; write it first}}
    pipe.empty_out %o to %q[%rows] : !pipe.buffer<1, [64, 64], f16, panels = true>, !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>]
    pipe.drain
  }
}

// -----

// R4: written and never sent.
tile.kernel @k(%q: !tile.view<[?, ?, ?, 64], f16>) {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  %o = pipe.alloc : !pipe.buffer<1, [64, 64], f16, panels = true>
  pipe.roles producer 56 {
    pipe.acquire %c[%zero] : !pipe.channel<2>
    pipe.fill %q[%rows] to %b on %c[%zero] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
  } consumers 1 256 {
    pipe.await %c[%zero] : !pipe.channel<2>
    pipe.release %c[%zero] : !pipe.channel<2>
    %y = tile.constant 0.0 : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>
    // expected-error @+1 {{expected a pipe.empty_out of the buffer behind it, got none; what is written would be lost}}
    pipe.write %y to %o[%zero] : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>, !pipe.buffer<1, [64, 64], f16, panels = true>
  }
}

// -----

// R4: the role ends while shared memory is read.
tile.kernel @k(%q: !tile.view<[?, ?, ?, 64], f16>) {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  %o = pipe.alloc : !pipe.buffer<1, [64, 64], f16, panels = true>
  pipe.roles producer 56 {
    pipe.acquire %c[%zero] : !pipe.channel<2>
    pipe.fill %q[%rows] to %b on %c[%zero] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
  } consumers 1 256 {
    pipe.await %c[%zero] : !pipe.channel<2>
    pipe.release %c[%zero] : !pipe.channel<2>
    %y = tile.constant 0.0 : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>
    pipe.write %y to %o[%zero] : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>, !pipe.buffer<1, [64, 64], f16, panels = true>
    // expected-error @+1 {{expected a pipe.drain before the role ends, got none; shared memory would go while it is copied}}
    pipe.empty_out %o to %q[%rows] : !pipe.buffer<1, [64, 64], f16, panels = true>, !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>]
  }
}

// -----

// R3: the buffer is read below what is written over it.
tile.kernel @k(%q: !tile.view<[?, ?, ?, 64], f16>) {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  %p = pipe.alloc : !pipe.buffer<1, [64, 64], f16, panels = true>
  %d = pipe.open : !pipe.channel<1>
  %o = pipe.alloc over %p : !pipe.buffer<1, [64, 64], f16, panels = true>, : !pipe.buffer<1, [64, 64], f16, panels = true>
  pipe.roles producer 56 {
    pipe.acquire %c[%zero] : !pipe.channel<2>
    pipe.fill %q[%rows] to %b on %c[%zero] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
    pipe.acquire %d[%zero] : !pipe.channel<1>
    pipe.fill %q[%rows] to %p on %d[%zero] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<1, [64, 64], f16, panels = true>, !pipe.channel<1>
  } consumers 1 256 {
    pipe.await %c[%zero] : !pipe.channel<2>
    pipe.release %c[%zero] : !pipe.channel<2>
    pipe.await %d[%zero] : !pipe.channel<1>
    %t = pipe.slot %p[%zero] : !pipe.buffer<1, [64, 64], f16, panels = true> -> !tile.tile<[64, 64], f16, #pipe.shared>
    %y = tile.constant 0.0 : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>
    %none = tile.constant 0.0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
    pipe.write %y to %o[%zero] : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>, !pipe.buffer<1, [64, 64], f16, panels = true>
    // expected-error @+1 {{expected nothing to read the buffer between the pipe.write over it and the pipe.drain; read it before}}
    %s = pipe.convert %t : !tile.tile<[64, 64], f16, #pipe.shared> -> !tile.tile<[64, 64], f16, #pipe.operand<warps = 4>>
    pipe.empty_out %o to %q[%rows] : !pipe.buffer<1, [64, 64], f16, panels = true>, !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>]
    pipe.drain
  }
}

// -----

// R3: an output goes where the producer may fill.
tile.kernel @k(%q: !tile.view<[?, ?, ?, 64], f16>) {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  %p = pipe.alloc : !pipe.buffer<1, [64, 64], f16, panels = true>
  %d = pipe.open : !pipe.channel<1>
  %o = pipe.alloc over %p : !pipe.buffer<1, [64, 64], f16, panels = true>, : !pipe.buffer<1, [64, 64], f16, panels = true>
  pipe.roles producer 56 {
    pipe.acquire %c[%zero] : !pipe.channel<2>
    pipe.fill %q[%rows] to %b on %c[%zero] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
    pipe.acquire %d[%zero] : !pipe.channel<1>
    pipe.fill %q[%rows] to %p on %d[%zero] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<1, [64, 64], f16, panels = true>, !pipe.channel<1>
  } consumers 1 256 {
    pipe.await %c[%zero] : !pipe.channel<2>
    pipe.release %c[%zero] : !pipe.channel<2>
    pipe.await %d[%zero] : !pipe.channel<1>
    pipe.release %d[%zero] : !pipe.channel<1>
    %y = tile.constant 0.0 : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>
    // expected-error @+1 {{expected a stage that the consumers hold, got a buffer that the producer may fill; write between its pipe.await and its pipe.release}}
    pipe.write %y to %o[%zero] : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>, !pipe.buffer<1, [64, 64], f16, panels = true>
    pipe.empty_out %o to %q[%rows] : !pipe.buffer<1, [64, 64], f16, panels = true>, !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>]
    pipe.drain
  }
}

// -----

// R3: the stage is released while the output leaves.
tile.kernel @k(%q: !tile.view<[?, ?, ?, 64], f16>) {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  %p = pipe.alloc : !pipe.buffer<1, [64, 64], f16, panels = true>
  %d = pipe.open : !pipe.channel<1>
  %o = pipe.alloc over %p : !pipe.buffer<1, [64, 64], f16, panels = true>, : !pipe.buffer<1, [64, 64], f16, panels = true>
  pipe.roles producer 56 {
    pipe.acquire %c[%zero] : !pipe.channel<2>
    pipe.fill %q[%rows] to %b on %c[%zero] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
    pipe.acquire %d[%zero] : !pipe.channel<1>
    pipe.fill %q[%rows] to %p on %d[%zero] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<1, [64, 64], f16, panels = true>, !pipe.channel<1>
  } consumers 1 256 {
    pipe.await %c[%zero] : !pipe.channel<2>
    pipe.release %c[%zero] : !pipe.channel<2>
    pipe.await %d[%zero] : !pipe.channel<1>
    %y = tile.constant 0.0 : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>
    pipe.write %y to %o[%zero] : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>, !pipe.buffer<1, [64, 64], f16, panels = true>
    pipe.empty_out %o to %q[%rows] : !pipe.buffer<1, [64, 64], f16, panels = true>, !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>]
    // expected-error @+1 {{expected a pipe.drain before it: the output that lies in this stage is still being copied}}
    pipe.release %d[%zero] : !pipe.channel<1>
    pipe.drain
  }
}

// -----

// R2: other warpgroups may still read a right operand.
tile.kernel @k(%q: !tile.view<[?, ?, ?, 64], f16>) {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  %p = pipe.alloc : !pipe.buffer<1, [64, 64], f16, panels = true>
  %d = pipe.open : !pipe.channel<1>
  %o = pipe.alloc over %p : !pipe.buffer<1, [64, 64], f16, panels = true>, : !pipe.buffer<1, [64, 64], f16, panels = true>
  pipe.roles producer 56 {
    pipe.acquire %c[%zero] : !pipe.channel<2>
    pipe.fill %q[%rows] to %b on %c[%zero] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
    pipe.acquire %d[%zero] : !pipe.channel<1>
    pipe.fill %q[%rows] to %p on %d[%zero] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<1, [64, 64], f16, panels = true>, !pipe.channel<1>
  } consumers 1 256 {
    pipe.await %c[%zero] : !pipe.channel<2>
    pipe.release %c[%zero] : !pipe.channel<2>
    pipe.await %d[%zero] : !pipe.channel<1>
    %t = pipe.slot %p[%zero] : !pipe.buffer<1, [64, 64], f16, panels = true> -> !tile.tile<[64, 64], f16, #pipe.shared>
    %none = tile.constant 0.0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
    // expected-error @+1 {{expected nothing but a left operand in a buffer that is filled in parts or where an output goes: of a right operand a warpgroup reads the other rows too; give it a buffer of its own}}
    %s = tile.dot %t, %t transposed plus %none : (!tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
    %y = tile.constant 0.0 : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>
    pipe.write %y to %o[%zero] : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>, !pipe.buffer<1, [64, 64], f16, panels = true>
    pipe.empty_out %o to %q[%rows] : !pipe.buffer<1, [64, 64], f16, panels = true>, !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>]
    pipe.drain
  }
}

// -----

// R3: the consumers read what other warps may not have written yet.
tile.kernel @exchanged(%high: i32) {
  %zero = arith.constant 0 : i32
  %a = pipe.alloc : !pipe.buffer<1, [64, 64], f16, panels = true>
  pipe.roles producer 56 {
  } consumers 1 256 {
    %y = tile.constant 0.0 : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>
    %none = tile.constant 0.0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
    pipe.write %y to %a[%zero] : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>, !pipe.buffer<1, [64, 64], f16, panels = true>
    %A = pipe.slot %a[%zero] : !pipe.buffer<1, [64, 64], f16, panels = true> -> !tile.tile<[64, 64], f16, #pipe.shared>
    // expected-error @+1 {{expected a pipe.barrier between the pipe.write of this buffer and what reads it, got none; add it}}
    %S = tile.dot %A, %A plus %none : (!tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
  }
}

// -----

// R3: the next iteration writes over what other warps still read.
tile.kernel @overwritten(%high: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %a = pipe.alloc : !pipe.buffer<1, [64, 64], f16, panels = true>
  pipe.roles producer 56 {
  } consumers 1 256 {
    %y = tile.constant 0.0 : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>
    %none = tile.constant 0.0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
    scf.for %j = %zero to %high step %one : i32 {
      // expected-error @+1 {{expected a pipe.barrier between what reads this buffer and the next pipe.write, got none; add it}}
      pipe.write %y to %a[%zero] : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>, !pipe.buffer<1, [64, 64], f16, panels = true>
      pipe.barrier
      %A = pipe.slot %a[%zero] : !pipe.buffer<1, [64, 64], f16, panels = true> -> !tile.tile<[64, 64], f16, #pipe.shared>
      %S = tile.dot %A, %A plus %none : (!tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
    }
  }
}

// -----

// A barrier to which not all consumers may come.
tile.kernel @branch(%high: i32, %some: i1) {
  pipe.roles producer 56 {
  } consumers 1 256 {
    scf.if %some {
      // expected-error @+1 {{expected an op outside of branches on values that are not known, got one inside; other roles count on it, so move it out}}
      pipe.barrier
    }
  }
}

// -----

// R6: what a loop carries in flight is the last product that started, and `pending 1` leaves that one running.
tile.kernel @carried(%q: !tile.view<[?, ?, ?, 64], f16>, %more: i1) {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %b = pipe.alloc : !pipe.buffer<1, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<1>
  pipe.roles producer 56 {
    pipe.acquire %c[%zero] : !pipe.channel<1>
    pipe.fill %q[%rows] to %b on %c[%zero] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<1, [64, 64], f16, panels = true>, !pipe.channel<1>
  } consumers 1 256 {
    %none = tile.constant 0.0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
    pipe.await %c[%zero] : !pipe.channel<1>
    %Q = pipe.slot %b[%zero] : !pipe.buffer<1, [64, 64], f16, panels = true> -> !tile.tile<[64, 64], f16, #pipe.shared>
    %s0 = pipe.dot_start %Q, %Q transposed plus %none : (!tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4, in_flight = true>>
    %end = scf.while (%s = %s0) : (!tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4, in_flight = true>>) -> (!tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>) {
      // expected-error @+1 {{expected a product that is not among the 1 last ones that started, got one of them; it could still be in flight}}
      %S = pipe.dot_wait %s pending 1 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4, in_flight = true>> -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
      scf.condition(%more) %S : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
    } do {
    ^body(%S: !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>):
      %next = pipe.dot_start %Q, %Q transposed plus %none : (!tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4, in_flight = true>>
      scf.yield %next : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4, in_flight = true>>
    } attributes {pipe.counted}
  }
}

// -----

// R3: a warpgroup writes where another one's rows of an output are still being copied.
tile.kernel @k(%q: !tile.view<[?, ?, ?, 64], f16>) {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %x = pipe.alloc : !pipe.buffer<1, [64, 64], f16, panels = true>
  %o = pipe.alloc over %x : !pipe.buffer<1, [64, 64], f16, panels = true>, : !pipe.buffer<1, [64, 64], f16, panels = true>
  pipe.roles producer 56 {
  } consumers 1 256 {
    %y = tile.constant 0.0 : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>
    scf.for %i = %zero to %two step %one : i32 {
      // expected-error @+1 {{expected a pipe.drain and a pipe.barrier behind it between the output over this buffer and the next use of it; the rows of all warpgroups must have left}}
      pipe.write %y to %x[%zero] : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>, !pipe.buffer<1, [64, 64], f16, panels = true>
      pipe.barrier
      %t = pipe.slot %x[%zero] : !pipe.buffer<1, [64, 64], f16, panels = true> -> !tile.tile<[64, 64], f16, #pipe.shared>
      %s = pipe.convert %t : !tile.tile<[64, 64], f16, #pipe.shared> -> !tile.tile<[64, 64], f16, #pipe.operand<warps = 4>>
      pipe.barrier
      pipe.write %y to %o[%zero] : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>, !pipe.buffer<1, [64, 64], f16, panels = true>
      pipe.empty_out %o to %q[%rows] : !pipe.buffer<1, [64, 64], f16, panels = true>, !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>]
      pipe.barrier
      pipe.drain
    }
  }
}

// -----

// R3: and where nothing waits for the copies at all.
tile.kernel @k(%q: !tile.view<[?, ?, ?, 64], f16>) {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %x = pipe.alloc : !pipe.buffer<1, [64, 64], f16, panels = true>
  %o = pipe.alloc over %x : !pipe.buffer<1, [64, 64], f16, panels = true>, : !pipe.buffer<1, [64, 64], f16, panels = true>
  pipe.roles producer 56 {
  } consumers 1 256 {
    %y = tile.constant 0.0 : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>
    scf.for %i = %zero to %two step %one : i32 {
      // expected-error @+1 {{expected a pipe.drain and a pipe.barrier behind it between the output over this buffer and the next use of it}}
      pipe.write %y to %x[%zero] : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>, !pipe.buffer<1, [64, 64], f16, panels = true>
      pipe.barrier
      %t = pipe.slot %x[%zero] : !pipe.buffer<1, [64, 64], f16, panels = true> -> !tile.tile<[64, 64], f16, #pipe.shared>
      %s = pipe.convert %t : !tile.tile<[64, 64], f16, #pipe.shared> -> !tile.tile<[64, 64], f16, #pipe.operand<warps = 4>>
      pipe.barrier
      pipe.write %y to %o[%zero] : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>, !pipe.buffer<1, [64, 64], f16, panels = true>
      pipe.empty_out %o to %q[%rows] : !pipe.buffer<1, [64, 64], f16, panels = true>, !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>]
      pipe.barrier
    }
    pipe.drain
  }
}
