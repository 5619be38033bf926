//===- TunedKernels.cpp - One kernel with several schedules -----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tune/TunedKernels.h"

#include "api/State.h"

#include <algorithm>
#include <cstdlib>

namespace tesela {

const LoadedKernel *TunedKernels::find(const LaunchArguments &arguments) {
  if (arguments.q.rank != 4 || arguments.k.rank != 4)
    return nullptr; // an error that every kernel reports
  const auto &q = arguments.q.extents, &k = arguments.k.extents;
  auto isExtent = [](int64_t extent) { return extent >= 1 && extent <= INT32_MAX; };
  bool fits = std::all_of(q.begin(), q.begin() + 3, isExtent) && isExtent(k[1]) && isExtent(k[2]) &&
              k[0] == q[0] && q[1] % k[1] == 0;
  if (!fits) // an error, or empty: no better kernel is needed
    return nullptr;
  Extents extents{int32_t(q[0]), int32_t(q[1]), int32_t(k[1]), int32_t(q[2]), int32_t(k[2])};
  SizeBucket bucket = SizeBucket::of(extents);
  const Table *table = current.load(std::memory_order_acquire);
  if (table)
    for (const Entry &entry : *table)
      if (entry.bucket == bucket)
        return entry.chosen;
  if (!swaps_ || process != processNumber()) // a child of fork() has no tuner to ask
    return table ? nearest(*table, bucket) : nullptr;
  return findMissing(bucket, extents, arguments.scalars);
}

/// The first launch of a bucket, if launches swap.
const LoadedKernel *TunedKernels::findMissing(const SizeBucket &bucket, const Extents &extents,
                                              const std::vector<ScalarArgument> &scalars) {
  Missing ask;
  {
    std::lock_guard lock(mutex);
    Table table = current ? *current : Table();
    auto known = std::ranges::find(table, bucket, &Entry::bucket);
    if (known != table.end()) // another thread's launch was faster
      return known->chosen;
    table.push_back({bucket, nullptr, nullptr});
    publish(std::move(table));
    ask = missing;
  }
  if (ask)
    ask(extents, scalars);
  const Table *table = current.load(std::memory_order_acquire);
  return std::ranges::find(*table, bucket, &Entry::bucket)->chosen;
}

/// Whether launches of both run the same code, even if the kernel left the cache and was loaded
/// again.
static bool isSame(const TunedKernels::Pointer &a, const TunedKernels::Pointer &b) {
  return a == b || (a && b && a->info.schedule == b->info.schedule);
}

void TunedKernels::set(const SizeBucket &bucket, Pointer kernel) {
  std::lock_guard lock(mutex);
  Table table = current ? *current : Table();
  auto known = std::ranges::find(table, bucket, &Entry::bucket);
  if (known != table.end() && isSame(known->kernel, kernel))
    return; // every request with sizes repeats this, and tables are never freed
  if (known == table.end())
    table.push_back({bucket, std::move(kernel), nullptr});
  else
    known->kernel = std::move(kernel);
  publish(std::move(table));
}

bool TunedKernels::has(const SizeBucket &bucket) const {
  const Table *table = current.load(std::memory_order_acquire);
  return table && std::ranges::any_of(*table, [&](const Entry &entry) {
           return entry.bucket == bucket && entry.kernel;
         });
}

void TunedKernels::onMissing(Missing asked) {
  std::lock_guard lock(mutex);
  missing = std::move(asked);
}

bool TunedKernels::alone(const LoadedKernel &kernel) {
  const LoadedKernel *first = nullptr;
  if (!launched.compare_exchange_strong(first, &kernel) && first != &kernel)
    mixed = true;
  return !mixed;
}

/// The kernel of the nearest bucket, for one without; null: no bucket is near.
const LoadedKernel *TunedKernels::nearest(const Table &table, const SizeBucket &bucket) {
  const LoadedKernel *found = nullptr;
  int least = 3; // more than the distance of near buckets
  for (const Entry &entry : table) {
    int distance = std::abs(entry.bucket.batchHeads - bucket.batchHeads);
    if (entry.kernel && bucket.isNear(entry.bucket) && distance < least) {
      least = distance;
      found = entry.kernel.get();
    }
  }
  return found;
}

/// Chooses a kernel for each bucket and publishes the table. The lock must be held.
void TunedKernels::publish(Table table) {
  for (Entry &entry : table)
    entry.chosen = entry.kernel ? entry.kernel.get() : nearest(table, entry.bucket);
  tables.push_back(std::make_unique<const Table>(std::move(table)));
  current.store(tables.back().get(), std::memory_order_release);
}

} // namespace tesela
