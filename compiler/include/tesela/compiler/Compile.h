//===- Compile.h - The compiler's one entry ---------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Kernel specification in, artifact out. No MLIR type stands in this header.
// Both functions may be called from any thread at the same time.
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

/// The template of attention, which a specification has where it names no other.
inline constexpr const char *forwardAlgorithm = "forward";
/// That of attention whose keys are split among work items.
inline constexpr const char *partsAlgorithm = "forward_in_parts";
/// Those of its gradients: with the same bits in each launch; with fewer products, and sums of dQ
/// in no fixed order.
inline constexpr const char *backwardAlgorithm = "backward";
inline constexpr const char *fusedBackwardAlgorithm = "backward_fused";
/// The fastest on the target: no template, but a choice between these and the host's own
/// (backward_in_parts.mlir) that is made when the kernels are lowered.
inline constexpr const char *fastBackwardAlgorithm = "backward_fast";

/// The bindings that every template has: where its sequences lie, at which positions, whether keys
/// and values have 8 bits, whether all sequences begin with the same keys, and whether values are
/// of the keys' tensor. With keys=paged also page.
inline constexpr std::array<std::string_view, 7> placeBindings = {
    "queries", "keys", "positions", "cache", "scales", "prefix", "values"};

/// Everything a kernel is compiled for. What is not here (batch, heads, lengths,
/// strides, scale, scalars, captures) is an argument of the launch.
struct KernelSpecification {
  /// The name of a template: templates/forward.mlir, matmul.mlir, merge.mlir; or that of a file
  /// in the folder that setTemplateFolder names; or `backward_fast`.
  std::string algorithm = forwardAlgorithm;
  /// The values of the template's parameters that do not follow from the fields below (d_qk, d_v,
  /// input) or from the schedule, as "name=value": "columns=64", "output=bf16". And where sequences
  /// lie, whatever the template: queries=ragged, keys=ragged or keys=paged with page=N,
  /// positions=end or positions=given (tile-place-views). Keys and values of 8 bits: cache=e4m3,
  /// with scales=head or scales=page (tile-narrow-keys). A prefix that all sequences share:
  /// prefix=shared (tile-share-prefix). Values that are the first columns of the keys, and no
  /// tensor of their own: values=keys (tile-values-of-keys).
  std::vector<std::string> bindings;
  /// One `attention name(...) { ... }`; may be empty where the template has no score and no mask.
  std::string variantText;
  std::string variantFile = "variant";       ///< its name in diagnostics
  ElementType inputType = ElementType::bf16; ///< `input`: f32 (host only), f16, bf16
  /// Multiples of 8 up to 256; of forward attention up to 576 and 512.
  int headDimQk = 128;
  int headDimV = 128;
  Target target;
  /// How many keys launches tend to have; 0: many. A kernel is right for every length: only the
  /// choice of its schedule follows this, by powers of two.
  int64_t expectedLength = 0;
  /// How many queries a sequence of a launch tends to have; 0: many. Of this, too, only the
  /// schedule follows: where they are few, as in decoding, query heads share a tile.
  int64_t expectedQueries = 0;
  /// Empty: the heuristic chooses. Else overrides of single choices, in the
  /// syntax of #tile.schedule's body: "block_m = 128, block_n = 64".
  std::string schedule;

  /// Whether launches drop pairs at random: then the kernel has the scalars of dropoutParameters()
  /// (frontend/Dropout.h).
  bool dropout = false;

  /// Of the variant's `const` parameters; those with a default may be left out.
  std::vector<ConstantValue> constants;

  /// All of the above as text, without the file's name: what a cache keys on
  /// (together with compilerVersion() of the target's kind).
  std::string canonicalText() const;

  /// Whether its keys are split among work items.
  bool isInParts() const { return algorithm == partsAlgorithm; }
  /// Whether it is attention, which has rules for its schedules.
  bool isAttention() const { return algorithm == forwardAlgorithm || isInParts(); }
  /// Whether bindings say where its sequences lie, at which positions, or of which elements.
  bool isPlaced() const;
  /// Whether keys and values have 8 bits.
  bool hasNarrowKeys() const;
  /// Whether all sequences begin with the same keys, which are read once.
  bool sharesPrefix() const;
  /// Whether a reference computes the same of the same tensors.
  bool hasReference() const { return algorithm == forwardAlgorithm && !isPlaced(); }
  /// Whether schedules of it can be raced: of attention, and of its gradients.
  bool isTunable() const {
    return !dropout && (hasReference() || (algorithm == backwardAlgorithm && !isPlaced()));
  }
};

/// Changes whenever the same specification may give other code: with the compiler's sources, with
/// LLVM, and for the host with the CPU. That of a GPU's code is the same on every machine.
std::string compilerVersion(Target::Kind kind);

/// How long the stages of one compilation took, in order, in milliseconds.
struct CompileTimes {
  std::vector<std::pair<std::string, double>> stages;
  double total() const;
};

/// Compiles `specification`. For a GPU the artifact holds PTX: assembling it is
/// the runtime's part. For the host it holds an object file. `limits` are looked at before each
/// stage.
Result<Artifact> compile(const KernelSpecification &specification, CompileTimes *times = nullptr,
                         const RequestLimits &limits = {});

/// The ways to compile one specification, the fastest first: with warpgroup roles and without, with
/// smaller blocks. compile() gives the first one that lowers. Whether the assembler lets products
/// run side by side only the assembler knows: where it serialises a kernel, the next one is better.
class CompileAttempts {
public:
  explicit CompileAttempts(const KernelSpecification &specification);
  ~CompileAttempts();

  /// compile() of the first attempt that lowers, behind what was given before. Call it where
  /// hasMore().
  Result<Artifact> next(CompileTimes *times = nullptr, const RequestLimits &limits = {});
  bool hasMore() const;

private:
  struct State;
  std::unique_ptr<State> state;
};

/// The program after one stage, as text ("object" is binary).
enum class Stage { attn, tile, pipe, llvm, ptx, object };
Result<std::string> emit(const KernelSpecification &specification, Stage stage);

/// The folder of templates compiled into the library is used unless this names
/// another (for those who write templates). Empty: back to the built-in ones.
void setTemplateFolder(const std::string &folder);

} // namespace tesela

#endif // TESELA_COMPILER_COMPILE_H
