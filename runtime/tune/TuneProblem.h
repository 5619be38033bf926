//===- TuneProblem.h - The launches that are timed --------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TUNE_TUNEPROBLEM_H
#define TESELA_TUNE_TUNEPROBLEM_H

#include "frontend/Interpreter.h"
#include "tesela/Tune.h"

#include <memory>
#include <vector>

namespace tesela {

/// Whether the mask, or a score that may be -inf, follows from captured tensors: how many tiles
/// there are then depends on what these hold.
bool maskReadsCaptures(const Variant &variant);

/// Inputs of a shape in host memory, checked against the variant.
struct TuneInputs {
  Variant variant;
  Bindings bindings; ///< captures point into what the caller or `owned` holds
  std::vector<CaptureArgument> captures;
  std::vector<std::unique_ptr<char[]>> owned; ///< random captures
};

/// Fails where the shape does not fit the variant, or where a captured tensor is missing that the
/// mask reads.
Result<TuneInputs> tuneInputs(const KernelOptions &options, const TuneShape &shape);

/// Several sets of tensors on the device, of attention or of its gradients; each launch takes the
/// next one, so that it finds none of its inputs in a cache.
class TuneProblem {
public:
  static Result<TuneProblem> create(const Context &context, const KernelOptions &options,
                                    const TuneShape &shape, const TuneInputs &inputs,
                                    int64_t memoryBytes);

  /// The arguments of the next launch.
  const LaunchArguments &next();

  /// The stream of all launches, which those of others do not wait for; null on the host.
  void *stream() const { return queue.get(); }

  /// A launch of `kernel` against one of `trusted`: both write the same tensors, one after the
  /// other. An error says how far they are apart, if more than two right results can be.
  Status compare(const Context &context, const Kernel &kernel, const Kernel &trusted) const;

private:
  struct Set {
    LaunchArguments arguments;
    size_t o = 0, lse = 0;         ///< in `buffers`
    std::vector<size_t> gradients; ///< likewise: dq, dk and dv, where these are computed
  };
  /// What the gradients read and write besides, o and lse by a launch of attention.
  Status addGradients(const Context &context, const Kernel &attention, const std::vector<char> &dO,
                      Set &set);
  /// By place, what a launch wrote there.
  using Results = std::vector<std::vector<char>>;
  /// Launches with the first set, and reads what `places` in `buffers` got.
  Result<Results> resultsOf(const Context &context, const Kernel &kernel,
                            const std::vector<size_t> &places) const;
  Status compareGradients(const Context &context, const Kernel &kernel,
                          const Kernel &trusted) const;
  std::vector<Buffer> buffers;
  std::shared_ptr<void> queue; ///< goes before the buffers that its launches use
  std::vector<Set> sets;
  size_t turn = 0;
  ElementType type = ElementType::bf16;
};

} // namespace tesela

#endif // TESELA_TUNE_TUNEPROBLEM_H
