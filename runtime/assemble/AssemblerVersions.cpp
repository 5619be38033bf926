//===- AssemblerVersions.cpp - Known versions of ptxas --------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "assemble/AssemblerVersions.h"

#include "system/File.h"

#include <filesystem>
#include <sstream>

namespace tesela {

/// Enough for some hundred programs. A longer file is started again.
static constexpr size_t longestFile = 64 << 10;

std::string AssemblerVersions::text() const {
  Result<InputFile> file = InputFile::open(path);
  if (!file)
    return "";
  Result<std::string> text = file->read(longestFile + 1);
  return text && text->size() <= longestFile ? *text : "";
}

std::optional<std::string> AssemblerVersions::find(const std::string &file) const {
  std::istringstream lines(text());
  for (std::string line; std::getline(lines, line);)
    if (size_t tab = line.find('\t');
        tab != std::string::npos && tab > 0 && line.compare(tab + 1, std::string::npos, file) == 0)
      return line.substr(0, tab);
  return std::nullopt;
}

void AssemblerVersions::add(const std::string &file, const std::string &version) const {
  if ((version + file).find_first_of("\t\n") != std::string::npos)
    return;
  std::error_code failure;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failure);
  std::string known = text();
  if (!known.empty() && !known.ends_with('\n'))
    known.clear(); // truncated
  (void)writeFileAtomically(path, known + version + '\t' + file + '\n');
}

} // namespace tesela
