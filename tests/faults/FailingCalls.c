/*===----------------------------------------------------------------------===*\
|* Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.        *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
\*===----------------------------------------------------------------------===*/
/*
 * A library to preload. It makes one system call fail with ENOSPC for files of the cache that are
 * being written: $TESELA_FAILING_CALL is open, write, fsync, rename or mkdir. A failing write still
 * writes the first half of its data, as on a disk that becomes full.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES 1024

static unsigned char being_written[FILES]; /* by file descriptor: 1 new, 2 half written */

static int fails(const char *call) {
  const char *failing = getenv("TESELA_FAILING_CALL");
  if (!failing || strcmp(failing, call) != 0)
    return 0;
  const char *by = getenv("TESELA_FAILING_BY");
  if (by && strcmp(by, "kill") == 0)
    kill(getpid(), SIGKILL);
  errno = ENOSPC;
  return 1;
}

static int is_temporary(const char *path) { return strstr(path, ".kernel.") != NULL; }

int open(const char *path, int flags, ...) {
  static int (*real)(const char *, int, ...);
  if (!real)
    real = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
  mode_t mode = 0;
  if (flags & (O_CREAT | O_TMPFILE)) {
    va_list arguments;
    va_start(arguments, flags);
    mode = va_arg(arguments, mode_t);
    va_end(arguments);
  }
  int temporary = (flags & O_CREAT) && is_temporary(path);
  if (temporary && fails("open"))
    return -1;
  int file = real(path, flags, mode);
  if (file >= 0 && file < FILES)
    being_written[file] = (unsigned char)temporary;
  return file;
}

ssize_t write(int file, const void *bytes, size_t size) {
  static ssize_t (*real)(int, const void *, size_t);
  if (!real)
    real = (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
  if (file < 0 || file >= FILES || !being_written[file])
    return real(file, bytes, size);
  if (being_written[file] == 1 && getenv("TESELA_FAILING_CALL")) {
    being_written[file] = 2;
    return real(file, bytes, size / 2);
  }
  return fails("write") ? -1 : real(file, bytes, size);
}

int fsync(int file) {
  static int (*real)(int);
  if (!real)
    real = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
  if (file >= 0 && file < FILES && being_written[file] && fails("fsync"))
    return -1;
  return real(file);
}

int rename(const char *from, const char *to) {
  static int (*real)(const char *, const char *);
  if (!real)
    real = (int (*)(const char *, const char *))dlsym(RTLD_NEXT, "rename");
  if (is_temporary(from) && fails("rename"))
    return -1;
  return real(from, to);
}

int mkdir(const char *path, mode_t mode) {
  static int (*real)(const char *, mode_t);
  if (!real)
    real = (int (*)(const char *, mode_t))dlsym(RTLD_NEXT, "mkdir");
  if (fails("mkdir"))
    return -1;
  return real(path, mode);
}
