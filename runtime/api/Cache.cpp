//===- Cache.cpp ----------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tesela/Cache.h"

#include "cache/CacheFolder.h"
#include "cache/EntryFormat.h"

#include <algorithm>
#include <limits>

namespace tesela {

namespace {

enum class Depth { header, all };

/// Reads the file of `kernel` and sets the fields that are known from it.
Status inspect(Depth depth, CachedKernel &kernel) {
  Result<InputFile> file = InputFile::open(kernel.path);
  if (!file)
    return file.error();
  Result<std::string> bytes =
      file->read(depth == Depth::header ? longestEntryHeader : longestEntry);
  if (!bytes)
    return bytes.error();
  Result<EntryHeader> header =
      decodeEntryHeader(std::string_view(*bytes).substr(0, longestEntryHeader));
  if (!header)
    return header.error();
  if (header->key != kernel.key)
    return Error(Code::inputOutput, "the entry is another kernel's");
  kernel.bytes = file->facts().bytes; // another entry may have replaced the listed one
  if (int64_t(header->bytes + header->artifactBytes) != kernel.bytes)
    return Error(Code::inputOutput, "the entry is truncated or too long");
  if (depth == Depth::all)
    if (Result<Artifact> artifact = decodeEntry(*bytes, kernel.key); !artifact)
      return artifact.error();
  kernel.made = header->made;
  kernel.variantName = std::move(header->variantName);
  kernel.target = std::move(header->target);
  kernel.inputType = header->inputType;
  kernel.headDimQk = header->headDimQk;
  kernel.headDimV = header->headDimV;
  kernel.schedule = std::move(header->schedule);
  return Status::success();
}

Result<std::vector<CachedKernel>> kernelsOf(const std::string &folder, Depth depth) {
  Result<std::vector<CacheFile>> files = CacheFolder(folder).files();
  if (!files)
    return files.error();
  std::vector<CachedKernel> kernels;
  for (CacheFile &file : *files) {
    if (file.temporary)
      continue;
    CachedKernel kernel;
    kernel.key = std::move(file.key);
    kernel.path = std::move(file.path);
    kernel.bytes = file.facts.bytes;
    kernel.used = file.facts.modified;
    if (Status status = inspect(depth, kernel); !status) {
      if (status.code() == Code::notFound)
        continue; // removed in the meantime
      kernel.damage = status.error();
    }
    kernels.push_back(std::move(kernel));
  }
  std::sort(kernels.begin(), kernels.end(), [](const CachedKernel &a, const CachedKernel &b) {
    return a.used != b.used ? a.used > b.used : a.key < b.key;
  });
  return kernels;
}

Result<CacheRemoval> toRemoval(const Removed &removed) {
  if (removed.failure)
    return *removed.failure;
  return CacheRemoval{int64_t(removed.entries.size()), removed.bytes, removed.bytesLeft};
}

} // namespace

Result<Cache> Cache::open(const std::string &folder) {
  std::string chosen = folder.empty() ? defaultCacheFolder() : folder;
  if (chosen.empty())
    return Error(Code::notFound,
                 "there is no folder for the cache: name one (the command's "
                 "--cache-folder), or set TESELA_CACHE_DIR, XDG_CACHE_HOME or HOME");
  return Cache(std::move(chosen));
}

Result<std::vector<CachedKernel>> Cache::list() const { return kernelsOf(folder_, Depth::header); }

Result<std::vector<CachedKernel>> Cache::verify() const { return kernelsOf(folder_, Depth::all); }

Result<CacheRemoval> Cache::prune(const Keep &keep) const {
  for (auto [limit, unit] :
       {std::pair(keep.mostBytes, " bytes"), {keep.mostSecondsOld, " seconds"}})
    if (limit.value_or(0) < 0)
      return Error(Code::invalidArgument, "the limit of what the cache keeps is " +
                                              std::to_string(*limit) + unit +
                                              ", it must not be negative");
  Result<std::vector<CacheFile>> files = CacheFolder(folder_).files();
  if (!files)
    return files.error();
  int64_t now = secondsNow();
  int64_t usedBefore = keep.mostSecondsOld ? now - std::min(now, *keep.mostSecondsOld)
                                           : std::numeric_limits<int64_t>::min();
  return toRemoval(removeOldest(
      std::move(*files), keep.mostBytes.value_or(std::numeric_limits<int64_t>::max()), usedBefore));
}

Result<CacheRemoval> Cache::clear() const {
  CacheFolder folder(folder_);
  Result<std::vector<CacheFile>> files = folder.files();
  if (!files)
    return files.error();
  // A process that is writing a file finds the folder or file gone. It writes again or continues
  // without.
  for (const CacheFile &file : *files)
    if (file.temporary)
      (void)removeUnused(file);
  Removed removed = removeOldest(std::move(*files), 0, 0);
  folder.removeEmptyParts();
  return toRemoval(removed);
}

} // namespace tesela
