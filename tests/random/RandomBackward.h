//===- RandomBackward.h - Gradients of a random variant ---------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The launches of a seed are those of RandomLaunch.h, of the gradients of q, k and v. O and its
// logarithms come from the interpreter, so that a fault is one of the gradients.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_RANDOM_RANDOMBACKWARD_H
#define TESELA_TESTS_RANDOM_RANDOMBACKWARD_H

#include "RandomLaunch.h"

namespace tesela {

/// As randomOptions(), for the gradients: with larger head dimensions.
KernelOptions randomGradientOptions(uint64_t seed, bool isGpu, const std::string &algorithm);

/// One launch of the gradients. Of a third a loss of the logarithms is a part, too.
class RandomBackward : public RandomLaunch {
public:
  static Result<std::unique_ptr<RandomLaunch>> create(const Context &context,
                                                      const KernelOptions &options,
                                                      const VariantInfo &info, uint64_t seed,
                                                      int number);

  /// Poisons dq, dk, dv and, on a GPU, the workspace before.
  Status launch(const Kernel &kernel, std::mutex &device) override;
  /// Holds dq, dk and dv against the interpreter by compareGradient()'s rule. Where a gradient must
  /// be NaN or infinite somewhere, nothing is held and isUndefined is set.
  std::string check() override;

private:
  using RandomLaunch::RandomLaunch;
  Status prepareGradients(uint64_t seed, int number);
  /// O and its logarithms, by the interpreter.
  Status attend();
  LaunchArguments gradientArguments(bool onDevice);

  Held dO, dlse, dq, dk, dv;
  bool hasDlse = false;
};

} // namespace tesela

#endif // TESELA_TESTS_RANDOM_RANDOMBACKWARD_H
