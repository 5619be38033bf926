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
    // expected-error @+1 {{expected one pipe.fill or pipe.send of this use behind it in its block, got none; the consumers would wait forever}}
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
      // expected-error @+1 {{expected one pipe.release of this use behind it in its block, got none; the producer would wait forever}}
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
      // expected-error @+1 {{expected an op outside of branches, got one inside; other roles count on it, so move it out}}
      pipe.release %c[%zero] : !pipe.channel<2>
    }
  }
}

// -----

// C4: a barrier in a branch.
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
      // expected-error @+1 {{expected an op outside of branches, got one inside; other roles count on it, so move it out}}
      pipe.barrier
    }
    pipe.release %c[%zero] : !pipe.channel<2>
  }
}

// -----

// C5: an accumulator is read while a product adds to it.
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

// C5: a product that is awaited may still be in flight.
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
    // expected-error @+1 {{expected at least 1 products to be started after the awaited one, got 0; it could still be in flight}}
    %g = pipe.dot_wait %f pending 1 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4, in_flight = true>> -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
    pipe.release %c[%zero] : !pipe.channel<2>
  }
}

// -----

// C6: more registers than the warpgroups entered with.
tile.kernel @k() {
  // expected-error @+1 {{expected at most 504 registers over a thread of each warpgroup, got 536; the kernel would wait forever}}
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

// C7: turns that nobody opened.
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
    // expected-error @+1 {{expected a pipe.open_turns before it and no turn that lasts; the warpgroups would wait forever}}
    pipe.begin_turn
    pipe.end_turn
  }
}

// -----

// C7: a turn without an end.
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
    // expected-error @+1 {{expected a pipe.end_turn behind it in its block, got none; the next warpgroup would wait forever}}
    pipe.begin_turn
  }
}

// -----

// C7: an end without a turn.
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

// C7: two first turns.
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
