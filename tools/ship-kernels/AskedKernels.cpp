//===- AskedKernels.cpp ---------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "AskedKernels.h"

#include "driver/ChosenKernel.h"

#include <algorithm>

namespace tesela::ship {

namespace {

/// Lengths as in KernelSpecification; 0 means many.
struct Lengths {
  int64_t queries, keys;
};

// The lengths that the Python package asks for (python/src/Kernel.cpp), without the buckets of up
// to 64 queries.
constexpr Lengths pythonLengths[] = {{512, 0},  {2048, 1024}, {2048, 4096}, {2048, 8192},
                                     {0, 1024}, {0, 4096},    {0, 8192}};
// `tesela run` asks with its own lengths. For as many queries as keys, a kernel's key rounds
// queries up and keys down to a power of two (KernelSpecification::canonicalText). So two keys for
// each power of two, one for it and one for the lengths below it, cover lengths from 65 to 65536.
constexpr int64_t shortestSquare = 64, longestSquare = 32768;

std::vector<Lengths> lengthsAskedFor() {
  std::vector<Lengths> all = {{0, 0}}; // for programs that give no lengths
  all.insert(all.end(), std::begin(pythonLengths), std::end(pythonLengths));
  for (int64_t length = shortestSquare; length <= longestSquare; length *= 2) {
    all.push_back({2 * length, length});
    all.push_back({2 * length, 2 * length});
  }
  return all;
}

} // namespace

Result<std::vector<AskedKernel>> askedKernels(const KernelSpecification &specification,
                                              const std::vector<TuneRecord> &records) {
  std::vector<KernelSpecification> asked;
  for (const Lengths &lengths : lengthsAskedFor()) {
    asked.push_back(specification);
    asked.back().expectedQueries = lengths.queries;
    asked.back().expectedLength = lengths.keys;
  }
  const std::string kernel = recordKernel(specification);
  for (const TuneRecord &record : records)
    if (record.kernel == kernel) {
      asked.push_back(specification);
      asked.back().schedule = record.schedule;
    }

  std::vector<AskedKernel> kernels;
  for (const KernelSpecification &each : asked) {
    Result<ChosenKernel> chosen = chooseKernel(each);
    if (!chosen)
      return chosen.error();
    const std::string schedule = chosen->schedule.text();
    auto known = std::ranges::find(kernels, schedule, &AskedKernel::schedule);
    if (known == kernels.end())
      known = kernels.insert(kernels.end(), {schedule, {}});
    // Two records may have the same schedule.
    bool isNew = std::ranges::none_of(known->specifications, [&](const auto &other) {
      return other.canonicalText() == each.canonicalText();
    });
    if (isNew)
      known->specifications.push_back(each);
  }
  return kernels;
}

} // namespace tesela::ship
