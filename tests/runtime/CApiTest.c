/*===----------------------------------------------------------------------===*\
|* Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.        *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
\*===----------------------------------------------------------------------===*/
/*
 * The C API from C99: its header compiles without a warning, a kernel runs, wrong
 * arguments give their sentences.
 */
#include "CApiTest.h"

#include <math.h>
#include <stddef.h>

static void count_message(void *user, const char *message) {
  (void)message;
  ++*(int *)user;
}

enum { queries = 3, keys = 5, head_dim = 4 };

/* The description of the kernel of FakeCompiler.cpp, and that of the second request for it. */
static void test_describe(tesela_context *context, const tesela_kernel_options *options,
                          const tesela_kernel *kernel) {
  tesela_kernel *again = NULL;
  tesela_kernel_info info;
  tesela_type type;

  memset(&info, 0, sizeof info);
  expect_error(tesela_kernel_describe(kernel, &info), TESELA_INVALID_ARGUMENT,
               "set it to sizeof(tesela_kernel_info)");
  expect_error(tesela_kernel_describe(kernel, NULL), TESELA_INVALID_ARGUMENT,
               "tesela_kernel_info is NULL");
  info.size = sizeof info;
  expect_error(tesela_kernel_describe(NULL, &info), TESELA_INVALID_ARGUMENT, "kernel is NULL");
  expect(tesela_kernel_describe(kernel, &info) == TESELA_OK, "a kernel's facts");
  expect(info.size == sizeof info, "the size stays");
  expect(strcmp(info.target, "host") == 0, "a kernel's target");
  expect(strcmp(info.schedule, "rows = 1") == 0, "a kernel's schedule");
  expect(strcmp(info.assembler, "") == 0, "no assembler on the host");
  expect(info.origin == TESELA_COMPILED && info.compile_ms > 0, "a compilation");
  expect(info.stage_count == 2 && strcmp(info.stages[0].name, "fake") == 0 &&
             strcmp(info.stages[1].name, "load") == 0,
         "its stages");
  expect(strcmp(info.variant, "sliding_alibi") == 0 && info.input_type == TESELA_F32 &&
             info.head_dim_qk == head_dim && info.head_dim_v == head_dim,
         "what it is for");
  expect(info.registers == -1 && info.spill_bytes == -1 && info.shared_bytes == -1 &&
             info.threads == -1,
         "no facts of a GPU on the host");

  expect(tesela_kernel_tensor_type(kernel, "o", &type) == TESELA_OK && type == TESELA_F32,
         "the type of a tensor");
  expect_error(tesela_kernel_tensor_type(kernel, "d_bias", &type), TESELA_INVALID_ARGUMENT,
               "the kernel has no tensor 'd_bias'; it has q, k, v");
  expect_error(tesela_kernel_tensor_type(kernel, NULL, &type), TESELA_INVALID_ARGUMENT,
               "name is NULL");
  expect_error(tesela_kernel_tensor_type(kernel, "o", NULL), TESELA_INVALID_ARGUMENT,
               "type is NULL");
  expect_error(tesela_kernel_tensor_type(NULL, "o", &type), TESELA_INVALID_ARGUMENT,
               "kernel is NULL");

  expect(tesela_compile(context, options, &again) == TESELA_OK, "the kernel again");
  expect(tesela_kernel_describe(again, &info) == TESELA_OK, "its facts");
  expect(info.origin == TESELA_MEMORY_CACHE, "its origin");
  tesela_kernel_destroy(again);

  /* An older caller's structure is shorter: nothing beyond its end is written. */
  memset(&info, 0x55, sizeof info);
  info.size = offsetof(tesela_kernel_info, registers);
  expect(tesela_kernel_describe(kernel, &info) == TESELA_OK, "an older caller");
  expect(info.origin == TESELA_COMPILED && info.registers == 0x55555555, "only its part");
}

/* Lengths with equal powers of two share a kernel. An older caller's structure has no such
 * field. */
static void test_expected_length(tesela_context *context, tesela_kernel_options options) {
  tesela_kernel *kernel = NULL;
  tesela_kernel_info info;
  tesela_sizes sizes = {0, 8, 3, 1, 0}; /* a launch may be empty */
  int64_t lengths[] = {512, 1000, 1024};
  tesela_origin origins[] = {TESELA_COMPILED, TESELA_MEMORY_CACHE, TESELA_COMPILED};
  int i;

  memset(&info, 0, sizeof info);
  info.size = sizeof info;
  for (i = 0; i < 3; ++i) {
    options.expected_length = lengths[i];
    expect(tesela_compile(context, &options, &kernel) == TESELA_OK, "a kernel for a length");
    expect(tesela_kernel_describe(kernel, &info) == TESELA_OK, "its facts");
    expect(info.origin == origins[i], "its origin follows the length's power of two");
    tesela_kernel_destroy(kernel);
  }
  options.expected_length = -1;
  expect_error(tesela_compile(context, &options, &kernel), TESELA_INVALID_ARGUMENT,
               "the expected length is -1");
  options.expected_length = 0;
  options.expected_queries = -1;
  expect_error(tesela_compile(context, &options, &kernel), TESELA_INVALID_ARGUMENT,
               "the expected number of queries is -1");
  options.expected_queries = 0;
  options.sizes = &sizes;
  expect_error(tesela_compile(context, &options, &kernel), TESELA_INVALID_ARGUMENT,
               "the options' sizes: there are 8 query heads and 3 key/value heads");
  sizes.kv_heads = -2;
  expect_error(tesela_compile(context, &options, &kernel), TESELA_INVALID_ARGUMENT,
               "the options' sizes: the number of key/value heads is -2, it must lie in [0, "
               "2147483647]");
  options.sizes = NULL;
  options.expected_queries = 3;
  expect(tesela_compile(context, &options, &kernel) == TESELA_OK, "a kernel for few queries");
  expect(tesela_kernel_describe(kernel, &info) == TESELA_OK, "its facts");
  expect(info.origin == TESELA_COMPILED, "is another one");
  tesela_kernel_destroy(kernel);
  options.size = offsetof(tesela_kernel_options, expected_length);
  expect(tesela_compile(context, &options, &kernel) == TESELA_OK, "an older caller's kernel");
  expect(tesela_kernel_describe(kernel, &info) == TESELA_OK, "its facts");
  expect(info.origin == TESELA_MEMORY_CACHE, "is that of no length");
  tesela_kernel_destroy(kernel);
}

int main(void) {
  tesela_context *context = NULL;
  tesela_kernel *kernel = NULL;
  tesela_context_options context_options;
  tesela_kernel_options kernel_options;
  tesela_parameter constant;
  tesela_launch_arguments arguments;
  tesela_parameter parameters[2];
  float q[queries * head_dim], k[keys * head_dim], v[keys * head_dim];
  float o[queries * head_dim], lse[queries], slope[1] = {0};
  int64_t slope_extents[1] = {1};
  int messages = 0;
  int i;

  expect(strcmp(tesela_version(), TESELA_TEST_VERSION) == 0, "the version");
  expect(strcmp(tesela_last_error(), "") == 0, "no error at first");

  memset(&context_options, 0, sizeof context_options);
  expect_error(tesela_context_create(&context_options, &context), TESELA_INVALID_ARGUMENT,
               "set it to sizeof(tesela_context_options)");
  expect(context == NULL, "no context after a failure");
  context_options.size = sizeof context_options;
  context_options.device = "nothing";
  expect_error(tesela_context_create(&context_options, &context), TESELA_INVALID_ARGUMENT,
               "the device 'nothing' is not known");
  context_options.device = "host";
  context_options.no_disk_cache = 1;
  context_options.verify = 1;
  context_options.threads = 2;
  context_options.log = count_message;
  context_options.log_user = &messages;
  expect(tesela_context_create(&context_options, &context) == TESELA_OK, "a context");
  expect(strcmp(tesela_context_target(context), "host") == 0, "its target");
  expect(strlen(tesela_context_device(context)) > 0, "its device");

  memset(&kernel_options, 0, sizeof kernel_options);
  kernel_options.size = sizeof kernel_options;
  kernel_options.input_type = TESELA_F32;
  kernel_options.head_dim_qk = kernel_options.head_dim_v = head_dim;
  expect_error(tesela_compile(context, &kernel_options, &kernel), TESELA_INVALID_ARGUMENT,
               "variant is NULL");
  kernel_options.variant = "attention broken";
  expect_error(tesela_compile(context, &kernel_options, &kernel), TESELA_INVALID_VARIANT,
               "variant:1:");
  kernel_options.variant = variant_text;
  expect_error(tesela_compile(NULL, &kernel_options, &kernel), TESELA_INVALID_ARGUMENT,
               "context is NULL");
  kernel_options.constant_count = 1;
  expect_error(tesela_compile(context, &kernel_options, &kernel), TESELA_INVALID_ARGUMENT,
               "constants is NULL, but constant_count is 1");
  memset(&constant, 0, sizeof constant);
  constant.name = "step";
  constant.rank = 1;
  kernel_options.constants = &constant;
  expect_error(tesela_compile(context, &kernel_options, &kernel), TESELA_INVALID_ARGUMENT,
               "'step' has rank 1, it must be a scalar");
  kernel_options.constants = NULL;
  kernel_options.constant_count = 0;
  expect(tesela_compile(context, &kernel_options, &kernel) == TESELA_OK, "a kernel");
  test_describe(context, &kernel_options, kernel);
  test_expected_length(context, kernel_options);

  /* All scores are 0 and each value is its key's number, so row i is the mean of 0 to i. */
  memset(q, 0, sizeof q);
  memset(k, 0, sizeof k);
  for (i = 0; i < keys * head_dim; ++i)
    v[i] = (float)(i / head_dim);
  memset(&arguments, 0, sizeof arguments);
  arguments.size = sizeof arguments;
  arguments.batch = arguments.heads = arguments.kv_heads = 1;
  arguments.length = queries;
  arguments.kv_length = keys;
  arguments.q.data = q;
  arguments.k.data = k;
  arguments.v.data = v;
  arguments.o.data = o;
  arguments.q.length_stride = arguments.k.length_stride = head_dim;
  arguments.v.length_stride = arguments.o.length_stride = head_dim;
  arguments.lse = lse;
  memset(parameters, 0, sizeof parameters);
  parameters[0].name = "slope";
  parameters[0].data = slope;
  parameters[0].type = TESELA_F32;
  parameters[0].rank = 1;
  parameters[0].extents = slope_extents;
  parameters[1].name = "window";
  parameters[1].scalar = 100;
  expect_error(tesela_launch(kernel, &arguments, NULL), TESELA_INVALID_ARGUMENT,
               "'slope' is missing");
  arguments.parameters = parameters;
  arguments.parameter_count = 2;
  arguments.scale = -1;
  expect_error(tesela_launch(kernel, &arguments, NULL), TESELA_INVALID_ARGUMENT, "negate q");
  arguments.scale = NAN;
  expect_error(tesela_launch(kernel, &arguments, NULL), TESELA_INVALID_ARGUMENT, "finite");
  arguments.scale = 0;
  parameters[0].rank = 9;
  expect_error(tesela_launch(kernel, &arguments, NULL), TESELA_INVALID_ARGUMENT, "rank 9");
  parameters[0].rank = 1;
  expect_error(tesela_launch(NULL, &arguments, NULL), TESELA_INVALID_ARGUMENT, "kernel is NULL");
  expect_error(tesela_launch(kernel, NULL, NULL), TESELA_INVALID_ARGUMENT,
               "tesela_launch_arguments is NULL");

  expect(tesela_check_arguments(kernel, &arguments) == TESELA_OK, "arguments that fit");
  arguments.kv_heads = 0;
  expect_error(tesela_check_arguments(kernel, &arguments), TESELA_INVALID_ARGUMENT,
               "must be a multiple of that of");
  arguments.kv_heads = 1;
  tesela_context_destroy(context); /* the kernel keeps alive what it needs */
  expect(tesela_launch(kernel, &arguments, NULL) == TESELA_OK, "a launch");
  arguments.captures_unchanged = 1;
  expect(tesela_launch(kernel, &arguments, NULL) == TESELA_OK, "a launch with what was captured");
  for (i = 0; i < queries; ++i) {
    expect(fabsf(o[i * head_dim] - (float)i / 2) < 1e-5f, "a row's mean");
    expect(fabsf(lse[i] - logf((float)(i + 1))) < 1e-4f, "a row's lse");
  }
  tesela_kernel_destroy(kernel);
  tesela_kernel_destroy(NULL);
  tesela_context_destroy(NULL);
  expect(messages == 0, "no message");
  return report_result("the C API does as it says");
}
