//===- TunedKernels.h - One kernel with several schedules -------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TUNE_TUNEDKERNELS_H
#define TESELA_TUNE_TUNEDKERNELS_H

#include "system/PerProcess.h"
#include "tesela/Kernel.h"
#include "tune/SizeBucket.h"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace tesela {

struct LoadedKernel;

/// The loaded kernels of one specification, by the sizes of launches. A launch finds its kernel
/// without a lock. Either all kernels are set before the first launch and never change, or launches
/// swap: kernels may be added at any time and are used from then on.
class TunedKernels {
public:
  using Pointer = std::shared_ptr<const LoadedKernel>;
  /// Called once for each bucket of launches without a known kernel. It must not wait.
  using Missing = std::function<void(const Extents &, const std::vector<ScalarArgument> &)>;

  explicit TunedKernels(bool swaps) : swaps_(swaps) {}
  TunedKernels(const TunedKernels &) = delete;
  TunedKernels &operator=(const TunedKernels &) = delete;

  /// The kernel for a launch: that of its bucket, else of a near one, else null. The arguments need
  /// not be checked yet.
  const LoadedKernel *find(const LaunchArguments &arguments);
  /// Whether find() may return another kernel later.
  bool swaps() const { return swaps_; }

  /// From now on launches in `bucket` run `kernel`; null: what they would run without it.
  void set(const SizeBucket &bucket, Pointer kernel);
  /// Whether a kernel is known for exactly this bucket.
  bool has(const SizeBucket &bucket) const;
  /// Whether a kernel was set, or a swapping launch has looked for one.
  bool isUsed() const { return current != nullptr; }
  /// The number of tables made so far; all of them are kept.
  size_t tableCount() const {
    std::lock_guard lock(mutex);
    return tables.size();
  }

  /// Whether all launches so far, including this one of `kernel`, ran the same kernel. Only then
  /// what it keeps about captured tensors is surely from the last launch.
  bool alone(const LoadedKernel &kernel);
  /// Other kernels have been launched elsewhere: alone() is false from now on.
  void expectOthers() { mixed = true; }

  /// From now on calls `missing`, if launches swap.
  void onMissing(Missing missing);

private:
  struct Entry {
    SizeBucket bucket;
    Pointer kernel;             ///< the bucket's own; null: a launch asked, but there is none
    const LoadedKernel *chosen; ///< what launches run: `kernel`, or a near one, or null
  };
  using Table = std::vector<Entry>;

  const bool swaps_;
  const uint64_t process = processNumber();
  /// Tables are read without a lock, possibly after another one has replaced them. So all are kept;
  /// there are at most as many as buckets and kernels.
  std::vector<std::unique_ptr<const Table>> tables;
  std::atomic<const Table *> current = nullptr;
  std::atomic<const LoadedKernel *> launched = nullptr; ///< the first kernel that was launched
  std::atomic<bool> mixed = false;                      ///< whether another one was launched, too
  mutable std::mutex mutex;                             ///< guards `tables` and `missing`
  Missing missing;

  static const LoadedKernel *nearest(const Table &table, const SizeBucket &bucket);
  void publish(Table table);
  const LoadedKernel *findMissing(const SizeBucket &bucket, const Extents &extents,
                                  const std::vector<ScalarArgument> &scalars);
};

} // namespace tesela

#endif // TESELA_TUNE_TUNEDKERNELS_H
