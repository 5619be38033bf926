/*===- tune.h - The fastest schedule by measurement -------------*- C -*-===*\
|* Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.       *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                   *|
\*===--------------------------------------------------------------------===*/
/*
 * Every schedule gives a correct kernel. Which one is fastest depends on device, variant and
 * sizes. The heuristic guesses; the tuner measures once and stores its choice beside the
 * compiled kernels, where tesela_compile finds it (tesela_context_options' tuning). See
 * docs/tuning.md.
 */
#ifndef TESELA_C_TUNE_H
#define TESELA_C_TUNE_H

#include "tesela/c/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The launch that a kernel is tuned for. */
typedef struct tesela_tune_shape {
  size_t size; /* sizeof(tesela_tune_shape) */
  tesela_sizes sizes;
  /* Captured tensors lie in host memory. Missing ones are filled with random numbers, except
   * those that a mask reads: these must be given, because they decide how many tiles are
   * computed. */
  const tesela_parameter *parameters;
  size_t parameter_count;
} tesela_tune_shape;

/* Valid, with its text, only during the call of the callback. */
typedef struct tesela_tune_progress {
  size_t size;      /* of the library's structure; fields beyond it do not exist */
  int decided;      /* schedules that were timed or dropped */
  int total;        /* schedules */
  const char *best; /* the fastest so far */
  double best_milliseconds;
  double speedup;      /* of the best one over the heuristic's */
  double seconds_left; /* an upper bound */
} tesela_tune_progress;

typedef struct tesela_tune_options {
  size_t size; /* sizeof(tesela_tune_options) */
  /* The time limit; 0: 60. The last launches and compilations may exceed it a little. */
  double seconds;
  /* Not 0: times every schedule fully, however long that takes. */
  int exhaustive;
  /* Threads that compile; 0: on a GPU all processors but one, at most 32; on the host up to
   * eight, which compile only while nothing is timed, because they would disturb the launches. */
  int compile_threads;
  /* The most bytes of device memory for inputs and outputs; 0: 2 GiB. The tuner uses several
   * copies of them within this limit, so that no launch finds its inputs in the L2 cache. */
  int64_t memory_bytes;
  int keep_nothing; /* not 0: the choice is reported but not stored */
  /* Called from the calling thread, at most a few times a second; may be NULL. If it does not
   * return 0, tuning ends soon, with TESELA_CANCELLED. It must not throw. */
  int (*progress)(void *progress_user, const tesela_tune_progress *progress);
  void *progress_user;
} tesela_tune_options;

typedef struct tesela_tune_report tesela_tune_report;

/* Finds the fastest schedule for launches of `shape` on the context's device and stores it. What
 * the options' schedule names stays as it is (then the result is not stored). `tuning` and
 * `report` may be NULL; otherwise give *report to tesela_tune_report_destroy. Uses its own
 * buffers and kernels. Other launches at the same time make the choice less sure, but no result
 * wrong. */
TESELA_API tesela_code tesela_tune(const tesela_context *context,
                                   const tesela_kernel_options *options,
                                   const tesela_tune_shape *shape,
                                   const tesela_tune_options *tuning, tesela_tune_report **report);
TESELA_API void tesela_tune_report_destroy(tesela_tune_report *report); /* NULL is allowed */

/* Texts live as long as the report. */
typedef struct tesela_tune_result {
  size_t size;          /* sizeof(tesela_tune_result) */
  const char *schedule; /* the choice; the heuristic's unless another is surely faster */
  int is_heuristic;     /* 1 if the choice is the heuristic's */
  int timed;            /* how many of the trials were timed */
  double milliseconds;
  double speedup;        /* over the heuristic's schedule */
  double over_heuristic; /* probability that the choice is faster than the heuristic's */
  double over_runner_up; /* probability that it is faster than the next best */
  double seconds;        /* the time that tuning took */
  int time_up;           /* 1 if the time limit ended tuning before the choice was sure */
  const char *record;    /* the file that stores the choice; "" if it is not stored */
  size_t trial_count;    /* of tesela_tune_report_trial */
} tesela_tune_result;

/* Writes *result, whose size the caller has set. */
TESELA_API tesela_code tesela_tune_report_describe(const tesela_tune_report *report,
                                                   tesela_tune_result *result);

/* A schedule and its measurement. */
typedef struct tesela_trial {
  size_t size;                   /* sizeof(tesela_trial) */
  const char *schedule;          /* every choice, in the syntax of tesela_kernel_options */
  double predicted_milliseconds; /* by the cost model, useful for ranking only */
  double milliseconds;           /* median; 0: never timed */
  double speedup;                /* over the heuristic's, from launches in the same rounds */
  int launches;                  /* how many launches were measured */
  int is_heuristic;
  const char *dropped; /* why it was not timed to the end; "" for finalists */
} tesela_trial;

/* Trials are sorted: the fastest first, at the end those that were never timed. Writes *trial,
 * whose size the caller has set. */
TESELA_API tesela_code tesela_tune_report_trial(const tesela_tune_report *report, size_t index,
                                                tesela_trial *trial);

/* A choice that tesela_tune stored or that was shipped with the library. */
typedef struct tesela_tuned_choice {
  size_t size;          /* sizeof(tesela_tuned_choice) */
  tesela_sizes sizes;   /* the sizes that were timed */
  const char *bucket;   /* the launches that it applies to: "h32.g4.q4096.k4096" */
  const char *schedule; /* every choice, in the syntax of tesela_kernel_options */
  double milliseconds;
  double heuristic_milliseconds;
  double confidence;   /* probability that it is faster than the heuristic's */
  int timed;           /* how many schedules were timed */
  const char *version; /* of Tesela */
  const char *made;    /* when, "2026-01-31T12:00:00Z" */
  const char *path;    /* the file */
} tesela_tuned_choice;

typedef struct tesela_tuned_choices tesela_tuned_choices; /* a list */

/* All choices for kernels of `options` on the context's device, for any sizes. On success give
 * *choices to tesela_tuned_choices_destroy. */
TESELA_API tesela_code tesela_tuned_choices_find(const tesela_context *context,
                                                 const tesela_kernel_options *options,
                                                 tesela_tuned_choices **choices);
TESELA_API void tesela_tuned_choices_destroy(tesela_tuned_choices *choices); /* NULL is allowed */
TESELA_API size_t tesela_tuned_choices_count(const tesela_tuned_choices *choices);

/* Writes *choice, whose size the caller has set. Its texts live as long as the list. */
TESELA_API tesela_code tesela_tuned_choices_describe(const tesela_tuned_choices *choices,
                                                     size_t index, tesela_tuned_choice *choice);

/* Adds the records in the files `records` to the table `path`, which is created if it does not
 * exist. A new record replaces an old one for the same launches. Without records, an existing
 * table is checked and nothing is written. The library's own tables (share/tesela/tuned) have
 * this form. */
TESELA_API tesela_code tesela_tuned_table_add(const char *path, const char *const *records,
                                              size_t record_count);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TESELA_C_TUNE_H */
