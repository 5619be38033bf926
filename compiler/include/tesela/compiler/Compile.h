//===- Compile.h - The compiler's one entry ---------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Takes a kernel specification and gives an artifact. This header names no MLIR type.
// All functions may be called from several threads at the same time.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_COMPILE_H
#define TESELA_COMPILER_COMPILE_H

#include "tesela/RequestLimits.h"
#include "tesela/compiler/Artifact.h"

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tesela {

/// The template of attention, the default of a specification.
inline constexpr const char *forwardAlgorithm = "forward";
/// The template of attention whose keys are split among work items.
inline constexpr const char *partsAlgorithm = "forward_in_parts";
/// The templates of its gradients. The first gives the same bits in each launch. The second has
/// fewer products, but adds to dQ in no fixed order.
inline constexpr const char *backwardAlgorithm = "backward";
inline constexpr const char *fusedBackwardAlgorithm = "backward_fused";
/// The fastest gradients on the target. It is not a template: one of the two above, or the host's
/// own (backward_in_parts.mlir), is chosen when the kernels are lowered.
inline constexpr const char *fastBackwardAlgorithm = "backward_fast";

/// The bindings that every template has. They say where its sequences lie and at which positions,
/// whether keys and values have 8 bits, whether all sequences begin with the same keys, and whether
/// values are columns of the keys. With keys=paged there is also `page`.
inline constexpr std::array<std::string_view, 7> placeBindings = {
    "queries", "keys", "positions", "cache", "scales", "prefix", "values"};

/// Everything a kernel is compiled for. Everything else (batch, heads, lengths,
/// strides, scale, scalars, captured tensors) is an argument of the launch.
struct KernelSpecification {
  /// The name of a template: templates/forward.mlir, matmul.mlir, merge.mlir; or of a file in the
  /// folder that setTemplateFolder names; or `backward_fast`.
  std::string algorithm = forwardAlgorithm;
  /// The values of the template's parameters that do not follow from the fields below (d_qk, d_v,
  /// input) or from the schedule, as "name=value": "columns=64", "output=bf16". For every template
  /// also where sequences lie: queries=ragged, keys=ragged or keys=paged with page=N, positions=end
  /// or positions=given (tile-place-views); then an extent Sq of a captured tensor counts as Sk,
  /// because queries are at positions among the keys. Keys and values of 8 bits: cache=e4m3, with
  /// scales=head or scales=page (tile-narrow-keys). A prefix that all sequences share:
  /// prefix=shared (tile-share-prefix). Values that are the first columns of the keys, without a
  /// tensor of their own: values=keys (tile-values-of-keys).
  std::vector<std::string> bindings;
  /// One `attention name(...) { ... }`. May be empty if the template has no score and no mask.
  std::string variantText;
  std::string variantFile = "variant";       ///< its name in diagnostics
  ElementType inputType = ElementType::bf16; ///< `input`: f32 (host only), f16, bf16
  /// Multiples of 8, up to 256. In forward attention up to 576 and 512.
  int headDimQk = 128;
  int headDimV = 128;
  Target target;
  /// The usual number of keys of a launch; 0: many. A kernel is right for every length. Only the
  /// choice of its schedule depends on this number, by powers of two.
  int64_t expectedLength = 0;
  /// The usual number of queries of a sequence; 0: many. Only the schedule depends on it, too: with
  /// few queries, as in decoding, several query heads share a tile.
  int64_t expectedQueries = 0;
  /// If empty, the heuristic chooses. Otherwise overrides of single fields, in the
  /// syntax of #tile.schedule: "block_m = 128, block_n = 64".
  std::string schedule;

  /// Whether launches drop pairs at random. The kernel then has the scalars of dropoutParameters()
  /// (frontend/Dropout.h).
  bool dropout = false;

  /// The values of the variant's `const` parameters. Those with a default may be left out.
  std::vector<ConstantValue> constants;

  /// All of the above as text, without the file's name. It is the key of a cache,
  /// together with compilerVersion() of the target's kind.
  std::string canonicalText() const;

  /// Whether the keys are split among work items.
  bool isInParts() const { return algorithm == partsAlgorithm; }
  /// Whether it is forward attention, whose schedules have their own rules.
  bool isAttention() const { return algorithm == forwardAlgorithm || isInParts(); }
  /// Whether bindings say where sequences lie, at which positions, or with which elements.
  bool isPlaced() const;
  /// Whether keys and values have 8 bits.
  bool hasNarrowKeys() const;
  /// Whether all sequences begin with the same keys, which are read once.
  bool sharesPrefix() const;
  /// Whether a reference can compute the same from the same tensors.
  bool hasReference() const { return algorithm == forwardAlgorithm && !isPlaced(); }
  /// Whether a tuner can race its schedules: those of attention and of its gradients.
  bool isTunable() const {
    return !dropout && (hasReference() || (algorithm == backwardAlgorithm && !isPlaced()));
  }
};

/// Changes whenever the same specification may give other code: with the compiler's sources, with
/// LLVM, and for the host with the CPU. The version for a GPU is the same on every machine.
std::string compilerVersion(Target::Kind kind);

/// The time of each stage of one compilation, in order, in milliseconds.
struct CompileTimes {
  std::vector<std::pair<std::string, double>> stages;
  double total() const;
};

/// Compiles `specification`. For a GPU the artifact has PTX, and the runtime
/// assembles it. For the host it has an object file. `limits` are checked before each
/// stage.
Result<Artifact> compile(const KernelSpecification &specification, CompileTimes *times = nullptr,
                         const RequestLimits &limits = {});

/// The ways to compile one specification, the fastest first: with warpgroup roles and without, with
/// smaller blocks. compile() takes the first one that lowers. Only the assembler knows whether
/// products run beside each other. If it serialises a kernel, the next way is better.
class CompileAttempts {
public:
  explicit CompileAttempts(const KernelSpecification &specification);
  ~CompileAttempts();

  /// compile() of the next attempt that lowers, after those that were given before. Call it only
  /// if hasMore() is true.
  Result<Artifact> next(CompileTimes *times = nullptr, const RequestLimits &limits = {});
  bool hasMore() const;

private:
  struct State;
  std::unique_ptr<State> state;
};

/// The program after one stage, as text ("object" is binary).
enum class Stage { attn, tile, pipe, llvm, ptx, object };
Result<std::string> emit(const KernelSpecification &specification, Stage stage);

/// Sets the folder from which templates are read, for those who write templates. If
/// it is empty, the templates that are compiled into the library are used.
void setTemplateFolder(const std::string &folder);

} // namespace tesela

#endif // TESELA_COMPILER_COMPILE_H
