/*===----------------------------------------------------------------------===*\
|* Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.        *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
\*===----------------------------------------------------------------------===*/
/*
 * Kernels made in the background, from C.
 */
#include "CApiTest.h"

#include <pthread.h>

static void test_a_kernel(tesela_context *context) {
  tesela_kernel_options options = kernel_options_of(variant_text, TESELA_F32, 32);
  tesela_preparation *preparation = NULL;
  tesela_kernel *kernel = NULL, *again = NULL;
  tesela_kernel_info info;
  expect(tesela_prepare(context, &options, 60000, &preparation) == TESELA_OK, "a preparation");
  expect(tesela_preparation_get(preparation, &kernel) == TESELA_OK, "its kernel");
  expect(tesela_preparation_wait(preparation, 0) == 1, "it is ready");
  expect(tesela_preparation_get(preparation, &again) == TESELA_OK && again != kernel,
         "another handle");
  tesela_preparation_cancel(preparation);
  tesela_preparation_destroy(preparation);
  memset(&info, 0, sizeof info);
  info.size = sizeof info;
  expect(tesela_kernel_describe(again, &info) == TESELA_OK && info.origin == TESELA_COMPILED,
         "both were compiled");
  tesela_kernel_destroy(kernel);
  tesela_kernel_destroy(again);
  expect(tesela_context_compile_count(context) == 1, "once");
}

static void test_failures(tesela_context *context) {
  tesela_kernel_options options = kernel_options_of("attention broken( {", TESELA_F32, 32);
  tesela_preparation *preparation = NULL;
  tesela_kernel *kernel = NULL;
  expect(tesela_prepare(context, &options, 0, &preparation) == TESELA_OK, "a wrong text");
  expect_error(tesela_preparation_get(preparation, &kernel), TESELA_INVALID_VARIANT, "error");
  expect(kernel == NULL, "no kernel after a failure");
  tesela_preparation_destroy(preparation);

  options.head_dim_v = 0;
  expect_error(tesela_prepare(context, &options, 0, &preparation), TESELA_INVALID_ARGUMENT,
               "the head dimension is 0");
  expect(preparation == NULL, "no preparation after a failure");

  expect_error(tesela_prepare(NULL, &options, 0, &preparation), TESELA_INVALID_ARGUMENT,
               "context is NULL");
  expect_error(tesela_prepare(context, NULL, 0, &preparation), TESELA_INVALID_ARGUMENT,
               "tesela_kernel_options is NULL");
  expect_error(tesela_prepare(context, &options, 0, NULL), TESELA_INVALID_ARGUMENT,
               "preparation is NULL");
  expect_error(tesela_preparation_get(NULL, &kernel), TESELA_INVALID_ARGUMENT,
               "preparation is NULL");
  expect(tesela_preparation_wait(NULL, 1) == 0, "nothing to wait for");
  tesela_preparation_cancel(NULL);
  tesela_preparation_destroy(NULL);
}

/* When the context is destroyed, unfinished preparations are cancelled and finished ones stay. */
static void test_the_end_of_a_context(void) {
  tesela_context *context = host_context();
  tesela_kernel_options options = kernel_options_of(variant_text, TESELA_F32, 32);
  tesela_preparation *preparation = NULL;
  tesela_kernel *kernel = NULL;
  tesela_code code;
  expect(tesela_prepare(context, &options, INT64_MAX, &preparation) == TESELA_OK,
         "a time without end");
  tesela_context_destroy(context);
  code = tesela_preparation_get(preparation, &kernel);
  expect(code == TESELA_OK || code == TESELA_CANCELLED, "done or cancelled");
  tesela_preparation_destroy(preparation);
  tesela_kernel_destroy(kernel);
}

/* Holds compilations back while it is closed. */
struct gate {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int waiting, open;
};

static void wait_at_gate(void *user, const tesela_event *event) {
  struct gate *gate = user;
  if (event->kind != TESELA_EVENT_COMPILE_STARTED)
    return;
  pthread_mutex_lock(&gate->mutex);
  gate->waiting = 1;
  pthread_cond_broadcast(&gate->changed);
  while (!gate->open)
    pthread_cond_wait(&gate->changed, &gate->mutex);
  pthread_mutex_unlock(&gate->mutex);
}

static void open_gate(struct gate *gate) {
  pthread_mutex_lock(&gate->mutex);
  gate->open = 1;
  pthread_cond_broadcast(&gate->changed);
  pthread_mutex_unlock(&gate->mutex);
}

static void wait_for_compilation(struct gate *gate) {
  pthread_mutex_lock(&gate->mutex);
  while (!gate->waiting)
    pthread_cond_wait(&gate->changed, &gate->mutex);
  pthread_mutex_unlock(&gate->mutex);
}

static tesela_context *gated_context(struct gate *gate) {
  tesela_context_options options;
  tesela_context *context = NULL;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.device = "host";
  options.no_disk_cache = 1;
  options.events = wait_at_gate;
  options.events_user = gate;
  expect(tesela_context_create(&options, &context) == TESELA_OK, "a context");
  return context;
}

static void test_waiting(void) {
  struct gate gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0};
  tesela_kernel_options options = kernel_options_of(variant_text, TESELA_F32, 32);
  tesela_context *context = gated_context(&gate);
  tesela_preparation *cancelled = NULL, *late = NULL;
  tesela_kernel *kernel = NULL;
  expect(tesela_prepare(context, &options, INT64_MAX, &cancelled) == TESELA_OK, "a preparation");
  wait_for_compilation(&gate);
  expect(!tesela_preparation_wait(cancelled, 0), "it is not ready");
  expect(tesela_prepare(context, &options, 1, &late) == TESELA_OK, "one with little time");
  expect_error(tesela_preparation_get(late, &kernel), TESELA_DEADLINE_EXCEEDED, "by its deadline");
  tesela_preparation_cancel(cancelled);
  open_gate(&gate);
  expect_error(tesela_preparation_get(cancelled, &kernel), TESELA_CANCELLED, "cancelled");
  expect(kernel == NULL, "no kernel after a failure");
  tesela_preparation_destroy(cancelled);
  tesela_preparation_destroy(late);
  tesela_context_destroy(context);
}

static void test_limits(void) {
  tesela_context *context = NULL;
  tesela_context_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.device = "host";
  options.most_kernels = -1;
  expect_error(tesela_context_create(&options, &context), TESELA_INVALID_ARGUMENT,
               "the limit of kernels kept in memory is -1");
  options.most_kernels = 0;
  options.cache_bytes = -1;
  expect_error(tesela_context_create(&options, &context), TESELA_INVALID_ARGUMENT,
               "the limit of the disk cache is -1 bytes");
}

int main(void) {
  tesela_context *context = host_context();
  test_a_kernel(context);
  test_failures(context);
  tesela_context_destroy(context);
  test_the_end_of_a_context();
  test_waiting();
  test_limits();
  return report_result("preparing kernels from C does as it says");
}
