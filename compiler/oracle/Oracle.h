//===- Oracle.h - A variant as plain CUDA C++ -------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The reference on a GPU: a kernel that computes what the interpreter computes,
// from the same syntax tree, as text for NVRTC. It shares no code with the
// production kernels and is as simple as possible: a thread block computes one
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
inline constexpr int kOracleThreads = 256;      ///< threads of a thread block
inline constexpr const char *kOracleKernel = "tesela_oracle";

/// The value of one parameter of the variant: `integer` for an i32 scalar,
/// `number` for an f32 scalar, and the other fields for a captured tensor.
struct OracleParameter {
  uint64_t data = 0; ///< device address of the first element
  int64_t extents[kOracleMaxRank] = {};
  int64_t strides[kOracleMaxRank] = {}; ///< in elements
  int32_t integer = 0;
  float number = 0;
};

/// The kernel's only parameter, passed by value. The CUDA text declares the same
/// struct. Addresses are device addresses.
struct OracleArguments {
  uint64_t q = 0, k = 0, v = 0; ///< elements of the input type
  /// i64: the numbers (b * H + h) * Sq + q of the rows to compute; 0: all rows, in this order.
  uint64_t rows = 0;
  /// Strides in elements: batch, head, position, dimension. Any strides are allowed.
  int64_t qStrides[4] = {}, kStrides[4] = {}, vStrides[4] = {};
  // Results, all contiguous arrays of double.
  uint64_t ref = 0;          ///< [rows, headDimV]: O in double
  uint64_t base = 0;         ///< [rows, headDimV]: O with the roundings of a kernel, see below
  uint64_t absolute = 0;     ///< [rows, headDimV]: sum over k of p(k) |v(k)|, p in double
  uint64_t lse = 0;          ///< [rows]: natural logarithm, in double
  uint64_t termNorm = 0;     ///< [rows]: the norm of all p(k) v(k, d) of the row, p in double
  uint64_t largestScore = 0; ///< [rows]: the largest |score| of a kept finite element
  int32_t B = 0, H = 0, Hkv = 0, Sq = 0, Sk = 0;
  int32_t headDimQk = 0, headDimV = 0;
  float scale = 1;
  // See frontend/Dropout.h. Words: of the seed and the offset, lower halves first. First: the
  // positions added to q and k. State: 0 or 4 words, i32.
  float dropoutProbability = 0;
  uint32_t dropoutWords[4] = {};
  uint32_t dropoutFirst[2] = {};
  uint64_t dropoutState = 0;
  int64_t dropoutStateStride = 0;
  OracleParameter parameters[kOracleMaxParameters] = {}; ///< in the variant's order
};

/// CUDA C++ with the kernel `extern "C" tesela_oracle(OracleArguments)`. It must be
/// launched with one thread block for each row (1 to 2^31 - 1), kOracleThreads
/// threads in each, and no dynamic shared memory. The text includes nothing, and no
/// compiler option makes it contract operations.
///
///   s     = scale * q.k, in double
///   ref:  masks exact in i32 and f32, everything else in double
///   base: s rounded to f32 and to the input type, the score in f32,
///         p = exp(score - the row's largest score), rounded to f32. For the product
///         with v p is also rounded to the input type, but not in the sum. Everything
///         else in double
///
/// Pairs that dropout drops count in the sums, not in the product with v. A sink is a term of the
/// sums, computed like a score. A kept -inf counts as masked. A NaN or +inf, kept or in the sink,
/// makes its row (O and LSE) NaN. A row without keys has O = 0 and LSE = -inf or the sink.
///
/// `inputType` is f32, f16 or bf16. Error: Code::unsupported if the variant has
/// more parameters or axes than OracleArguments has room for.
Result<std::string> oracleSource(const Variant &variant, ElementType inputType);

/// The part of oracleSource() that depends on the variant: the device functions
/// `oracleMask`, `oracleScore` and `oracleSink`, and the functions that they call.
std::string oracleExpressions(const Variant &variant);

} // namespace tesela

#endif // TESELA_ORACLE_ORACLE_H
