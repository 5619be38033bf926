/*===- check.h - Is a result right? -----------------------------*- C -*-===*\
|* Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.       *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                   *|
\*===--------------------------------------------------------------------===*/
/*
 * For tests: a reference for a launch, and the rule by which a result is held against it
 * (docs/numerics.md). Tensors are in the host's memory but for tesela_reference_on_device.
 */
#ifndef TESELA_C_CHECK_H
#define TESELA_C_CHECK_H

#include "tesela/c/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tesela_reference tesela_reference; /* what a launch should give */

/* By interpreting the variant on the host; o and lse are not looked at and may be NULL.
 * `threads` 0: the hardware's. On success *reference must be given to tesela_reference_destroy. */
TESELA_API tesela_code tesela_reference_on_host(const tesela_kernel_options *options,
                                                const tesela_tensor_arguments *arguments,
                                                int threads, tesela_reference **reference);

/* By plain CUDA on the context's GPU, compiled by NVRTC, apart from Tesela's own compiler. Tensors
 * lie in the device's memory; bf16 and f16 only. Needs libnvrtc (TESELA_NOT_FOUND names it). */
TESELA_API tesela_code tesela_reference_on_device(const tesela_context *context,
                                                  const tesela_kernel_options *options,
                                                  const tesela_tensor_arguments *arguments,
                                                  tesela_reference **reference);
TESELA_API void tesela_reference_destroy(tesela_reference *reference); /* NULL is allowed */

/* Arrays without gaps; they live as long as the reference. */
typedef struct tesela_reference_info {
  size_t size; /* sizeof(tesela_reference_info) */
  int64_t batch;
  int64_t heads;
  int64_t length;
  int64_t head_dim_v;
  tesela_type type;        /* of the inputs and of the output */
  int score_uses_tanh;     /* 1 or 0 */
  const double *ref;       /* [batch, heads, length, head_dim_v]: everything in double */
  const double *base;      /* likewise: rounded where a kernel rounds */
  const double *magnitude; /* likewise: the sum of p|v| */
  const double *lse;       /* [batch, heads, length] */
  double max_score;        /* the largest |score| of a kept finite element */
  int64_t kept_pairs;      /* (b, h, q, k) that the mask keeps; -1: not counted */
  const double *term_norm; /* [batch, heads, length]: the root of the sum of (p v)^2 over the keys
                              and head_dim_v */
} tesela_reference_info;

/* Writes *info, whose size the caller has set. */
TESELA_API tesela_code tesela_reference_describe(const tesela_reference *reference,
                                                 tesela_reference_info *info);

/* A result beside its reference. */
typedef struct tesela_comparison {
  size_t size;      /* sizeof(tesela_comparison) */
  int passed;       /* 1 or 0 */
  double max_error; /* max|out-ref| */
  double tolerance;
  int64_t worst[4];     /* b, h, q, d of the largest error */
  double max_lse_error; /* of finite elements */
  double lse_tolerance; /* at the element with the largest excess */
  int64_t worst_lse[3]; /* b, h, q */
  int64_t nan_count;    /* NaNs where none is due, in o and lse */
  const char *failure;  /* one sentence where not passed, else ""; valid until this thread's next
                           comparison */
  int64_t worst_row[3]; /* b, h, q of the row with the largest error by its tolerance */
  double row_error;     /* the norm of out-ref in that row */
  double row_tolerance; /* of that row */
} tesela_comparison;

/* Holds `o` (any strides) and `lse`, both in the host's memory, against `reference`, and writes
 * *comparison, whose size the caller has set. A row whose reference is all NaN must be NaN; where
 * the reference is not finite otherwise, no result passes and tolerance is NaN. TESELA_OK also where the result is wrong; a failure
 * where shapes or types do not agree. */
TESELA_API tesela_code tesela_reference_compare(const tesela_reference *reference,
                                                const tesela_tensor *o, const tesela_tensor *lse,
                                                tesela_comparison *comparison);

/* Reads of one axis of a captured tensor whose index is outside of it. They give the nearest
 * element, which may be what is meant, and may be a fault. */
typedef struct tesela_outside_reads {
  size_t size;         /* sizeof(tesela_outside_reads) */
  const char *capture; /* lives as long as the list */
  int axis;
  int64_t extent;
  int64_t index;      /* of the first, in the order of b, h, q, k */
  int64_t b, h, q, k; /* of the first; k is -1 for a sink's, which has no key */
  int64_t count;      /* how many of all pairs' reads; a sink's are counted once a row */
} tesela_outside_reads;

typedef struct tesela_reads tesela_reads; /* a list of them, by tensor and axis */

/* Interprets the variant for every pair and notes each read outside of a captured tensor whose
 * value counts. o and lse are not looked at and may be NULL. `threads` 0: the hardware's. On
 * success *reads must be given to tesela_reads_destroy; an empty list is what one hopes for. */
TESELA_API tesela_code tesela_check_reads(const tesela_kernel_options *options,
                                          const tesela_tensor_arguments *arguments, int threads,
                                          tesela_reads **reads);
TESELA_API void tesela_reads_destroy(tesela_reads *reads); /* NULL is allowed */
TESELA_API size_t tesela_reads_count(const tesela_reads *reads);

/* Writes *outside, whose size the caller has set. */
TESELA_API tesela_code tesela_reads_describe(const tesela_reads *reads, size_t index,
                                             tesela_outside_reads *outside);

/* Random numbers for tests, by logical index: the same for every layout, machine and run. */

/* Normal, mean 0 and deviation 1; f32, f16 or bf16. */
TESELA_API tesela_code tesela_fill_normal(const tesela_tensor *tensor, uint64_t seed);

/* Whole numbers in [low, high]; i32 or bool. */
TESELA_API tesela_code tesela_fill_uniform(const tesela_tensor *tensor, uint64_t seed, int64_t low,
                                           int64_t high);

/* q, k and v, of seeds `seed` + 1, 2 and 3. `kind`: "normal", or what is hard on the softmax:
 * "scaled", "rising", "creeping", "falling", "jumping", "far", "wide". */
TESELA_API tesela_code tesela_fill_inputs(const char *kind, const tesela_tensor *q,
                                          const tesela_tensor *k, const tesela_tensor *v,
                                          uint64_t seed);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TESELA_C_CHECK_H */
