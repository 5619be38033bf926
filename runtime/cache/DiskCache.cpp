//===- DiskCache.cpp ------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "cache/DiskCache.h"

#include "cache/EntryFormat.h"
#include "tesela/Cache.h"

#include <cstdlib>
#include <filesystem>

namespace tesela {

/// A use is recorded at most this often. That is enough for the order of uses, and a server that
/// requests the same kernels all day writes little.
static constexpr int64_t secondsBetweenMarks = 60;

std::string defaultCacheFolder() {
  auto variable = [](const char *name) {
    const char *value = std::getenv(name);
    return std::string(value ? value : "");
  };
  if (std::string folder = variable("TESELA_CACHE_DIR"); !folder.empty())
    return folder;
  // The XDG base directory specification says that relative paths must be ignored.
  if (std::string folder = variable("XDG_CACHE_HOME"); folder.starts_with('/'))
    return folder + "/tesela";
  if (std::string folder = variable("HOME"); !folder.empty())
    return folder + "/.cache/tesela";
  return "";
}

static std::string absoluteFolder(const std::string &folder) {
  std::string chosen = folder.empty() ? defaultCacheFolder() : folder;
  if (chosen.empty())
    return "";
  std::error_code failure; // absolute, because the process may change its working directory
  std::filesystem::path absolute = std::filesystem::absolute(chosen, failure);
  return failure ? chosen : absolute.lexically_normal().string();
}

DiskCache::DiskCache(const std::string &folder, int64_t limit,
                     std::shared_ptr<const EventSink> events)
    : folder_(absoluteFolder(folder)), files(folder_),
      limit(limit > 0 ? limit : defaultCacheBytes, events), events(std::move(events)) {}

void DiskCache::warnOnce(const std::string &sentence) const {
  if (!warned.exchange(true))
    events->warn(sentence);
}

static Result<Artifact> readEntry(const InputFile &file, const std::string &key) {
  if (file.facts().bytes > int64_t(longestEntry))
    return Error(Code::inputOutput, "it has " + std::to_string(file.facts().bytes) +
                                        " bytes, a kernel has at most " +
                                        std::to_string(longestEntry));
  Result<std::string> bytes = file.read(longestEntry);
  if (!bytes)
    return bytes.error();
  return decodeEntry(*bytes, key);
}

std::optional<Artifact> DiskCache::load(const std::string &key, Damage damage) const {
  if (folder_.empty())
    return std::nullopt;
  const std::string path = files.entryPath(key);
  Result<InputFile> file = InputFile::open(path);
  if (!file) {
    if (file.code() != Code::notFound)
      warnOnce("cached kernels cannot be used and are compiled again: " + file.error().message() +
               "; use a folder that can be read and written (ContextOptions::cacheFolder, the "
               "command's --cache-folder, TESELA_CACHE_DIR)");
    return std::nullopt;
  }
  Result<Artifact> artifact = readEntry(*file, key);
  if (!artifact) {
    if (damage == Damage::reported && artifact.code() != Code::notFound)
      events->warn("the cached kernel " + path +
                   " is compiled again: " + artifact.error().message());
    return std::nullopt;
  }
  int64_t age = secondsNow() - file->facts().modified;
  if (age >= secondsBetweenMarks || age <= -secondsBetweenMarks) // negative if another machine's
                                                                 // clock differs
    file->touch();
  return std::move(*artifact);
}

MachineLock DiskCache::lockForCompiling(const std::string &key,
                                        const std::function<bool()> &stop) const {
  if (folder_.empty() || !storing)
    return MachineLock::unavailable();
  return MachineLock::acquire(files.lockName(key), stop);
}

Status DiskCache::write(const std::string &key, const Artifact &artifact) const {
  constexpr const char *remedy = "; use a folder that can be written (ContextOptions::cacheFolder, "
                                 "the command's --cache-folder, TESELA_CACHE_DIR)";
  if (folder_.empty())
    return Error(Code::notFound, std::string("there is no folder for the cache") + remedy);
  std::string bytes = encodeEntry(key, artifact, secondsNow());
  if (int64_t(bytes.size()) > std::min(limit.bytes(), int64_t(longestEntry)))
    return Error(Code::unsupported, "a kernel of " + std::to_string(bytes.size()) +
                                        " bytes does not fit into the cache's " +
                                        std::to_string(limit.bytes()) +
                                        "; raise ContextOptions::cacheBytes");
  Status status = files.write(key, bytes);
  if (!status)
    return Error(status.code(), status.error().message() + remedy);
  if (events->wantsEvents()) {
    Event event;
    event.kind = Event::Kind::cacheStored;
    event.variant = artifact.variantName;
    event.target = artifact.target.name();
    event.key = key;
    event.bytes = int64_t(bytes.size());
    events->emit(event);
  }
  limit.stored(files, key, int64_t(bytes.size()));
  return status;
}

bool DiskCache::store(const std::string &key, const Artifact &artifact) const {
  Status status = write(key, artifact);
  storing = bool(status);
  if (!status)
    warnOnce("compiled kernels are not kept on disk: " + status.error().message());
  return bool(status);
}

} // namespace tesela
