//===- RandomBackward.h - Gradients of a random variant ---------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Launches of the gradients of q, k and v, with the inputs of RandomLaunch.h for the same seed. O
// and its logarithms come from the interpreter, so that any fault is one of the gradients.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_RANDOM_RANDOMBACKWARD_H
#define TESELA_TESTS_RANDOM_RANDOMBACKWARD_H

#include "RandomLaunch.h"

namespace tesela {

/// Like randomOptions(), for the gradients: also with larger head dimensions.
KernelOptions randomGradientOptions(uint64_t seed, bool isGpu, const std::string &algorithm);

/// One launch of the gradients. In a third of the launches the loss also depends on the logarithms.
class RandomBackward : public RandomLaunch {
public:
  static Result<std::unique_ptr<RandomLaunch>> create(const Context &context,
                                                      const KernelOptions &options,
                                                      const VariantInfo &info, uint64_t seed,
                                                      int number);

  /// Before the launch it poisons dq, dk, dv and, on a GPU, the workspace.
  Status launch(const Kernel &kernel, std::mutex &device) override;
  /// Compares dq, dk and dv with the interpreter by compareGradient()'s rule. If a gradient must be
  /// NaN or infinite somewhere, nothing is compared and isUndefined is set.
  std::string check() override;

private:
  using RandomLaunch::RandomLaunch;
  Status prepareGradients(uint64_t seed, int number);
  /// Computes O and its logarithms with the interpreter.
  Status attend();
  LaunchArguments gradientArguments(bool onDevice);

  Held dO, dlse, dq, dk, dv;
  bool hasDlse = false;
};

} // namespace tesela

#endif // TESELA_TESTS_RANDOM_RANDOMBACKWARD_H
