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
  std::vector<llvm::StringRef> needs; ///< required features, by LLVM's names
  VectorUnit unit;
};
} // namespace

/// The best unit comes first. A register block has as many sums as the registers allow. So the
/// latency of multiply-adds (4 cycles, two at a time: at least 8 sums) is hidden, and few loads
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

/// Facts about a CPU that its features do not tell.
struct CpuFacts {
  std::string_view name; ///< LLVM's name
  bool arePairsFast;
};

/// CPUs with AVX512-BF16. For CPUs that are not listed, pairs count as slow.
static constexpr CpuFacts cpus[] = {
    // VDPBF16PS runs at half the rate of a multiply-add: 174 GFLOP/s with pairs, 244 without
    // (docs/log/2026-11-23-host-cpu.md).
    {"cooperlake", false},
    {"sapphirerapids", false},
    {"emeraldrapids", false},
    {"graniterapids", false},
    // VDPBF16PS runs at the same rate: a window at D 128 takes 1.88 ms with pairs, 3.29 without.
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
