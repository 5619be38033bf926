//===- ForwardBenchmark.cpp - One thread's speed ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Prints the figures of docs/decisions/host-target.md: the speed of causal forward attention on one
// thread for several block extents, in CPU time. Each kept pair of a query and a key counts as 4 ·
// D operations.
//
//===----------------------------------------------------------------------===//
#include "ForwardCore.h"
#include "HostLaunch.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>

using namespace tesela;
using namespace tesela::test;

int main() {
  std::printf("type   D  block_m  block_n  scratch KiB  GFLOP/s\n");
  constexpr int32_t heads = 2, length = 1024;
  for (ElementType type : {ElementType::f32, ElementType::bf16, ElementType::f16})
    for (int d : {64, 128})
      for (auto [blockM, blockN] :
           {std::pair<int, int>{32, 64}, {64, 32}, {64, 64}, {64, 128}, {128, 64}, {128, 128}}) {
        auto kernel = HostKernelUnderTest::compile(causalForwardCore(type, blockM, blockN, d, d));
        if (!kernel)
          return 1;
        size_t count = size_t(heads) * length * d;
        std::vector<char> q = encode(type, randomValues(type, count, 1));
        std::vector<char> k = encode(type, randomValues(type, count, 2));
        std::vector<char> v = encode(type, randomValues(type, count, 3));
        std::vector<char> o(count * elementSize(type));
        std::vector<float> lse(size_t(heads) * length);
        std::vector<int64_t> strides{int64_t(count), int64_t(length) * d, d};
        HostArguments arguments;
        arguments.extents = {1, heads, heads, length, length};
        arguments.tensors = {{"q", {q.data(), strides, {}}},
                             {"k", {k.data(), strides, {}}},
                             {"v", {v.data(), strides, {}}},
                             {"o", {o.data(), strides, {}}},
                             {"lse", {lse.data(), {}, {}}}};
        arguments.floats = {{"scale", 1 / std::sqrt(float(d))}};
        double best = HUGE_VAL;
        for (int repeat = 0; repeat < 5; ++repeat) {
          std::clock_t start = std::clock();
          kernel->run(arguments);
          best = std::min(best, double(std::clock() - start) / CLOCKS_PER_SEC);
        }
        // Kept pairs: half of the square, and half of the diagonal besides.
        double pairs = heads * (double(length) * (length + 1) / 2);
        std::printf("%-4s %3d  %7d  %7d  %11.0f  %7.1f\n",
                    std::string(elementTypeName(type)).c_str(), d, blockM, blockN,
                    double(kernel->workspaceBytes()) / 1024, 4 * pairs * d / best / 1e9);
      }
}
