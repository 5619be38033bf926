//===- File.h - Files, temporary folders ------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_SYSTEM_FILE_H
#define TESELA_SYSTEM_FILE_H

#include "tesela/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tesela {

/// A file descriptor that the destructor closes.
class Descriptor {
public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor &&other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor &operator=(Descriptor &&other) noexcept;
  ~Descriptor();
  int number() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }

private:
  int number_;
};

/// Size and time of a file.
struct FileFacts {
  int64_t bytes = 0;
  int64_t modified = 0; ///< seconds since 1970, by the clock of the file system's server
};

/// The facts of the regular file at `path` (not a link); nullopt if there is none.
std::optional<FileFacts> factsOf(const std::string &path);

/// A regular file, open for reading. It stays readable if others replace or remove it.
class InputFile {
public:
  /// Never blocks (a pipe would). Code::notFound: there is no such file.
  static Result<InputFile> open(const std::string &path);

  const FileFacts &facts() const { return facts_; }
  /// The next `most` bytes; fewer only at the end of the file.
  Result<std::string> read(size_t most) const;
  /// `bytes` from `offset` on, independent of read()'s position. Code::inputOutput: the file ends
  /// before.
  Result<std::string> readAt(uint64_t offset, size_t bytes) const;
  /// Sets the modification time to now, if that is permitted.
  void touch() const;

private:
  InputFile(std::string path, Descriptor file, FileFacts facts)
      : path(std::move(path)), file(std::move(file)), facts_(facts) {}

  std::string path;
  Descriptor file;
  FileFacts facts_;
};

/// The file's contents. Code::notFound: there is no such file.
Result<std::string> readFile(const std::string &path);

/// Creates or overwrites the file.
Status writeFile(const std::string &path, std::string_view bytes);

/// Writes a temporary file beside `path`, syncs it and renames it to `path`: whoever opens `path`
/// sees the old file or the whole new one. The temporary file is called `path` + "." +
/// temporarySuffixLength letters and digits. It is left behind only if the process or the machine
/// ends in between. Code::notFound: the folder does not exist.
Status writeFileAtomically(const std::string &path, std::string_view bytes);
inline constexpr size_t temporarySuffixLength = 6;

/// A new folder in $TMPDIR or /tmp. The destructor removes it with its contents.
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
