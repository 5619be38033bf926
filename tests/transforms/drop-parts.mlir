// RUN: tesela-opt %s --tile-drop-parts | FileCheck %s

// With one worker there is one part, so nothing is stored for parts. Other stores stay, also those of blocks with an end of their own.
// CHECK-LABEL: tile.kernel @keys(in %k: {{[^%]*}}, out %dk: {{[^%]*}})
// CHECK: %[[KEYS:.*]] = tile.work : <key, 64>
// CHECK-NOT: tile.head_parts
// CHECK-NOT: tile.work_part
// CHECK: scf.for %{{.*}} = %[[FIRST:.*]] to %{{.*}} step
// CHECK-NOT: %sums
// CHECK: tile.store %{{.*}}, %dk[%[[KEYS]]]
tile.kernel @keys(in %k: !tile.view<[B, Hkv, Sk, 64], f32>, workspace %sums: !tile.view<[B, H, Sk, 64], f32>,
                  out %dk: !tile.view<[B, Hkv, Sk, 64], f32>) {
  %keys = tile.work dealt to 1 : !tile.block<key, 64>
  %part = tile.work_part of %keys : !tile.block<key, 64>
  %parts = tile.head_parts of 1 !tile.block<key, 64>
  %batch, %head, %kv_head, %first = tile.coordinates %keys : !tile.block<key, 64>
  %none = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %count = tile.extent "Sk"
  %K = tile.load %k[%keys] : !tile.view<[B, Hkv, Sk, 64], f32>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f32>
  %dK = scf.for %g = %part to %parts step %one iter_args(%x = %K) -> (!tile.tile<[64, 64], f32>) : i32 {
    scf.yield %x : !tile.tile<[64, 64], f32>
  }
  %is_whole = arith.cmpi eq, %parts, %one : i32
  %end = arith.select %is_whole, %count, %none : i32
  %end_of_sums = arith.select %is_whole, %none, %count : i32
  %results = tile.block %first to %end of %keys : !tile.block<key, 64> -> !tile.block<key, 64>
  %rows = tile.block %first to %end_of_sums of %keys : !tile.block<key, 64> -> !tile.block<key, 64>
  tile.store %dK, %sums[%rows] : !tile.tile<[64, 64], f32>, !tile.view<[B, H, Sk, 64], f32>[!tile.block<key, 64>]
  tile.store %dK, %dk[%results] : !tile.tile<[64, 64], f32>, !tile.view<[B, Hkv, Sk, 64], f32>[!tile.block<key, 64>]
}

// Nothing is left to join.
// CHECK-NOT: tile.kernel @joined
tile.kernel @joined(workspace %sums: !tile.view<[B, H, Sk, 64], f32>, out %dk: !tile.view<[B, Hkv, Sk, 64], f32>) {
  %keys = tile.work dealt to 1 joined : !tile.block<key, 64>
  %x = tile.load %sums[%keys] : !tile.view<[B, H, Sk, 64], f32>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f32>
  tile.store %x, %dk[%keys] : !tile.tile<[64, 64], f32>, !tile.view<[B, Hkv, Sk, 64], f32>[!tile.block<key, 64>]
}

// Among two workers it depends on the launch.
// CHECK-LABEL: tile.kernel @two
// CHECK: tile.work dealt to 2
// CHECK: tile.head_parts of 2
tile.kernel @two(in %k: !tile.view<[B, Hkv, Sk, 64], f32>, out %dk: !tile.view<[B, Hkv, Sk, 64], f32>) {
  %keys = tile.work dealt to 2 : !tile.block<key, 64>
  %parts = tile.head_parts of 2 !tile.block<key, 64>
  %batch, %head, %kv_head, %first = tile.coordinates %keys : !tile.block<key, 64>
  %end = arith.muli %first, %parts : i32
  %rows = tile.block %first to %end of %keys : !tile.block<key, 64> -> !tile.block<key, 64>
  %K = tile.load %k[%keys] : !tile.view<[B, Hkv, Sk, 64], f32>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f32>
  tile.store %K, %dk[%rows] : !tile.tile<[64, 64], f32>, !tile.view<[B, Hkv, Sk, 64], f32>[!tile.block<key, 64>]
}
