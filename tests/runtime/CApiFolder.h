/*===- CApiFolder.h - Folders and files of a test ---------------*- C -*-===*\
|* Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.       *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                   *|
\*===--------------------------------------------------------------------===*/
/* Comes first: POSIX has more than C99. */
#ifndef TESELA_TESTS_RUNTIME_CAPIFOLDER_H
#define TESELA_TESTS_RUNTIME_CAPIFOLDER_H

#define _XOPEN_SOURCE 700

#include "CApiTest.h"

#include <ftw.h>
#include <stdlib.h>

/* Makes a new folder. `name` must end with XXXXXX. */
static inline void make_folder(char *name) { expect(mkdtemp(name) != NULL, "a folder"); }

static inline int remove_entry(const char *path, const struct stat *facts, int kind,
                               struct FTW *place) {
  (void)facts;
  (void)kind;
  (void)place;
  return remove(path);
}

static inline void remove_folder(const char *name) {
  expect(nftw(name, remove_entry, 8, FTW_DEPTH | FTW_PHYS) == 0, "the folder goes");
}

static inline void flip_last_bit(const char *path) {
  int last;
  FILE *file = fopen(path, "r+b");
  expect(file != NULL, path);
  if (!file)
    return;
  fseek(file, -1, SEEK_END);
  last = fgetc(file);
  fseek(file, -1, SEEK_END);
  fputc(last ^ 1, file);
  fclose(file);
}

#endif /* TESELA_TESTS_RUNTIME_CAPIFOLDER_H */
