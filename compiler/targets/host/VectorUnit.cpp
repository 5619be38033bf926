//===- VectorUnit.cpp - The table of CPUs -----------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/host/VectorUnit.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/TargetParser/Host.h"

#include <vector>

namespace tesela {

namespace {
struct Row {
  std::vector<llvm::StringRef> needs; ///< LLVM's names of features
  VectorUnit unit;
};
} // namespace

/// The best first. A register block has as many sums as its registers leave room for, so that the
/// latency of a multiply-add (4 cycles, two at a time: 8 sums at least) is hidden and few loads
/// serve many products (docs/decisions/host-target.md).
static const std::vector<Row> &table() {
  static const std::vector<Row> rows = {
      {{"avx512f", "avx512dq", "avx512vl", "avx512bw", "avx512bf16"},
       {.width = 16,
        .fma = true,
        .f16c = true,
        .registers = 32,
        .bf16Pairs = true,
        .productRows = 6,
        .productVectors = 4}},
      {{"avx512f", "avx512dq", "avx512vl"},
       {.width = 16,
        .fma = true,
        .f16c = true,
        .registers = 32,
        .productRows = 6,
        .productVectors = 4}},
      {{"avx2", "fma", "f16c"},
       {.width = 8, .fma = true, .f16c = true, .productRows = 6, .productVectors = 2}},
      {{"avx"}, {.width = 8, .productRows = 4, .productVectors = 2}},
      {{}, {.width = 4, .productRows = 4, .productVectors = 2}},
  };
  return rows;
}

/// What a CPU's features do not tell.
struct CpuFacts {
  std::string_view name; ///< LLVM's
  bool arePairsFast;
};

/// Of CPUs with AVX512-BF16. Of others nothing is known, and they go without.
static constexpr CpuFacts cpus[] = {
    // VDPBF16PS runs at half the rate of a multiply-add: 174 instead of 244 GFLOP/s with pairs
    // (docs/performance.md).
    {"cooperlake", false},
    {"sapphirerapids", false},
    {"emeraldrapids", false},
    {"graniterapids", false},
    // At the same rate: a window at D 128 takes 1.88 ms with pairs, 3.29 ms without.
    {"znver4", true},
    {"znver5", true},
};

VectorUnit vectorUnitOf(std::string_view name, const std::set<std::string> &features) {
  VectorUnit unit = llvm::find_if(table(), [&](const Row &row) {
                      return llvm::all_of(row.needs, [&](llvm::StringRef feature) {
                        return features.count(feature.str());
                      });
                    })->unit;
  for (const CpuFacts &cpu : cpus)
    if (cpu.name == name)
      unit.arePairsFast = unit.bf16Pairs && cpu.arePairsFast;
  return unit;
}

VectorUnit hostVectorUnit() {
  static const VectorUnit unit = [] {
    std::set<std::string> features;
    for (const auto &feature : llvm::sys::getHostCPUFeatures())
      if (feature.second)
        features.insert(feature.first().str());
    return vectorUnitOf(llvm::sys::getHostCPUName(), features);
  }();
  return unit;
}

} // namespace tesela
