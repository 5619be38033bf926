//===- SequenceProblem.h - Sequences that lie somewhere ---------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TOOLS_SEQUENCEPROBLEM_H
#define TESELA_TOOLS_SEQUENCEPROBLEM_H

#include "Problem.h"

#include "tesela/Check.h"
#include "tesela/Context.h"

#include <string>
#include <vector>

namespace tesela::tool {

/// A Problem whose batches are sequences of their own lengths (`run --ragged`), perhaps with keys
/// and values in pages (`--page`). q, k and v are at the places that a server would use, on the
/// host. Memory without a sequence is NaN. Table entries after a sequence's end name no page.
struct SequenceProblem {
  /// The numbers of queries and keys of a sequence, the position of its first query among its keys
  /// (`offset`), and the place of its first query among the queries of all sequences (`start`).
  struct Sequence {
    int64_t queries = 0, keys = 0, offset = 0, start = 0;
  };
  std::vector<Sequence> sequences;
  /// The template's bindings, without the number of work items that share keys; and the template.
  std::vector<std::string> bindings;
  std::string algorithm;
  /// q, k, v, o, lse, and the tensors that say where sequences are. Names are those of a launch.
  std::vector<NamedTensor> tensors;
  /// The views that a launch gets, in the order of `tensors`.
  std::vector<Tensor> views;

  /// The arguments of a launch, with host addresses.
  LaunchArguments arguments(const Problem &problem) const;
  /// The pairs of a query and a key of the same sequence, over all heads.
  double pairs(const Problem &problem) const;
  /// Compares each sequence with the interpreter, and gives the worst comparison. `options`: those
  /// of dense attention. Sums up the kept pairs; -1 if queries are at positions after 0.
  Result<Comparison> check(KernelOptions options, const Problem &problem,
                           const VariantInfo &variant, int threads, int64_t &keptPairs) const;
};

/// The first sequence has `problem`'s extents; the others have random, smaller ones.
/// Code::invalidArgument if the variant has a tensor with an extent that sequences do not have.
Result<SequenceProblem> makeSequences(const RunOptions &options, const Problem &problem,
                                      const VariantInfo &variant);

/// The tensors of a SequenceProblem in device memory. The results are filled with NaN.
class DeviceSequences {
public:
  static Result<DeviceSequences> create(const Context &context, const SequenceProblem &host);

  /// Replaces the host addresses of `arguments` by device addresses, except for captured tensors.
  void place(LaunchArguments &arguments) const;
  Status copyResults(const Context &context, SequenceProblem &host) const;

private:
  std::vector<Buffer> buffers; ///< in the order of SequenceProblem::tensors
};

} // namespace tesela::tool

#endif // TESELA_TOOLS_SEQUENCEPROBLEM_H
