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

/// Whether the mask, or a score that may be -inf, depends on captured tensors. Then their contents
/// decide how many tiles there are.
bool maskReadsCaptures(const Variant &variant);

/// Inputs of one shape in host memory, checked against the variant.
struct TuneInputs {
  Variant variant;
  Bindings bindings; ///< captures point to memory of the caller or of `owned`
  std::vector<CaptureArgument> captures;
  std::vector<std::unique_ptr<char[]>> owned; ///< random captures
};

/// Fails if the shape does not fit the variant, or if a captured tensor that the mask reads is
/// missing.
Result<TuneInputs> tuneInputs(const KernelOptions &options, const TuneShape &shape);

/// Several sets of tensors on the device, for attention or its gradients. Each launch uses the next
/// set, so that its inputs are not in a cache.
class TuneProblem {
public:
  static Result<TuneProblem> create(const Context &context, const KernelOptions &options,
                                    const TuneShape &shape, const TuneInputs &inputs,
                                    int64_t memoryBytes);

  /// The arguments of the next launch.
  const LaunchArguments &next();

  /// The stream of all launches; the default stream does not wait for it. Null on the host.
  void *stream() const { return queue.get(); }

  /// Launches `kernel` and then `trusted`, both with the same outputs, and compares the results. An
  /// Error says by how much they differ, if that is more than two correct results can differ.
  Status compare(const Context &context, const Kernel &kernel, const Kernel &trusted) const;

private:
  struct Set {
    LaunchArguments arguments;
    size_t o = 0, lse = 0;         ///< indices in `buffers`
    std::vector<size_t> gradients; ///< indices of dq, dk and dv, if they are computed
  };
  /// Adds the other tensors of the gradients. A launch of attention computes o and lse.
  Status addGradients(const Context &context, const Kernel &attention, const std::vector<char> &dO,
                      Set &set);
  /// What a launch wrote, in the order of `places`.
  using Results = std::vector<std::vector<char>>;
  /// Launches with the first set and reads the buffers with the indices `places`.
  Result<Results> resultsOf(const Context &context, const Kernel &kernel,
                            const std::vector<size_t> &places) const;
  Status compareGradients(const Context &context, const Kernel &kernel,
                          const Kernel &trusted) const;
  std::vector<Buffer> buffers;
  std::shared_ptr<void> queue; ///< destroyed before the buffers that its launches use
  std::vector<Set> sets;
  size_t turn = 0;
  ElementType type = ElementType::bf16;
};

} // namespace tesela

#endif // TESELA_TUNE_TUNEPROBLEM_H
