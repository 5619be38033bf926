// RUN: tesela-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(tile.kernel(tile-narrow-keys{scales=page}))'

// expected-error @+1 {{expected keys=paged with scales=page, which are a number a page, got keys that lie otherwise; take scales=head}}
tile.kernel @dense(in %k: !tile.view<[B, Hkv, Sk, 64], f16>) {
  %keys = tile.work : !tile.block<key, 64>
}

// -----

tile.kernel @summed(in %k: !tile.view<[?, Hkv, 16, 64], f16>, in %table: !tile.view<[B, ?], i32>, out %o: !tile.view<[B, Hkv, Sk, 64], f16>) {
  %keys = tile.work : !tile.block<key, 64>
  %b, %h, %kv, %first = tile.coordinates %keys : !tile.block<key, 64>
  %k2 = tile.paged %k by %table[%b] : !tile.view<[?, Hkv, 16, 64], f16>, !tile.view<[B, ?], i32> -> !tile.view<[B, Hkv, Sk, 64], f16>
  %K = tile.load %k2[%keys] : !tile.view<[B, Hkv, Sk, 64], f16>[!tile.block<key, 64>] -> !tile.tile<[64, 64], f16>
  // expected-error @+1 {{expected keys and values of 8 bits to be right operands of tile.dot, got another use of them; leave out cache=e4m3}}
  tile.store %K, %o[%keys] : !tile.tile<[64, 64], f16>, !tile.view<[B, Hkv, Sk, 64], f16>[!tile.block<key, 64>]
}
