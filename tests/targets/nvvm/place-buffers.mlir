// RUN: tesela-opt %s --pipe-place-buffers | FileCheck %s

// One after the other, at multiples of 1024 bytes. A buffer `over` another has the other's place.
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

// The barriers of channels lie behind all buffers: two of 8 bytes for each stage.
// CHECK: tile.kernel @channels() attributes {pipe.shared_bytes = 8240 : i64} {
tile.kernel @channels() {
  // CHECK-NEXT: pipe.open {offset = 8192 : i64} : <2>
  %c = pipe.open : !pipe.channel<2>
  // CHECK-NEXT: pipe.open {offset = 8224 : i64} : <1>
  %d = pipe.open : !pipe.channel<1>
  // CHECK-NEXT: pipe.alloc {offset = 0 : i64}
  %a = pipe.alloc : !pipe.buffer<1, [64, 64], bf16, panels = true>
}

// The words of a channel lie behind its barriers, 16 bytes for each stage.
// CHECK: tile.kernel @words() attributes {pipe.shared_bytes = 176 : i64} {
tile.kernel @words() {
  // CHECK-NEXT: pipe.open {offset = 0 : i64} : <3 words = 1>
  %c = pipe.open : !pipe.channel<3 words = 1>
  // CHECK-NEXT: pipe.open {offset = 96 : i64} : <2 words = 1>
  %d = pipe.open : !pipe.channel<2 words = 1>
  // CHECK-NEXT: pipe.open {offset = 160 : i64} : <1>
  %e = pipe.open : !pipe.channel<1>
}

// If fewer thread blocks should run at once, a thread block takes more memory than it needs, and never less.
// CHECK: tile.kernel @padded() attributes {pipe.least_shared_bytes = 28160 : i64, pipe.shared_bytes = 28160 : i64} {
tile.kernel @padded() attributes {pipe.least_shared_bytes = 28160 : i64} {
  %a = pipe.alloc : !pipe.buffer<1, [64, 64], bf16>
}
// CHECK: tile.kernel @larger() attributes {pipe.least_shared_bytes = 4096 : i64, pipe.shared_bytes = 8192 : i64} {
tile.kernel @larger() attributes {pipe.least_shared_bytes = 4096 : i64} {
  %a = pipe.alloc : !pipe.buffer<1, [64, 64], bf16>
}
