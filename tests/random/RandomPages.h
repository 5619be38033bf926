//===- RandomPages.h - A random variant on pages ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The launch of a seed once more, its keys and values in pages: in random order, some of them of
// several sequences, NaN in all that no sequence has, and anything in the rest of the table. Held
// against the interpreter are the dense kernel, the paged one, which has the same bits by the same
// schedule, one that splits keys among a random number of work items, and one that shares a prefix
// of random length.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_RANDOM_RANDOMPAGES_H
#define TESELA_TESTS_RANDOM_RANDOMPAGES_H

#include "RandomLaunch.h"

namespace tesela {

/// A kernel of the same attention.
struct PagedKernel {
  std::string name; ///< for messages
  Kernel kernel;
  bool isPaged = true, isRagged = false, sharesPrefix = false;
};

/// All that a seed has: the dense kernel, and the paged one with its schedule; then others.
struct PagedKernels {
  std::vector<PagedKernel> all;
  int page = 0;
};
Result<PagedKernels> compilePaged(const Context &context, const KernelOptions &options,
                                  uint64_t seed);

class RandomPages : public RandomLaunch {
public:
  static Result<std::unique_ptr<RandomPages>> create(const Context &context,
                                                     const KernelOptions &options,
                                                     const VariantInfo &info, uint64_t seed,
                                                     int number, const PagedKernels &kernels);

  /// Launches all kernels, one after the other.
  Status launchAll(std::mutex &device);
  /// Holds all results. Empty, or what is wrong with which.
  std::string check() override;

private:
  RandomPages(const Context &context, const KernelOptions &options, const PagedKernels &kernels)
      : RandomLaunch(context, options), kernels(kernels) {}
  Status preparePages(uint64_t seed, int number);
  Status integers(Held &held, std::vector<int64_t> extents, const std::vector<int32_t> &values);
  Status launchOne(const PagedKernel &each);

  struct Results {
    std::vector<unsigned char> o, lse;
  };

  const PagedKernels &kernels;
  int64_t prefix = 0;
  Held kPages, vPages, table, lengths, starts, prefixTable, prefixLength, positions, sequences,
      keys;
  Held qTokens, oTokens, lseTokens; ///< of all sequences one after the other, and a rest
  std::vector<Results> results;     ///< by kernel; empty: it was not launched
};

} // namespace tesela

#endif // TESELA_TESTS_RANDOM_RANDOMPAGES_H
