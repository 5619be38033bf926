/*===- check.h - References and comparisons ---------------------*- C -*-===*\
|* Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.       *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                   *|
\*===--------------------------------------------------------------------===*/
/*
 * For tests: a reference for a launch, and the rules by which a result is compared with it
 * (docs/numerics.md). Tensors are in host memory, except for tesela_reference_on_device.
 */
#ifndef TESELA_C_CHECK_H
#define TESELA_C_CHECK_H

#include "tesela/c/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tesela_reference tesela_reference; /* the result that a launch should give */

/* By interpreting the variant on the host. o and lse are ignored and may be NULL. `threads` 0:
 * one for each usable processor. On success give *reference to tesela_reference_destroy. */
TESELA_API tesela_code tesela_reference_on_host(const tesela_kernel_options *options,
                                                const tesela_tensor_arguments *arguments,
                                                int threads, tesela_reference **reference);

/* By plain CUDA C++ on the context's GPU, compiled by NVRTC without Tesela's compiler. Tensors
 * lie in the device's memory and are bf16 or f16. Needs libnvrtc; without it, TESELA_NOT_FOUND. */
TESELA_API tesela_code tesela_reference_on_device(const tesela_context *context,
                                                  const tesela_kernel_options *options,
                                                  const tesela_tensor_arguments *arguments,
                                                  tesela_reference **reference);
TESELA_API void tesela_reference_destroy(tesela_reference *reference); /* NULL is allowed */

/* All arrays are contiguous; they live as long as the reference. */
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
  int64_t kept_pairs;      /* pairs (b, h, q, k) that the mask keeps; -1: not counted */
  const double *term_norm; /* [batch, heads, length]: the root of the sum of (p v)^2 over the keys
                              and head_dim_v */
} tesela_reference_info;

/* Writes *info, whose size the caller has set. */
TESELA_API tesela_code tesela_reference_describe(const tesela_reference *reference,
                                                 tesela_reference_info *info);

/* The difference between a result and its reference. */
typedef struct tesela_comparison {
  size_t size;      /* sizeof(tesela_comparison) */
  int passed;       /* 1 or 0 */
  double max_error; /* max|out-ref| */
  double tolerance;
  int64_t worst[4];     /* b, h, q, d of the largest error */
  double max_lse_error; /* over finite elements */
  double lse_tolerance; /* at the element that exceeds its tolerance most */
  int64_t worst_lse[3]; /* b, h, q */
  int64_t nan_count;    /* NaNs in o and lse where the reference has none */
  const char *failure;  /* one sentence if not passed, else ""; valid until this thread's next
                           comparison */
  int64_t worst_row[3]; /* b, h, q of the row with the largest error / tolerance */
  double row_error;     /* the norm of out-ref in that row */
  double row_tolerance; /* of that row */
} tesela_comparison;

/* Compares `o` (any strides) and `lse`, both in host memory, with `reference`, and writes
 * *comparison, whose size the caller has set. A row whose reference is all NaN must be NaN. If
 * the reference has other values that are not finite, the result does not pass and tolerance is
 * NaN. A wrong result is TESELA_OK; only shapes or types that disagree are a failure. */
TESELA_API tesela_code tesela_reference_compare(const tesela_reference *reference,
                                                const tesela_tensor *o, const tesela_tensor *lse,
                                                tesela_comparison *comparison);

/* Reads of a captured tensor whose index on one axis is outside of that axis. Such a read gives
 * the nearest element. That may be intended, or a mistake in the variant. */
typedef struct tesela_outside_reads {
  size_t size;         /* sizeof(tesela_outside_reads) */
  const char *capture; /* lives as long as the list */
  int axis;
  int64_t extent;
  int64_t index;      /* of the first such read, in the order of b, h, q, k */
  int64_t b, h, q, k; /* of that read; k is -1 in a sink, which has no key */
  int64_t count;      /* the number of such reads over all pairs; in a sink, over all rows */
} tesela_outside_reads;

typedef struct tesela_reads tesela_reads; /* a list, by tensor and axis */

/* Interprets the variant for every pair and lists the reads outside of captured tensors that
 * influence the result. o and lse are ignored and may be NULL. `threads` 0: one for each usable
 * processor. On success give *reads to tesela_reads_destroy. A correct variant usually has an
 * empty list. */
TESELA_API tesela_code tesela_check_reads(const tesela_kernel_options *options,
                                          const tesela_tensor_arguments *arguments, int threads,
                                          tesela_reads **reads);
TESELA_API void tesela_reads_destroy(tesela_reads *reads); /* NULL is allowed */
TESELA_API size_t tesela_reads_count(const tesela_reads *reads);

/* Writes *outside, whose size the caller has set. */
TESELA_API tesela_code tesela_reads_describe(const tesela_reads *reads, size_t index,
                                             tesela_outside_reads *outside);

/* Random numbers for tests. An element depends only on the seed and its logical index. */

/* Normal, mean 0 and deviation 1; f32, f16 or bf16. */
TESELA_API tesela_code tesela_fill_normal(const tesela_tensor *tensor, uint64_t seed);

/* Whole numbers in [low, high]; i32 or bool. */
TESELA_API tesela_code tesela_fill_uniform(const tesela_tensor *tensor, uint64_t seed, int64_t low,
                                           int64_t high);

/* q, k and v from the seeds `seed` + 1, `seed` + 2 and `seed` + 3. `kind`: "normal", or
 * difficult for the softmax: "scaled", "rising", "creeping", "falling", "jumping", "far", "wide"
 * (Check.h). */
TESELA_API tesela_code tesela_fill_inputs(const char *kind, const tesela_tensor *q,
                                          const tesela_tensor *k, const tesela_tensor *v,
                                          uint64_t seed);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TESELA_C_CHECK_H */
