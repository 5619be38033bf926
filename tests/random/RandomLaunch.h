//===- RandomLaunch.h - A launch of a random variant ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Everything follows from the seed and from the text's parameters. So a kept text can be launched
// again after the generator has changed. The name of a parameter says what its elements are:
// "wild..." may be any values; "few..." are from 0 to 6, or sorted; all others are small, and f32
// are multiples of 1/8 in [-4, 4].
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_RANDOM_RANDOMLAUNCH_H
#define TESELA_TESTS_RANDOM_RANDOMLAUNCH_H

#include "RandomSource.h"

#include "tesela/Check.h"

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tesela {

/// The options of a seed's kernel, without the text. f32 only on the host.
KernelOptions randomOptions(uint64_t seed, bool isGpu);

/// Sets values of the `const` parameters. Half of the kernels use the defaults.
void chooseConstants(KernelOptions &options, const VariantInfo &info, uint64_t seed);

/// The number of launches of a seed: several heads with a few keys; many queries; many keys; many
/// of both, so that a row of blocks has a first, a middle and a last one.
inline constexpr int launchesOfSeed = 4;

/// One launch, with its tensors on the host and on the device.
class RandomLaunch {
public:
  /// `number` is below launchesOfSeed. Fails if the device has too little memory.
  static Result<std::unique_ptr<RandomLaunch>> create(const Context &context,
                                                      const KernelOptions &options,
                                                      const VariantInfo &info, uint64_t seed,
                                                      int number);
  virtual ~RandomLaunch() = default;

  /// Poisons the results, launches, waits, and downloads the results. It holds `device` meanwhile,
  /// so that a fault belongs to this launch.
  virtual Status launch(const Kernel &kernel, std::mutex &device);
  /// Compares the results with the interpreter: rows that must be NaN are NaN throughout, the
  /// others satisfy the rule. Empty, or what is wrong.
  virtual std::string check();
  /// "B 1, H 2, ..."
  std::string text() const;

  int64_t keptPairs = 0, pairs = 0, nanRows = 0; ///< set by check()
  bool isUndefined = false;                      ///< set by check(): there is no result to compare

protected:
  struct Held {
    Tensor view; ///< a view of `bytes`
    std::vector<unsigned char> bytes;
    size_t first = 0; ///< the offset of the view in `bytes`
    Buffer buffer;
    Tensor host() { return view.at(bytes.data() + first); }
    Tensor device() const { return view.at(static_cast<unsigned char *>(buffer.data()) + first); }
  };

  RandomLaunch(const Context &context, const KernelOptions &options)
      : context(context), options(options) {}
  /// Checks `o` and `lse` in host memory against `expected`. Empty, or what is wrong.
  std::string hold(const Reference &expected);
  /// Makes the tensors of attention and the parameters, on the device.
  Status prepare(const VariantInfo &info, uint64_t seed, int number);
  /// A view [B, count, length, headDim], in one of the two orders in memory.
  Tensor heads(int64_t count, int64_t length, int headDim, RandomSource &random) const;
  Status allocate(Held &held, const Tensor &view);
  Status upload(Held &held);
  Status fetch(Held &held);
  static bool guardIsIntact(const Held &held);
  Status addParameter(const VariantParameter &parameter, RandomSource &random);
  void fill(const VariantParameter &parameter, const Tensor &tensor, RandomSource &random);
  LaunchArguments arguments(bool onDevice);
  int64_t extentOf(const VariantExtent &extent) const;

  const Context &context;
  const KernelOptions &options;
  int64_t B = 1, H = 1, Hkv = 1, Sq = 1, Sk = 1, N = 1, M = 1;
  bool isSquare = false; ///< as many keys as queries; set before prepare()
  Held q, k, v, o, lse;
  std::vector<ScalarArgument> scalars;
  std::vector<std::pair<std::string, std::unique_ptr<Held>>> captures;
};

} // namespace tesela

#endif // TESELA_TESTS_RANDOM_RANDOMLAUNCH_H
