//===- Variant.h - The text of a variant ------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_VARIANT_H
#define TESELA_VARIANT_H

#include "tesela/ElementType.h"
#include "tesela/Export.h"
#include "tesela/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tesela {

/// The value of a scalar parameter of the variant.
struct ScalarArgument {
  std::string name;
  double value = 0; ///< i32: a whole number in range; f32: rounded to f32
};

/// The sizes of a launch.
struct ProblemSizes {
  int64_t batch = 1;
  int64_t heads = 8;       ///< of queries, a multiple of kvHeads
  int64_t kvHeads = 8;     ///< of keys and values
  int64_t length = 1024;   ///< queries
  int64_t kvLength = 1024; ///< keys
};

/// What a kernel is compiled for. Batch, heads, lengths, strides, scale, scalars and captures are
/// arguments of the launch instead.
struct KernelOptions {
  std::string variantText;                   ///< one `attention name(...) { ... }`
  std::string variantFile = "variant";       ///< its name in diagnostics
  ElementType inputType = ElementType::bf16; ///< q, k, v, o: bf16, f16, f32 (host only)
  /// Multiples of 8, at most 256; for forward attention Dqk at most 576 and Dv at most 512.
  int headDimQk = 128;
  int headDimV = 128;
  /// The usual number of keys of a launch; 0: unknown or large. The kernel is correct for every
  /// length. The schedule is chosen for this one, rounded to a power of two.
  int64_t expectedLength = 0;
  /// The usual number of queries of a sequence; 0: unknown or large. If it is small, as in
  /// decoding, the query heads of one key/value head share a tile.
  int64_t expectedQueries = 0;
  /// The sizes of most launches, if known. All launches of the kernel then run the schedule that
  /// was tuned for these sizes. Without, each launch runs the schedule that was tuned for its own
  /// sizes. If nothing was tuned, the heuristic chooses (ContextOptions::tuning).
  std::optional<ProblemSizes> sizes;
  /// Whether the kernel may start with a simple schedule (see ContextOptions::tiers).
  bool tiers = false;
  /// Empty: the heuristic chooses. Otherwise single choices to override, in the syntax of
  /// #tile.schedule's body: "block_m = 128, block_n = 64".
  std::string schedule;
  /// The variant's `const` parameters, which are not arguments of a launch. Those with a default
  /// may be left out. Every set of values is a separate kernel, compiled and cached on its own.
  std::vector<ScalarArgument> constants;
  /// Whether launches drop pairs of queries and keys at random, in attention and its
  /// gradients ("backward" and its relatives). A launch then also has the scalars of
  /// dropoutScalars().
  bool dropout = false;
  /// Empty: the context's device. Otherwise an older target whose code the device can run, for
  /// example "sm_80" on an sm_90.
  std::string target;
  /// The template. "forward": attention. "backward": its gradients, with the same bits in each
  /// launch. "backward_fused": the same with fewer products, but dq is summed in no fixed order.
  /// "backward_in_parts": the same for the host. "backward_fast": the fastest of them on the
  /// target. "forward_in_parts": attention whose keys are split among work items (docs/serving.md).
  /// "merge": joins partial results over parts of the keys. "write_pages": writes new keys and
  /// values into a cache, "write_latents" rows of a latent cache. "matmul": a matrix product. Or a
  /// file NAME.mlir of useTemplateFolder(). The files in templates/ say what each computes. A
  /// launch has the tensors that the template declares (LaunchArguments::tensors). Templates
  /// without a score and a mask need no variant. Only "forward" and "backward" can be tuned and
  /// have references (Check.h).
  std::string algorithm = "forward";
  /// Values of the template's parameters, "columns=64", and where sequences lie (docs/serving.md).
  std::vector<std::string> bindings = {};
};

/// The extent of an axis of a captured tensor: coefficient * name + offset. A plain number has
/// coefficient 0 and no name.
struct VariantExtent {
  int32_t coefficient = 1;
  std::string name;
  int32_t offset = 0;
};

/// A parameter of a variant.
struct VariantParameter {
  std::string name;
  ElementType type = ElementType::f32;
  bool isCapture = false;
  bool isConstant = false; ///< `const`: given in KernelOptions::constants, not with a launch
  std::vector<VariantExtent> extents; ///< of a captured tensor, one per axis
  std::optional<double> defaultValue; ///< of a scalar
};

struct VariantInfo {
  std::string name;
  std::vector<VariantParameter> parameters;
  std::string warnings; ///< formatted like errors; empty if there are none
};

/// Parses and checks a variant. The Error (Code::invalidVariant) contains all diagnostics, each
/// with file, line, column and caret.
TESELA_EXPORT Result<VariantInfo> checkVariant(std::string_view text, std::string_view file);

/// The program after one stage of the compilation for `options.target` (empty: "host"). Stages
/// "attn", "tile", "pipe", "llvm" and "ptx" are text. "object" (host) and "cubin" (GPU; needs
/// ptxas) are bytes. No GPU is needed.
TESELA_EXPORT Result<std::string> emitStage(const KernelOptions &options, std::string_view stage);

/// Templates are read from this folder instead of the built-in ones. Empty: the built-in ones.
/// Meant for authors of templates. Applies to the whole process.
TESELA_EXPORT void useTemplateFolder(const std::string &folder);

/// The ptxas for contexts that are created from now on. Empty: the first of those in $PATH,
/// $CUDA_HOME/bin and /usr/local/cuda/bin. Code::notFound: there is no program at `path`. Applies
/// to the whole process.
TESELA_EXPORT Status usePtxas(const std::string &path);

/// Tesela's version, "0.1.0".
TESELA_EXPORT std::string version();

} // namespace tesela

#endif // TESELA_VARIANT_H
