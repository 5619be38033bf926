/*===----------------------------------------------------------------------===*\
|* Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.        *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
\*===----------------------------------------------------------------------===*/
/*
 * Threads that share a context, ask for the same kernels, launch them, fail each in its own way,
 * and are told of their own failures only. And one that calls after its end, as it were: what
 * atexit() was given runs when the main thread's own objects are gone.
 */
#include "CApiOneKey.h"

#include <pthread.h>

enum { threads = 6, rounds = 20 };

struct worker {
  tesela_context *context;
  const tesela_kernel *shared;
  int number, wrong; /* calls with an unexpected result */
};

static int launches_right(const tesela_kernel *kernel, float value) {
  struct one_key one;
  prepare_one_key(&one, value);
  return tesela_launch(kernel, &one.arguments, NULL) == TESELA_OK && one_key_is_right(&one);
}

static void *work(void *given) {
  struct worker *worker = given;
  int round;
  for (round = 0; round < rounds; ++round) {
    tesela_kernel_options options =
        kernel_options_of(variant_text, TESELA_F32, head_dim * (1 + round % 4));
    tesela_kernel *kernel = NULL;
    char sentence[64];
    /* The last error of this thread must survive calls of other threads and successful calls of
     * its own. */
    options.head_dim_qk = -1 - worker->number;
    worker->wrong += tesela_compile(worker->context, &options, &kernel) != TESELA_INVALID_ARGUMENT;
    snprintf(sentence, sizeof sentence, "the head dimension is %d,", -1 - worker->number);
    options.head_dim_qk = options.head_dim_v;
    worker->wrong += tesela_compile(worker->context, &options, &kernel) != TESELA_OK;
    worker->wrong += !launches_right(worker->shared, (float)(worker->number + round));
    worker->wrong += strstr(tesela_last_error(), sentence) == NULL;
    tesela_kernel_destroy(kernel);
  }
  return NULL;
}

static tesela_context *last_context;
static tesela_kernel *last_kernel;

static void launch_at_exit(void) {
  int round, wrong = 0;
  for (round = 0; round < 3; ++round) {
    wrong += !launches_right(last_kernel, (float)round);
    wrong += tesela_launch(last_kernel, NULL, NULL) != TESELA_INVALID_ARGUMENT;
    wrong += strstr(tesela_last_error(), "tesela_launch_arguments is NULL") == NULL;
    wrong += tesela_last_error_link(0) == NULL;
  }
  tesela_kernel_destroy(last_kernel);
  tesela_context_destroy(last_context);
  if (wrong) {
    fprintf(stderr, "%d calls at the end of the process went wrong\n", wrong);
    _Exit(1);
  }
}

int main(void) {
  tesela_context *context = host_context();
  tesela_kernel_options options = kernel_options_of(variant_text, TESELA_F32, head_dim);
  tesela_kernel *shared = NULL;
  pthread_t handles[threads];
  struct worker workers[threads];
  int i;
  expect(tesela_compile(context, &options, &shared) == TESELA_OK, "a kernel that all launch");
  for (i = 0; i < threads; ++i) {
    workers[i].context = context;
    workers[i].shared = shared;
    workers[i].number = i;
    workers[i].wrong = 0;
    expect(pthread_create(&handles[i], NULL, work, &workers[i]) == 0, "a thread");
  }
  for (i = 0; i < threads; ++i) {
    pthread_join(handles[i], NULL);
    expect(workers[i].wrong == 0, "a thread's calls");
  }
  expect(strcmp(tesela_last_error(), "") == 0, "this thread has no error");
  expect(tesela_context_compile_count(context) == 4, "each kernel is compiled once");
  expect(launches_right(shared, 1), "this thread launches, too");
  last_kernel = shared;
  last_context = context;
  atexit(launch_at_exit);
  return report_result("threads do not meet");
}
