/*===- cache.h - The kernels on disk ----------------------------*- C -*-===*\
|* Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.       *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                   *|
\*===--------------------------------------------------------------------===*/
/*
 * To list, check and prune the kernels on disk, while other threads, processes and machines use the
 * folder. Contexts manage their caches by themselves.
 */
#ifndef TESELA_C_CACHE_H
#define TESELA_C_CACHE_H

#include "tesela/c/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tesela_cache tesela_cache; /* a folder */

/* `folder` NULL or "": $TESELA_CACHE_DIR, else $XDG_CACHE_HOME/tesela, else ~/.cache/tesela, or
 * TESELA_NOT_FOUND if none of these variables is set. A folder that does not exist counts as an
 * empty cache and is not created. On success give *cache to tesela_cache_destroy. */
TESELA_API tesela_code tesela_cache_open(const char *folder, tesela_cache **cache);
TESELA_API void tesela_cache_destroy(tesela_cache *cache); /* NULL is allowed; removes no file */

/* The cache's folder; valid as long as `cache`, "" if that is NULL. */
TESELA_API const char *tesela_cache_folder(const tesela_cache *cache);

/* A kernel on disk. Texts live as long as the list. */
typedef struct tesela_cached_kernel {
  size_t size;      /* sizeof(tesela_cached_kernel) */
  const char *key;  /* 64 hexadecimal digits */
  const char *path; /* of its file */
  int64_t bytes;    /* of its file */
  int64_t used;     /* when it was last stored or loaded, to the minute; seconds since 1970 */
  /* Why the entry is not used; TESELA_OK and "" if it is. The next request compiles a damaged
   * kernel again. If there is damage, the fields below are not set. */
  tesela_code damage_code;
  const char *damage;
  int64_t made;        /* seconds since 1970 */
  const char *variant; /* its name */
  const char *target;  /* "host", "sm_90" */
  tesela_type input_type;
  int head_dim_qk;
  int head_dim_v;
  const char *schedule; /* the chosen one */
} tesela_cached_kernel;

typedef struct tesela_cached_kernels tesela_cached_kernels; /* a list, the most recently used
                                                               first */

/* All kernels. tesela_cache_list reads only the beginning of each file and notices no damage
 * behind it. tesela_cache_verify reads and checks whole files, as a context does before it loads
 * a kernel. On success give *kernels to tesela_cached_kernels_destroy. */
TESELA_API tesela_code tesela_cache_list(const tesela_cache *cache,
                                         tesela_cached_kernels **kernels);
TESELA_API tesela_code tesela_cache_verify(const tesela_cache *cache,
                                           tesela_cached_kernels **kernels);
TESELA_API void tesela_cached_kernels_destroy(tesela_cached_kernels *kernels); /* NULL is allowed */
TESELA_API size_t tesela_cached_kernels_count(const tesela_cached_kernels *kernels);

/* Writes *kernel, whose size the caller has set. */
TESELA_API tesela_code tesela_cached_kernels_describe(const tesela_cached_kernels *kernels,
                                                      size_t index, tesela_cached_kernel *kernel);

/* What tesela_cache_prune keeps. */
typedef struct tesela_cache_keep {
  size_t size;        /* sizeof(tesela_cache_keep) */
  int64_t most_bytes; /* removes the least recently used until the rest have at most this; 0: no
                         limit */
  int64_t most_seconds_old; /* removes kernels last used longer ago; 0: no limit */
} tesela_cache_keep;

/* What was removed, and what is left. */
typedef struct tesela_cache_removal {
  size_t size; /* sizeof(tesela_cache_removal) */
  int64_t kernels;
  int64_t bytes;
  int64_t bytes_left;
} tesela_cache_removal;

/* Writes *removal, whose size the caller has set; `removal` may be NULL. Also removes unfinished
 * files of processes that ended while they wrote. */
TESELA_API tesela_code tesela_cache_prune(const tesela_cache *cache, const tesela_cache_keep *keep,
                                          tesela_cache_removal *removal);

/* Removes all kernels. Folders and files that do not belong to the cache stay. */
TESELA_API tesela_code tesela_cache_clear(const tesela_cache *cache, tesela_cache_removal *removal);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TESELA_C_CACHE_H */
