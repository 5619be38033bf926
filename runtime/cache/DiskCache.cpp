//===- DiskCache.cpp ------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "cache/DiskCache.h"

#include "system/File.h"

#include <cstdlib>
#include <filesystem>

namespace tesela {

std::string DiskCache::defaultFolder() {
  auto variable = [](const char *name) {
    const char *value = std::getenv(name);
    return std::string(value ? value : "");
  };
  if (std::string folder = variable("TESELA_CACHE_DIR"); !folder.empty())
    return folder;
  if (std::string folder = variable("XDG_CACHE_HOME"); !folder.empty())
    return folder + "/tesela";
  if (std::string folder = variable("HOME"); !folder.empty())
    return folder + "/.cache/tesela";
  return "";
}

DiskCache::DiskCache(std::string folder, std::shared_ptr<const EventSink> events)
    : folder_(folder.empty() ? defaultFolder() : std::move(folder)), events(std::move(events)) {}

std::string DiskCache::path(const std::string &key) const {
  return folder_ + "/" + key + ".artifact";
}

std::optional<Artifact> DiskCache::load(const std::string &key) const {
  if (folder_.empty())
    return std::nullopt;
  Result<std::string> bytes = readFile(path(key));
  if (!bytes) {
    if (bytes.code() != Code::notFound)
      events->warn("a cached kernel cannot be read, it is compiled anew: " +
                   bytes.error().message());
    return std::nullopt;
  }
  std::string problem = "it is another kernel's";
  if (std::string_view(*bytes).substr(0, key.size()) == key) {
    Result<Artifact> artifact = Artifact::deserialize(std::string_view(*bytes).substr(key.size()));
    if (artifact)
      return std::move(*artifact);
    problem = artifact.error().message();
  }
  events->warn("the cached kernel " + path(key) + " is not used: " + problem);
  return std::nullopt;
}

void DiskCache::store(const std::string &key, const Artifact &artifact) const {
  Status status = Status::success();
  if (folder_.empty()) {
    status = Error(Code::notFound, "there is no folder for the cache");
  } else {
    std::error_code failure;
    std::filesystem::create_directories(folder_, failure);
    status = failure ? Status(Error(Code::inputOutput, folder_ + ": " + failure.message()))
                     : writeFileAtomically(path(key), key + artifact.serialize());
  }
  if (!status && !warned.exchange(true))
    events->warn("compiled kernels are not kept on disk (" + status.error().message() +
                 "); set TESELA_CACHE_DIR to a folder that can be written");
}

} // namespace tesela
