//===- VariantFile.cpp ----------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "VariantFile.h"

#include "tesela/NearestName.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

namespace tesela::tool {

namespace fs = std::filesystem;

static constexpr size_t maxVariantBytes = size_t(1) << 20;

static fs::path libraryFolder() {
  std::error_code error;
  fs::path executable = fs::read_symlink("/proc/self/exe", error);
  if (error)
    return {};
  return executable.parent_path().parent_path() / "share" / "tesela" / "variants";
}

std::vector<std::string> libraryVariants() {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(libraryFolder(), error), end;
  for (; !error && entry != end; entry.increment(error))
    if (entry->path().extension() == ".attn")
      names.push_back(entry->path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

static Result<std::string> readAll(std::FILE *file, const std::string &name) {
  std::string text;
  char block[4096];
  while (size_t count = std::fread(block, 1, sizeof block, file)) {
    text.append(block, count);
    if (text.size() > maxVariantBytes)
      return Error(Code::invalidArgument,
                   fmt::format("{} is larger than {} bytes, which no variant is: give the file of "
                               "an `attention`.",
                               name, maxVariantBytes));
  }
  if (std::ferror(file))
    return Error(Code::inputOutput,
                 fmt::format("{} cannot be read: {}.", name, std::strerror(errno)));
  return text;
}

static Result<VariantFile> readFile(const std::string &path) {
  std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(std::fopen(path.c_str(), "rb"),
                                                        &std::fclose);
  if (!file)
    return Error(Code::inputOutput,
                 fmt::format("{} cannot be opened: {}.", path, std::strerror(errno)));
  Result<std::string> text = readAll(file.get(), path);
  if (!text)
    return text.error();
  return VariantFile{path, std::move(*text)};
}

Result<VariantFile> readVariant(const std::string &name) {
  if (name == "-") {
    Result<std::string> text = readAll(stdin, "standard input");
    if (!text)
      return text.error();
    return VariantFile{"<stdin>", std::move(*text)};
  }

  std::error_code error;
  if (fs::is_directory(name, error))
    return Error(Code::notFound, fmt::format("{} is a folder: name a file in it.", name));
  if (fs::exists(name, error))
    return readFile(name);

  if (name.find('/') == std::string::npos) {
    fs::path inLibrary = libraryFolder() / (name + ".attn");
    if (fs::exists(inLibrary, error))
      return readFile(inLibrary.string());
  }
  std::vector<std::string> known = libraryVariants();
  std::string_view near = nearestName(name, {known.begin(), known.end()});
  return Error(Code::notFound,
               fmt::format("there is no file {0} and no library variant of that name{1} Give a "
                           "path, or one of: {2}.",
                           name, near.empty() ? "." : fmt::format("; did you mean '{}'?", near),
                           known.empty() ? "(the library's folder was not found)"
                                         : fmt::format("{}", fmt::join(known, ", "))));
}

Result<OpenedVariant> openVariant(const std::string &name) {
  Result<VariantFile> file = readVariant(name);
  if (!file)
    return file.error();
  Result<VariantInfo> info = checkVariant(file->text, file->path);
  if (!info)
    return info.error();
  std::fputs(info->warnings.c_str(), stderr);
  return OpenedVariant{std::move(*file), std::move(*info)};
}

} // namespace tesela::tool
