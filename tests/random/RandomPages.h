//===- RandomPages.h - A random variant on pages ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Repeats the launch of a seed with keys and values in pages. The pages are in random order, and
// some belong to several sequences. Memory of no sequence is NaN, and unused table entries are
// random. It checks the dense kernel, the paged kernel (with the same schedule it must give the
// same bits), a kernel that splits keys among a random number of work items, and one that shares a
// prefix of random length.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_RANDOM_RANDOMPAGES_H
#define TESELA_TESTS_RANDOM_RANDOMPAGES_H

#include "RandomLaunch.h"

namespace tesela {

/// A kernel for the same attention.
struct PagedKernel {
  std::string name; ///< for messages
  Kernel kernel;
  bool isPaged = true, isRagged = false, sharesPrefix = false;
};

/// The kernels of a seed: the dense one, the paged one with its schedule, and the others.
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
  /// Checks all results. Empty, or what is wrong and in which kernel.
  std::string check() override;

  bool hasSharedPrefix = false; ///< after launchAll(): a kernel with a shared prefix was launched

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
  Held qTokens, oTokens, lseTokens; ///< all sequences one after the other, then unused tokens
  std::vector<Results> results;     ///< one for each kernel; empty: not launched
};

} // namespace tesela

#endif // TESELA_TESTS_RANDOM_RANDOMPAGES_H
