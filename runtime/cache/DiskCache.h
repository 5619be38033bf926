//===- DiskCache.h - Artifacts kept between processes -----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A folder of entries that several processes and machines may share. An entry is written to a
// temporary file, synced and renamed. A damaged entry counts as absent and is replaced. Nothing in
// the folder is ever locked, because network file systems lock badly or not at all; see
// docs/decisions/cache.md.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_CACHE_DISKCACHE_H
#define TESELA_CACHE_DISKCACHE_H

#include "cache/CacheFolder.h"
#include "cache/SizeLimit.h"
#include "events/EventSink.h"
#include "system/MachineLock.h"
#include "tesela/compiler/Artifact.h"

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace tesela {

class DiskCache {
public:
  /// `folder` empty: the default one. It is created with the first entry; the constructor accesses
  /// no file. `limit`: bytes of all entries together; 0: the default.
  DiskCache(const std::string &folder, int64_t limit, std::shared_ptr<const EventSink> events);

  enum class Damage { reported, silent };
  /// The entry, if it exists and is not damaged. Marks it as used.
  std::optional<Artifact> load(const std::string &key, Damage damage = Damage::reported) const;

  /// Waits while another thread or process of this machine compiles the kernel of `key`; then
  /// load() may find it. `stop`: see MachineLock.
  MachineLock lockForCompiling(const std::string &key, const std::function<bool()> &stop) const;

  /// Stores the entry and returns whether that succeeded. If the folder cannot be written, the
  /// first failure is logged and the cache continues without storing.
  bool store(const std::string &key, const Artifact &artifact) const;

  const std::string &folder() const { return folder_; }

private:
  Status write(const std::string &key, const Artifact &artifact) const;
  void warnOnce(const std::string &sentence) const;

  std::string folder_; ///< absolute; empty: there is no folder
  CacheFolder files;
  mutable SizeLimit limit;
  std::shared_ptr<const EventSink> events;
  mutable std::atomic<bool> warned = false;
  mutable std::atomic<bool> storing = true; ///< whether the last store() succeeded
};

} // namespace tesela

#endif // TESELA_CACHE_DISKCACHE_H
