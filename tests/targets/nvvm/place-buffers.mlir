// RUN: tesela-opt %s --pipe-place-buffers | FileCheck %s

// One after the other, 1024-byte aligned; `over` takes the other's place.
// CHECK: tile.kernel @k() attributes {pipe.shared_bytes = 21504 : i64} {
tile.kernel @k() {
  // CHECK-NEXT: %[[A:.*]] = pipe.alloc {offset = 0 : i64} : <2, [64, 64], bf16>
  %a = pipe.alloc : !pipe.buffer<2, [64, 64], bf16>
  // CHECK-NEXT: pipe.alloc over %[[A]] : {{.*}}, {offset = 0 : i64} : <1, [64, 64], bf16>
  %b = pipe.alloc over %a : !pipe.buffer<2, [64, 64], bf16>, : !pipe.buffer<1, [64, 64], bf16>
  // CHECK-NEXT: pipe.alloc {offset = 16384 : i64} : <1, [4, 64], f16>
  %c = pipe.alloc : !pipe.buffer<1, [4, 64], f16>
  // CHECK-NEXT: pipe.alloc {offset = 17408 : i64} : <1, [16, 128], bf16>
  %d = pipe.alloc : !pipe.buffer<1, [16, 128], bf16>
}

// The barriers of channels stand behind all buffers: two of 8 bytes a stage.
// CHECK: tile.kernel @channels() attributes {pipe.shared_bytes = 8240 : i64} {
tile.kernel @channels() {
  // CHECK-NEXT: pipe.open {offset = 8192 : i64} : <2>
  %c = pipe.open : !pipe.channel<2>
  // CHECK-NEXT: pipe.open {offset = 8224 : i64} : <1>
  %d = pipe.open : !pipe.channel<1>
  // CHECK-NEXT: pipe.alloc {offset = 0 : i64}
  %a = pipe.alloc : !pipe.buffer<1, [64, 64], bf16, panels = true>
}

// What a channel carries stands behind its barriers, 16 bytes a stage.
// CHECK: tile.kernel @words() attributes {pipe.shared_bytes = 176 : i64} {
tile.kernel @words() {
  // CHECK-NEXT: pipe.open {offset = 0 : i64} : <3 words = 1>
  %c = pipe.open : !pipe.channel<3 words = 1>
  // CHECK-NEXT: pipe.open {offset = 96 : i64} : <2 words = 1>
  %d = pipe.open : !pipe.channel<2 words = 1>
  // CHECK-NEXT: pipe.open {offset = 160 : i64} : <1>
  %e = pipe.open : !pipe.channel<1>
}

// The ones of products with row_sums stand behind all buffers: products of one type share them.
// CHECK: tile.kernel @ones({{.*}}) attributes {pipe.shared_bytes = 14352 : i64} {
tile.kernel @ones(%a: !tile.tile<[64, 64], bf16, #pipe.operand<warps = 4>>, %b: !tile.tile<[64, 64], bf16, #pipe.shared>,
                  %c: !tile.tile<[64, 72], f32, #pipe.accumulator<warps = 4>>, %d: !tile.tile<[64, 64], f16, #pipe.operand<warps = 4>>,
                  %e: !tile.tile<[64, 64], f16, #pipe.shared>) {
  // CHECK-NEXT: tile.dot {{.*}} row_sums plus {{.*}} {pipe.ones_offset = 10240 : i64}
  %x = tile.dot %a, %b row_sums plus %c : (!tile.tile<[64, 64], bf16, #pipe.operand<warps = 4>>, !tile.tile<[64, 64], bf16, #pipe.shared>, !tile.tile<[64, 72], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 72], f32, #pipe.accumulator<warps = 4>>
  // CHECK-NEXT: pipe.dot_start {{.*}} row_sums plus {{.*}} {pipe.ones_offset = 10240 : i64}
  %s = pipe.dot_start %a, %b row_sums plus %x : (!tile.tile<[64, 64], bf16, #pipe.operand<warps = 4>>, !tile.tile<[64, 64], bf16, #pipe.shared>, !tile.tile<[64, 72], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 72], f32, #pipe.accumulator<warps = 4, in_flight = true>>
  %y = pipe.dot_wait %s pending 0 : !tile.tile<[64, 72], f32, #pipe.accumulator<warps = 4, in_flight = true>> -> !tile.tile<[64, 72], f32, #pipe.accumulator<warps = 4>>
  // CHECK: tile.dot {{.*}} row_sums plus {{.*}} {pipe.ones_offset = 12288 : i64}
  %z = tile.dot %d, %e row_sums plus %y : (!tile.tile<[64, 64], f16, #pipe.operand<warps = 4>>, !tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 72], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 72], f32, #pipe.accumulator<warps = 4>>
  // CHECK: pipe.alloc {offset = 0 : i64} : <1, [80, 64], bf16>
  %k = pipe.alloc : !pipe.buffer<1, [80, 64], bf16>
  // CHECK: pipe.open {offset = 14336 : i64} : <1>
  %o = pipe.open : !pipe.channel<1>
}
