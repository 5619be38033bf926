/*===- tesela.h - Tesela's C API --------------------------------*- C -*-===*\
|* Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.       *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                   *|
\*===--------------------------------------------------------------------===*/
/*
 * The C API: compile a variant, launch it. C99 and later.
 *
 * Errors: a function that can fail returns a tesela_code. The sentence that
 * belongs to the last failure of the calling thread is tesela_last_error().
 *
 * Structures begin with their size: set `size = sizeof(the structure)` and zero
 * the rest, so that a newer library understands an older caller.
 *
 * All functions may be called from several threads at once, but a handle must not be
 * destroyed while another thread uses it. A kernel keeps what it needs of its
 * context: the two may be destroyed in any order.
 */
#ifndef TESELA_TESELA_H
#define TESELA_TESELA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TESELA_API __attribute__((visibility("default")))

typedef enum tesela_code {
  TESELA_OK = 0,
  TESELA_INVALID_ARGUMENT = 1, /* a value, shape, stride, alignment or type is not accepted */
  TESELA_INVALID_VARIANT = 2,  /* the variant's text has errors; the message holds them all */
  TESELA_UNSUPPORTED = 3,      /* valid, but this version or device cannot do it */
  TESELA_NOT_FOUND = 4,        /* a file, device or library was not found */
  TESELA_INPUT_OUTPUT = 5,     /* reading or writing failed, or what was read is damaged */
  TESELA_DRIVER = 6,           /* the GPU's driver reported an error */
  TESELA_OUT_OF_MEMORY = 7,
  TESELA_DEFECT = 8,             /* a defect of Tesela: please report it */
  TESELA_CANCELLED = 9,          /* the caller took the request back */
  TESELA_DEADLINE_EXCEEDED = 10, /* the time that the caller gave was over */
} tesela_code;

typedef enum tesela_type {
  TESELA_F32 = 0,
  TESELA_F16 = 1,
  TESELA_BF16 = 2,
  TESELA_I32 = 3,
  TESELA_BOOL = 4 /* one byte; 0 is false, all else is true */
} tesela_type;

/* "0.1.0"; lives as long as the library. */
TESELA_API const char *tesela_version(void);

/* The sentence of this thread's last failure, "" before the first; valid until the
 * thread's next call that fails. */
TESELA_API const char *tesela_last_error(void);

typedef struct tesela_context tesela_context; /* a device and its cache of kernels */
typedef struct tesela_kernel tesela_kernel;   /* a compiled, loaded kernel */

typedef struct tesela_context_options {
  size_t size;              /* sizeof(tesela_context_options) */
  const char *device;       /* NULL or "auto", "host", "cuda", "cuda:1" */
  const char *cache_folder; /* NULL: $TESELA_CACHE_DIR, $XDG_CACHE_HOME/tesela, ~/.cache/tesela */
  int no_disk_cache;        /* not 0: nothing is read from or written to disk */
  int threads; /* of the host target; 0: one for each processor that the process may use */
  void (*log)(void *log_user, const char *message); /* may be NULL; from any thread */
  void *log_user;
} tesela_context_options;

/* `options` may be NULL. On success *context must be given to tesela_context_destroy. */
TESELA_API tesela_code tesela_context_create(const tesela_context_options *options,
                                             tesela_context **context);
TESELA_API void tesela_context_destroy(tesela_context *context); /* NULL is allowed */

/* The context's device, "NVIDIA H200", and its target, "sm_90" or "host"; valid as
 * long as the context. */
TESELA_API const char *tesela_context_device(const tesela_context *context);
TESELA_API const char *tesela_context_target(const tesela_context *context);

struct tesela_parameter;

typedef struct tesela_kernel_options {
  size_t size;              /* sizeof(tesela_kernel_options) */
  const char *variant;      /* the text, `attention name(...) { ... }` */
  const char *variant_file; /* its name in messages; NULL: "variant" */
  tesela_type input_type;   /* of q, k, v and o: bf16, f16, or f32 (host only) */
  int head_dim_qk; /* a multiple of 8 up to 256; so is head_dim_v */
  int head_dim_v;
  const char *schedule; /* NULL: chosen by the library */
  /* How many keys launches tend to have; 0: not known, or many. A kernel is right for every length.
   */
  int64_t expected_length;
  /* How many queries a sequence tends to have; 0: not known, or many. Few, as in decoding, let the
   * query heads of a key/value head share a tile. */
  int64_t expected_queries;
  /* The variant's `const` parameters, scalars that a launch does not have; those with a default may
   * be left out. Every set of values is a kernel of its own, compiled and cached apart. */
  const struct tesela_parameter *constants;
  size_t constant_count;
} tesela_kernel_options;

/* Takes the kernel from the cache or compiles it now. On success *kernel must be given to
 * tesela_kernel_destroy. */
TESELA_API tesela_code tesela_compile(tesela_context *context, const tesela_kernel_options *options,
                                      tesela_kernel **kernel);
TESELA_API void tesela_kernel_destroy(tesela_kernel *kernel); /* NULL is allowed */

typedef enum tesela_origin {
  TESELA_COMPILED = 0,
  TESELA_MEMORY_CACHE = 1,
  TESELA_DISK_CACHE = 2
} tesela_origin;

/* What is known of a kernel. Texts live as long as the kernel; a number that is not known,
 * as those of a GPU are on the host, is -1. */
typedef struct tesela_kernel_info {
  size_t size;           /* sizeof(tesela_kernel_info) */
  const char *target;    /* what it was compiled for: "host", "sm_90" */
  const char *schedule;  /* as it was chosen, in tesela_kernel_options' syntax */
  const char *assembler; /* "ptxas 13.0", "driver 13.0"; "" on the host */
  tesela_origin origin;  /* where tesela_compile had it from */
  double compile_ms;     /* of that call, from the text or the cache to the loaded code */
  int registers;         /* a thread; this and the rest of the plan's most demanding kernel */
  int spill_bytes;       /* a thread, stores and loads */
  int64_t shared_bytes;  /* a block, static and dynamic */
  int threads;           /* a block */
} tesela_kernel_info;

/* Writes *info, whose size the caller has set; of a structure that is shorter than this
 * library's, only that much. */
TESELA_API tesela_code tesela_kernel_describe(const tesela_kernel *kernel,
                                              tesela_kernel_info *info);

/* A view [batch, heads, length, head_dim] in the device's memory, in that order whatever
 * the layout; the extents stand in tesela_launch_arguments. Strides in elements; the stride
 * of head_dim is 1. On a GPU the address and the strides are multiples of 16 bytes. */
typedef struct tesela_view {
  void *data;
  int64_t batch_stride;
  int64_t head_stride;
  int64_t length_stride;
} tesela_view;

/* The value of a variant's parameter. A scalar has data == NULL and rank 0. */
typedef struct tesela_parameter {
  const char *name;
  double scalar;          /* i32: a whole number; f32: rounded to f32 */
  void *data;             /* a captured tensor, in the device's memory */
  tesela_type type;       /* of the captured tensor */
  int rank;               /* of the captured tensor, 1 to 8 */
  const int64_t *extents; /* `rank` of them */
  const int64_t *strides; /* `rank` of them, in elements; NULL: without gaps */
} tesela_parameter;

typedef struct tesela_launch_arguments {
  size_t size; /* sizeof(tesela_launch_arguments) */
  int64_t batch;
  int64_t heads; /* a multiple of kv_heads */
  int64_t kv_heads;
  int64_t length;                     /* queries */
  int64_t kv_length;                  /* keys */
  tesela_view q;                      /* [batch, heads, length, head_dim_qk] */
  tesela_view k;                      /* [batch, kv_heads, kv_length, head_dim_qk] */
  tesela_view v;                      /* [batch, kv_heads, kv_length, head_dim_v] */
  tesela_view o;                      /* [batch, heads, length, head_dim_v], written */
  float *lse;                         /* [batch, heads, length] without gaps, written */
  double scale;                       /* finite and positive; 0: 1/sqrt(head_dim_qk) */
  const tesela_parameter *parameters; /* those with a default may be left out */
  size_t parameter_count;
  /* Not 0: no captured tensor's elements have changed since this kernel's last launch on this
   * stream. What is computed of the tensors alone is then kept for those with the same address,
   * extents and strides. Never needed for a right result, and wrong results where it is not true.
   */
  int captures_unchanged;
} tesela_launch_arguments;

/* Launches on `stream` (a CUstream or cudaStream_t; NULL: the default stream) and
 * returns at once; on the host `stream` is NULL and the result is there on return. Where an
 * argument does not fit, nothing is launched. */
TESELA_API tesela_code tesela_launch(const tesela_kernel *kernel,
                                     const tesela_launch_arguments *arguments, void *stream);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TESELA_TESELA_H */
