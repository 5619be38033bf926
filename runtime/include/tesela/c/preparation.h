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

/* A kernel that is made on threads of its context. */
typedef struct tesela_preparation tesela_preparation;

/* As tesela_compile, but returns at once. `milliseconds`, if above 0, is how long the request may
 * take from now on. Fails at once where the options themselves are wrong; what is wrong with the
 * variant's text, tesela_preparation_get tells. On success *preparation must be given to
 * tesela_preparation_destroy. */
TESELA_API tesela_code tesela_prepare(tesela_context *context, const tesela_kernel_options *options,
                                      int64_t milliseconds, tesela_preparation **preparation);

/* Takes the request back where it is not done. Others that asked for the same kernel get theirs. */
TESELA_API void tesela_preparation_cancel(tesela_preparation *preparation);

/* Waits for at most `milliseconds`; not 0 where tesela_preparation_get answers at once. 0 where
 * `preparation` is NULL. */
TESELA_API int tesela_preparation_wait(const tesela_preparation *preparation, int64_t milliseconds);

/* Waits for the kernel; another handle each time, which must be given to tesela_kernel_destroy.
 * TESELA_DEADLINE_EXCEEDED as soon as the request's time is over, TESELA_CANCELLED after
 * tesela_preparation_cancel, or where the context was destroyed before the kernel was there, or the
 * process was forked before and this is the child. */
TESELA_API tesela_code tesela_preparation_get(const tesela_preparation *preparation,
                                              tesela_kernel **kernel);

/* NULL is allowed. Does not cancel: the kernel is made and kept in the context's cache. */
TESELA_API void tesela_preparation_destroy(tesela_preparation *preparation);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TESELA_C_PREPARATION_H */
