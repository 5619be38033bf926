// As run-roles-invalid.mlir, for stages that consumers publish for each other.
// RUN: tesela-opt %s --split-input-file --verify-diagnostics --pipe-run-roles

// R3: what the consumers hand to each other is written before its stage is empty.
tile.kernel @handed(%high: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %a = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  pipe.roles producer 56 {
  } consumers 1 256 {
    %y = tile.constant 0.0 : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>
    %none = tile.constant 0.0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
    // expected-error @+1 {{expected to write a stage between the pipe.acquire and the pipe.publish of its use; others may read it at any other time}}
    pipe.write %y to %a[%zero] : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>, !pipe.buffer<2, [64, 64], f16, panels = true>
    pipe.acquire %c[%zero] : !pipe.channel<2>
    pipe.publish %a on %c[%zero] : !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
    pipe.await %c[%zero] : !pipe.channel<2>
    %A = pipe.slot %a[%zero] : !pipe.buffer<2, [64, 64], f16, panels = true> -> !tile.tile<[64, 64], f16, #pipe.shared>
    %S = tile.dot %A, %A plus %none : (!tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
    pipe.release %c[%zero] : !pipe.channel<2>
  }
}


// -----

// R3: it is written behind its publish.
tile.kernel @handed(%high: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %a = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  pipe.roles producer 56 {
  } consumers 1 256 {
    %y = tile.constant 0.0 : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>
    %none = tile.constant 0.0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
    pipe.acquire %c[%zero] : !pipe.channel<2>
    pipe.publish %a on %c[%zero] : !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
    // expected-error @+1 {{expected to write a stage between the pipe.acquire and the pipe.publish of its use; others may read it at any other time}}
    pipe.write %y to %a[%zero] : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>, !pipe.buffer<2, [64, 64], f16, panels = true>
    pipe.await %c[%zero] : !pipe.channel<2>
    %A = pipe.slot %a[%zero] : !pipe.buffer<2, [64, 64], f16, panels = true> -> !tile.tile<[64, 64], f16, #pipe.shared>
    %S = tile.dot %A, %A plus %none : (!tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
    pipe.release %c[%zero] : !pipe.channel<2>
  }
}


// -----

// R2: it is published twice.
tile.kernel @handed(%high: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %a = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  pipe.roles producer 56 {
  } consumers 1 256 {
    %y = tile.constant 0.0 : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>
    %none = tile.constant 0.0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
    pipe.acquire %c[%zero] : !pipe.channel<2>
    pipe.write %y to %a[%zero] : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>, !pipe.buffer<2, [64, 64], f16, panels = true>
    pipe.publish %a on %c[%zero] : !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
    // expected-error @+1 {{expected a pipe.acquire of use 0 before its pipe.publish, got none}}
    pipe.publish %a on %c[%zero] : !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
    pipe.await %c[%zero] : !pipe.channel<2>
    %A = pipe.slot %a[%zero] : !pipe.buffer<2, [64, 64], f16, panels = true> -> !tile.tile<[64, 64], f16, #pipe.shared>
    %S = tile.dot %A, %A plus %none : (!tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
    pipe.release %c[%zero] : !pipe.channel<2>
  }
}


// -----

// R2: it is read before it is awaited.
tile.kernel @handed(%high: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %a = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  pipe.roles producer 56 {
  } consumers 1 256 {
    %y = tile.constant 0.0 : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>
    %none = tile.constant 0.0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
    pipe.acquire %c[%zero] : !pipe.channel<2>
    pipe.write %y to %a[%zero] : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>, !pipe.buffer<2, [64, 64], f16, panels = true>
    pipe.publish %a on %c[%zero] : !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
    %A = pipe.slot %a[%zero] : !pipe.buffer<2, [64, 64], f16, panels = true> -> !tile.tile<[64, 64], f16, #pipe.shared>
    // expected-error @+1 {{expected to read a stage between its pipe.await and its pipe.release; it may be written at any other time}}
    %S = tile.dot %A, %A plus %none : (!tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
    pipe.await %c[%zero] : !pipe.channel<2>
    pipe.release %c[%zero] : !pipe.channel<2>
  }
}


// -----

// R2: a product reads it still when it is given back.
tile.kernel @handed(%high: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %a = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  pipe.roles producer 56 {
  } consumers 1 256 {
    %y = tile.constant 0.0 : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>
    %none = tile.constant 0.0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
    pipe.acquire %c[%zero] : !pipe.channel<2>
    pipe.write %y to %a[%zero] : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>, !pipe.buffer<2, [64, 64], f16, panels = true>
    pipe.publish %a on %c[%zero] : !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
    pipe.await %c[%zero] : !pipe.channel<2>
    %A = pipe.slot %a[%zero] : !pipe.buffer<2, [64, 64], f16, panels = true> -> !tile.tile<[64, 64], f16, #pipe.shared>
    // expected-note @+1 {{the product starts here}}
    %s = pipe.dot_start %A, %A plus %none : (!tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4, in_flight = true>>
    // expected-error @+1 {{expected a pipe.dot_wait before the release of a stage that a product reads; it may be written from here on}}
    pipe.release %c[%zero] : !pipe.channel<2>
    %S = pipe.dot_wait %s pending 0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4, in_flight = true>> -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
  }
}


// -----

// R5: nobody has published it.
tile.kernel @handed(%high: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %a = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  pipe.roles producer 56 {
  } consumers 1 256 {
    %y = tile.constant 0.0 : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>
    %none = tile.constant 0.0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
    // expected-error @+1 {{waits forever: nobody fills or sends use 0 of the channel}}
    pipe.await %c[%zero] : !pipe.channel<2>
    pipe.acquire %c[%zero] : !pipe.channel<2>
    pipe.write %y to %a[%zero] : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>, !pipe.buffer<2, [64, 64], f16, panels = true>
    pipe.publish %a on %c[%zero] : !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
    %A = pipe.slot %a[%zero] : !pipe.buffer<2, [64, 64], f16, panels = true> -> !tile.tile<[64, 64], f16, #pipe.shared>
    %S = tile.dot %A, %A plus %none : (!tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
    pipe.release %c[%zero] : !pipe.channel<2>
  }
}


// -----

// R3: an output over it does not wait for what the other warpgroups read.
tile.kernel @handed(%high: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %a = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  pipe.roles producer 56 {
  } consumers 1 256 {
    %y = tile.constant 0.0 : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>
    %none = tile.constant 0.0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
    pipe.acquire %c[%zero] : !pipe.channel<2>
    pipe.write %y to %a[%zero] : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>, !pipe.buffer<2, [64, 64], f16, panels = true>
    pipe.publish %a on %c[%zero] : !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
    pipe.await %c[%zero] : !pipe.channel<2>
    %A = pipe.slot %a[%zero] : !pipe.buffer<2, [64, 64], f16, panels = true> -> !tile.tile<[64, 64], f16, #pipe.shared>
    %S = tile.dot %A, %A plus %none : (!tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
    pipe.release %c[%zero] : !pipe.channel<2>
    %o = pipe.alloc over %a : !pipe.buffer<2, [64, 64], f16, panels = true>, : !pipe.buffer<1, [64, 64], f16, panels = true>
    // expected-error @+1 {{expected a pipe.barrier between what reads this buffer and an output over it, got none; add it}}
    pipe.write %y to %o[%zero] : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>, !pipe.buffer<1, [64, 64], f16, panels = true>
  }
}


// -----

// R5: no use is given back, and the third one waits for the first.
tile.kernel @handed(%high: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %a = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  pipe.roles producer 56 {
  } consumers 1 256 {
    %y = tile.constant 0.0 : !tile.tile<[64, 64], f16, #pipe.accumulator<warps = 4>>
    %none = tile.constant 0.0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
    %n0 = scf.for %j = %zero to %high step %one iter_args(%n = %zero) -> (i32) : i32 {
      // expected-error @+1 {{waits forever: the roles wait for each other; await in the order in which the producer fills, release earlier, or give the channel more stages}}
      pipe.acquire %c[%n] : !pipe.channel<2>
      pipe.publish %a on %c[%n] : !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
      pipe.await %c[%n] : !pipe.channel<2>
      %m = arith.addi %n, %one : i32
      scf.yield %m : i32
    }
  }
}

// -----

// R1: a use is acquired before the last one is published, which then never is.
tile.kernel @handed(%high: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %a = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  pipe.roles producer 56 {
  } consumers 1 256 {
    pipe.acquire %c[%zero] : !pipe.channel<2>
    // expected-error @+1 {{expected the pipe.publish of use 0 before the next pipe.acquire, got none; the stage would never be full}}
    pipe.acquire %c[%one] : !pipe.channel<2>
    pipe.publish %a on %c[%one] : !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
    pipe.await %c[%zero] : !pipe.channel<2>
  }
}


// -----

// R4: a use that was acquired is not published before the role ends.
tile.kernel @handed(%high: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %a = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  // expected-error @+1 {{expected a pipe.publish of use 1, which was acquired, before the role ends, got none; the stage would never be full}}
  %c = pipe.open : !pipe.channel<2>
  pipe.roles producer 56 {
  } consumers 1 256 {
    pipe.acquire %c[%zero] : !pipe.channel<2>
    pipe.publish %a on %c[%zero] : !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
    pipe.await %c[%zero] : !pipe.channel<2>
    pipe.acquire %c[%one] : !pipe.channel<2>
  }
}


// -----

// R2: two channels say when the same stages are written.
tile.kernel @handed(%high: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %a = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  %d = pipe.open : !pipe.channel<2>
  pipe.roles producer 56 {
  } consumers 1 256 {
    pipe.acquire %c[%zero] : !pipe.channel<2>
    pipe.publish %a on %c[%zero] : !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
    pipe.acquire %d[%zero] : !pipe.channel<2>
    // expected-error @+1 {{expected one channel for what the consumers write to a buffer, got a second one; the two would write over each other}}
    pipe.publish %a on %d[%zero] : !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2>
  }
}
