//===- Check.h - References and comparisons ---------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Compares a result with a reference by two rules (docs/numerics.md says why). Let u be the unit
// roundoff of the input's type, and t half the distance between two subnormal numbers of the type.
// Maxima are over the whole output. For each element
//
//   |out-ref| <= min(2 max|base-ref| + 2 max|(ref+0.3-0.3)-ref| + 4u max sum(p|v|),
//                    8u max sum(p|v|) + t)
//
// and for each row, and so for each block of rows (norms are over the head dimension)
//
//   |out-ref| <= 2 |base-ref| + 2u |ref| + 4u sqrt(sum(p^2 |v|^2)) + 2^-20 |sum(p|v|)|
//                + (t + 2^-120 max sum(p|v|)) sqrt(Dv)
//
// If the score uses tanh, the first 2 of both rules becomes 3, and 4u of the second becomes 4u +
// 2^-11 max|score|. In f32, 8 becomes 16 + 2 max|score|, and 2^-20 becomes 2^-24 times that. The
// LSE may differ by 1e-3 plus 4 units in the last place.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_CHECK_H
#define TESELA_CHECK_H

#include "tesela/Context.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tesela {

/// The result that a launch should give. All arrays are contiguous, in host memory.
struct Reference {
  int64_t B = 0, H = 0, Sq = 0, Dv = 0;
  ElementType type = ElementType::bf16; ///< of the inputs and of the output
  std::vector<double> ref;              ///< [B, H, Sq, Dv]: everything in double, masks exact
  /// [B, H, Sq, Dv]: s rounded to `type`, the score in f32, p rounded to `type`
  /// before the product, the rest in double.
  std::vector<double> base;
  std::vector<double> magnitude; ///< [B, H, Sq, Dv]: sum of p|v|
  std::vector<double> lse;       ///< [B, H, Sq]
  std::vector<double> termNorm;  ///< [B, H, Sq]: square root of the sum of (p v)^2 over keys and Dv
  double maxScore = 0;           ///< the largest |score| of a kept finite element
  bool scoreUsesTanh = false;
  int64_t keptPairs = -1; ///< pairs (b, h, q, k) that the mask keeps; -1: not counted
};

/// The reference by interpreting the variant on the host. Tensors of `arguments` lie in host
/// memory; o and lse are ignored. `threads` 0: one for each usable processor.
TESELA_EXPORT Result<Reference> hostReference(const KernelOptions &options,
                                              const LaunchArguments &arguments, int threads = 0);

/// The reference by the oracle on the context's GPU: the variant as plain CUDA C++, compiled by
/// NVRTC without Tesela's compiler. Tensors lie in the device's memory and are bf16 or f16. Needs
/// libnvrtc; without it, Code::notFound.
TESELA_EXPORT Result<Reference> deviceReference(const Context &context,
                                                const KernelOptions &options,
                                                const LaunchArguments &arguments);

/// Reads of a captured tensor whose index on one axis is outside of that axis. Such a read gives
/// the nearest element. That may be intended, or a mistake in the variant.
struct OutsideReads {
  std::string capture;
  int axis = 0;
  int64_t extent = 0;
  int64_t index = 0;                  ///< of the first such read, in the order of b, h, q, k
  int64_t b = 0, h = 0, q = 0, k = 0; ///< of that read; k is -1 in a sink, which has no key
  int64_t count = 0; ///< how many of all pairs' reads; a sink's are counted once a row
};

/// Finds all reads outside of captured tensors that influence the result, by tensor and axis. The
/// variant is interpreted on the host for every pair. No kernel is compiled or run, so the answer
/// depends only on the variant's text and holds for every target. Not counted: reads on the right
/// side of `&&`, `||` or `?:` that the guard makes irrelevant (`k >= P && t[k - P]`), and reads of
/// a masked pair's score. Kernels may compute both sides, but never read outside of the tensor's
/// memory. `s` is computed in double, so a kernel may decide a guard on `s` differently if `s` is
/// near the guard's limit.
///
/// Tensors of `arguments` lie in host memory; o and lse are ignored. `threads` 0: one for each
/// usable processor.
TESELA_EXPORT Result<std::vector<OutsideReads>>
checkReads(const KernelOptions &options, const LaunchArguments &arguments, int threads = 0);

/// The difference between a result and its reference.
struct Comparison {
  bool passed = false;
  double maxError = 0;               ///< max|out-ref|
  double tolerance = 0;              ///< NaN if the reference does not allow a comparison
  std::array<int64_t, 4> worst{};    ///< b, h, q, d of the largest error
  std::array<int64_t, 3> worstRow{}; ///< b, h, q of the row with the largest error / tolerance
  double rowError = 0;               ///< the norm of out-ref in that row
  double rowTolerance = 0;           ///< of that row
  double maxLseError = 0;            ///< over finite elements
  double lseTolerance = 0;           ///< at the element that exceeds its tolerance most
  std::array<int64_t, 3> worstLse{}; ///< b, h, q
  int64_t nanCount = 0;              ///< NaNs in o and lse where the reference has none
  int64_t nanRows = 0;               ///< rows that must be NaN
  std::string failure;               ///< one sentence if not passed, else empty
};

/// Compares `o` [B, H, Sq, Dv] (any strides) and `lse` [B, H, Sq], both in host memory, with
/// `reference`. Rows without keys must be exactly 0 and -inf. If a kept score or a sink is NaN or
/// +inf, the row's reference is all NaN, and the row must be all NaN. If the reference has other
/// values that are not finite (from v, or from a score beyond the type's range), no comparison is
/// possible, and the result does not pass. Returns an Error only if shapes or types disagree; a
/// wrong result is no Error.
TESELA_EXPORT Result<Comparison> compare(const Reference &reference, const Tensor &o,
                                         const Tensor &lse);

/// The gradients that a launch should give, each as the Reference of its tensor: for dk and dv, H
/// is Hkv and Sq is the number of keys; Dv is the tensor's head dimension. `base` has S, the score
/// and its derivative in f32; O as the forward pass's `base`; P, dS and O rounded to `type`; the
/// rest in double. `magnitude` and `termNorm` describe the terms of each sum. In them dS counts as
/// P (|dP - D| + |dO ∘ O|), with the norm of dO ∘ O. A derivative of the score counts as at least
/// e / 4u, where e is the error that f32 and a GPU's approximations may leave in it. In f32 mainly
/// sums are rounded, so there dS counts as P times the magnitudes of all terms of dP and D, and P
/// counts as P (1 + (|S| + |L|) / 4), because roundings of S and L are errors of P. `lse` is -inf
/// if a row has no pair, else 0.
struct GradientReference {
  Reference dq, dk, dv;
};

/// The gradients of q, k and v from the variant's text, in double: scores and masks as in
/// hostReference(), the derivative of the score as in variantGradient(). `arguments` are those
/// of a launch of "backward", in host memory, with `do` and optionally `dlse` among `tensors`;
/// o, lse, dq, dk, dv and options.algorithm are ignored. `threads` 0: one for each usable
/// processor.
TESELA_EXPORT Result<GradientReference> hostGradientReference(const KernelOptions &options,
                                                              const LaunchArguments &arguments,
                                                              int threads = 0);

/// Compares `gradient`, in host memory with any strides, with its part of a GradientReference, by
/// the rules for O at the top of this file. `name` is "dq", "dk" or "dv", for the message. A row
/// without pairs must be exactly 0. If the reference is not finite, the result does not pass.
TESELA_EXPORT Result<Comparison> compareGradient(const Reference &reference, const Tensor &gradient,
                                                 std::string_view name);

/// Fills `tensor` (host memory, f32, f16 or bf16) with normal random numbers of mean 0 and
/// deviation 1. An element depends only on the seed and its logical index, not on layout, machine
/// or run. Large tensors are filled by all cores.
TESELA_EXPORT void fillNormal(const Tensor &tensor, uint64_t seed);

/// Fills `tensor` (host memory, i32 or bool) with whole numbers in [low, high].
TESELA_EXPORT void fillUniform(const Tensor &tensor, uint64_t seed, int64_t low, int64_t high);

/// Distributions of random q, k and v: normal, or difficult for one part of the softmax. Scores are
/// given in base 2 (s times log2 e), as kernels compute them, at the scale 1/sqrt(Dqk).
enum class InputKind {
  normal,   ///< mean 0, deviation 1
  scaled,   ///< normal times 4: scores have deviation 16
  rising,   ///< scores rise by 12 every 64 keys: a new maximum in every block
  creeping, ///< scores rise by 3 every 64 keys: less per block than a lazy reference tolerates
  falling,  ///< scores fall by 12 every 64 keys
  jumping,  ///< scores jump by 160 or more every 50 keys, up in one row, down in the next; by half
            ///< of that in every second pair of rows
  far,      ///< scores lie around -260 in even rows, around 260 in odd ones
  wide,     ///< q * 32, k / 32, v * 8192: scores do not change, f16 just holds the values
};

TESELA_EXPORT std::vector<InputKind> inputKinds();
/// "normal", "scaled", ...
TESELA_EXPORT std::string_view inputKindName(InputKind kind);
TESELA_EXPORT std::optional<InputKind> parseInputKind(std::string_view name);

/// Fills q, k and v (views [B, H, S, D] in host memory, f32, f16 or bf16) from normal random
/// numbers with the seeds `seed` + 1, `seed` + 2 and `seed` + 3.
TESELA_EXPORT void fillInputs(InputKind kind, const Tensor &q, const Tensor &k, const Tensor &v,
                              uint64_t seed);

} // namespace tesela

#endif // TESELA_CHECK_H
