//===- Oracle.h - A variant as plain CUDA C++ -------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The check on the device: a kernel that computes what the interpreter computes,
// from the same syntax tree, as text for NVRTC. It shares no code with the
// production kernels and is as simple as it can be: a thread block computes one
// row, without tiles.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_ORACLE_ORACLE_H
#define TESELA_ORACLE_ORACLE_H

#include "frontend/Variant.h"
#include "tesela/ElementType.h"
#include "tesela/Status.h"

#include <cstdint>
#include <string>

namespace tesela {

inline constexpr int kOracleMaxParameters = 16; ///< of a variant
inline constexpr int kOracleMaxRank = 8;        ///< of a captured tensor
inline constexpr int kOracleThreads = 256;      ///< threads a block
inline constexpr const char *kOracleKernel = "tesela_oracle";

/// The value of one parameter of the variant: `integer` of an i32 scalar,
/// `number` of an f32 scalar, the others of a captured tensor.
struct OracleParameter {
  uint64_t data = 0; ///< device address of the first element
  int64_t extents[kOracleMaxRank] = {};
  int64_t strides[kOracleMaxRank] = {}; ///< in elements
  int32_t integer = 0;
  float number = 0;
};

/// The kernel's one parameter, passed by value. The text declares the same
/// struct; addresses are device addresses.
struct OracleArguments {
  uint64_t q = 0, k = 0, v = 0; ///< elements of the input type
  /// i64: the rows that are computed, by the number (b * H + h) * Sq + q; 0: all in this order.
  uint64_t rows = 0;
  /// In elements: batch, head, position, dimension. Any strides.
  int64_t qStrides[4] = {}, kStrides[4] = {}, vStrides[4] = {};
  // Results, all double and contiguous.
  uint64_t ref = 0;          ///< [rows, headDimV]: O in double
  uint64_t base = 0;         ///< [rows, headDimV]: O with the roundings of a kernel, see below
  uint64_t absolute = 0;     ///< [rows, headDimV]: sum over k of p(k) |v(k)|, p in double
  uint64_t lse = 0;          ///< [rows]: natural logarithm, in double
  uint64_t termNorm = 0;     ///< [rows]: the norm of all p(k) v(k, d) of the row, p in double
  uint64_t largestScore = 0; ///< [rows]: the largest |score| of a kept finite element
  int32_t B = 0, H = 0, Hkv = 0, Sq = 0, Sk = 0;
  int32_t headDimQk = 0, headDimV = 0;
  float scale = 1;
  // frontend/Dropout.h. The words: of the seed and of the offset, lower halves first; the state:
  // i32, 0 or four of them; the first: added to q and to k.
  float dropoutProbability = 0;
  uint32_t dropoutWords[4] = {};
  uint32_t dropoutFirst[2] = {};
  uint64_t dropoutState = 0;
  int64_t dropoutStateStride = 0;
  OracleParameter parameters[kOracleMaxParameters] = {}; ///< in the variant's order
};

/// CUDA C++ with the kernel `extern "C" tesela_oracle(OracleArguments)`, to be
/// launched with a grid of as many blocks as there are rows (1 to 2^31 - 1) and
/// kOracleThreads threads a block, without dynamic shared memory. It includes
/// nothing and contracts nothing, whatever the compiler's options.
///
///   s     = scale * q.k, in double
///   ref:  masks exact in i32 and f32, all else in double
///   base: s rounded to f32 and to the input type, the score in f32,
///         p = exp(score - the row's largest score), rounded to f32 and to the
///         input type for the product with v, unrounded in the sum; all else in
///         double
///
/// Dropped pairs are in the sums, and in no product with v. A sink is a term of the sums, computed
/// as scores are. A kept score of -inf counts as masked; a kept NaN or +inf, or one in the sink,
/// makes the row (O and LSE) NaN; a row without keys has O = 0 and LSE = -inf, or the sink.
///
/// `inputType` is f32, f16 or bf16. Error: Code::unsupported where the variant has
/// more parameters or axes than fit OracleArguments.
Result<std::string> oracleSource(const Variant &variant, ElementType inputType);

/// The part of oracleSource() that stands for the variant: the device functions
/// `oracleMask`, `oracleScore` and `oracleSink`, with what they need.
std::string oracleExpressions(const Variant &variant);

} // namespace tesela

#endif // TESELA_ORACLE_ORACLE_H
