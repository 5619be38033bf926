/*===- gradient.h - The derivatives of a variant ----------------*- C -*-===*\
|* Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.       *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                   *|
\*===--------------------------------------------------------------------===*/
#ifndef TESELA_C_GRADIENT_H
#define TESELA_C_GRADIENT_H

#include "tesela/c/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tesela_gradient tesela_gradient; /* the derivatives of a variant, as text */

/* The derivatives of the score with respect to s, to each f32 scalar and to each element of a
 * float tensor that it reads, and those of the sink. Only variant, variant_file and constants of
 * `options` are used. No GPU is needed. TESELA_INVALID_VARIANT: the message contains all
 * diagnostics. TESELA_INVALID_ARGUMENT: a constant is missing or is not a number of its type.
 * TESELA_UNSUPPORTED: a derivative exceeds the language's size limit for a text. On success give
 * *gradient to tesela_gradient_destroy. */
TESELA_API tesela_code tesela_variant_gradient(const tesela_kernel_options *options,
                                               tesela_gradient **gradient);
TESELA_API void tesela_gradient_destroy(tesela_gradient *gradient); /* NULL is allowed */

/* The text is what `tesela gradient` prints: the `let` statements, then a line for each
 * derivative, "d score / d s = 1". The notes name each int() or floor that stops a derivative,
 * with file, line, column and caret; "" if there is none. Both are valid as long as `gradient`,
 * and "" if that is NULL. */
TESELA_API const char *tesela_gradient_text(const tesela_gradient *gradient);
TESELA_API const char *tesela_gradient_notes(const tesela_gradient *gradient);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TESELA_C_GRADIENT_H */
