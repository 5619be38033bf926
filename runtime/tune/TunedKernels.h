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

/// The loaded kernels of one specification by the sizes of launches. A launch looks its own up
/// without a lock. Either all are set before the first launch, and one answer holds for good; or
/// launches swap: kernels may be added meanwhile, and hold from then on.
class TunedKernels {
public:
  using Pointer = std::shared_ptr<const LoadedKernel>;
  /// Called once for each bucket that a launch has and no kernel is known for; it must not wait.
  using Missing = std::function<void(const Extents &, const std::vector<ScalarArgument> &)>;

  explicit TunedKernels(bool swaps) : swaps_(swaps) {}
  TunedKernels(const TunedKernels &) = delete;
  TunedKernels &operator=(const TunedKernels &) = delete;

  /// The kernel for a launch: that of its bucket, else of one near by, else null. Arguments are not
  /// checked yet.
  const LoadedKernel *find(const LaunchArguments &arguments);
  /// Whether find() may give another answer later.
  bool swaps() const { return swaps_; }

  /// From now on launches in `bucket` run `kernel`; null: what they ran without.
  void set(const SizeBucket &bucket, Pointer kernel);
  /// Whether a kernel is known for that very bucket.
  bool has(const SizeBucket &bucket) const;
  /// Whether a kernel was set, or a launch that swaps has looked for its own.
  bool isUsed() const { return current != nullptr; }
  /// Tables made so far, all of which are kept.
  size_t tableCount() const {
    std::lock_guard lock(mutex);
    return tables.size();
  }

  /// Whether all launches so far, this one of `kernel` among them, ran one kernel: what it keeps of
  /// captured tensors is then known to be of the last launch.
  bool alone(const LoadedKernel &kernel);
  /// Launches that nobody knows of have run others: alone() no longer holds.
  void expectOthers() { mixed = true; }

  /// Asks `missing` from now on, where launches swap.
  void onMissing(Missing missing);

private:
  struct Entry {
    SizeBucket bucket;
    Pointer kernel;             ///< of that bucket; null: none, but it was asked for
    const LoadedKernel *chosen; ///< what launches run: the kernel, or one near by, or null
  };
  using Table = std::vector<Entry>;

  const bool swaps_;
  const uint64_t process = processNumber();
  /// Tables are read without a lock and may be so for some time after another took their place, so
  /// all are kept: there are no more of them than buckets and kernels.
  std::vector<std::unique_ptr<const Table>> tables;
  std::atomic<const Table *> current = nullptr;
  std::atomic<const LoadedKernel *> launched = nullptr; ///< the first kernel that was
  std::atomic<bool> mixed = false;                      ///< another one was, too
  mutable std::mutex mutex;                             ///< guards `tables` and `missing`
  Missing missing;

  static const LoadedKernel *nearest(const Table &table, const SizeBucket &bucket);
  void publish(Table table);
  const LoadedKernel *findMissing(const SizeBucket &bucket, const Extents &extents,
                                  const std::vector<ScalarArgument> &scalars);
};

} // namespace tesela

#endif // TESELA_TUNE_TUNEDKERNELS_H
