/*===- base.h - Version, errors, types, bytes -------------------*- C -*-===*\
|* Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.       *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                   *|
\*===--------------------------------------------------------------------===*/
#ifndef TESELA_C_BASE_H
#define TESELA_C_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TESELA_API __attribute__((visibility("default")))

/* C's enumerations hold any int, and so must C++'s: a wrong number is refused, not undefined. */
#ifdef __cplusplus
#define TESELA_AS_INT : int
#else
#define TESELA_AS_INT
#endif

/* The version that a program is compiled against. tesela_version_number() is that of the library
 * at run time. They fit if the major versions are equal and the library is not older. */
#define TESELA_VERSION_MAJOR 0
#define TESELA_VERSION_MINOR 1
#define TESELA_VERSION_PATCH 0
#define TESELA_VERSION_NUMBER                                                                      \
  (TESELA_VERSION_MAJOR * 10000 + TESELA_VERSION_MINOR * 100 + TESELA_VERSION_PATCH)

/* "0.1.0"; lives as long as the library. */
TESELA_API const char *tesela_version(void);

/* The library's TESELA_VERSION_NUMBER. */
TESELA_API int tesela_version_number(void);

typedef enum tesela_code TESELA_AS_INT {
  TESELA_OK = 0,
  TESELA_INVALID_ARGUMENT = 1, /* a value, shape, stride, alignment or type is not accepted */
  TESELA_INVALID_VARIANT = 2,  /* the variant's text has errors; the message holds them all */
  TESELA_UNSUPPORTED = 3,      /* valid, but this version or device cannot do it */
  TESELA_NOT_FOUND = 4,        /* a file, device or library was not found */
  TESELA_INPUT_OUTPUT = 5,     /* reading or writing failed, or what was read is damaged */
  TESELA_DRIVER = 6,           /* the GPU's driver reported an error */
  TESELA_OUT_OF_MEMORY = 7,
  TESELA_DEFECT = 8,            /* a defect of Tesela: please report it */
  TESELA_CANCELLED = 9,         /* the caller took the request back */
  TESELA_DEADLINE_EXCEEDED = 10 /* the time that the caller gave was over */
} tesela_code;

/* "invalid argument", "driver error", ...; lives as long as the library. */
TESELA_API const char *tesela_code_name(tesela_code code);

/* The last failure of the calling thread. A call that succeeds does not change it. The texts are
 * valid until the thread's next failure. Before the first failure they are "" or NULL. */

/* The message with its chain of causes: "launching 'causal': q has no address: ...". */
TESELA_API const char *tesela_last_error(void);

/* Its code; TESELA_OK before the first failure. */
TESELA_API tesela_code tesela_last_error_code(void);

/* The links of the chain: what was tried, the cause, the cause's cause. */
TESELA_API size_t tesela_last_error_count(void);
TESELA_API const char *tesela_last_error_link(size_t index); /* NULL if there is no such link */

/* Element types. */
typedef enum tesela_type TESELA_AS_INT {
  TESELA_F32 = 0,
  TESELA_F16 = 1,
  TESELA_BF16 = 2,
  TESELA_I32 = 3,
  TESELA_BOOL = 4, /* one byte; 0 is false, all else is true */
  /* Only for captured tensors that the variant declares as i32. The low 32 bits of each element
   * are read, so values wrap as i32 does. */
  TESELA_I64 = 5,
  /* 8 bits: sign, 4 bits of exponent, 3 of mantissa; at most 448, no infinity. Only for tensors
   * that a template declares with this type; no variant captures it. */
  TESELA_E4M3 = 6
} tesela_type;

/* A stage of a compilation. Arrays of them are in the order of execution. */
typedef struct tesela_stage {
  const char *name;
  double milliseconds;
} tesela_stage;

/* Bytes that the library made. A zero byte follows the last one, so a text is a C string. */
typedef struct tesela_bytes tesela_bytes;
TESELA_API const char *tesela_bytes_data(const tesela_bytes *bytes); /* "" if bytes is NULL */
TESELA_API size_t tesela_bytes_size(const tesela_bytes *bytes);      /* 0 if bytes is NULL */
TESELA_API void tesela_bytes_destroy(tesela_bytes *bytes);           /* NULL is allowed */

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TESELA_C_BASE_H */
