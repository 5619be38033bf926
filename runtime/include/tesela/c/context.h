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

typedef struct tesela_devices tesela_devices; /* a list; it does not change after its creation */

/* The host alone, or the GPUs that the driver lists, in its order (CUDA_VISIBLE_DEVICES
 * applies). TESELA_NOT_FOUND: there is no driver or no GPU; the message says which and what to
 * do. On success give *devices to tesela_devices_destroy. */
TESELA_API tesela_code tesela_devices_create(tesela_device_kind kind, tesela_devices **devices);
TESELA_API void tesela_devices_destroy(tesela_devices *devices); /* NULL is allowed */
TESELA_API size_t tesela_devices_count(const tesela_devices *devices);

/* Writes *info, whose size the caller has set. Its texts live as long as the list. */
TESELA_API tesela_code tesela_devices_describe(const tesela_devices *devices, size_t index,
                                               tesela_device_info *info);

/* Something that happened in a context. Fields that the kind does not mention are 0 or "". Later
 * versions may have more kinds; skip those that you do not know. */

typedef enum tesela_event_kind TESELA_AS_INT {
  TESELA_EVENT_COMPILE_STARTED = 0,  /* variant, target, key */
  TESELA_EVENT_COMPILE_FINISHED = 1, /* as above, stages, milliseconds, bytes of the code; or
                                        failure */
  TESELA_EVENT_CACHE_HIT = 2,        /* text: "memory", "disk" or "package"; milliseconds */
  TESELA_EVENT_CACHE_MISS = 3,       /* a kernel was in no cache */
  TESELA_EVENT_CACHE_STORED = 4,     /* an entry was written to disk: key, bytes */
  TESELA_EVENT_CACHE_EVICTED = 5,    /* an entry was removed to keep a limit: key, bytes; text is
                                        "memory" if it was in memory, else "" */
  TESELA_EVENT_TRIAL = 6,            /* the tuner timed a schedule: text; milliseconds of the
                                        fastest launch so far; or failure */
  TESELA_EVENT_LAUNCH = 7,           /* variant, target; milliseconds of the host's time */
  TESELA_EVENT_WARNING = 8,          /* worth knowing, but no failure: text */
  TESELA_EVENT_VERIFIED = 9          /* the first launch of a kernel was verified: variant, target,
                                        text: "1024 of 16384 rows"; milliseconds; or failure */
} tesela_event_kind;

/* "compile started", "cache hit", ...; lives as long as the library. */
TESELA_API const char *tesela_event_name(tesela_event_kind kind);

/* Valid, with its texts, only during the call of the callback. */
typedef struct tesela_event {
  size_t size; /* of the library's structure; fields beyond it do not exist */
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

/* How tesela_compile and launches use measured schedules (tesela/c/tune.h). A schedule in
 * tesela_kernel_options always takes precedence. With TESELA_TUNING_OFF and TESELA_TUNING_CACHED
 * the same calls in the same order run the same kernels and give the same bits: a kernel never
 * changes, and nothing is compiled by a launch or in the background, except for kernels with two
 * tiers. */
typedef enum tesela_tuning TESELA_AS_INT {
  TESELA_TUNING_DEFAULT = 0, /* TESELA_TUNING_CACHED */
  TESELA_TUNING_OFF = 1,     /* the heuristic chooses */
  /* Uses schedules that were measured before the context was created, on this machine or by the
   * makers of the library. With the options' sizes, tesela_compile makes one kernel, tuned for
   * these sizes, for all launches. Without, it makes a kernel for each schedule that was
   * measured for the variant and waits for all; each launch runs the one for its own sizes.
   * Results of tesela_tune in this context apply to kernels that are compiled later. */
  TESELA_TUNING_CACHED = 2,
  /* Also, the first launch with sizes that have no measurement starts tuning in the background,
   * on one thread and in its own memory. Later launches of the same kernel then run the faster
   * schedule, whose results differ in the last bits. */
  TESELA_TUNING_ON_FIRST_USE = 3,
  /* Also, tesela_compile tunes for the options' sizes if they have no measurement, and waits. */
  TESELA_TUNING_FULL = 4
} tesela_tuning;

typedef struct tesela_context_options {
  size_t size;              /* sizeof(tesela_context_options) */
  const char *device;       /* NULL or "auto", "host", "cuda", "cuda:1" */
  const char *cache_folder; /* NULL: $TESELA_CACHE_DIR, $XDG_CACHE_HOME/tesela, ~/.cache/tesela */
  int no_disk_cache;        /* not 0: the disk is neither read nor written */
  int threads; /* of the host target; 0: one for each processor that the process may use */
  /* Called with a sentence that is worth knowing but is no failure. NULL: silent. `log` and
   * `events` are called from any thread, from several at once, and until the context and all of
   * its kernels are destroyed. They must not wait for a kernel of this context. */
  void (*log)(void *log_user, const char *message);
  void *log_user;
  /* Called for every event. NULL: none. */
  void (*events)(void *events_user, const tesela_event *event);
  void *events_user;
  /* How many kernels are kept in memory, the most recently requested ones; 0: 1024. A
   * tesela_kernel handle keeps its kernel longer. */
  int64_t most_kernels;
  /* The limit of the cache folder in bytes. Beyond it the least recently used kernels are
   * removed. 0: 1 GiB. */
  int64_t cache_bytes;
  tesela_tuning tuning;
  /* The time limit for tuning one kernel for one bucket of sizes, in seconds; 0: 60. */
  double tuning_seconds;
  /* Not 0: the first launch of each kernel is compared with a reference on a sample of up to
   * 1024 rows, and so waits for its stream. If its result is wrong, it fails (TESELA_DEFECT),
   * and so does each later launch of the kernel. If a kernel cannot be verified, `log` reports
   * it. */
  int verify;
  /* Not 0: a kernel that must be compiled for a GPU may start with a simple schedule, which is
   * ready in a fraction of the time but slower. The best one is compiled in the background. A
   * later launch replaces the simple one, but not during a capture. Their results differ in the
   * last bits; both are cached. If the best one does not compile, `log` and
   * tesela_kernel_is_best report it. For one kernel: tesela_kernel_options' tiers. */
  int tiers;
} tesela_context_options;

/* `options` may be NULL. On success give *context to tesela_context_destroy. */
TESELA_API tesela_code tesela_context_create(const tesela_context_options *options,
                                             tesela_context **context);

/* NULL is allowed. Kernels and buffers of the context remain valid. */
TESELA_API void tesela_context_destroy(tesela_context *context);

/* The name of the context's device, "NVIDIA H200", and its target, "sm_90" or "host". Valid as
 * long as the context; "" if that is NULL. */
TESELA_API const char *tesela_context_device(const tesela_context *context);
TESELA_API const char *tesela_context_target(const tesela_context *context);

/* All that is known of the device. The texts live as long as the context. */
TESELA_API tesela_code tesela_context_describe_device(const tesela_context *context,
                                                      tesela_device_info *info);

/* How many times tesela_compile ran the compiler instead of using a cache; 0 if `context` is
 * NULL. */
TESELA_API int64_t tesela_context_compile_count(const tesela_context *context);

/* Waits for what was launched on `stream`, a CUstream or cudaStream_t (NULL: the default
 * stream). Returns at once on the host. */
TESELA_API tesela_code tesela_synchronize(const tesela_context *context, void *stream);

/* Work to measure. It launches something and returns TESELA_OK or the code of a failure. It must
 * not throw; neither must the functions of tesela_context_options. */
typedef tesela_code (*tesela_work)(void *user);

/* Calls `work` `warmup` times, then `repeat` times, and writes the time of each of the latter in
 * milliseconds to `milliseconds[repeat]`: on a GPU the device's time for what `work` launches on
 * `stream`, on the host the wall clock's. If `work` fails, returns its code. */
TESELA_API tesela_code tesela_measure(const tesela_context *context, tesela_work work, void *user,
                                      int warmup, int repeat, void *stream, double *milliseconds);

/* Memory of a context's device. A buffer keeps alive what it needs of its context. */

typedef struct tesela_buffer tesela_buffer;

/* Allocates `bytes` of the device's memory, uninitialised; 0 is allowed. On success give *buffer
 * to tesela_buffer_destroy. */
TESELA_API tesela_code tesela_buffer_create(const tesela_context *context, size_t bytes,
                                            tesela_buffer **buffer);

/* NULL is allowed. Launches that use the buffer must have ended. */
TESELA_API void tesela_buffer_destroy(tesela_buffer *buffer);

/* The address in the device's memory, a multiple of 256; NULL if `buffer` is NULL. */
TESELA_API void *tesela_buffer_data(const tesela_buffer *buffer);
TESELA_API size_t tesela_buffer_size(const tesela_buffer *buffer); /* 0 if `buffer` is NULL */

/* Copies between host memory and the first `bytes` of `buffer`. Returns when the copy is done.
 * It does not wait for earlier work on streams other than the default one. */
TESELA_API tesela_code tesela_buffer_write(tesela_buffer *buffer, const void *from, size_t bytes);
TESELA_API tesela_code tesela_buffer_read(const tesela_buffer *buffer, void *to, size_t bytes);

/* Sets every byte of `buffer` and returns when that is done. 0xff makes all floats NaN. */
TESELA_API tesela_code tesela_buffer_fill(tesela_buffer *buffer, uint8_t byte);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TESELA_C_CONTEXT_H */
