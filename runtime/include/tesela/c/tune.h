/*===- tune.h - The fastest schedule by measurement -------------*- C -*-===*\
|* Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.       *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                   *|
\*===--------------------------------------------------------------------===*/
/*
 * Every schedule gives a right kernel; which one is the fastest depends on the device, the variant
 * and the sizes. The heuristic guesses; the tuner measures, once, and keeps what it found beside
 * the compiled kernels, where tesela_compile looks for it (tesela_context_options' tuning).
 * docs/tuning.md tells more.
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
  /* Captured tensors lie in the host's memory. Those that are not given are random; but what a mask
   * reads must be given, since it decides how many tiles there are. */
  const tesela_parameter *parameters;
  size_t parameter_count;
} tesela_tune_shape;

/* Valid, with its text, during the call that it is given to. */
typedef struct tesela_tune_progress {
  size_t size;      /* of the library's structure: a field behind it is not there */
  int decided;      /* schedules that were timed or dropped */
  int total;        /* schedules */
  const char *best; /* the fastest so far */
  double best_milliseconds;
  double speedup;      /* of it over the heuristic's */
  double seconds_left; /* at most */
} tesela_tune_progress;

typedef struct tesela_tune_options {
  size_t size; /* sizeof(tesela_tune_options) */
  /* How long it may take; 0: 60. The last launches and compilations may exceed it a little. */
  double seconds;
  /* Not 0: every schedule is timed fully, however long that takes. */
  int exhaustive;
  /* Threads that compile; 0: up to eight, but on the host, whose launches they would disturb, they
   * only compile while nothing is timed. */
  int compile_threads;
  /* Device memory that inputs and outputs may take; 0: 2 GiB. They are there several times, so that
   * no launch finds its inputs in a cache, as far as this allows. */
  int64_t memory_bytes;
  int keep_nothing; /* not 0: the choice is reported and not kept */
  /* Called from the calling thread, a few times a second at most; NULL: not at all. Where it does
   * not return 0 the tuning ends soon, with TESELA_CANCELLED. It must not throw. */
  int (*progress)(void *progress_user, const tesela_tune_progress *progress);
  void *progress_user;
} tesela_tune_options;

typedef struct tesela_tune_report tesela_tune_report;

/* Finds the fastest schedule for launches of `shape` on the context's device and keeps it. Choices
 * that the options' schedule names stay as they are (and the result is not kept). `tuning` may be
 * NULL, `report` too; else *report must be given to tesela_tune_report_destroy. Uses buffers and
 * kernels of its own; launches of others at the same time make it less sure, not wrong. */
TESELA_API tesela_code tesela_tune(const tesela_context *context,
                                   const tesela_kernel_options *options,
                                   const tesela_tune_shape *shape,
                                   const tesela_tune_options *tuning, tesela_tune_report **report);
TESELA_API void tesela_tune_report_destroy(tesela_tune_report *report); /* NULL is allowed */

/* Texts live as long as the report. */
typedef struct tesela_tune_result {
  size_t size;          /* sizeof(tesela_tune_result) */
  const char *schedule; /* the choice: the heuristic's where nothing is surely faster */
  int is_heuristic;     /* 1: it is the heuristic's */
  int timed;            /* of the trials */
  double milliseconds;
  double speedup;        /* over the heuristic's */
  double over_heuristic; /* how sure the choice is faster than the heuristic's, 0 to 1 */
  double over_runner_up; /* and than the next best */
  double seconds;        /* that it took */
  int time_up;           /* 1: the time was over before the choice was sure */
  const char *record;    /* the file that keeps the choice; "" where it is not kept */
  size_t trial_count;    /* of tesela_tune_report_trial */
} tesela_tune_result;

/* Writes *result, whose size the caller has set. */
TESELA_API tesela_code tesela_tune_report_describe(const tesela_tune_report *report,
                                                   tesela_tune_result *result);

/* A schedule and what came of it. */
typedef struct tesela_trial {
  size_t size;                   /* sizeof(tesela_trial) */
  const char *schedule;          /* every choice, in tesela_kernel_options' syntax */
  double predicted_milliseconds; /* by the cost model: an order, not a time */
  double milliseconds;           /* median; 0: never timed */
  double speedup;                /* over the heuristic's, by launches of the same rounds */
  int launches;                  /* samples that the median is of */
  int is_heuristic;
  const char *dropped; /* why it left the race; "" for finalists */
} tesela_trial;

/* The fastest first, then those that were never timed. Writes *trial, whose size the caller has
 * set. */
TESELA_API tesela_code tesela_tune_report_trial(const tesela_tune_report *report, size_t index,
                                                tesela_trial *trial);

/* A choice that was kept, or came with the library. */
typedef struct tesela_tuned_choice {
  size_t size;          /* sizeof(tesela_tuned_choice) */
  tesela_sizes sizes;   /* that were timed */
  const char *bucket;   /* all launches for which it counts: "h32.g4.q4096.k4096" */
  const char *schedule; /* every choice, in tesela_kernel_options' syntax */
  double milliseconds;
  double heuristic_milliseconds;
  double confidence;   /* that it is faster than the heuristic's, 0 to 1 */
  int timed;           /* schedules */
  const char *version; /* of Tesela */
  const char *made;    /* when, "2026-01-31T12:00:00Z" */
  const char *path;    /* the file */
} tesela_tuned_choice;

typedef struct tesela_tuned_choices tesela_tuned_choices; /* a list */

/* What is known for kernels of `options` on the context's device, whatever their sizes. On success
 * *choices must be given to tesela_tuned_choices_destroy. */
TESELA_API tesela_code tesela_tuned_choices_find(const tesela_context *context,
                                                 const tesela_kernel_options *options,
                                                 tesela_tuned_choices **choices);
TESELA_API void tesela_tuned_choices_destroy(tesela_tuned_choices *choices); /* NULL is allowed */
TESELA_API size_t tesela_tuned_choices_count(const tesela_tuned_choices *choices);

/* Writes *choice, whose size the caller has set. Its texts live as long as the list. */
TESELA_API tesela_code tesela_tuned_choices_describe(const tesela_tuned_choices *choices,
                                                     size_t index, tesela_tuned_choice *choice);

/* Adds the records in the files `records` to the table `path`, which is made where it is not there;
 * of two for the same launches the new one stays. Without records nothing is written, and a table
 * that is there is checked. Tables of that form ship with the library (share/tesela/tuned). */
TESELA_API tesela_code tesela_tuned_table_add(const char *path, const char *const *records,
                                              size_t record_count);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TESELA_C_TUNE_H */
