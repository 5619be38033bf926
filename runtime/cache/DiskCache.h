//===- DiskCache.h - Artifacts kept between processes -----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// One file an entry, named after its key; in it the key and the artifact. Entries are
// written aside, synced and renamed, so that several processes may share a folder. What
// is damaged is not trusted: it counts as absent and is replaced.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_CACHE_DISKCACHE_H
#define TESELA_CACHE_DISKCACHE_H

#include "events/EventSink.h"
#include "tesela/compiler/Artifact.h"

#include <atomic>
#include <memory>
#include <optional>
#include <string>

namespace tesela {

class DiskCache {
public:
  /// `folder` empty: the default one. It is made when the first entry is written.
  DiskCache(std::string folder, std::shared_ptr<const EventSink> events);

  /// $TESELA_CACHE_DIR, else $XDG_CACHE_HOME/tesela, else ~/.cache/tesela; empty where none
  /// of these variables is set.
  static std::string defaultFolder();

  /// The entry, where it is there and whole.
  std::optional<Artifact> load(const std::string &key) const;

  /// Keeps the entry. Where the folder cannot be written, the first failure is logged
  /// and the cache goes on without.
  void store(const std::string &key, const Artifact &artifact) const;

  const std::string &folder() const { return folder_; }

private:
  std::string path(const std::string &key) const;

  std::string folder_;
  std::shared_ptr<const EventSink> events;
  mutable std::atomic<bool> warned = false;
};

} // namespace tesela

#endif // TESELA_CACHE_DISKCACHE_H
