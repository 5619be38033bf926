/*===----------------------------------------------------------------------===*\
|* Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.        *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
\*===----------------------------------------------------------------------===*/
/*
 * The kernel of the fake compiler: the sliding ALiBi variant in f32, one row per work
 * item, without tiles. It needs no library, so its object file can be linked
 * anywhere.
 */
#include <stdint.h>

/* exp for x <= 0: 2^n from the exponent's bits, the rest from its series. */
static float exponential(float x) {
  if (x < -87.0f)
    return 0.0f;
  float scaled = x * 1.44269504f;
  int32_t n = (int32_t)(scaled - 0.5f);
  float rest = (scaled - (float)n) * 0.69314718f;
  float sum = 1.0f;
  for (int i = 12; i > 0; --i)
    sum = 1.0f + sum * rest / (float)i;
  union {
    int32_t bits;
    float value;
  } power = {(n + 127) << 23};
  return sum * power.value;
}

/* ln x for x >= 1 by Newton's iteration on exp. */
static float logarithm(float x) {
  float y = 0.0f;
  while (x > 2.0f) {
    x *= 0.5f;
    y += 0.69314718f;
  }
  float rest = x - 1.0f;
  for (int i = 0; i < 6; ++i)
    rest += 2.0f * (x * exponential(-rest) - 1.0f) / (x * exponential(-rest) + 1.0f);
  return y + rest;
}

#define SLOT(type, i) (*(type const *)arguments[i])

/* The slots are those that FakeCompiler.cpp lists. */
void fake_sliding_alibi(const void *const *arguments, int64_t item, void *scratch) {
  const float *q = SLOT(const float *, 0), *k = SLOT(const float *, 1), *v = SLOT(const float *, 2);
  float *o = SLOT(float *, 3), *lse = SLOT(float *, 4);
  int32_t heads = SLOT(int32_t, 5), kvHeads = SLOT(int32_t, 6), queries = SLOT(int32_t, 7),
          keys = SLOT(int32_t, 8), headDimQk = SLOT(int32_t, 9), headDimV = SLOT(int32_t, 10);
  float scale = SLOT(float, 11);
  int32_t window = SLOT(int32_t, 12);
  const float *slope = SLOT(const float *, 13);
  int64_t slopeStride = SLOT(int64_t, 14);

  int64_t row = item % queries, h = item / queries % heads, b = item / queries / heads;
  int64_t hkv = h / (heads / kvHeads);
  q += b * SLOT(int64_t, 15) + h * SLOT(int64_t, 16) + row * SLOT(int64_t, 17);
  k += b * SLOT(int64_t, 18) + hkv * SLOT(int64_t, 19);
  v += b * SLOT(int64_t, 21) + hkv * SLOT(int64_t, 22);
  o += b * SLOT(int64_t, 24) + h * SLOT(int64_t, 25) + row * SLOT(int64_t, 26);
  int64_t keyStride = SLOT(int64_t, 20), valueStride = SLOT(int64_t, 23);

  float *sum = scratch; /* headDimV of them */
  for (int64_t d = 0; d < headDimV; ++d)
    sum[d] = 0.0f;
  float max = -__builtin_inff(), denominator = 0.0f;
  for (int64_t key = 0; key < keys && key <= row; ++key) {
    if (row - key >= window)
      continue;
    float s = 0.0f;
    for (int64_t d = 0; d < headDimQk; ++d)
      s += q[d] * k[key * keyStride + d];
    s = s * scale + slope[h * slopeStride] * (float)(key - row);
    if (s > max) {
      float shrink = max == -__builtin_inff() ? 0.0f : exponential(max - s);
      denominator *= shrink;
      for (int64_t d = 0; d < headDimV; ++d)
        sum[d] *= shrink;
      max = s;
    }
    float p = exponential(s - max);
    denominator += p;
    for (int64_t d = 0; d < headDimV; ++d)
      sum[d] += p * v[key * valueStride + d];
  }
  for (int64_t d = 0; d < headDimV; ++d)
    o[d] = denominator > 0.0f ? sum[d] / denominator : 0.0f;
  lse[item] = denominator > 0.0f ? max + logarithm(denominator) : -__builtin_inff();
}
