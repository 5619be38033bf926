//===- RandomLaunch.h - A launch of a random variant ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// All follows from the seed and from the text's own parameters, so that a text which was kept can
// be launched again whatever the generator has become. What a parameter's elements are like is told
// by its name: "wild..." may be anything; "few..." are from 0 to 6, or sorted; all others are
// small, and f32 multiples of 1/8 in [-4, 4].
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

/// What a seed's kernel is compiled for, without the text. f32 on the host only.
KernelOptions randomOptions(uint64_t seed, bool isGpu);

/// Sets values of the `const` parameters: their defaults in half of the kernels.
void chooseConstants(KernelOptions &options, const VariantInfo &info, uint64_t seed);

/// How many launches a seed has: several heads and a few keys; long rows; long columns; both long,
/// so that a row of blocks has a first, a second and a last one.
inline constexpr int launchesOfSeed = 4;

/// One launch, its tensors on the host and on the device.
class RandomLaunch {
public:
  /// `number` is below launchesOfSeed. Fails where the device has no memory.
  static Result<std::unique_ptr<RandomLaunch>> create(const Context &context,
                                                      const KernelOptions &options,
                                                      const VariantInfo &info, uint64_t seed,
                                                      int number);
  virtual ~RandomLaunch() = default;

  /// Poisons the results, launches, waits, fetches them. Under `device`, so that a fault is this
  /// launch's own.
  virtual Status launch(const Kernel &kernel, std::mutex &device);
  /// Holds the results against the interpreter: rows that must be NaN are NaN throughout, the
  /// others by the rule. Empty, or what is wrong.
  virtual std::string check();
  /// "B 1, H 2, ..."
  std::string text() const;

  int64_t keptPairs = 0, pairs = 0, nanRows = 0; ///< after check()
  bool isUndefined = false; ///< after check(): there is no result to hold against the reference

protected:
  struct Held {
    Tensor view; ///< in `bytes`
    std::vector<unsigned char> bytes;
    size_t first = 0; ///< the view's byte in `bytes`
    Buffer buffer;
    Tensor host() { return view.at(bytes.data() + first); }
    Tensor device() const { return view.at(static_cast<unsigned char *>(buffer.data()) + first); }
  };

  RandomLaunch(const Context &context, const KernelOptions &options)
      : context(context), options(options) {}
  /// Holds what `o` and `lse` have on the host; empty, or what is wrong.
  std::string hold(const Reference &expected);
  /// The tensors of attention and the parameters, on the device.
  Status prepare(const VariantInfo &info, uint64_t seed, int number);
  /// [B, count, length, headDim] in one of the two orders.
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
  bool isSquare = false; ///< as many keys as queries; before prepare()
  Held q, k, v, o, lse;
  std::vector<ScalarArgument> scalars;
  std::vector<std::pair<std::string, std::unique_ptr<Held>>> captures;
};

} // namespace tesela

#endif // TESELA_TESTS_RANDOM_RANDOMLAUNCH_H
