//===- CacheFolder.cpp ----------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "cache/CacheFolder.h"

#include "artifact/Digest.h"
#include "cache/EntryFormat.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <unistd.h>

namespace tesela {

static constexpr std::string_view entryEnding = ".kernel";

int64_t secondsNow() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

static std::string partOf(const std::string &key) { return key.substr(0, 2); }

std::string CacheFolder::formatFolder() const { return root + "/v" + std::to_string(entryVersion); }

std::string CacheFolder::entryPath(const std::string &key) const {
  return formatFolder() + "/" + partOf(key) + "/" + key + std::string(entryEnding);
}

std::string CacheFolder::lockName(const std::string &purpose) const {
  // Different paths to the same folder must give the same name, if they can be resolved.
  std::error_code failure;
  std::filesystem::path resolved = std::filesystem::weakly_canonical(root, failure);
  return sha256Hex((failure ? root : resolved.string()) + "\n" + purpose).substr(0, 32) + ".lock";
}

Status CacheFolder::write(const std::string &key, std::string_view bytes) const {
  std::string path = entryPath(key);
  Status status = writeFileAtomically(path, bytes);
  if (status || status.code() != Code::notFound)
    return status;
  std::error_code failure;
  std::string folder = formatFolder() + "/" + partOf(key);
  std::filesystem::create_directories(folder, failure);
  if (failure)
    return Error(Code::inputOutput, folder + " could not be created: " + failure.message());
  return writeFileAtomically(path, bytes);
}

/// Adds the file `name` of `part` if it belongs to the cache.
static void addFile(const std::string &part, const std::string &name,
                    std::vector<CacheFile> &files) {
  constexpr size_t keySize = 64, entrySize = keySize + entryEnding.size();
  std::string_view ending = std::string_view(name).substr(std::min(name.size(), keySize));
  bool entry = ending == entryEnding;
  bool temporary = name.size() == entrySize + 1 + temporarySuffixLength &&
                   ending.starts_with(entryEnding) && name[entrySize] == '.';
  std::string key = name.substr(0, keySize);
  if ((!entry && !temporary) || !isEntryKey(key))
    return;
  CacheFile file{part + "/" + name, key, {}, temporary};
  if (std::optional<FileFacts> facts = factsOf(file.path)) {
    file.facts = *facts;
    files.push_back(std::move(file));
  }
}

/// Adds the cache's files of the folder `part`.
static std::error_code addFiles(const std::string &part, std::vector<CacheFile> &files) {
  std::error_code failure;
  std::filesystem::directory_iterator entries(part, failure);
  for (; !failure && entries != std::filesystem::directory_iterator(); entries.increment(failure))
    addFile(part, entries->path().filename().string(), files);
  return failure;
}

Result<std::vector<CacheFile>> CacheFolder::files() const {
  std::vector<CacheFile> files;
  std::error_code failure;
  std::filesystem::directory_iterator parts(formatFolder(), failure);
  for (; !failure && parts != std::filesystem::directory_iterator(); parts.increment(failure)) {
    std::error_code partFailure = addFiles(parts->path().string(), files);
    bool absent = partFailure == std::errc::no_such_file_or_directory ||
                  partFailure == std::errc::not_a_directory;
    if (partFailure && !absent)
      return Error(Code::inputOutput,
                   parts->path().string() + " cannot be read: " + partFailure.message());
  }
  if (failure && failure != std::errc::no_such_file_or_directory)
    return Error(Code::inputOutput, formatFolder() + " cannot be read: " + failure.message());
  return files;
}

std::vector<CacheFile> CacheFolder::filesBeside(const std::string &key) const {
  std::vector<CacheFile> files;
  (void)addFiles(formatFolder() + "/" + partOf(key), files); // none if the folder cannot be read
  return files;
}

void CacheFolder::removeEmptyParts() const {
  std::error_code failure;
  std::filesystem::directory_iterator parts(formatFolder(), failure);
  for (; !failure && parts != std::filesystem::directory_iterator(); parts.increment(failure))
    ::rmdir(parts->path().c_str()); // fails if the folder is not empty
  ::rmdir(formatFolder().c_str());
}

bool isStale(const CacheFile &file) {
  return file.temporary &&
         file.facts.modified <
             secondsNow() - std::chrono::seconds(CacheFolder::oldestTemporary).count();
}

Result<bool> removeUnused(const CacheFile &file) {
  std::optional<FileFacts> now = factsOf(file.path);
  if (now && (now->modified != file.facts.modified || now->bytes != file.facts.bytes))
    return false;
  if (!now || ::unlink(file.path.c_str()) == 0 || errno == ENOENT)
    return true;
  return Error(Code::inputOutput, file.path + " could not be removed: " + std::strerror(errno));
}

Removed removeOldest(std::vector<CacheFile> files, int64_t mostBytes, int64_t usedBefore) {
  Removed removed;
  auto remove = [&](const CacheFile &file) {
    Result<bool> gone = removeUnused(file);
    if (!gone && !removed.failure)
      removed.failure = gone.error();
    return gone && *gone;
  };
  auto temporaries = std::partition(files.begin(), files.end(),
                                    [](const CacheFile &file) { return !file.temporary; });
  for (auto file = temporaries; file != files.end(); ++file)
    if (isStale(*file))
      remove(*file);
  files.erase(temporaries, files.end());
  for (const CacheFile &file : files)
    removed.bytesLeft += file.facts.bytes;
  std::sort(files.begin(), files.end(), [](const CacheFile &a, const CacheFile &b) {
    return a.facts.modified < b.facts.modified;
  });
  for (CacheFile &file : files) {
    if (removed.bytesLeft <= mostBytes && file.facts.modified >= usedBefore)
      break;
    if (!remove(file))
      continue;
    removed.bytesLeft -= file.facts.bytes;
    removed.bytes += file.facts.bytes;
    removed.entries.push_back(std::move(file));
  }
  return removed;
}

} // namespace tesela
