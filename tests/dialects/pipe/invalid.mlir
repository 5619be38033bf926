// One case for each constraint of the pipe dialect.
// RUN: tesela-opt %s --split-input-file --verify-diagnostics

tile.kernel @k() {
  // expected-error @+1 {{expected at least one stage and one row, got 0 and 8}}
  %b = pipe.alloc : !pipe.buffer<0, [8, 64], bf16>
}

// -----

tile.kernel @k() {
  // expected-error @+1 {{expected elements f16, bf16, f8E4M3FN or f32, got 'i32'}}
  %b = pipe.alloc : !pipe.buffer<1, [8, 64], i32>
}

// -----

tile.kernel @k() {
  // expected-error @+1 {{expected rows of f32 in multiples of 64, because sums are stored 64 rows at a time, got 8}}
  %b = pipe.alloc : !pipe.buffer<1, [8, 64], f32, panels = true>
}

// -----

tile.kernel @k() {
  // expected-error @+1 {{expected columns in multiples of 16, as matrix instructions take them, got 72; pad the tile}}
  %b = pipe.alloc : !pipe.buffer<1, [8, 72], bf16>
}

// -----

tile.kernel @k() {
  %b = pipe.alloc : !pipe.buffer<1, [8, 64], bf16>
  // expected-error @+1 {{expected the buffer in `over` to be at least as large as this one (2048 bytes), got 1024}}
  %c = pipe.alloc over %b : !pipe.buffer<1, [8, 64], bf16>, : !pipe.buffer<1, [16, 64], bf16>
}

// -----

tile.kernel @k(%v: !tile.view<[?, ?, ?, 128], bf16>, %i: i32) {
  %b = pipe.alloc : !pipe.buffer<1, [8, 64], bf16>
  %rows = tile.work : !tile.block<query, 8>
  // expected-error @+1 {{expected a block of the shape and type of a stage of '!pipe.buffer<1, [8, 64], bf16>', got '!tile.view<[?, ?, ?, 128], bf16>'['!tile.block<query, 8>']}}
  pipe.copy %v[%rows] to %b[%i] : !tile.view<[?, ?, ?, 128], bf16>[!tile.block<query, 8>], !pipe.buffer<1, [8, 64], bf16>
}

// -----

// The block of columns, not the view, must have as many columns as the stage.
tile.kernel @k(%v: !tile.view<[?, ?, ?, 64], bf16>, %i: i32) {
  %b = pipe.alloc : !pipe.buffer<1, [8, 64], bf16>
  %rows = tile.work : !tile.block<query, 8>
  %columns = tile.block %i of %rows : !tile.block<query, 8> -> !tile.block<key, 128>
  // expected-error @+1 {{expected a block of the shape and type of a stage}}
  pipe.copy %v[%rows, %columns] to %b[%i] : !tile.view<[?, ?, ?, 64], bf16>[!tile.block<query, 8>, !tile.block<key, 128>], !pipe.buffer<1, [8, 64], bf16>
}

// -----

tile.kernel @k(%v: !tile.view<[?, ?, ?], bf16, contiguous>, %i: i32) {
  %b = pipe.alloc : !pipe.buffer<1, [8, 64], bf16>
  %rows = tile.work : !tile.block<query, 8>
  // expected-error @+1 {{expected a block of the shape and type of a stage}}
  pipe.copy %v[%rows] to %b[%i] : !tile.view<[?, ?, ?], bf16, contiguous>[!tile.block<query, 8>], !pipe.buffer<1, [8, 64], bf16>
}

// -----

tile.kernel @k<m>(%v: !tile.view<[?, ?, ?, 64], bf16>, %i: i32) {
  %b = pipe.alloc : !pipe.buffer<1, [8, 64], bf16>
  %rows = tile.work : !tile.block<query, m>
  // expected-error @+1 {{expected a block of the shape and type of a stage}}
  pipe.store %b[%i] to %v[%rows] : !pipe.buffer<1, [8, 64], bf16>, !tile.view<[?, ?, ?, 64], bf16>[!tile.block<query, m>]
}

// -----

tile.kernel @k(%i: i32) {
  %b = pipe.alloc : !pipe.buffer<1, [8, 64], bf16>
  // expected-error @+1 {{expected a tile with the encoding #pipe.shared, got '!tile.tile<[8, 64], bf16>'}}
  %t = pipe.slot %b[%i] : !pipe.buffer<1, [8, 64], bf16> -> !tile.tile<[8, 64], bf16>
}

// -----

tile.kernel @k<m>(%i: i32) {
  %b = pipe.alloc : !pipe.buffer<1, [8, 64], bf16>
  // expected-error @+1 {{expected a tile of the shape and type of a stage of '!pipe.buffer<1, [8, 64], bf16>', got '!tile.tile<[m, 64], bf16, #pipe.shared>'}}
  %t = pipe.slot %b[%i] : !pipe.buffer<1, [8, 64], bf16> -> !tile.tile<[m, 64], bf16, #pipe.shared>
}

// -----

tile.kernel @k(%i: i32) {
  %b = pipe.alloc : !pipe.buffer<1, [64, 64], bf16>
  %t = tile.constant 0.0 : !tile.tile<[64, 64], bf16>
  // expected-error @+1 {{expected a tile with the encoding #pipe.accumulator, or #pipe.shared to be widened, got '!tile.tile<[64, 64], bf16>'}}
  pipe.write %t to %b[%i] : !tile.tile<[64, 64], bf16>, !pipe.buffer<1, [64, 64], bf16>
}

// -----

tile.kernel @k(%i: i32) {
  %b = pipe.alloc : !pipe.buffer<1, [64, 64], bf16>
  %c = pipe.alloc : !pipe.buffer<1, [64, 64], bf16>
  %t = pipe.slot %b[%i] : !pipe.buffer<1, [64, 64], bf16> -> !tile.tile<[64, 64], bf16, #pipe.shared>
  // expected-error @+1 {{expected elements f8E4M3FN in shared memory, to be widened to f16 or bf16, got '!tile.tile<[64, 64], bf16, #pipe.shared>' and '!pipe.buffer<1, [64, 64], bf16>'}}
  pipe.write %t to %c[%i] : !tile.tile<[64, 64], bf16, #pipe.shared>, !pipe.buffer<1, [64, 64], bf16>
}

// -----

tile.kernel @k() {
  %t = tile.constant 0.0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
  // expected-error @+1 {{expected types that differ only in their encoding, got}}
  %u = pipe.convert %t : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>> -> !tile.tile<[64, 64], bf16, #pipe.operand<warps = 4>>
}

// -----

tile.kernel @k() {
  %t = tile.constant 0.0 : !tile.tile<[64, 64], bf16, #pipe.operand<warps = 4>>
  // expected-error @+1 {{expected a conversion from #pipe.shared or #pipe.accumulator to #pipe.operand, or of a single row from #pipe.shared to #pipe.columns, got}}
  %u = pipe.convert %t : !tile.tile<[64, 64], bf16, #pipe.operand<warps = 4>> -> !tile.tile<[64, 64], bf16, #pipe.shared>
}

// -----

tile.kernel @k() {
  // expected-error @+1 {{expected at least one stage, got 0}}
  %c = pipe.open : !pipe.channel<0>
}

// -----

tile.kernel @k() {
  // expected-error @+1 {{expected registers in multiples of 8 from 24 to 256, got 250}}
  pipe.roles producer 24 {
  } consumers 1 250 {
  }
}

// -----

tile.kernel @k() {
  // expected-error @+1 {{expected at most 504 registers over a thread of each warpgroup, got 512; the kernel would wait forever}}
  pipe.roles producer 32 {
  } consumers 2 240 {
  }
}

// -----

tile.kernel @k(%use: i32) {
  %c = pipe.open : !pipe.channel<2>
  // expected-error @+1 {{expected to be one of the producer's, the finder's or the consumers' operations of a pipe.roles}}
  pipe.acquire %c[%use] : !pipe.channel<2>
}

// -----

tile.kernel @k(%use: i32) {
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], bf16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  pipe.roles producer 24 {
    // expected-error @+1 {{expected to be one of the consumers' operations of a pipe.roles}}
    pipe.publish %b on %c[%use] : !pipe.buffer<2, [64, 64], bf16, panels = true>, !pipe.channel<2>
  } consumers 2 240 {
  }
}

// -----

tile.kernel @k(%use: i32) {
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], bf16, panels = true>
  %c = pipe.open : !pipe.channel<3>
  pipe.roles producer 24 {
  } consumers 2 240 {
    // expected-error @+1 {{expected a channel of the buffer's 2 stages and of one part, got '!pipe.channel<3>'}}
    pipe.publish %b on %c[%use] : !pipe.buffer<2, [64, 64], bf16, panels = true>, !pipe.channel<3>
  }
}

// -----

tile.kernel @k(%use: i32) {
  %c = pipe.open : !pipe.channel<2>
  pipe.roles producer 24 {
    // expected-error @+1 {{expected to be one of the consumers' operations of a pipe.roles}}
    pipe.await %c[%use] : !pipe.channel<2>
  } consumers 2 240 {
  }
}

// -----

tile.kernel @k(%use: i32) {
  %c = pipe.open : !pipe.channel<2>
  // expected-error @+1 {{expected to be one of the consumers' operations of a pipe.roles}}
  pipe.release %c[%use] : !pipe.channel<2>
}

// -----

tile.kernel @k(%v: !tile.view<[?, ?, ?, 64], bf16>, %use: i32) {
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], bf16>
  %c = pipe.open : !pipe.channel<2>
  %rows = tile.work : !tile.block<query, 64>
  pipe.roles producer 24 {
    // expected-error @+1 {{expected a buffer in panels, which is what tensor copies move, got '!pipe.buffer<2, [64, 64], bf16>'}}
    pipe.fill %v[%rows] to %b on %c[%use] : !tile.view<[?, ?, ?, 64], bf16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], bf16>, !pipe.channel<2>
  } consumers 1 240 {
  }
}

// -----

tile.kernel @k(%v: !tile.view<[?, ?, ?, 64], bf16>, %use: i32) {
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], bf16, panels = true>
  %c = pipe.open : !pipe.channel<3>
  %rows = tile.work : !tile.block<query, 64>
  pipe.roles producer 24 {
    // expected-error @+1 {{expected a channel of the buffer's 2 stages, got '!pipe.channel<3>'}}
    pipe.fill %v[%rows] to %b on %c[%use] : !tile.view<[?, ?, ?, 64], bf16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], bf16, panels = true>, !pipe.channel<3>
  } consumers 1 240 {
  }
}

// -----

tile.kernel @k(%v: !tile.view<[?, ?, ?, 128], bf16>, %use: i32) {
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], bf16, panels = true>
  %c = pipe.open : !pipe.channel<2>
  %rows = tile.work : !tile.block<query, 64>
  pipe.roles producer 24 {
    // expected-error @+1 {{expected a block of the shape and type of a stage of}}
    pipe.fill %v[%rows] to %b on %c[%use] : !tile.view<[?, ?, ?, 128], bf16>[!tile.block<query, 64>], !pipe.buffer<2, [64, 64], bf16, panels = true>, !pipe.channel<2>
  } consumers 1 240 {
  }
}

// -----

tile.kernel @k(%v: !tile.view<[?, ?, ?, 64], bf16>) {
  %b = pipe.alloc : !pipe.buffer<1, [64, 64], bf16, panels = true>
  %rows = tile.work : !tile.block<query, 64>
  pipe.roles producer 24 {
  } consumers 2 240 {
    // expected-error @+1 {{expected one stage, or one for each consumer, with 64 rows for each of 2 consumers, got '!pipe.buffer<1, [64, 64], bf16, panels = true>'}}
    pipe.empty_out %b to %v[%rows] : !pipe.buffer<1, [64, 64], bf16, panels = true>, !tile.view<[?, ?, ?, 64], bf16>[!tile.block<query, 64>]
  }
}

// -----

tile.kernel @k(%v: !tile.view<[?, ?, ?, 64], bf16>) {
  %b = pipe.alloc : !pipe.buffer<2, [32, 64], bf16, panels = true>
  %rows = tile.work : !tile.block<query, 64>
  pipe.roles producer 24 {
  } consumers 2 240 {
    // expected-error @+1 {{expected one stage, or one for each consumer, with 64 rows for each of 2 consumers, got '!pipe.buffer<2, [32, 64], bf16, panels = true>'}}
    pipe.empty_out %b to %v[%rows] : !pipe.buffer<2, [32, 64], bf16, panels = true>, !tile.view<[?, ?, ?, 64], bf16>[!tile.block<query, 64>]
  }
}

// -----

tile.kernel @k(%v: !tile.view<[?, ?, ?, 64], bf16>) {
  %sums = pipe.alloc : !pipe.buffer<1, [128, 64], f32, panels = true>
  %b = pipe.alloc over %sums : !pipe.buffer<1, [128, 64], f32, panels = true>, : !pipe.buffer<1, [128, 64], bf16, panels = true>
  %rows = tile.work : !tile.block<query, 128>
  pipe.roles producer 24 {
  } consumers 2 240 {
    // expected-error @+1 {{expected one stage for each of 2 consumers in a buffer that shares memory with sums, got '!pipe.buffer<1, [128, 64], bf16, panels = true>'; otherwise one warpgroup would overwrite sums that another one has not stored yet}}
    pipe.empty_out %b to %v[%rows] : !pipe.buffer<1, [128, 64], bf16, panels = true>, !tile.view<[?, ?, ?, 64], bf16>[!tile.block<query, 128>]
  }
}

// -----

// A share of 4096 bytes has no room for a stage of 8192 bytes.
tile.kernel @k(%v: !tile.view<[?, ?, ?, 16], bf16>) {
  %sums = pipe.alloc : !pipe.buffer<1, [128, 16], f32, panels = true>
  %b = pipe.alloc over %sums : !pipe.buffer<1, [128, 16], f32, panels = true>, : !pipe.buffer<2, [64, 16], bf16, panels = true>
  %rows = tile.work : !tile.block<query, 128>
  pipe.roles producer 24 {
  } consumers 2 240 {
    // expected-error @+1 {{expected the buffer in `over` to hold sums, with a share for each of 2 consumers that is a multiple of 1024 bytes and has room for a stage of 8192 bytes from byte 0 on, got '!pipe.buffer<1, [128, 16], f32, panels = true>'}}
    pipe.empty_out %b to %v[%rows] : !pipe.buffer<2, [64, 16], bf16, panels = true>, !tile.view<[?, ?, ?, 16], bf16>[!tile.block<query, 128>]
  }
}

// -----

// Each stage belongs to one warpgroup, so two consumers cannot write four stages.
tile.kernel @k(%t: !tile.tile<[128, 64], bf16, #pipe.accumulator<warps = 8>>) {
  %b = pipe.alloc : !pipe.buffer<4, [32, 64], bf16, panels = true>
  pipe.roles producer 24 {
  } consumers 2 240 {
    %none = arith.constant 0 : i32
    // expected-error @+1 {{expected a tile of the shape and type of a stage of}}
    pipe.write %t to %b[%none] : !tile.tile<[128, 64], bf16, #pipe.accumulator<warps = 8>>, !pipe.buffer<4, [32, 64], bf16, panels = true>
  }
}

// -----

tile.kernel @k(%v: !tile.view<[?, ?, ?, 64], f16>) {
  %b = pipe.alloc : !pipe.buffer<1, [64, 64], bf16, panels = true>
  %rows = tile.work : !tile.block<query, 64>
  pipe.roles producer 24 {
  } consumers 1 240 {
    // expected-error @+1 {{expected a block of the shape and type of a stage of}}
    pipe.empty_out %b to %v[%rows] : !pipe.buffer<1, [64, 64], bf16, panels = true>, !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>]
  }
}

// -----

tile.kernel @k() {
  // expected-error @+1 {{expected a use to carry 0 to 4 numbers, got 5}}
  %c = pipe.open : !pipe.channel<2 words = 5>
}

// -----

tile.kernel @k() {
  // expected-error @+1 {{expected at least one part, got 0}}
  %c = pipe.open : !pipe.channel<2 parts = 0>
}

// -----

tile.kernel @k() {
  // expected-error @+1 {{expected numbers or parts, got 1 numbers and 2 parts}}
  %c = pipe.open : !pipe.channel<2 parts = 2 words = 1>
}

// -----

tile.kernel @k(%use: i32) {
  %c = pipe.open : !pipe.channel<2 parts = 2>
  pipe.roles producer 24 {
    // expected-error @+1 {{expected a part from 0 to 1 of '!pipe.channel<2 parts = 2>', got 2}}
    pipe.acquire %c[%use] part 2 : !pipe.channel<2 parts = 2>
  } consumers 2 240 {
  }
}

// -----

tile.kernel @k(%use: i32) {
  %c = pipe.open : !pipe.channel<2>
  pipe.roles producer 24 {
    // expected-error @+1 {{expected a channel that carries its 1 numbers (words = 1), got '!pipe.channel<2>'}}
    pipe.send %use to %c[%use] : !pipe.channel<2>
  } consumers 2 240 {
  }
}

// -----

tile.kernel @k(%use: i32) {
  %c = pipe.open : !pipe.channel<2>
  pipe.roles producer 24 {
  } consumers 2 240 {
    // expected-error @+1 {{expected a channel that carries its 1 numbers (words = 1), got '!pipe.channel<2>'}}
    %x = pipe.receive %c[%use] : !pipe.channel<2> -> i32
  }
}

// -----

tile.kernel @k(%use: i32) {
  %c = pipe.open : !pipe.channel<2 parts = 2>
  pipe.roles producer 24 {
    // expected-error @+1 {{expected a channel of one part, got '!pipe.channel<2 parts = 2>'; a send arrives for all parts at once}}
    pipe.send to %c[%use] : !pipe.channel<2 parts = 2>
  } consumers 2 240 {
  }
}

// -----

tile.kernel @k(%use: i32) {
  %c = pipe.open : !pipe.channel<2>
  pipe.roles producer 24 {
    // expected-error @+1 {{expected numbers, got none; a use without a stage carries at least one}}
    "pipe.send"(%c, %use) : (!pipe.channel<2>, i32) -> ()
  } consumers 2 240 {
  }
}

// -----

// Numbers that no op takes.
tile.kernel @k(%use: i32) {
  %c = pipe.open : !pipe.channel<2 words = 2>
  pipe.roles producer 24 {
  } consumers 2 240 {
    // expected-error @+1 {{expected a channel that carries its 0 numbers (words = 0), got '!pipe.channel<2 words = 2>'}}
    pipe.await %c[%use] : !pipe.channel<2 words = 2>
  }
}

// -----

tile.kernel @k(%use: i32, %k: !tile.view<[?, ?, ?, 64], f16>) {
  %b = pipe.alloc : !pipe.buffer<2, [64, 64], f16, panels = true>
  %c = pipe.open : !pipe.channel<2 words = 2>
  %rows = tile.work : !tile.block<query, 64>
  %keys = tile.block %use of %rows : !tile.block<query, 64> -> !tile.block<key, 64>
  pipe.roles producer 24 {
    // expected-error @+1 {{expected a channel that carries its 1 numbers (words = 1), got '!pipe.channel<2 words = 2>'}}
    pipe.fill %k[%keys] to %b on %c[%use] with %use : !tile.view<[?, ?, ?, 64], f16>[!tile.block<key, 64>], !pipe.buffer<2, [64, 64], f16, panels = true>, !pipe.channel<2 words = 2>
  } consumers 2 240 {
  }
}

// -----

tile.kernel @k(%use: i32) {
  %c = pipe.open : !pipe.channel<2 words = 1>
  pipe.roles producer 24 {
  } consumers 2 240 {
    // expected-error @+1 {{expected to be one of the producer's or the finder's operations of a pipe.roles}}
    pipe.send %use to %c[%use] : !pipe.channel<2 words = 1>
  }
}

// -----

tile.kernel @k(%use: i32) {
  %c = pipe.open : !pipe.channel<2 words = 1>
  pipe.roles finder {
    // expected-error @+1 {{expected to be one of the consumers' or the producer's operations of a pipe.roles}}
    %x = pipe.receive %c[%use] : !pipe.channel<2 words = 1> -> i32
  } producer 24 {
  } consumers 2 240 {
  }
}

// -----

tile.kernel @k() {
  pipe.roles producer 24 {
    // expected-error @+1 {{expected to be one of the consumers' operations of a pipe.roles}}
    pipe.drain
  } consumers 2 240 {
  }
}

// -----

tile.kernel @k() {
  %a = tile.constant 0.0 : !tile.tile<[64, 64], f16, #pipe.shared>
  %c = tile.constant 0.0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
  // expected-error @+1 {{expected a result in flight (#pipe.accumulator<…, in_flight = true>), got}}
  %s = pipe.dot_start %a, %a plus %c : (!tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
}

// -----

tile.kernel @k() {
  %a = tile.constant 0.0 : !tile.tile<[64, 64], f16, #pipe.shared>
  %c = tile.constant 0.0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
  // expected-error @+1 {{expected one use of the product in flight, by a pipe.dot_wait of the same block}}
  %s = pipe.dot_start %a, %a plus %c : (!tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4, in_flight = true>>
}

// -----

tile.kernel @k() {
  %a = tile.constant 0.0 : !tile.tile<[64, 64], f16, #pipe.shared>
  %c = tile.constant 0.0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
  // expected-error @+1 {{expected one use of the product in flight, by a pipe.dot_wait of the same block}}
  %s = pipe.dot_start %a, %a plus %c : (!tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4, in_flight = true>>
  %x = pipe.dot_wait %s pending 0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4, in_flight = true>> -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
  %y = pipe.dot_wait %s pending 0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4, in_flight = true>> -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
}

// -----

tile.kernel @k(%test: i1) {
  %a = tile.constant 0.0 : !tile.tile<[64, 64], f16, #pipe.shared>
  %c = tile.constant 0.0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
  // expected-error @+1 {{expected one use of the product in flight, by a pipe.dot_wait of the same block}}
  %s = pipe.dot_start %a, %a plus %c : (!tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4, in_flight = true>>
  scf.if %test {
    %x = pipe.dot_wait %s pending 0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4, in_flight = true>> -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
  }
}

// -----

tile.kernel @k() {
  %a = tile.constant 0.0 : !tile.tile<[64, 64], f16, #pipe.shared>
  %c = tile.constant 0.0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
  // expected-error @+1 {{expected a source in flight and a result of the same type that is not in flight, got}}
  %x = pipe.dot_wait %c pending 0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>> -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
}

// -----

tile.kernel @k() {
  %a = tile.constant 0.0 : !tile.tile<[64, 64], f16, #pipe.shared>
  %c = tile.constant 0.0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
  %s = tile.constant 0.0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4, in_flight = true>>
  // expected-error @+1 {{expected the result of a pipe.dot_start}}
  %x = pipe.dot_wait %s pending 0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4, in_flight = true>> -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
}

// -----

tile.kernel @k() {
  %a = tile.constant 0.0 : !tile.tile<[64, 64], f16, #pipe.shared>
  %c = tile.constant 0.0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
  %s = pipe.dot_start %a, %a plus %c : (!tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4, in_flight = true>>
  // expected-error @+1 {{expected at least 1 products to be started after the awaited one, got 0; it could still be in flight}}
  %x = pipe.dot_wait %s pending 1 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4, in_flight = true>> -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
}

// -----

tile.kernel @k(%v: !tile.view<[?, ?, ?], f32>, %i: i32) {
  %x = tile.read %v[%i, %i, %i] : !tile.view<[?, ?, ?], f32> -> f32
  // expected-error @+1 {{expected to be the first operation of a tile.kernel: an operation before it could access memory that an earlier launch still reads or writes}}
  pipe.await_launch
}

// -----

tile.kernel @k(%test: i1) {
  scf.if %test {
    // expected-error @+1 {{expected to be the first operation of a tile.kernel}}
    pipe.await_launch
  }
}

// -----

tile.kernel @k(%test: i1) {
  scf.if %test {
    // expected-error @+1 {{expected to be directly in the body of a tile.kernel, which all threads execute, got the parent scf.if}}
    pipe.release_launch
  }
}

// -----

// tile.leave must stand before the roles: otherwise producer and consumers would have to decide separately, and no check could prove that both leave.
tile.kernel @leaves_in_a_role(%none: i1) {
  pipe.roles producer 40 {
    // expected-error @+1 {{expected to be directly in the body of a tile.kernel, got the parent 'pipe.roles'}}
    tile.leave if %none
  } consumers 1 232 {
  }
}

// -----

tile.kernel @k(%n: i32) {
  // expected-error @+1 {{expected to be one of the consumers' operations of a pipe.roles}}
  %shared = pipe.uniform %n
}

// -----

tile.kernel @k() {
  %use = arith.constant 0 : i32
  %sums = pipe.alloc : !pipe.buffer<1, [64, 96], f32, panels = true>
  %cut = tile.constant 0.0 : !tile.tile<[64, 96], f32, #pipe.accumulator<warps = 4>>
  pipe.roles producer 24 {
  } consumers 2 240 {
    // expected-error @+1 {{expected a buffer of 128 columns for a tile whose columns are cut in 2 parts, got '!pipe.buffer<1, [64, 96], f32, panels = true>' for '!tile.tile<[64, 96], f32, #pipe.accumulator<warps = 4>>'}}
    pipe.write %cut to %sums[%use] : !tile.tile<[64, 96], f32, #pipe.accumulator<warps = 4>>, !pipe.buffer<1, [64, 96], f32, panels = true>
  }
}

// -----

tile.kernel @crossed_over_none() {
  // expected-error @+1 {{expected a crossed buffer of two stages, and one of the same type in `over`, got '!pipe.buffer<2, [64, 64], bf16, panels = true>'}}
  %b = pipe.alloc {crossed} : !pipe.buffer<2, [64, 64], bf16, panels = true>
}

// -----

tile.kernel @crossed_stages() {
  %b = pipe.alloc : !pipe.buffer<1, [64, 64], bf16, panels = true>
  // expected-error @+1 {{expected a crossed buffer of two stages, and one of the same type in `over`, got '!pipe.buffer<1, [64, 64], bf16, panels = true>'}}
  %c = pipe.alloc over %b : !pipe.buffer<1, [64, 64], bf16, panels = true>, {crossed} : !pipe.buffer<1, [64, 64], bf16, panels = true>
}
