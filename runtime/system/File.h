//===- File.h - Whole files, temporary folders ------------------*- C++ -*-===//
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

/// Closes the descriptor when it goes.
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

/// What the file system tells of a file.
struct FileFacts {
  int64_t bytes = 0;
  int64_t modified = 0; ///< seconds since 1970, by the clock of the file system's machine
};

/// Of the regular file at `path`, no link; nothing where there is none.
std::optional<FileFacts> factsOf(const std::string &path);

/// A regular file, open for reading: it stays as it is while others replace or remove it.
class InputFile {
public:
  /// Never waits, as it would for a pipe. Code::notFound where there is no such file.
  static Result<InputFile> open(const std::string &path);

  const FileFacts &facts() const { return facts_; }
  /// The next bytes: `most` of them, fewer only where the file ends.
  Result<std::string> read(size_t most) const;
  /// `bytes` of them from `offset` on, wherever read() is. Code::inputOutput where the file ends
  /// before.
  Result<std::string> readAt(uint64_t offset, size_t bytes) const;
  /// Sets the time of its last change to now, where that is allowed.
  void touch() const;

private:
  InputFile(std::string path, Descriptor file, FileFacts facts)
      : path(std::move(path)), file(std::move(file)), facts_(facts) {}

  std::string path;
  Descriptor file;
  FileFacts facts_;
};

/// The file's bytes. Code::notFound where there is none.
Result<std::string> readFile(const std::string &path);

/// Creates or overwrites the file.
Status writeFile(const std::string &path, std::string_view bytes);

/// Writes a file beside `path`, brings it to the disk and renames it to `path`:
/// whoever opens `path` sees the old file or the whole new one. The file beside it is called
/// `path` + "." + temporarySuffixLength letters and digits; it stays behind only where the process
/// or the machine ends meanwhile. Code::notFound where the folder is not there.
Status writeFileAtomically(const std::string &path, std::string_view bytes);
inline constexpr size_t temporarySuffixLength = 6;

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
