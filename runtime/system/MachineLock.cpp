//===- MachineLock.cpp ----------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A holder removes the lock's file before it unlocks, so that the folder does not fill with the
// locks of all kernels. A thread that gets the lock of a file that is no longer in the folder opens
// the current file. A file that is not empty tells those who wait for it to continue without the
// lock.
//
//===----------------------------------------------------------------------===//
#include "system/MachineLock.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace tesela {

namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds firstPause = 1ms, longestPause = 10ms;
constexpr std::chrono::minutes longestWait{2}; // compiling and assembling take only seconds

/// The folder `name` in `parent`, created if it does not exist. It must belong to this user, and
/// nobody else may write to it. Links are not followed, because in /tmp anybody may have created
/// one.
Descriptor openOwnFolder(const std::string &parent, const std::string &name) {
  std::string path = parent + "/" + name;
  ::mkdir(path.c_str(), 0700);
  Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat found;
  if (!folder || ::fstat(folder.number(), &found) != 0 || found.st_uid != ::geteuid() ||
      (found.st_mode & (S_IWGRP | S_IWOTH)))
    return Descriptor();
  return folder;
}

Descriptor openLockFolder() {
  if (const char *runtime = std::getenv("XDG_RUNTIME_DIR"); runtime && *runtime == '/')
    if (Descriptor folder = openOwnFolder(runtime, "tesela"))
      return folder;
  const char *temporary = std::getenv("TMPDIR");
  return openOwnFolder(temporary && *temporary ? temporary : "/tmp",
                       "tesela-" + std::to_string(::geteuid()));
}

/// Whether `file` is the file that is now called `name` in `folder`.
bool isCurrent(const Descriptor &file, const Descriptor &folder, const std::string &name) {
  struct stat opened, named;
  return ::fstat(file.number(), &opened) == 0 &&
         ::fstatat(folder.number(), name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

bool isEmpty(const Descriptor &file) {
  struct stat found;
  return ::fstat(file.number(), &found) == 0 && found.st_size == 0;
}

/// A lock belongs to the open file, which a child of fork() shares, so closing would not release
/// it.
void unlock(const Descriptor &file) { ::flock(file.number(), LOCK_UN); }

} // namespace

MachineLock MachineLock::acquire(const std::string &name, const std::function<bool()> &stop) {
  MachineLock lock(Outcome::unavailable);
  lock.folder = openLockFolder();
  lock.name = name;
  const auto end = std::chrono::steady_clock::now() + longestWait;
  auto pause = firstPause;
  Descriptor file;
  while (lock.folder) {
    if (!file)
      file = Descriptor(::openat(lock.folder.number(), name.c_str(),
                                 O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600));
    if (!file)
      return lock;
    if (::flock(file.number(), LOCK_EX | LOCK_NB) == 0) {
      bool current = isCurrent(file, lock.folder, name), wavedOn = !isEmpty(file);
      if (current && !wavedOn) {
        lock.file = std::move(file);
        lock.outcome_ = Outcome::held;
        return lock;
      }
      if (current) // its holder ended before it could remove the file
        ::unlinkat(lock.folder.number(), name.c_str(), 0);
      unlock(file);
      if (wavedOn)
        return lock;
      file = Descriptor();
      continue;
    }
    if (errno != EWOULDBLOCK && errno != EINTR)
      return lock;
    if (stop && stop()) {
      lock.outcome_ = Outcome::stopped;
      return lock;
    }
    if (std::chrono::steady_clock::now() >= end)
      return lock;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, longestPause);
  }
  return lock;
}

MachineLock MachineLock::tryAcquire(const std::string &name) {
  return acquire(name, [] { return true; });
}

void MachineLock::release() {
  if (!held())
    return;
  ::unlinkat(folder.number(), name.c_str(), 0);
  unlock(file);
  file = Descriptor();
}

void MachineLock::releaseAll() {
  if (held() && ::ftruncate(file.number(), 1) == 0) // needs no room on a full disk, unlike a write
    release();
}

} // namespace tesela
