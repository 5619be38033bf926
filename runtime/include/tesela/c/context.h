/*===- context.h - Devices, contexts, events, memory ------------*- C -*-===*\
|* Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.       *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                   *|
\*===--------------------------------------------------------------------===*/
#ifndef TESELA_C_CONTEXT_H
#define TESELA_C_CONTEXT_H

#include "tesela/c/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a kernel can run on. */

typedef enum tesela_device_kind TESELA_AS_INT {
  TESELA_DEVICE_HOST = 0,
  TESELA_DEVICE_CUDA = 1
} tesela_device_kind;

typedef struct tesela_device_info {
  size_t size; /* sizeof(tesela_device_info) */
  tesela_device_kind kind;
  int index;            /* CUDA's ordinal; 0 for the host */
  const char *name;     /* "NVIDIA H200", or the CPU's name */
  const char *target;   /* "sm_90", or "host" */
  const char *driver;   /* the CUDA version of the driver, "13.0"; "" for the host */
  int sm;               /* compute capability, 90 for 9.0; 0 for the host */
  int processors;       /* multiprocessors, or the host's hardware threads */
  int64_t memory_bytes; /* of the device */
} tesela_device_info;

typedef struct tesela_devices tesela_devices; /* a list, as it was when it was made */

/* The host alone; or the GPUs that the driver shows, in its order (CUDA_VISIBLE_DEVICES applies).
 * TESELA_NOT_FOUND where there is no driver or no GPU: the sentence says which and what to do. On
 * success *devices must be given to tesela_devices_destroy. */
TESELA_API tesela_code tesela_devices_create(tesela_device_kind kind, tesela_devices **devices);
TESELA_API void tesela_devices_destroy(tesela_devices *devices); /* NULL is allowed */
TESELA_API size_t tesela_devices_count(const tesela_devices *devices);

/* Writes *info, whose size the caller has set. Its texts live as long as the list. */
TESELA_API tesela_code tesela_devices_describe(const tesela_devices *devices, size_t index,
                                               tesela_device_info *info);

/* Something that happened in a context. Fields that a kind does not name are 0 or "". Later
 * versions may have more kinds: skip those that you do not know. */

typedef enum tesela_event_kind TESELA_AS_INT {
  TESELA_EVENT_COMPILE_STARTED = 0,  /* variant, target, key */
  TESELA_EVENT_COMPILE_FINISHED = 1, /* also stages, milliseconds, bytes of the code; or failure */
  TESELA_EVENT_CACHE_HIT = 2,        /* text: "memory", "disk" or "package"; milliseconds */
  TESELA_EVENT_CACHE_MISS = 3,       /* a kernel was in no cache */
  TESELA_EVENT_CACHE_STORED = 4,     /* an entry was written to disk: key, bytes */
  TESELA_EVENT_CACHE_EVICTED = 5,    /* one was removed to keep the limit: key, bytes; from memory
                                        where text is "memory", else from disk */
  TESELA_EVENT_TRIAL = 6,            /* the tuner timed a schedule: text; milliseconds of the best
                                        launch so far, or failure */
  TESELA_EVENT_LAUNCH = 7,           /* variant, target; milliseconds of the host's time */
  TESELA_EVENT_WARNING = 8,          /* worth knowing, but no failure: text */
  TESELA_EVENT_VERIFIED = 9          /* the first launch of a kernel was verified: variant, target,
                                        text: "1024 of 16384 rows"; milliseconds; or failure */
} tesela_event_kind;

/* "compile started", "cache hit", ...; lives as long as the library. */
TESELA_API const char *tesela_event_name(tesela_event_kind kind);

/* Valid, with its texts, during the call that it is given to. */
typedef struct tesela_event {
  size_t size; /* of the library's structure: a field behind it is not there */
  tesela_event_kind kind;
  const char *variant; /* its name */
  const char *target;  /* "sm_90", "host" */
  const char *key;     /* of the cache's entry, 64 hexadecimal digits */
  const char *text;    /* a sentence, or what the kind says */
  double milliseconds;
  int64_t bytes;
  const tesela_stage *stages; /* of a compilation, in order */
  size_t stage_count;
  tesela_code failure_code; /* TESELA_OK: none */
  const char *failure;      /* its sentence */
} tesela_event;

/* A device, its cache of kernels and its memory. */

typedef struct tesela_context tesela_context;

/* What tesela_compile and launches do with measured schedules (tesela/c/tune.h). A schedule that
 * tesela_kernel_options name always holds. With TESELA_TUNING_OFF and TESELA_TUNING_CACHED the same
 * calls in the same order run the same kernels and give the same bits: a kernel never changes,
 * nothing is compiled by a launch, and nothing in the background, unless kernels have two tiers. */
typedef enum tesela_tuning TESELA_AS_INT {
  TESELA_TUNING_DEFAULT = 0, /* TESELA_TUNING_CACHED */
  TESELA_TUNING_OFF = 1,     /* the heuristic chooses */
  /* Schedules that were measured before the context was created, here or by those who made the
   * library, are used. With the options' sizes tesela_compile makes the kernel for these, which all
   * its launches run. Without, it makes one for each schedule that was measured for the variant and
   * waits for all of them; a launch runs that of its own sizes. What tesela_tune finds in this
   * context holds for kernels that are compiled from then on. */
  TESELA_TUNING_CACHED = 2,
  /* Also, the first launch of sizes that nothing is known for has them tuned in the background, on
   * one thread, in memory of its own; what came of it is swapped in: later launches of the same
   * kernel run another schedule, whose results differ in the last bits. */
  TESELA_TUNING_ON_FIRST_USE = 3,
  /* Also, tesela_compile tunes for the options' sizes that nothing is known for, and waits. */
  TESELA_TUNING_FULL = 4
} tesela_tuning;

typedef struct tesela_context_options {
  size_t size;              /* sizeof(tesela_context_options) */
  const char *device;       /* NULL or "auto", "host", "cuda", "cuda:1" */
  const char *cache_folder; /* NULL: $TESELA_CACHE_DIR, $XDG_CACHE_HOME/tesela, ~/.cache/tesela */
  int no_disk_cache;        /* not 0: nothing is read from or written to disk */
  int threads; /* of the host target; 0: one for each processor that the process may use */
  /* Called with a sentence where something is worth knowing but no failure. NULL: silent. Both
   * functions are called from any thread, from several at once, and until the context and all of
   * its kernels are destroyed; they must not wait for a kernel of this context. */
  void (*log)(void *log_user, const char *message);
  void *log_user;
  /* Called with all that happens. NULL: silent. */
  void (*events)(void *events_user, const tesela_event *event);
  void *events_user;
  /* The kernels that are kept in memory, those asked for last; 0: 1024. Who holds a tesela_kernel
   * keeps it beyond that. */
  int64_t most_kernels;
  /* The bytes that the cache's folder may have; beyond that what was used longest ago is removed.
   * 0: 1 GiB. */
  int64_t cache_bytes;
  tesela_tuning tuning;
  /* How long the tuning of one kernel for one bucket of sizes may take; 0: 60. */
  double tuning_seconds;
  /* Not 0: the first launch of each kernel, which then waits for its stream, is held against a
   * reference on a sample of rows, up to 1024. Where it is wrong it fails (TESELA_DEFECT), and so
   * does each later launch of the kernel. A kernel that cannot be verified is told to `log`. */
  int verify;
  /* Not 0: a kernel that would have to be compiled for a GPU may begin with a simple schedule,
   * which is there in a fraction of the time and slower. The best one is compiled in the background
   * and takes its place at a launch, never in the midst of a graph. Their results differ in the
   * last bits; both are cached. Where the best one does not compile, `log` is told, and
   * tesela_kernel_is_best. For single kernels: tesela_kernel_options' tiers. */
  int tiers;
} tesela_context_options;

/* `options` may be NULL. On success *context must be given to tesela_context_destroy. */
TESELA_API tesela_code tesela_context_create(const tesela_context_options *options,
                                             tesela_context **context);

/* NULL is allowed. Kernels and buffers of the context live on. */
TESELA_API void tesela_context_destroy(tesela_context *context);

/* The context's device, "NVIDIA H200", and its target, "sm_90" or "host"; valid as
 * long as the context; "" where it is NULL. */
TESELA_API const char *tesela_context_device(const tesela_context *context);
TESELA_API const char *tesela_context_target(const tesela_context *context);

/* All that is known of the device. The texts live as long as the context. */
TESELA_API tesela_code tesela_context_describe_device(const tesela_context *context,
                                                      tesela_device_info *info);

/* How often tesela_compile ran the compiler, not the cache; 0 where `context` is NULL. */
TESELA_API int64_t tesela_context_compile_count(const tesela_context *context);

/* Waits for what was launched on `stream`, a CUstream or cudaStream_t (NULL: the default stream);
 * on the host there is nothing to wait for. */
TESELA_API tesela_code tesela_synchronize(const tesela_context *context, void *stream);

/* Work that is measured. It launches, and returns TESELA_OK or the code of what failed; it must not
 * throw, nor must the functions of tesela_context_options. */
typedef tesela_code (*tesela_work)(void *user);

/* Calls `work` `warmup` times, then `repeat` times, and writes each one's time in milliseconds to
 * `milliseconds`, an array of `repeat`: the device's own clock around what `work` launches on
 * `stream`, or the wall clock on the host. Where `work` fails, so does this, with its code. */
TESELA_API tesela_code tesela_measure(const tesela_context *context, tesela_work work, void *user,
                                      int warmup, int repeat, void *stream, double *milliseconds);

/* Memory of a context's device. A buffer keeps what it needs of its context. */

typedef struct tesela_buffer tesela_buffer;

/* `bytes` of it, not initialised; 0 are allowed. On success *buffer must be given to
 * tesela_buffer_destroy. */
TESELA_API tesela_code tesela_buffer_create(const tesela_context *context, size_t bytes,
                                            tesela_buffer **buffer);

/* NULL is allowed. What was launched on the buffer must be done. */
TESELA_API void tesela_buffer_destroy(tesela_buffer *buffer);

/* The address, aligned to 256 bytes, in the device's memory; NULL where `buffer` is NULL. */
TESELA_API void *tesela_buffer_data(const tesela_buffer *buffer);
TESELA_API size_t tesela_buffer_size(const tesela_buffer *buffer); /* 0 where `buffer` is NULL */

/* Copies between the host's memory and the first `bytes` of `buffer`. Each waits until it is
 * done, but not for what was launched before on other streams than the default one. */
TESELA_API tesela_code tesela_buffer_write(tesela_buffer *buffer, const void *from, size_t bytes);
TESELA_API tesela_code tesela_buffer_read(const tesela_buffer *buffer, void *to, size_t bytes);

/* Sets every byte of `buffer`; 0xff makes NaNs of all its floats. Waits, as a copy does. */
TESELA_API tesela_code tesela_buffer_fill(tesela_buffer *buffer, uint8_t byte);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TESELA_C_CONTEXT_H */
