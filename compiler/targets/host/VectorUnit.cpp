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

VectorUnit hostVectorUnit() {
  static const VectorUnit unit = [] {
    llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
    return llvm::find_if(table(),
                         [&](const Row &row) {
                           return llvm::all_of(row.needs, [&](llvm::StringRef name) {
                             return features.lookup(name);
                           });
                         })
        ->unit;
  }();
  return unit;
}

} // namespace tesela
