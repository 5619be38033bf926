// The library's template verifies before and after it is bound.
// RUN: tesela-opt %templates/forward.mlir | tesela-opt | FileCheck %s
// RUN: tesela-opt %templates/forward.mlir --tile-bind=bindings=block_m=64,block_n=32,heads=1,d_qk=120,d_v=64,padded_qk=128,padded_v=64,input=f16 | FileCheck %s --check-prefix=BOUND

// CHECK: tile.kernel @forward<block_m, block_n, heads, d_qk, d_v, padded_qk, padded_v, input>(
// CHECK: tile.dot
// CHECK-SAME: !tile.tile<[block_m, padded_qk], input>, !tile.tile<[block_n, padded_qk], input>

// BOUND: tile.kernel @forward(in %q: !tile.view<[B, H, Sq, 120], f16>
// BOUND: tile.dot
// BOUND-SAME: !tile.tile<[64, 128], f16>, !tile.tile<[32, 128], f16>
// BOUND-NOT: {{d_qk|padded}}
