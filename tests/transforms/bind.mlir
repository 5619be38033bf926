// RUN: tesela-opt %s --tile-bind=bindings=d=40,input=bf16,m=7 | FileCheck %s

// Extents are computed, and element types become builtin types.
// CHECK-LABEL: tile.kernel @parameters(%q: !tile.view<[?, ?, ?, 40], bf16>) {
tile.kernel @parameters<m, d, input>(%q: !tile.view<[?, ?, ?, d], input>) {
  // CHECK: tile.work : <query, 7>
  %rows = tile.work : !tile.block<query, m>
  // CHECK: -> !tile.tile<[7, 40], bf16>
  %x = tile.load %q[%rows] : !tile.view<[?, ?, ?, d], input>[!tile.block<query, m>] -> !tile.tile<[m, d], input>
  // CHECK: !tile.tile<[48, 8], f32>
  %y = tile.constant 0.0 : !tile.tile<[(d ceildiv 16) * 16, m + 1], f32>
}

// block_m, block_n and heads come from the schedule. If a block has one head, the number of heads is not printed.
// CHECK-LABEL: tile.kernel @packed()
// CHECK: tile.work : <query, 64, 8>
tile.kernel @packed<block_m, heads>() attributes {schedule = #tile.schedule<block_m = 64, block_n = 16, stages = 1, warps = 4, q_in_registers = false, heads = 8>} {
  %rows = tile.work : !tile.block<query, block_m, heads>
}
// CHECK-LABEL: tile.kernel @one_head()
// CHECK: tile.work : <query, 64>
tile.kernel @one_head<block_m, heads>() attributes {schedule = #tile.schedule<block_m = 64, block_n = 16, stages = 1, warps = 4, q_in_registers = false>} {
  %rows = tile.work : !tile.block<query, block_m, heads>
}

// CHECK-LABEL: tile.kernel @scheduled()
// CHECK: tile.constant {{.*}} : !tile.tile<[64, 16], f32>
tile.kernel @scheduled<block_m, block_n>() attributes {schedule = #tile.schedule<block_m = 64, block_n = 16, stages = 1, warps = 4, q_in_registers = false>} {
  %x = tile.constant 0.0 : !tile.tile<[block_m, block_n], f32>
}

// CHECK-LABEL: tile.kernel @number()
tile.kernel @number<m, d>() {
  // CHECK: %[[N:.*]] = arith.constant 47 : i32
  %n = tile.number d + m
  // CHECK: tile.block %[[N]] batch %[[N]] head %[[N]]
  %rows = tile.block %n batch %n head %n -> !tile.block<query, m>
}
