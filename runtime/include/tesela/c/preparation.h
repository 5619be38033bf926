/*===- preparation.h - Kernels made in the background -----------*- C -*-===*\
|* Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.       *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                   *|
\*===--------------------------------------------------------------------===*/
#ifndef TESELA_C_PREPARATION_H
#define TESELA_C_PREPARATION_H

#include "tesela/c/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A kernel that threads of a context are making. */
typedef struct tesela_preparation tesela_preparation;

/* Like tesela_compile, but returns at once. `milliseconds`, if above 0, limits the
 * request, counted from now. Wrong options fail at once; tesela_preparation_get reports
 * errors in the variant's text. On success give *preparation to
 * tesela_preparation_destroy. */
TESELA_API tesela_code tesela_prepare(tesela_context *context, const tesela_kernel_options *options,
                                      int64_t milliseconds, tesela_preparation **preparation);

/* Withdraws the request if it is not done. Other requests for the same kernel are not affected. */
TESELA_API void tesela_preparation_cancel(tesela_preparation *preparation);

/* Waits for at most `milliseconds`. Returns 1 if tesela_preparation_get would return without
 * waiting, else 0; 0 if `preparation` is NULL. */
TESELA_API int tesela_preparation_wait(const tesela_preparation *preparation, int64_t milliseconds);

/* Waits for the kernel. Writes a new handle each time; give each to tesela_kernel_destroy.
 * TESELA_DEADLINE_EXCEEDED: the request's time limit has passed. TESELA_CANCELLED: after
 * tesela_preparation_cancel, or if the context was destroyed before the kernel was ready, or in
 * a child of fork() if it was not ready before. */
TESELA_API tesela_code tesela_preparation_get(const tesela_preparation *preparation,
                                              tesela_kernel **kernel);

/* NULL is allowed. Does not cancel: the kernel is still made and kept in the context's cache. */
TESELA_API void tesela_preparation_destroy(tesela_preparation *preparation);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TESELA_C_PREPARATION_H */
