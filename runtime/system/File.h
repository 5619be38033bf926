//===- File.h - Whole files, temporary folders ------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_SYSTEM_FILE_H
#define TESELA_SYSTEM_FILE_H

#include "tesela/Status.h"

#include <string>
#include <string_view>
#include <utility>

namespace tesela {

/// The file's bytes. Code::notFound where there is none.
Result<std::string> readFile(const std::string &path);

/// Creates or overwrites the file.
Status writeFile(const std::string &path, std::string_view bytes);

/// Writes a file beside `path`, brings it to the disk and renames it to `path`:
/// whoever opens `path` sees the old file or the whole new one.
Status writeFileAtomically(const std::string &path, std::string_view bytes);

/// A new folder below $TMPDIR or /tmp that goes, with what is in it, when this does.
class TemporaryFolder {
public:
  static Result<TemporaryFolder> create();
  TemporaryFolder(TemporaryFolder &&other) noexcept : path_(std::exchange(other.path_, "")) {}
  TemporaryFolder &operator=(TemporaryFolder &&) = delete;
  ~TemporaryFolder();
  const std::string &path() const { return path_; }

private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

} // namespace tesela

#endif // TESELA_SYSTEM_FILE_H
