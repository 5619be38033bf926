//===- OutputFile.cpp -----------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "OutputFile.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <unistd.h>

namespace tesela::tool {

namespace fs = std::filesystem;

/// Resolves symbolic links of `path`, whether its target exists or not.
static fs::path withoutLinks(fs::path path) {
  constexpr int mostLinks = 40; // the limit of the Linux kernel
  std::error_code error;
  for (int i = 0; i < mostLinks && fs::is_symlink(path, error); ++i) {
    fs::path link = fs::read_symlink(path, error);
    if (error)
      break;
    path = path.parent_path() / link;
  }
  return path;
}

/// 0, or the errno of the first failure.
static int writeParts(std::FILE *file, std::span<const std::string_view> parts) {
  int failure = 0;
  for (std::string_view part : parts)
    if (!failure && std::fwrite(part.data(), 1, part.size(), file) != part.size())
      failure = errno;
  if (std::fclose(file) != 0 && !failure)
    failure = errno;
  return failure;
}

static Error cannotBeWritten(const std::string &path, int failure) {
  return Error(Code::inputOutput,
               fmt::format("{} cannot be written: {}.", path, std::strerror(failure)));
}

Status checkWritable(const std::string &path) {
  fs::path target = withoutLinks(path);
  std::error_code error;
  if (fs::is_directory(target, error))
    return cannotBeWritten(path, EISDIR);
  fs::path folder = target.has_parent_path() ? target.parent_path() : ".";
  bool isThere = fs::exists(target, error);
  if (isThere && ::access(target.c_str(), W_OK) == 0)
    return Status::success();
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    return cannotBeWritten(path, errno);
  return Status::success();
}

Status writeFile(const std::string &path, std::span<const std::string_view> parts) {
  fs::path target = withoutLinks(path);
  std::error_code error;
  fs::file_status before = fs::status(target, error);
  bool isThere = fs::exists(before);
  std::string aside = fmt::format("{}.part{}", target.string(), ::getpid());
  std::FILE *file =
      isThere && !fs::is_regular_file(before) ? nullptr : std::fopen(aside.c_str(), "wb");
  bool isAside = file != nullptr;
  if (!file)
    file = std::fopen(target.c_str(), "wb");
  int failure = file ? writeParts(file, parts) : errno;
  if (isAside && !failure) {
    if (isThere)
      fs::permissions(aside, before.permissions(), error);
    if (std::rename(aside.c_str(), target.c_str()) != 0)
      failure = errno;
  }
  if (!failure)
    return Status::success();
  if (isAside)
    std::remove(aside.c_str());
  return cannotBeWritten(path, failure);
}

Status writeFile(const std::string &path, std::string_view content) {
  return writeFile(path, std::span(&content, 1));
}

} // namespace tesela::tool
