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

/// A Problem whose batches are sequences of their own lengths (`run --ragged`), with keys and
/// values in pages (`--page`): its q, k and v, moved to where a server has them, in host memory.
/// All that no sequence has is NaN, and what the table says behind a sequence's end names no page.
struct SequenceProblem {
  /// Of a sequence: its numbers of queries and keys, where its first query stands among the keys,
  /// and where its first query lies among all sequences'.
  struct Sequence {
    int64_t queries = 0, keys = 0, offset = 0, start = 0;
  };
  std::vector<Sequence> sequences;
  /// The bindings of the template, but how many work items share keys; and the template.
  std::vector<std::string> bindings;
  std::string algorithm;
  /// q, k, v, o, lse, and what says where sequences lie: the names of a launch's tensors.
  std::vector<NamedTensor> tensors;
  /// How a launch sees them; by `tensors`.
  std::vector<Tensor> views;

  /// A launch's arguments, with addresses in the host's memory.
  LaunchArguments arguments(const Problem &problem) const;
  /// Pairs of a query and a key of its sequence, of all heads.
  double pairs(const Problem &problem) const;
  /// How the results compare with the interpreter's, sequence by sequence: the worst of them.
  /// `options`: of attention itself. Adds up kept pairs; -1 where queries stand behind a cache.
  Result<Comparison> check(KernelOptions options, const Problem &problem,
                           const VariantInfo &variant, int threads, int64_t &keptPairs) const;
};

/// The first sequence has `problem`'s extents, the others random ones below. Code::invalidArgument
/// where the variant has a tensor of an extent that sequences do not have.
Result<SequenceProblem> makeSequences(const RunOptions &options, const Problem &problem,
                                      const VariantInfo &variant);

/// The same in the device's memory: the results are filled with NaN.
class DeviceSequences {
public:
  static Result<DeviceSequences> create(const Context &context, const SequenceProblem &host);

  /// Addresses in the device's memory in place of those in the host's, but for captured tensors.
  void place(LaunchArguments &arguments) const;
  Status copyResults(const Context &context, SequenceProblem &host) const;

private:
  std::vector<Buffer> buffers; ///< by SequenceProblem::tensors
};

} // namespace tesela::tool

#endif // TESELA_TOOLS_SEQUENCEPROBLEM_H
