// Every op, type and encoding of the pipe dialect, through its text and through the generic form.
// RUN: tesela-opt %s | tesela-opt | FileCheck %s
// RUN: tesela-opt %s --mlir-print-op-generic | tesela-opt | FileCheck %s

// CHECK-LABEL: tile.kernel @all
tile.kernel @all(%k: !tile.view<[?, ?, ?, 64], bf16>, %o: !tile.view<[?, ?, ?, 64], bf16>, %stage: i32) {
  // CHECK: %[[K:.*]] = pipe.alloc {offset = 32768 : i64} : <2, [64, 64], bf16>
  %b = pipe.alloc {offset = 32768 : i64} : !pipe.buffer<2, [64, 64], bf16>
  // CHECK: %[[O:.*]] = pipe.alloc over %[[K]] : !pipe.buffer<2, [64, 64], bf16>, : <1, [64, 64], bf16>
  %c = pipe.alloc over %b : !pipe.buffer<2, [64, 64], bf16>, : !pipe.buffer<1, [64, 64], bf16>
  %rows = tile.work : !tile.block<query, 64>
  %keys = tile.block %stage of %rows : !tile.block<query, 64> -> !tile.block<key, 64>
  // CHECK: pipe.copy %k[%[[KEYS:.*]]] to %[[K]][%stage] : <[?, ?, ?, 64], bf16>[<key, 64>], <2, [64, 64], bf16>
  pipe.copy %k[%keys] to %b[%stage] : !tile.view<[?, ?, ?, 64], bf16>[!tile.block<key, 64>], !pipe.buffer<2, [64, 64], bf16>
  // CHECK: pipe.copy %k[%{{.*}}, %[[KEYS]]] to %[[K]][%stage] : <[?, ?, ?, 64], bf16>[<query, 64>, !tile.block<key, 64>], <2, [64, 64], bf16>
  pipe.copy %k[%rows, %keys] to %b[%stage] : !tile.view<[?, ?, ?, 64], bf16>[!tile.block<query, 64>, !tile.block<key, 64>], !pipe.buffer<2, [64, 64], bf16>
  // CHECK: pipe.commit
  pipe.commit
  // CHECK: pipe.wait 1
  pipe.wait 1
  // CHECK: pipe.barrier
  pipe.barrier
  // CHECK: %[[SLOT:.*]] = pipe.slot %[[K]][%stage] : <2, [64, 64], bf16> -> !tile.tile<[64, 64], bf16, #pipe.shared>
  %t = pipe.slot %b[%stage] : !pipe.buffer<2, [64, 64], bf16> -> !tile.tile<[64, 64], bf16, #pipe.shared>
  // CHECK: pipe.convert %[[SLOT]] : !tile.tile<[64, 64], bf16, #pipe.shared> -> !tile.tile<[64, 64], bf16, #pipe.operand<warps = 4>>
  %a = pipe.convert %t : !tile.tile<[64, 64], bf16, #pipe.shared> -> !tile.tile<[64, 64], bf16, #pipe.operand<warps = 4>>
  %r = tile.constant 0.0 : !tile.tile<[64, 64], bf16, #pipe.accumulator<warps = 4>>
  // CHECK: tile.constant 0.000000e+00 : !tile.tile<[64], f32, #pipe.rows<warps = 4, shares = true>>
  %l = tile.constant 0.0 : !tile.tile<[64], f32, #pipe.rows<warps = 4, shares = true>>
  // CHECK: pipe.write %{{.*}} to %[[O]][%stage] : !tile.tile<[64, 64], bf16, #pipe.accumulator<warps = 4>>, <1, [64, 64], bf16>
  pipe.write %r to %c[%stage] : !tile.tile<[64, 64], bf16, #pipe.accumulator<warps = 4>>, !pipe.buffer<1, [64, 64], bf16>
  // CHECK: pipe.write %{{.*}} to %[[O]][%stage] : !tile.tile<[64, 64], f8E4M3FN, #pipe.shared>, <1, [64, 64], bf16>
  %bytes = pipe.alloc : !pipe.buffer<1, [64, 64], f8E4M3FN>
  %t8 = pipe.slot %bytes[%stage] : !pipe.buffer<1, [64, 64], f8E4M3FN> -> !tile.tile<[64, 64], f8E4M3FN, #pipe.shared>
  pipe.write %t8 to %c[%stage] : !tile.tile<[64, 64], f8E4M3FN, #pipe.shared>, !pipe.buffer<1, [64, 64], bf16>
  // CHECK: pipe.store %[[O]][%stage] to %o[%{{.*}}] : <1, [64, 64], bf16>, <[?, ?, ?, 64], bf16>[<query, 64>]
  pipe.store %c[%stage] to %o[%rows] : !pipe.buffer<1, [64, 64], bf16>, !tile.view<[?, ?, ?, 64], bf16>[!tile.block<query, 64>]
}

// CHECK-LABEL: tile.kernel @roles
tile.kernel @roles(%k: !tile.view<[?, ?, ?, 128], f16>, %o: !tile.view<[?, ?, ?, 128], f16>, %use: i32) {
  // CHECK: %[[K:.*]] = pipe.alloc : <2, [80, 128], f16, panels = true>
  %b = pipe.alloc : !pipe.buffer<2, [80, 128], f16, panels = true>
  // CHECK: pipe.alloc over %[[K]] : !pipe.buffer<2, [80, 128], f16, panels = true>, {crossed} : <2, [80, 128], f16, panels = true>
  %crossed = pipe.alloc over %b : !pipe.buffer<2, [80, 128], f16, panels = true>, {crossed} : !pipe.buffer<2, [80, 128], f16, panels = true>
  %q = pipe.alloc : !pipe.buffer<1, [128, 128], f16, panels = true>
  %shares = pipe.alloc : !pipe.buffer<2, [64, 128], f16, panels = true>
  %sums = pipe.alloc : !pipe.buffer<1, [64, 128], f32, panels = true>
  // CHECK: %[[C:.*]] = pipe.open : <2>
  %c = pipe.open : !pipe.channel<2>
  // CHECK: %[[W:.*]] = pipe.open : <2 words = 1>
  %w = pipe.open : !pipe.channel<2 words = 1>
  // CHECK: %[[B:.*]] = pipe.open : <2 words = 2>
  %both = pipe.open : !pipe.channel<2 words = 2>
  // CHECK: pipe.open {offset = 73728 : i64} : <1>
  %placed = pipe.open {offset = 73728 : i64} : !pipe.channel<1>
  %rows = tile.work : !tile.block<query, 128>
  %keys = tile.block %use of %rows : !tile.block<query, 128> -> !tile.block<key, 80>
  // CHECK: pipe.roles producer 24 {
  pipe.roles producer 24 {
    // CHECK-NEXT: pipe.acquire %[[C]][%use] : <2>
    pipe.acquire %c[%use] : !pipe.channel<2>
    // CHECK-NEXT: pipe.fill %k[%{{.*}}] to %[[K]] on %[[C]][%use] : <[?, ?, ?, 128], f16>[<key, 80>], <2, [80, 128], f16, panels = true>, <2>
    pipe.fill %k[%keys] to %b on %c[%use] : !tile.view<[?, ?, ?, 128], f16>[!tile.block<key, 80>], !pipe.buffer<2, [80, 128], f16, panels = true>, !pipe.channel<2>
    // CHECK-NEXT: pipe.fill %k[%{{.*}}] to %[[K]] on %[[B]][%use] with %use, %use : <[?, ?, ?, 128], f16>[<key, 80>], <2, [80, 128], f16, panels = true>, <2 words = 2>
    pipe.fill %k[%keys] to %b on %both[%use] with %use, %use : !tile.view<[?, ?, ?, 128], f16>[!tile.block<key, 80>], !pipe.buffer<2, [80, 128], f16, panels = true>, !pipe.channel<2 words = 2>
    // CHECK-NEXT: %[[FIRST:.*]] = pipe.first_item
    %first = pipe.first_item
    // CHECK-NEXT: %[[NEXT:.*]] = pipe.next_item
    %next = pipe.next_item
    // CHECK-NEXT: pipe.send %[[NEXT]] to %[[W]][%[[FIRST]]] : <2 words = 1>
    pipe.send %next to %w[%first] : !pipe.channel<2 words = 1>
    // CHECK-NEXT: pipe.end_items
    pipe.end_items
  // CHECK-NEXT: } consumers 2 240 {
  } consumers 2 240 {
    // CHECK-NEXT: pipe.await %[[C]][%use] : <2>
    pipe.await %c[%use] : !pipe.channel<2>
    // CHECK-NEXT: pipe.await %[[B]][%use] : <2 words = 2> -> i32, i32
    %numbers:2 = pipe.await %both[%use] : !pipe.channel<2 words = 2> -> i32, i32
    // CHECK-NEXT: pipe.release %[[C]][%use] : <2>
    pipe.release %c[%use] : !pipe.channel<2>
    // CHECK-NEXT: pipe.publish %[[K]] on %[[C]][%use] : <2, [80, 128], f16, panels = true>, <2>
    pipe.publish %b on %c[%use] : !pipe.buffer<2, [80, 128], f16, panels = true>, !pipe.channel<2>
    // CHECK-NEXT: pipe.empty_out %{{.*}} to %o[%{{.*}}] : <1, [128, 128], f16, panels = true>, <[?, ?, ?, 128], f16>[<query, 128>]
    pipe.empty_out %q to %o[%rows] : !pipe.buffer<1, [128, 128], f16, panels = true>, !tile.view<[?, ?, ?, 128], f16>[!tile.block<query, 128>]
    // CHECK-NEXT: pipe.empty_out %{{.*}} to %o[%{{.*}}] : <2, [64, 128], f16, panels = true>, <[?, ?, ?, 128], f16>[<query, 128>]
    pipe.empty_out %shares to %o[%rows] : !pipe.buffer<2, [64, 128], f16, panels = true>, !tile.view<[?, ?, ?, 128], f16>[!tile.block<query, 128>]
    // CHECK-NEXT: pipe.drain
    pipe.drain
    // CHECK-NEXT: %[[ITEM:.*]] = pipe.receive %[[W]][%use] : <2 words = 1> -> i32
    %item = pipe.receive %w[%use] : !pipe.channel<2 words = 1> -> i32
    // CHECK-NEXT: pipe.uniform %[[ITEM]]
    %shared = pipe.uniform %item
    // Two warpgroups share 96 columns, and compute 128.
    // CHECK: pipe.write %{{.*}} to %{{.*}} : !tile.tile<[64, 96], f32, #pipe.accumulator<warps = 4>>, <1, [64, 128], f32, panels = true>
    %cut = tile.constant 0.0 : !tile.tile<[64, 96], f32, #pipe.accumulator<warps = 4>>
    pipe.write %cut to %sums[%use] : !tile.tile<[64, 96], f32, #pipe.accumulator<warps = 4>>, !pipe.buffer<1, [64, 128], f32, panels = true>
    // CHECK-NEXT: pipe.open_turns
    pipe.open_turns
    // CHECK-NEXT: pipe.begin_turn
    pipe.begin_turn
    // CHECK-NEXT: pipe.end_turn
    pipe.end_turn
  }
}

// CHECK-LABEL: tile.kernel @products
tile.kernel @products() {
  %a = tile.constant 0.0 : !tile.tile<[64, 64], f16, #pipe.operand<warps = 4>>
  %b = tile.constant 0.0 : !tile.tile<[64, 64], f16, #pipe.shared>
  %c = tile.constant 0.0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
  // CHECK: %[[S:.*]] = pipe.dot_start %{{.*}}, %{{.*}} transposed plus %{{.*}} : {{.*}} -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4, in_flight = true>>
  %s = pipe.dot_start %a, %b transposed plus %c : (!tile.tile<[64, 64], f16, #pipe.operand<warps = 4>>, !tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4, in_flight = true>>
  // CHECK: %[[O:.*]] = pipe.dot_start %{{.*}}, %{{.*}} plus
  %o = pipe.dot_start %a, %b plus %c : (!tile.tile<[64, 64], f16, #pipe.operand<warps = 4>>, !tile.tile<[64, 64], f16, #pipe.shared>, !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>) -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4, in_flight = true>>
  // CHECK: pipe.dot_wait %[[S]] pending 1 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4, in_flight = true>> -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
  %S = pipe.dot_wait %s pending 1 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4, in_flight = true>> -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
  // CHECK: pipe.dot_wait %[[O]] pending 0
  %O = pipe.dot_wait %o pending 0 : !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4, in_flight = true>> -> !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
}

// CHECK-LABEL: tile.kernel @launches
tile.kernel @launches() {
  // CHECK: pipe.await_launch
  pipe.await_launch
  // CHECK: pipe.release_launch
  pipe.release_launch
}
