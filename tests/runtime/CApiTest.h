/*===- CApiTest.h - Shared by the tests of the C API ------------*- C -*-===*\
|* Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.       *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                   *|
\*===--------------------------------------------------------------------===*/
#ifndef TESELA_TESTS_RUNTIME_CAPITEST_H
#define TESELA_TESTS_RUNTIME_CAPITEST_H

#include "tesela/tesela.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;

static inline void expect_at(int line, int condition, const char *what) {
  if (condition)
    return;
  ++failures;
  fprintf(stderr, "line %d: not so: %s (last error: %s)\n", line, what, tesela_last_error());
}

/* The call failed with this code, and its message contains this part. */
static inline void expect_error_at(int line, tesela_code code, tesela_code expected,
                                   const char *part) {
  expect_at(line, code == expected && tesela_last_error_code() == expected, part);
  expect_at(line, strstr(tesela_last_error(), part) != NULL, part);
}

#define expect(condition, what) expect_at(__LINE__, (condition), (what))
#define expect_error(code, expected, part) expect_error_at(__LINE__, (code), (expected), (part))

static inline int report_result(const char *what) {
  if (failures == 0)
    puts(what);
  return failures != 0;
}

/* The variant that the fake compiler's kernel computes. */
static const char *const variant_text =
    "attention sliding_alibi(window: i32 = 1024, slope: f32[H]) {\n"
    "  mask  = q >= k && q - k < window\n"
    "  score = s + slope[h] * (k - q)\n"
    "}\n";

static inline tesela_context *host_context(void) {
  tesela_context *context = NULL;
  tesela_context_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.device = "host";
  options.no_disk_cache = 1;
  options.verify = 1;
  options.threads = 2;
  expect(tesela_context_create(&options, &context) == TESELA_OK, "a context");
  return context;
}

static inline tesela_kernel_options kernel_options_of(const char *text, tesela_type type,
                                                      int head_dim) {
  tesela_kernel_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.variant = text;
  options.input_type = type;
  options.head_dim_qk = options.head_dim_v = head_dim;
  return options;
}

#endif /* TESELA_TESTS_RUNTIME_CAPITEST_H */
