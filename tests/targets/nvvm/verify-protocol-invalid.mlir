// Each constraint of pipe-verify-protocol (Passes.td), violated once.
// RUN: tesela-opt %s --split-input-file --verify-diagnostics --pipe-verify-protocol

// C1: a stage is acquired and never filled.
tile.kernel @k(%q: !tile.view<[?, ?, ?, 64], f16>) {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  pipe.roles producer 56 {
    // expected-error @+1 {{expected one pipe.fill or pipe.send of this use behind it in its block, got none; the consumers would wait for ever}}
    pipe.acquire %c[%zero] : !pipe.channel<2>
  } consumers 1 256 {
    pipe.await %c[%zero] : !pipe.channel<2>
    pipe.release %c[%zero] : !pipe.channel<2>
  }
}

// -----

// C1: a stage is filled that was not acquired.
tile.kernel @k(%q: !tile.view<[?, ?, ?, 64], f16>) {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  pipe.roles producer 56 {
    pipe.acquire %c[%zero] : !pipe.channel<2>
    pipe.fill %q[%rows] to %b on %c[%zero] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
    // expected-error @+1 {{expected a pipe.acquire of this use before it in its block, for itself alone; acquire the stage, then fill it once}}
    pipe.fill %q[%rows] to %b on %c[%zero] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
  } consumers 1 256 {
    pipe.await %c[%zero] : !pipe.channel<2>
    pipe.release %c[%zero] : !pipe.channel<2>
  }
}

// -----

// C2: a stage is awaited in a loop and never released.
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
    %n0 = scf.for %j = %zero to %two step %one iter_args(%n = %zero) -> (i32) : i32 {
      // expected-error @+1 {{expected one pipe.release of this use behind it in its block, got none; the producer would wait for ever}}
      pipe.await %c[%n] : !pipe.channel<2>
      %m = arith.addi %n, %one : i32
      scf.yield %m : i32
    }
  }
}

// -----

// C2: a stage is released twice.
tile.kernel @k(%q: !tile.view<[?, ?, ?, 64], f16>) {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  pipe.roles producer 56 {
    pipe.acquire %c[%zero] : !pipe.channel<2>
    pipe.fill %q[%rows] to %b on %c[%zero] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
  } consumers 1 256 {
    pipe.await %c[%zero] : !pipe.channel<2>
    pipe.release %c[%zero] : !pipe.channel<2>
    // expected-error @+1 {{expected a pipe.await of this use before it in its block, for itself alone; await the stage, then release it once}}
    pipe.release %c[%zero] : !pipe.channel<2>
  }
}

// -----

// C3: each iteration uses the same number.
tile.kernel @k(%q: !tile.view<[?, ?, ?, 64], f16>) {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  pipe.roles producer 56 {
    %n0 = scf.for %j = %zero to %two step %one iter_args(%n = %zero) -> (i32) : i32 {
      // expected-error @+1 {{expected the channel's uses to count up by one from 0, each with its parts in their order, got another number or part; carry the count through every loop and add one after each use}}
      pipe.acquire %c[%zero] : !pipe.channel<2>
      pipe.fill %q[%rows] to %b on %c[%zero] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
      %m = arith.addi %n, %one : i32
      scf.yield %m : i32
    }
  } consumers 1 256 {
    %n0 = scf.for %j = %zero to %two step %one iter_args(%n = %zero) -> (i32) : i32 {
      pipe.await %c[%n] : !pipe.channel<2>
      pipe.release %c[%n] : !pipe.channel<2>
      %m = arith.addi %n, %one : i32
      scf.yield %m : i32
    }
  }
}

// -----

// C3: the count goes up by two.
tile.kernel @k(%q: !tile.view<[?, ?, ?, 64], f16>) {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  pipe.roles producer 56 {
    // expected-error @+1 {{expected to carry on the count of its uses of a channel of 2 stages, got another number; yield the last use plus one}}
    %n0 = scf.for %j = %zero to %two step %one iter_args(%n = %zero) -> (i32) : i32 {
      pipe.acquire %c[%n] : !pipe.channel<2>
      pipe.fill %q[%rows] to %b on %c[%n] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
      %m = arith.addi %n, %two : i32
      scf.yield %m : i32
    }
  } consumers 1 256 {
    %n0 = scf.for %j = %zero to %two step %one iter_args(%n = %zero) -> (i32) : i32 {
      pipe.await %c[%n] : !pipe.channel<2>
      pipe.release %c[%n] : !pipe.channel<2>
      %m = arith.addi %n, %one : i32
      scf.yield %m : i32
    }
  }
}

// -----

// C4: the consumers use the channel once more.
tile.kernel @k(%q: !tile.view<[?, ?, ?, 64], f16>) {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  %one1 = arith.addi %zero, %one : i32
  pipe.roles producer 56 {
    pipe.acquire %c[%zero] : !pipe.channel<2>
    pipe.fill %q[%rows] to %b on %c[%zero] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
  } consumers 1 256 {
    pipe.await %c[%zero] : !pipe.channel<2>
    pipe.release %c[%zero] : !pipe.channel<2>
    // expected-error @+1 {{expected both roles to make the same uses of a channel in the same loops, got what the other role does not match; give each fill its await, each send its receive and each loop its own}}
    pipe.await %c[%one1] : !pipe.channel<2>
    pipe.release %c[%one1] : !pipe.channel<2>
  }
}

// -----

// C4: only one role loops.
tile.kernel @k(%q: !tile.view<[?, ?, ?, 64], f16>) {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  pipe.roles producer 56 {
    // expected-note @+1 {{the other role stands here}}
    %n0 = scf.for %j = %zero to %two step %one iter_args(%n = %zero) -> (i32) : i32 {
      pipe.acquire %c[%n] : !pipe.channel<2>
      pipe.fill %q[%rows] to %b on %c[%n] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
      %m = arith.addi %n, %one : i32
      scf.yield %m : i32
    }
  } consumers 1 256 {
    // expected-error @+1 {{expected both roles to make the same uses of a channel in the same loops}}
    pipe.await %c[%zero] : !pipe.channel<2>
    pipe.release %c[%zero] : !pipe.channel<2>
  }
}

// -----

// C4: the loops run differently often.
tile.kernel @k(%q: !tile.view<[?, ?, ?, 64], f16>, %high: i32) {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  pipe.roles producer 56 {
    // expected-note @+1 {{the producer's loop stands here}}
    %n0 = scf.for %j = %zero to %two step %one iter_args(%n = %zero) -> (i32) : i32 {
      pipe.acquire %c[%n] : !pipe.channel<2>
      pipe.fill %q[%rows] to %b on %c[%n] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
      %m = arith.addi %n, %one : i32
      scf.yield %m : i32
    }
  } consumers 1 256 {
    // expected-error @+1 {{expected to run as often as the producer's loop, which cannot be seen; compute the bounds alike in both roles, or send them}}
    %n0 = scf.for %j = %zero to %high step %one iter_args(%n = %zero) -> (i32) : i32 {
      pipe.await %c[%n] : !pipe.channel<2>
      pipe.release %c[%n] : !pipe.channel<2>
      %m = arith.addi %n, %one : i32
      scf.yield %m : i32
    }
  }
}

// -----

// C4: a release in a branch.
tile.kernel @k(%q: !tile.view<[?, ?, ?, 64], f16>, %some: i1) {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  pipe.roles producer 56 {
    pipe.acquire %c[%zero] : !pipe.channel<2>
    pipe.fill %q[%rows] to %b on %c[%zero] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
  } consumers 1 256 {
    pipe.await %c[%zero] : !pipe.channel<2>
    scf.if %some {
      // expected-error @+1 {{expected to stand in no branch, where it may not run while others count on it; move it out}}
      pipe.release %c[%zero] : !pipe.channel<2>
    }
  }
}

// -----

// C5: the consumers want the number first, the producer sends it after the loop, for which two stages are too few.
tile.kernel @k(%q: !tile.view<[?, ?, ?, 64], f16>) {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  %w = pipe.open : !pipe.channel<1 words = 1>
  pipe.roles producer 56 {
    %n0 = scf.for %j = %zero to %two step %one iter_args(%n = %zero) -> (i32) : i32 {
      pipe.acquire %c[%n] : !pipe.channel<2>
      pipe.fill %q[%rows] to %b on %c[%n] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
      %m = arith.addi %n, %one : i32
      scf.yield %m : i32
    }
    // expected-note @-5 {{the producer waits here}}
    pipe.acquire %w[%zero] : !pipe.channel<1 words = 1>
    pipe.send %one to %w[%zero] : !pipe.channel<1 words = 1>
  } consumers 1 256 {
    // expected-error @+1 {{waits for ever: the roles wait for each other; await in the order in which the producer fills, release earlier, or give the channel more stages}}
    %x = pipe.receive %w[%zero] : !pipe.channel<1 words = 1> -> i32
    %n0 = scf.for %j = %zero to %two step %one iter_args(%n = %zero) -> (i32) : i32 {
      pipe.await %c[%n] : !pipe.channel<2>
      pipe.release %c[%n] : !pipe.channel<2>
      %m = arith.addi %n, %one : i32
      scf.yield %m : i32
    }
  }
}

// -----

// C6: a stage is read after its release.
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
      // expected-error @+1 {{expected to read a stage between its pipe.await and its pipe.release; the producer may write it at any other time}}
      %s = tile.dot %t, %t transposed plus %none : (!tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
      %m = arith.addi %n, %one : i32
      scf.yield %m : i32
    }
  }
}

// -----

// C6: a product in flight reads a stage that is released already.
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
      // expected-error @+1 {{expected to read a stage between its pipe.await and its pipe.release, until the product's pipe.dot_wait; the producer may write it at any other time}}
      %f = pipe.dot_start %t, %t transposed plus %none : (!tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4, in_flight = true>>
      pipe.release %c[%n] : !pipe.channel<2>
      %s = pipe.dot_wait %f pending 0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4, in_flight = true>> -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
      %m = arith.addi %n, %one : i32
      scf.yield %m : i32
    }
  }
}

// -----

// C6: the stage is not that of the use.
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
      // expected-error @+1 {{expected the stage of a use that is awaited, its number mod 2, got another value}}
      %t = pipe.slot %b[%zero] : !pipe.buffer<2, [64, 64], f16, panels = true> -> !tile.tile<[64, 64], f16, #pipe.shared>
      %s = tile.dot %t, %t transposed plus %none : (!tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
      pipe.release %c[%n] : !pipe.channel<2>
      %m = arith.addi %n, %one : i32
      scf.yield %m : i32
    }
  }
}

// -----

// C6: a buffer that nobody fills.
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
    // expected-error @+1 {{expected a buffer that the producer fills, got one without a pipe.fill; fill it or do not read it}}
    %t = pipe.slot %other[%zero] : !pipe.buffer<2, [64, 64], f16, panels = true> -> !tile.tile<[64, 64], f16, #pipe.shared>
    pipe.await %c[%zero] : !pipe.channel<2>
    pipe.release %c[%zero] : !pipe.channel<2>
  }
}

// -----

// C6: two channels fill one buffer.
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

// C7: an accumulator is read while a product adds to it.
tile.kernel @k(%q: !tile.view<[?, ?, ?, 64], f16>) {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  %stage = arith.remui %zero, %two : i32
  pipe.roles producer 56 {
    pipe.acquire %c[%zero] : !pipe.channel<2>
    pipe.fill %q[%rows] to %b on %c[%zero] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
  } consumers 1 256 {
    %none = tile.constant 0.0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
    pipe.await %c[%zero] : !pipe.channel<2>
    %t = pipe.slot %b[%stage] : !pipe.buffer<2, [64, 64], f16, panels = true> -> !tile.tile<[64, 64], f16, #pipe.shared>
    %s = tile.dot %t, %t transposed plus %none : (!tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
    // expected-note @+1 {{the product starts here}}
    %f = pipe.dot_start %t, %t transposed plus %s : (!tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4, in_flight = true>>
    // expected-error @+1 {{expected not to use an accumulator to which a product in flight adds; use it before, or what pipe.dot_wait gives}}
    %r = tile.convert %s : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>> -> !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>
    %g = pipe.dot_wait %f pending 0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4, in_flight = true>> -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
    pipe.release %c[%zero] : !pipe.channel<2>
  }
}

// -----

// C7: a product that is awaited may still be in flight.
tile.kernel @k(%q: !tile.view<[?, ?, ?, 64], f16>) {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  %stage = arith.remui %zero, %two : i32
  pipe.roles producer 56 {
    pipe.acquire %c[%zero] : !pipe.channel<2>
    pipe.fill %q[%rows] to %b on %c[%zero] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
  } consumers 1 256 {
    %none = tile.constant 0.0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
    pipe.await %c[%zero] : !pipe.channel<2>
    %t = pipe.slot %b[%stage] : !pipe.buffer<2, [64, 64], f16, panels = true> -> !tile.tile<[64, 64], f16, #pipe.shared>
    %s = tile.dot %t, %t transposed plus %none : (!tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
    %f = pipe.dot_start %t, %t transposed plus %s : (!tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4, in_flight = true>>
    // expected-error @+1 {{expected at least 1 products started after the one awaited, got 0; it could still be in flight}}
    %g = pipe.dot_wait %f pending 1 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4, in_flight = true>> -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
    pipe.release %c[%zero] : !pipe.channel<2>
  }
}

// -----

// C8: written again before it has left.
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

// C8: written in a loop, whose next iteration does not wait.
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

// C8: nothing was written.
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

// C8: written and never sent.
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

// C8: the role ends while shared memory is read.
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

// C8: the buffer is read below what is written over it.
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

// C9: an output goes where the producer may fill.
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

// C9: the stage is released while the output leaves.
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

// C9: other warpgroups may still read a right operand.
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

// C10: more registers than the warpgroups entered with.
tile.kernel @k() {
  // expected-error @+1 {{expected at most 504 registers over a thread of each warpgroup, got 536; the kernel would wait for ever}}
  pipe.roles producer 56 {
  } consumers 2 240 {
  }
}

// -----

// C3: a part is missing.
tile.kernel @k(%q: !tile.view<[?, ?, ?, 64], f16>) {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  %p = pipe.open : !pipe.channel<2 parts = 2>
  pipe.roles producer 56 {
    pipe.acquire %p[%zero] : !pipe.channel<2 parts = 2>
    pipe.fill %q[%rows] to %b on %p[%zero] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2 parts = 2>
    %m = arith.addi %zero, %one : i32
    // expected-error @+1 {{expected the channel's uses to count up by one from 0, each with its parts in their order, got another number or part}}
    pipe.acquire %p[%m] : !pipe.channel<2 parts = 2>
  } consumers 1 256 {
  }
}

// -----

// C11: turns that nobody opened.
tile.kernel @k(%q: !tile.view<[?, ?, ?, 64], f16>) {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  pipe.roles producer 56 {
    pipe.acquire %c[%zero] : !pipe.channel<2>
    pipe.fill %q[%rows] to %b on %c[%zero] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
  } consumers 1 256 {
    pipe.await %c[%zero] : !pipe.channel<2>
    pipe.release %c[%zero] : !pipe.channel<2>
    // expected-error @+1 {{expected a pipe.open_turns before it and no turn that lasts; the warpgroups would wait for ever}}
    pipe.begin_turn
    pipe.end_turn
  }
}

// -----

// C11: a turn without an end.
tile.kernel @k(%q: !tile.view<[?, ?, ?, 64], f16>) {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  pipe.roles producer 56 {
    pipe.acquire %c[%zero] : !pipe.channel<2>
    pipe.fill %q[%rows] to %b on %c[%zero] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
  } consumers 1 256 {
    pipe.await %c[%zero] : !pipe.channel<2>
    pipe.release %c[%zero] : !pipe.channel<2>
    pipe.open_turns
    // expected-error @+1 {{expected a pipe.end_turn behind it in its block, got none; the next warpgroup would wait for ever}}
    pipe.begin_turn
  }
}

// -----

// C11: an end without a turn.
tile.kernel @k(%q: !tile.view<[?, ?, ?, 64], f16>) {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  pipe.roles producer 56 {
    pipe.acquire %c[%zero] : !pipe.channel<2>
    pipe.fill %q[%rows] to %b on %c[%zero] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
  } consumers 1 256 {
    pipe.await %c[%zero] : !pipe.channel<2>
    pipe.release %c[%zero] : !pipe.channel<2>
    pipe.open_turns
    // expected-error @+1 {{expected a pipe.begin_turn before it in its block; the next warpgroup would come in too early}}
    pipe.end_turn
  }
}

// -----

// C11: two first turns.
tile.kernel @k(%q: !tile.view<[?, ?, ?, 64], f16>) {
  %rows = tile.work : !tile.block<query, 64>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  pipe.roles producer 56 {
    pipe.acquire %c[%zero] : !pipe.channel<2>
    pipe.fill %q[%rows] to %b on %c[%zero] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
  } consumers 1 256 {
    pipe.await %c[%zero] : !pipe.channel<2>
    pipe.release %c[%zero] : !pipe.channel<2>
    pipe.open_turns
    // expected-error @+1 {{expected to stand once, outside loops; a second first turn would let two warpgroups in}}
    pipe.open_turns
  }
}
