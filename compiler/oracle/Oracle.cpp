//===- Oracle.cpp ---------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "oracle/Oracle.h"

namespace tesela {
namespace {

/// The structs of Oracle.h as text. A test compares their sizes and offsets.
constexpr const char *kStructs = R"cuda(
struct OracleParameter {
  unsigned long long data;
  long long extents[8];
  long long strides[8];
  int integer;
  float number;
};

struct OracleArguments {
  unsigned long long q, k, v;
  unsigned long long rows;
  long long qStrides[4], kStrides[4], vStrides[4];
  unsigned long long ref, base, absolute, lse, termNorm, largestScore;
  int B, H, Hkv, Sq, Sk;
  int headDimQk, headDimV;
  float scale;
  float dropoutProbability;
  unsigned dropoutWords[4];
  unsigned dropoutFirst[2];
  unsigned long long dropoutState;
  long long dropoutStateStride;
  OracleParameter parameters[16];
};
)cuda";

constexpr const char *kLoadF32 = R"cuda(
typedef float Input;
inline __device__ double load(const Input *p) { return *p; }
inline __device__ float roundToInput(float x) { return x; }
)cuda";

constexpr const char *kLoadF16 = R"cuda(
typedef unsigned short Input;
inline __device__ float decode(unsigned short bits) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
}
inline __device__ double load(const Input *p) { return decode(*p); }
inline __device__ float roundToInput(float x) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return decode(bits);
}
)cuda";

constexpr const char *kLoadBf16 = R"cuda(
typedef unsigned short Input;
inline __device__ double load(const Input *p) {
  return __int_as_float((int)((unsigned)*p << 16));
}
inline __device__ float roundToInput(float x) {
  if (x != x) return x;
  unsigned bits = (unsigned)__float_as_int(x);
  bits += 0x7fff + ((bits >> 16) & 1);  // to nearest, ties to even
  return __int_as_float((int)(bits & 0xffff0000u));
}
)cuda";

/// Two passes over the keys, with one key for each thread: first the largest score, then
/// the sums. Scores are computed twice and not stored.
constexpr const char *kKernel = R"cuda(
struct Scores {
  double ref;   // -inf where the key is dropped
  float base;
};

static __device__ Scores scoresOf(const OracleArguments &a, int b, int h, int q, int k) {
  const double minusInfinity = __longlong_as_double(0xfff0000000000000ll);
  const int hkv = h / (a.H / a.Hkv);
  if (!oracleMask(a, b, h, hkv, q, k)) return {minusInfinity, (float)minusInfinity};
  const Input *x = (const Input *)a.q + b * a.qStrides[0] + h * a.qStrides[1] + q * a.qStrides[2];
  const Input *y = (const Input *)a.k + b * a.kStrides[0] + hkv * a.kStrides[1] + k * a.kStrides[2];
  double s = 0;
  for (int d = 0; d < a.headDimQk; ++d)
    s += load(x + d * a.qStrides[3]) * load(y + d * a.kStrides[3]);
  s *= a.scale;
  return {oracleScore<double>(a, s, b, h, hkv, q, k),
          oracleScore<float>(a, roundToInput((float)s), b, h, hkv, q, k)};
}

// Dropout, one pair after the other, as docs/numerics.md has it.
struct Words {
  unsigned x, y, z, w;
};

static __device__ Words philox(Words c, unsigned key0, unsigned key1, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    c = {__umulhi(0xCD9E8D57u, c.z) ^ c.y ^ key0, 0xCD9E8D57u * c.z,
         __umulhi(0xD2511F53u, c.x) ^ c.w ^ key1, 0xD2511F53u * c.x};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return c;
}

static __device__ bool isDropped(const OracleArguments &a, unsigned head, unsigned q, unsigned k) {
  if (a.dropoutProbability == 0) return false;
  q += a.dropoutFirst[0];
  k += a.dropoutFirst[1];
  unsigned words[4];
  for (int i = 0; i < 4; ++i)
    words[i] = a.dropoutWords[i] ^ (a.dropoutState ? ((const unsigned *)a.dropoutState)[i * a.dropoutStateStride] : 0);
  const Words start = philox({words[2], words[3], 0, 0}, words[0], words[1], 10);
  const Words c = philox({start.x ^ (k / 16 * 4 + k % 8 / 2), start.y ^ (q / 16 * 4 + q % 8 / 2), start.z ^ head, start.w},
                         0, 0, 7);
  const unsigned bit = q % 2 * 8 + q / 8 % 2 * 4 + k / 8 % 2 * 2 + k % 2, random[4] = {c.x, c.y, c.z, c.w};
  unsigned long long number = 0;
  for (int i = 0; i < 8; ++i)
    number = number << 1 | (random[i % 4] >> (i < 4 ? 16 + bit : bit) & 1);
  const unsigned shared = (c.x ^ (c.y << 13 | c.y >> 19)) & 0x7FFFFFFFu;
  return (number << 31 | shared) < (unsigned long long)(a.dropoutProbability * 549755813888.0);  // 2^39
}

inline __device__ double larger(double a, double b) { return b > a ? b : a; }
inline __device__ double sum(double a, double b) { return a + b; }

// Combines a value of each thread; every thread gets the result.
template <class Combine> static __device__ double combineBlock(double value, Combine combine) {
  __shared__ double values[256];
  values[threadIdx.x] = value;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (threadIdx.x < half) values[threadIdx.x] = combine(values[threadIdx.x], values[threadIdx.x + half]);
    __syncthreads();
  }
  value = values[0];
  __syncthreads();
  return value;
}

extern "C" __global__ void __launch_bounds__(256) tesela_oracle(OracleArguments a) {
  __shared__ double weightsRef[256], weightsBase[256];
  const double infinity = __longlong_as_double(0x7ff0000000000000ll);
  const double nan = __longlong_as_double(0x7ff8000000000000ll);
  const int thread = threadIdx.x;
  const long long row = blockIdx.x, place = a.rows ? ((const long long *)a.rows)[row] : row;
  const int q = place % a.Sq, h = place / a.Sq % a.H, b = place / a.Sq / a.H;
  const int hkv = h / (a.H / a.Hkv);
  const double dropoutScale = a.dropoutProbability < 1 ? 1 / (1 - (double)a.dropoutProbability) : 0;

  const double sinkRef = oracleSink<double>(a, b, h, hkv, q);  // -inf where there is none
  const double sinkBase = oracleSink<float>(a, b, h, hkv, q);
  double largestRef = sinkRef, largestBase = sinkBase;
  // 1: a kept score or the sink is NaN or +inf
  double poisonRef = sinkRef < infinity ? 0 : 1, poisonBase = sinkBase < infinity ? 0 : 1;
  double largestScore = fabs(sinkRef) < infinity ? fabs(sinkRef) : 0;
  for (int k = thread; k < a.Sk; k += 256) {
    Scores score = scoresOf(a, b, h, q, k);
    if (!(score.ref < infinity)) poisonRef = 1;
    if (!(score.base < infinity)) poisonBase = 1;
    largestRef = larger(largestRef, score.ref);
    largestBase = larger(largestBase, score.base);
    if (fabs(score.ref) < infinity) largestScore = larger(largestScore, fabs(score.ref));
  }
  largestRef = combineBlock(largestRef, larger);
  largestBase = combineBlock(largestBase, larger);
  poisonRef = combineBlock(poisonRef, larger);
  poisonBase = combineBlock(poisonBase, larger);
  largestScore = combineBlock(largestScore, larger);

  double totalRef = 0, totalBase = 0, squares = 0;
  for (int first = 0; first < a.headDimV || first == 0; first += 256) {  // a thread an element of O
    const int d = first + thread;
    const Input *v = (const Input *)a.v + b * a.vStrides[0] + hkv * a.vStrides[1] + d * a.vStrides[3];
    double ref = 0, base = 0, absolute = 0;
    totalRef = totalBase = 0;
    for (int begin = 0; begin < a.Sk; begin += 256) {
      const int k = begin + thread;
      double weightRef = 0, weightBase = 0;
      if (k < a.Sk) {
        Scores score = scoresOf(a, b, h, q, k);
        if (score.ref > -infinity) weightRef = exp(score.ref - largestRef);
        if (score.base > -(float)infinity) weightBase = exp((double)score.base - largestBase);
      }
      totalRef += weightRef;
      totalBase += weightBase;
      if (k < a.Sk && isDropped(a, b * a.H + h, q, k)) weightRef = weightBase = 0;
      weightsRef[thread] = weightRef;
      weightsBase[thread] = roundToInput((float)weightBase);
      __syncthreads();
      const int count = a.Sk - begin < 256 ? a.Sk - begin : 256;
      if (d < a.headDimV)
        for (int i = 0; i < count; ++i) {
          if (weightsRef[i] == 0 && weightsBase[i] == 0) continue;
          double value = load(v + (begin + i) * a.vStrides[2]);
          ref += weightsRef[i] * value;
          base += weightsBase[i] * value;
          absolute += weightsRef[i] * fabs(value);
          squares += weightsRef[i] * value * (weightsRef[i] * value);
        }
      __syncthreads();
    }
    totalRef = combineBlock(totalRef, sum);
    totalBase = combineBlock(totalBase, sum);
    if (sinkRef > -infinity) totalRef += exp(sinkRef - largestRef);
    if (sinkBase > -infinity) totalBase += exp(sinkBase - largestBase);
    if (d < a.headDimV) {
      const long long element = row * a.headDimV + d;
      ((double *)a.ref)[element] = poisonRef ? nan : totalRef == 0 ? 0 : ref * dropoutScale / totalRef;
      ((double *)a.base)[element] = poisonBase ? nan : totalBase == 0 ? 0 : base * dropoutScale / totalBase;
      ((double *)a.absolute)[element] = poisonRef ? nan : totalRef == 0 ? 0 : absolute * dropoutScale / totalRef;
    }
  }
  squares = combineBlock(squares, sum) * dropoutScale * dropoutScale;
  if (thread == 0) {
    ((double *)a.lse)[row] = poisonRef ? nan : totalRef == 0 ? -infinity : largestRef + log(totalRef);
    ((double *)a.termNorm)[row] = poisonRef ? nan : totalRef == 0 ? 0 : sqrt(squares) / totalRef;
    ((double *)a.largestScore)[row] = largestScore;
  }
}
)cuda";

const char *loadText(ElementType inputType) {
  if (inputType == ElementType::f32)
    return kLoadF32;
  return inputType == ElementType::f16 ? kLoadF16 : kLoadBf16;
}

} // namespace

Result<std::string> oracleSource(const Variant &variant, ElementType inputType) {
  if (inputType != ElementType::f32 && inputType != ElementType::f16 &&
      inputType != ElementType::bf16)
    return Error(Code::invalidArgument,
                 "the oracle computes with q, k, v of f32, f16 or bf16, not of " +
                     std::string(elementTypeName(inputType)));
  if (variant.parameters.size() > kOracleMaxParameters)
    return Error(Code::unsupported,
                 "variant '" + variant.name + "' has " + std::to_string(variant.parameters.size()) +
                     " parameters; the oracle takes at most " +
                     std::to_string(kOracleMaxParameters) + ": check it with the interpreter");
  for (const Parameter &parameter : variant.parameters)
    if (parameter.extents.size() > kOracleMaxRank)
      return Error(Code::unsupported, "captured tensor '" + parameter.name + "' has " +
                                          std::to_string(parameter.extents.size()) +
                                          " axes; the oracle takes at most " +
                                          std::to_string(kOracleMaxRank) +
                                          ": check the variant with the interpreter");
  // The namespace separates these names from those of CUDA's own library.
  return "namespace oracle {\n" + std::string(kStructs) + oracleExpressions(variant) +
         loadText(inputType) + kKernel + "} // namespace oracle\n";
}

} // namespace tesela
