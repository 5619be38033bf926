//===- Check.h - Is a result right? -----------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A result is held against a reference by two rules (docs/numerics.md says why). With u the unit
// roundoff of the input's type, all maxima over the whole output, and t half the distance of the
// type's subnormal numbers, for each element
//
//   |out-ref| <= min(2 max|base-ref| + 2 max|(ref+0.3-0.3)-ref| + 4u max sum(p|v|),
//                    8u max sum(p|v|) + t)
//
// and for each row, with norms over the head dimension, and so for each block of rows,
//
//   |out-ref| <= 2 |base-ref| + 2u |ref| + 4u sqrt(sum(p^2 |v|^2)) + 2^-20 |sum(p|v|)|
//                + (t + 2^-120 max sum(p|v|)) sqrt(Dv)
//
// If the score uses tanh, the first 2 of both is 3, and 4u of the second is 4u + 2^-11 max|score|.
// In f32, the 8 is 16 + 2 max|score|, and 2^-20 is 2^-24 times that. The LSE may differ by 1e-3 and
// 4 units in the last place.
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

/// What a launch should give. All arrays are contiguous, in host memory.
struct Reference {
  int64_t B = 0, H = 0, Sq = 0, Dv = 0;
  ElementType type = ElementType::bf16; ///< of the inputs and of the output
  std::vector<double> ref;              ///< [B, H, Sq, Dv]: everything in double, masks exact
  /// [B, H, Sq, Dv]: s rounded to `type`, the score in f32, p rounded to `type`
  /// before the product, the rest in double.
  std::vector<double> base;
  std::vector<double> magnitude; ///< [B, H, Sq, Dv]: sum of p|v|
  std::vector<double> lse;       ///< [B, H, Sq]
  std::vector<double> termNorm;  ///< [B, H, Sq]: the root of the sum of (p v)^2 over keys and Dv
  double maxScore = 0;           ///< the largest |score| of a kept finite element
  bool scoreUsesTanh = false;
  int64_t keptPairs = -1; ///< pairs (b, h, q, k) that the mask keeps; -1: not counted
};

/// The reference by interpreting the variant on the host. Tensors of `arguments` lie in
/// host memory; o and lse are not looked at. `threads` 0: the hardware's.
TESELA_EXPORT Result<Reference> hostReference(const KernelOptions &options,
                                              const LaunchArguments &arguments, int threads = 0);

/// The reference by the oracle on the context's GPU: the variant as plain CUDA,
/// compiled by NVRTC, apart from Tesela's own compiler. Tensors lie in the
/// device's memory; bf16 and f16 only. Needs libnvrtc (Code::notFound names it).
TESELA_EXPORT Result<Reference> deviceReference(const Context &context,
                                                const KernelOptions &options,
                                                const LaunchArguments &arguments);

/// Reads of one axis of a captured tensor whose index is outside of it. They give the nearest
/// element, which may be what is meant, and may be a fault.
struct OutsideReads {
  std::string capture;
  int axis = 0;
  int64_t extent = 0;
  int64_t index = 0;                  ///< of the first, in the order of b, h, q, k
  int64_t b = 0, h = 0, q = 0, k = 0; ///< of the first; k is -1 for a sink's, which has no key
  int64_t count = 0; ///< how many of all pairs' reads; a sink's are counted once a row
};

/// The checking mode: all reads outside of captured tensors whose value counts, by tensor and axis.
/// The variant is interpreted on the host for every pair: no kernel is compiled or run, so this
/// says what the text asks for and covers every target. What a guard decides without it does not
/// count, in a `&&`, `||` or `?:` on its right side: `k >= P && t[k - P]` is quiet. Nor does the
/// score of a masked pair. (Kernels may compute both sides; there, too, they read nothing outside.)
/// `s` is computed in double, so guards on it may be decided otherwise by a kernel where it is near
/// their limit.
///
/// Tensors of `arguments` lie in host memory; o and lse are not looked at. `threads` 0: the
/// hardware's.
TESELA_EXPORT Result<std::vector<OutsideReads>>
checkReads(const KernelOptions &options, const LaunchArguments &arguments, int threads = 0);

/// A result beside its reference.
struct Comparison {
  bool passed = false;
  double maxError = 0;               ///< max|out-ref|
  double tolerance = 0;              ///< NaN where no result can be held against the reference
  std::array<int64_t, 4> worst{};    ///< b, h, q, d of the largest error
  std::array<int64_t, 3> worstRow{}; ///< b, h, q of the row with the largest error by its tolerance
  double rowError = 0;               ///< the norm of out-ref in that row
  double rowTolerance = 0;           ///< of that row
  double maxLseError = 0;            ///< of finite elements
  double lseTolerance = 0;           ///< at the element with the largest excess
  std::array<int64_t, 3> worstLse{}; ///< b, h, q
  int64_t nanCount = 0;              ///< NaNs where none is due, in o and lse
  int64_t nanRows = 0;               ///< rows that must be NaN
  std::string failure;               ///< one sentence where not passed
};

/// Holds `o` [B, H, Sq, Dv] (any strides) and `lse` [B, H, Sq], both in host memory,
/// against `reference`. Rows without keys must be exactly 0 and -inf. A row whose reference is all
/// NaN, by a kept score or a sink that is NaN or +inf, must be all NaN. Other values of a reference
/// that are not finite, by a NaN or an infinity in v or a score beyond a type's range, leave
/// nothing to hold a result against: it does not pass. Fails (Status) only where shapes or types do
/// not agree.
TESELA_EXPORT Result<Comparison> compare(const Reference &reference, const Tensor &o,
                                         const Tensor &lse);

/// What a launch of gradients should give: each as a Reference of its tensor, so that H of dk and
/// dv is Hkv, Sq their length, and Dv the tensor's head dimension. `base` has S, the score and its
/// derivative in f32, O as the forward pass's `base`, P, dS and O rounded to `type`, and the rest
/// in double. `magnitude` and `termNorm` are those of the terms that are added, in which dS counts
/// as P (|dP - D| + |dO ∘ O|), with the norm of dO ∘ O; in f32, where sums are what is rounded, as
/// P times the magnitudes of all that dP and D add, and P as P (1 + (|S| + |L|) / 4), since
/// roundings of S and L are errors of P. `lse` is -inf where a row has no pair, else 0.
struct GradientReference {
  Reference dq, dk, dv;
};

/// The gradients of q, k and v by the variant's text: scores and masks as hostReference() has them,
/// the derivative of the score as variantGradient() gives it, all in double. `arguments` are those
/// of a launch of "backward", in host memory: `do` and perhaps `dlse` among `tensors`; o, lse, dq,
/// dk and dv are not looked at. Of `options` the algorithm does not count. `threads` 0: the
/// hardware's.
TESELA_EXPORT Result<GradientReference> hostGradientReference(const KernelOptions &options,
                                                              const LaunchArguments &arguments,
                                                              int threads = 0);

/// Holds `gradient`, in host memory with any strides, against its part of a GradientReference, by
/// the rules for O at the top of this file. `name` is "dq", "dk" or "dv", for the sentence. A row
/// without pairs must be exactly 0. A reference that is not finite does not pass.
TESELA_EXPORT Result<Comparison> compareGradient(const Reference &reference, const Tensor &gradient,
                                                 std::string_view name);

/// Fills `tensor` (host memory, f32, f16 or bf16) with normal random numbers of mean 0
/// and deviation 1, by logical index: the same for every layout, machine and run. All cores take
/// part where there are many.
TESELA_EXPORT void fillNormal(const Tensor &tensor, uint64_t seed);

/// Fills `tensor` (host memory, i32 or bool) with whole numbers in [low, high].
TESELA_EXPORT void fillUniform(const Tensor &tensor, uint64_t seed, int64_t low, int64_t high);

/// What random q, k and v are like: normal, or hard on one part of the softmax. Levels and steps of
/// scores are in base 2 (s times log2 e), as kernels compute, at the scale 1/sqrt(Dqk).
enum class InputKind {
  normal,   ///< mean 0, deviation 1
  scaled,   ///< 4 times normal: scores of deviation 16
  rising,   ///< scores rise by 12 every 64 keys: a new maximum in every block
  creeping, ///< scores rise by 3 every 64 keys: less in a block than a lazy reference lets pass
  falling,  ///< scores fall by 12 every 64 keys
  jumping,  ///< every 50 keys scores jump by 160 or more, up in one row, down in the next;
            ///< in every other two rows by half
  far,      ///< scores lie around -260 in even rows, around 260 in odd ones
  wide,     ///< q times 32, k by 32, v times 8192: what the softmax does not see, f16 just holds
};

TESELA_EXPORT std::vector<InputKind> inputKinds();
/// "normal", "scaled", ...
TESELA_EXPORT std::string_view inputKindName(InputKind kind);
TESELA_EXPORT std::optional<InputKind> parseInputKind(std::string_view name);

/// Fills q, k and v (views [B, H, S, D] in host memory, f32, f16 or bf16) from normal random
/// numbers of the seeds `seed` + 1, 2 and 3.
TESELA_EXPORT void fillInputs(InputKind kind, const Tensor &q, const Tensor &k, const Tensor &v,
                              uint64_t seed);

} // namespace tesela

#endif // TESELA_CHECK_H
