/*===- variant.h - The text of a variant ------------------------*- C -*-===*\
|* Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.       *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                   *|
\*===--------------------------------------------------------------------===*/
#ifndef TESELA_C_VARIANT_H
#define TESELA_C_VARIANT_H

#include "tesela/c/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The extent of an axis of a captured tensor: coefficient * name + offset. A plain number has
 * coefficient 0 and the name "". */
typedef struct tesela_extent {
  const char *name;
  int32_t coefficient;
  int32_t offset;
} tesela_extent;

/* A parameter of a variant, as its text declares it. */
typedef struct tesela_parameter_info {
  size_t size; /* sizeof(tesela_parameter_info) */
  const char *name;
  tesela_type type;
  int is_capture;  /* 1: a captured tensor; 0: a scalar */
  int is_constant; /* 1: given in tesela_kernel_options' constants, not with a launch */
  int has_default; /* 1: a scalar that may be left out */
  double default_value;
  int rank;                     /* of a captured tensor; 0 for a scalar */
  const tesela_extent *extents; /* `rank` of them */
} tesela_parameter_info;

typedef struct tesela_variant tesela_variant; /* a text that was checked */

/* Parses and checks the text of a variant, `attention name(...) { ... }`. `file` is its name in
 * messages; NULL: "variant". TESELA_INVALID_VARIANT: the message contains all diagnostics, each
 * with file, line, column and caret. On success give *variant to tesela_variant_destroy. */
TESELA_API tesela_code tesela_variant_check(const char *text, const char *file,
                                            tesela_variant **variant);
TESELA_API void tesela_variant_destroy(tesela_variant *variant); /* NULL is allowed */

/* The variant's name, and its warnings, which are formatted like errors ("": none). Valid as
 * long as `variant`; "" if that is NULL. */
TESELA_API const char *tesela_variant_name(const tesela_variant *variant);
TESELA_API const char *tesela_variant_warnings(const tesela_variant *variant);

/* The parameters, in the order of the text. Writes *info, whose size the caller has set; its
 * texts and extents live as long as `variant`. */
TESELA_API size_t tesela_variant_parameter_count(const tesela_variant *variant);
TESELA_API tesela_code tesela_variant_parameter(const tesela_variant *variant, size_t index,
                                                tesela_parameter_info *info);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TESELA_C_VARIANT_H */
