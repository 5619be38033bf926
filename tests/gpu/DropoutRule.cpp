//===- DropoutRule.cpp ----------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "DropoutRule.h"

#include <array>

namespace tesela {

static std::array<uint32_t, 4> philox(std::array<uint32_t, 4> x, uint64_t key, uint32_t rounds) {
  for (uint32_t round = 0; round < rounds; ++round) {
    uint64_t a = x[0] * uint64_t(0xD2511F53), b = x[2] * uint64_t(0xCD9E8D57);
    uint32_t key0 = uint32_t(key) + round * 0x9E3779B9,
             key1 = uint32_t(key >> 32) + round * 0xBB67AE85;
    x = {uint32_t(b >> 32) ^ x[1] ^ key0, uint32_t(b), uint32_t(a >> 32) ^ x[3] ^ key1,
         uint32_t(a)};
  }
  return x;
}

bool isDropped(double probability, uint64_t seed, uint64_t offset, uint32_t head, uint32_t q,
               uint32_t k) {
  auto start = philox({uint32_t(offset), uint32_t(offset >> 32), 0, 0}, seed, 10);
  auto words = philox({start[0] ^ (k / 16 * 4 + k % 8 / 2), start[1] ^ (q / 16 * 4 + q % 8 / 2),
                       start[2] ^ head, start[3]},
                      0, 7);
  uint32_t j = 8 * (q & 1) | 4 * (q >> 3 & 1) | 2 * (k >> 3 & 1) | (k & 1);
  uint64_t u = 0;
  for (int i = 0; i < 8; ++i)
    u |= uint64_t(words[i % 4] >> (i < 4 ? 16 + j : j) & 1) << (38 - i);
  u |= (words[0] ^ (words[1] << 13 | words[1] >> 19)) & 0x7FFFFFFF;
  return double(u) < double(float(probability)) * 0x1p39;
}

} // namespace tesela
