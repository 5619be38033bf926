/*===- tesela.h - Tesela's C API --------------------------------*- C -*-===*\
|* Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.       *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                   *|
\*===--------------------------------------------------------------------===*/
/*
 * The C API: compile a variant and launch it. C99 and later, and C++. docs/c-api.md is a guide.
 *
 * Errors: a function that can fail returns a tesela_code. tesela_last_error() is the message of the
 * calling thread's last failure. The library prints nothing and throws no exception. A NULL that is
 * not allowed is TESELA_INVALID_ARGUMENT. Functions that return a pointer to a text never return
 * NULL unless their comment says so.
 *
 * Structures begin with their size. Set `size = sizeof(the structure)` and zero the rest, so that a
 * newer library understands an older caller. Structures without a size never change.
 *
 * Handles: a function that makes one writes it through its last argument, or NULL if it fails. The
 * caller owns the handle and destroys it once. A handle keeps alive what it needs of other handles,
 * so they may be destroyed in any order.
 *
 * Threads: all functions may be called from several threads at once, also with the same handles.
 * But do not destroy a handle while another thread uses it.
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
