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

/* The derivatives of the score by s, by each f32 scalar and by each element of a float tensor that
 * it reads, and those of the sink. Of `options` only variant, variant_file and constants count. No
 * GPU is needed. TESELA_INVALID_VARIANT: the sentence holds all diagnostics;
 * TESELA_INVALID_ARGUMENT: a constant is missing or is no number of its type; TESELA_UNSUPPORTED: a
 * derivative is larger than a text of the language may be. On success *gradient must be given to
 * tesela_gradient_destroy. */
TESELA_API tesela_code tesela_variant_gradient(const tesela_kernel_options *options,
                                               tesela_gradient **gradient);
TESELA_API void tesela_gradient_destroy(tesela_gradient *gradient); /* NULL is allowed */

/* What `tesela gradient` prints: a line for each derivative, "d score / d s = 1", behind the `let`
 * statements that they use. And a note for each int() or floor that passes no derivative on, with
 * file, line, column and caret; "": there is none. Both are valid as long as `gradient`, "" where
 * it is NULL. */
TESELA_API const char *tesela_gradient_text(const tesela_gradient *gradient);
TESELA_API const char *tesela_gradient_notes(const tesela_gradient *gradient);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TESELA_C_GRADIENT_H */
