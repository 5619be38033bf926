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

/// What a kernel is compiled for. Batch, heads, lengths, strides, scale, scalars
/// and captures are not here: they are arguments of the launch.
struct KernelOptions {
  std::string variantText;                   ///< one `attention name(...) { ... }`
  std::string variantFile = "variant";       ///< its name in diagnostics
  ElementType inputType = ElementType::bf16; ///< q, k, v, o: bf16, f16, f32 (host only)
  /// Multiples of 8 up to 256; of forward attention up to 576 and 512.
  int headDimQk = 128;
  int headDimV = 128;
  /// How many keys launches tend to have, 0 where that is not known or they are many. A kernel is
  /// right for every length; the schedule is chosen for this one, by powers of two.
  int64_t expectedLength = 0;
  /// How many queries a sequence tends to have, likewise. Few, as in decoding, let the query heads
  /// of a key/value head share a tile.
  int64_t expectedQueries = 0;
  /// The sizes that most launches will have, where they are known. The schedule is then the tuned
  /// one for these, if there is one (ContextOptions::tuning), for all launches of the kernel;
  /// without, each launch has the tuned one for its own sizes, if there is one.
  std::optional<ProblemSizes> sizes;
  /// Whether the kernel may begin with a simple schedule, as with ContextOptions::tiers.
  bool tiers = false;
  /// Empty: the heuristic chooses. Else overrides of single choices, in the
  /// syntax of #tile.schedule's body: "block_m = 128, block_n = 64".
  std::string schedule;
  /// The variant's `const` parameters, which a launch does not have; those with a default may be
  /// left out. Every set of values is a kernel of its own, compiled and cached apart.
  std::vector<ScalarArgument> constants;
  /// Whether launches drop pairs of queries and keys at random: of attention and of its gradients
  /// ("backward" and its kin). A launch's scalars are then also those
  /// of dropoutScalars().
  bool dropout = false;
  /// Empty: the context's device. Else an older one that the device can run, as
  /// "sm_80" on an sm_90.
  std::string target;
  /// The template: attention; "backward", its gradients, with the same bits in each launch;
  /// "backward_fused", the same with fewer products and sums of dq in no fixed order;
  /// "backward_in_parts", the host's; "backward_fast", the fastest of them on the target;
  /// "forward_in_parts", attention whose keys are split among work items (docs/serving.md);
  /// "merge", of the results of parts of the keys; "write_pages", new keys and values into a
  /// cache; "matmul"; or a file NAME.mlir of useTemplateFolder's. The files in templates/ say what
  /// each computes. The tensors of a launch are those that it declares (LaunchArguments::tensors).
  /// All but attention may do without a variant where they have no score and no mask. Tuned
  /// schedules are of attention and "backward", references too (Check.h).
  std::string algorithm = "forward";
  /// Of the template's parameters, "columns=64"; and where sequences lie (docs/serving.md).
  std::vector<std::string> bindings = {};
};

/// The extent of a captured tensor's axis: coefficient * name + offset. A plain
/// number has coefficient 0 and no name.
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
  bool isConstant = false; ///< `const`: of KernelOptions::constants, not of a launch's scalars
  std::vector<VariantExtent> extents; ///< of a capture, one an axis
  std::optional<double> defaultValue; ///< of a scalar
};

struct VariantInfo {
  std::string name;
  std::vector<VariantParameter> parameters;
  std::string warnings; ///< rendered as the errors are; empty where there are none
};

/// Parses and checks a variant. The error (Code::invalidVariant) holds all
/// diagnostics, each with file, line, column and caret.
TESELA_EXPORT Result<VariantInfo> checkVariant(std::string_view text, std::string_view file);

/// The program after one stage of the compilation for `options.target` ("host"
/// where empty): stage "attn", "tile", "pipe", "llvm" or "ptx" as text, "object" (host) or
/// "cubin" (GPU; needs ptxas) as bytes. No GPU is needed.
TESELA_EXPORT Result<std::string> emitStage(const KernelOptions &options, std::string_view stage);

/// Templates are read from this folder instead of the built-in ones; empty: the
/// built-in ones again. For those who write templates. Holds for the whole process.
TESELA_EXPORT void useTemplateFolder(const std::string &folder);

/// The ptxas that assembles kernels for GPUs from now on, in contexts that are made then; empty:
/// the one on PATH, in $CUDA_HOME/bin or in /usr/local/cuda/bin again. Code::notFound where there
/// is no program at `path`. Holds for the whole process.
TESELA_EXPORT Status usePtxas(const std::string &path);

/// Tesela's version, "0.1.0".
TESELA_EXPORT std::string version();

} // namespace tesela

#endif // TESELA_VARIANT_H
