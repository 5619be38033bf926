/*===- tesela.h - Tesela's C API --------------------------------*- C -*-===*\
|* Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.       *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                   *|
\*===--------------------------------------------------------------------===*/
/*
 * The C API: compile a variant, launch it. C99 and later; C++ too. docs/c-api.md is a guide.
 *
 * Errors: a function that can fail returns a tesela_code. The sentence that belongs to the last
 * failure of the calling thread is tesela_last_error(). Nothing is printed, no exception passes,
 * and a NULL where none is allowed is TESELA_INVALID_ARGUMENT. Functions that return a pointer to
 * a text never return NULL unless they say so.
 *
 * Structures begin with their size: set `size = sizeof(the structure)` and zero the rest, so that a
 * newer library understands an older caller. Those without a size never change.
 *
 * Handles are made by functions that write them through their last argument, which becomes NULL
 * where they fail, and belong to the caller, who destroys each once. What a handle needs of
 * another it keeps alive: they may be destroyed in any order.
 *
 * Threads: all functions may be called from several threads at once, with the same handles too;
 * but a handle must not be destroyed while another thread uses it.
 */
#ifndef TESELA_TESELA_H
#define TESELA_TESELA_H

#include "tesela/c/base.h"
#include "tesela/c/bundle.h"
#include "tesela/c/cache.h"
#include "tesela/c/check.h"
#include "tesela/c/context.h"
#include "tesela/c/explain.h"
#include "tesela/c/gradient.h"
#include "tesela/c/kernel.h"
#include "tesela/c/preparation.h"
#include "tesela/c/tensor.h"
#include "tesela/c/tune.h"
#include "tesela/c/variant.h"

#endif /* TESELA_TESELA_H */
