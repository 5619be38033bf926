//===- Problem.h - Tensors for a launch on the host -------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_RUNTIME_PROBLEM_H
#define TESELA_TESTS_RUNTIME_PROBLEM_H

#include "FakeCompiler.h"
#include "tesela/Check.h"

#include <cmath>
#include <vector>

namespace tesela {

/// f32 inputs from fixed seeds for the fake kernel, and NaN in the results.
struct Problem {
  int64_t B = 1, H = 4, Hkv = 2, Sq = 33, Sk = 47, D = 32;
  bool bshd = false;
  std::vector<float> q, k, v, o, lse, slope;
  LaunchArguments arguments;

  Problem &fill() {
    q.assign(B * H * Sq * D, 0);
    k.assign(B * Hkv * Sk * D, 0);
    v.assign(B * Hkv * Sk * D, 0);
    o.assign(B * H * Sq * D, NAN);
    lse.assign(B * H * Sq, NAN);
    slope.assign(H, 0);
    auto view = bshd ? Tensor::bshd : Tensor::bhsd;
    arguments.q = view(q.data(), ElementType::f32, B, H, Sq, D);
    arguments.k = view(k.data(), ElementType::f32, B, Hkv, Sk, D);
    arguments.v = view(v.data(), ElementType::f32, B, Hkv, Sk, D);
    arguments.o = view(o.data(), ElementType::f32, B, H, Sq, D);
    arguments.lse = Tensor::contiguous(lse.data(), ElementType::f32, {B, H, Sq});
    arguments.captures = {{"slope", Tensor::contiguous(slope.data(), ElementType::f32, {H})}};
    fillNormal(arguments.q, 1);
    fillNormal(arguments.k, 2);
    fillNormal(arguments.v, 3);
    fillNormal(arguments.captures[0].tensor, 4);
    return *this;
  }

  KernelOptions options() const {
    KernelOptions options;
    options.variantText = fake::variantText;
    options.inputType = ElementType::f32;
    options.headDimQk = options.headDimV = int(D);
    return options;
  }
};

} // namespace tesela

#endif // TESELA_TESTS_RUNTIME_PROBLEM_H
