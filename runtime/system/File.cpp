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
#include <unistd.h>

namespace tesela {

namespace {

/// Closes the descriptor when it goes.
class Descriptor {
public:
  explicit Descriptor(int number) : number(number) {}
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
  ~Descriptor() {
    if (number >= 0)
      ::close(number);
  }
  int number;
};

Error failure(const std::string &what, const std::string &path) {
  Code code = errno == ENOENT ? Code::notFound : Code::inputOutput;
  return Error(code, path + " could not be " + what + ": " + std::strerror(errno));
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

} // namespace

Result<std::string> readFile(const std::string &path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.number < 0)
    return failure("opened", path);
  std::string bytes;
  char block[1 << 16];
  while (true) {
    ssize_t count = ::read(file.number, block, sizeof block);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return failure("read", path);
    if (count == 0)
      return bytes;
    bytes.append(block, size_t(count));
  }
}

Status writeFile(const std::string &path, std::string_view bytes) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.number < 0)
    return failure("opened for writing", path);
  return writeAll(file.number, bytes, path);
}

Status writeFileAtomically(const std::string &path, std::string_view bytes) {
  std::string aside = path + ".XXXXXX";
  Descriptor file(::mkostemp(aside.data(), O_CLOEXEC));
  if (file.number < 0)
    return failure("created", aside);
  Status status = writeAll(file.number, bytes, aside);
  if (status && ::fsync(file.number) != 0)
    status = failure("brought to the disk", aside);
  if (status && ::rename(aside.c_str(), path.c_str()) != 0)
    status = failure("renamed", aside);
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
  std::error_code ignored; // nothing can be done about what stays behind
  if (!path_.empty())
    std::filesystem::remove_all(path_, ignored);
}

} // namespace tesela
