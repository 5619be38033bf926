//===- File.cpp -----------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "system/File.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <random>
#include <sys/stat.h>
#include <unistd.h>

namespace tesela {

namespace {

Error failure(const std::string &what, const std::string &path) {
  // ESTALE: on a network file system, another machine has removed the open file.
  bool absent = errno == ENOENT || errno == ENOTDIR || errno == ESTALE;
  return Error(absent ? Code::notFound : Code::inputOutput,
               path + " could not be " + what + ": " + std::strerror(errno));
}

Status writeAll(int descriptor, std::string_view bytes, const std::string &path) {
  while (!bytes.empty()) {
    ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return failure("written", path);
    bytes.remove_prefix(size_t(count));
  }
  return Status::success();
}

/// Reads until `bytes` has grown by `most` or the file ends.
Status readUpTo(int descriptor, size_t most, std::string &bytes, const std::string &path) {
  char block[1 << 16];
  while (most > 0) {
    ssize_t count = ::read(descriptor, block, std::min(most, sizeof block));
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return failure("read", path);
    if (count == 0)
      break;
    bytes.append(block, size_t(count));
    most -= size_t(count);
  }
  return Status::success();
}

FileFacts toFacts(const struct stat &found) {
  return {int64_t(found.st_size), int64_t(found.st_mtim.tv_sec)};
}

std::string temporarySuffix() {
  static constexpr std::string_view letters = "0123456789abcdefghijklmnopqrstuv";
  std::random_device random; // the system's generator, so that forked processes get different names
  std::string suffix = ".";
  for (size_t i = 0; i < temporarySuffixLength; ++i)
    suffix += letters[random() % letters.size()];
  return suffix;
}

/// Creates a file beside `path` and sets `aside` to its path. Unlike with mkstemp, its permissions
/// follow the process's umask, so that users who share a folder can share its files.
Descriptor createBeside(const std::string &path, std::string &aside) {
  int number = -1;
  do {
    aside = path + temporarySuffix();
    number = ::open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (number < 0 && errno == EEXIST);
  return Descriptor(number);
}

} // namespace

Descriptor &Descriptor::operator=(Descriptor &&other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

Descriptor::~Descriptor() {
  if (number_ >= 0)
    ::close(number_);
}

std::optional<FileFacts> factsOf(const std::string &path) {
  struct stat found;
  if (::lstat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode))
    return std::nullopt;
  return toFacts(found);
}

Result<InputFile> InputFile::open(const std::string &path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat found;
  if (!file || ::fstat(file.number(), &found) != 0)
    return failure("opened", path);
  if (!S_ISREG(found.st_mode))
    return Error(Code::inputOutput, path + " is no regular file");
  return InputFile(path, std::move(file), toFacts(found));
}

Result<std::string> InputFile::read(size_t most) const {
  std::string bytes;
  Status status = readUpTo(file.number(), most, bytes, path);
  if (!status)
    return status.error();
  return bytes;
}

Result<std::string> InputFile::readAt(uint64_t offset, size_t bytes) const {
  uint64_t size = uint64_t(facts_.bytes);
  if (offset > size || bytes > size - offset)
    return Error(Code::inputOutput, path + " ends after " + std::to_string(size) + " bytes, " +
                                        std::to_string(bytes) + " were expected from byte " +
                                        std::to_string(offset) + " on");
  std::string read(bytes, '\0');
  for (size_t done = 0; done < bytes;) {
    ssize_t count = ::pread(file.number(), read.data() + done, bytes - done, off_t(offset + done));
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return failure("read", path);
    if (count == 0)
      return Error(Code::inputOutput, path + " became shorter while it was read");
    done += size_t(count);
  }
  return read;
}

void InputFile::touch() const { (void)::futimens(file.number(), nullptr); }

Result<std::string> readFile(const std::string &path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file)
    return failure("opened", path);
  std::string bytes;
  Status status = readUpTo(file.number(), SIZE_MAX, bytes, path);
  if (!status)
    return status.error();
  return bytes;
}

Status writeFile(const std::string &path, std::string_view bytes) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file)
    return failure("opened for writing", path);
  return writeAll(file.number(), bytes, path);
}

Status writeFileAtomically(const std::string &path, std::string_view bytes) {
  std::string aside;
  Descriptor file = createBeside(path, aside);
  // The caller knows only `path`.
  if (!file)
    return failure("created", path);
  Status status = writeAll(file.number(), bytes, path);
  if (status && ::fsync(file.number()) != 0)
    status = failure("synced to the disk", path);
  if (status && ::rename(aside.c_str(), path.c_str()) != 0)
    status = failure("replaced", path);
  if (!status)
    ::unlink(aside.c_str());
  return status;
}

Result<TemporaryFolder> TemporaryFolder::create() {
  const char *parent = std::getenv("TMPDIR");
  std::string path = std::string(parent && *parent ? parent : "/tmp") + "/tesela-XXXXXX";
  if (!::mkdtemp(path.data()))
    return failure("created (set TMPDIR to a folder that can be written)", path);
  return TemporaryFolder(path);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored; // if it cannot be removed, nothing can be done about it
  if (!path_.empty())
    std::filesystem::remove_all(path_, ignored);
}

} // namespace tesela
