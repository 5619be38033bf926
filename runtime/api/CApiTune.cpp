//===- CApiTune.cpp - tesela/c/tune.h --------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "api/CApiArguments.h"
#include "tesela/Tune.h"

#include <stop_token>

using namespace tesela;
using namespace tesela::c;

struct tesela_tune_report {
  TuneReport report;
};

struct tesela_tuned_choices {
  std::vector<TunedChoice> choices;
};

namespace {

constexpr const char *contextMaker = "tesela_context_create";

Result<TuneShape> tuneShape(const tesela_tune_shape *shape) {
  tesela_tune_shape given;
  if (Status status = readSized(shape, given, "tesela_tune_shape"); !status)
    return status.error();
  ReusedArguments parameters;
  if (Status status = parameters.addParameters(given.parameters, given.parameter_count, Device());
      !status)
    return status.error();
  TuneShape chosen;
  static_cast<ProblemSizes &>(chosen) = problemSizes(given.sizes);
  chosen.scalars = parameters.arguments.scalars;
  chosen.captures = parameters.arguments.captures;
  return chosen;
}

/// Calls the caller's function. Returns whether tuning should continue.
bool goesOn(const TuneProgress &progress, const tesela_tune_options &options) {
  auto told = zeroed<tesela_tune_progress>();
  told.size = sizeof told;
  told.decided = progress.decided;
  told.total = progress.total;
  told.best = progress.best.c_str();
  told.best_milliseconds = progress.bestMilliseconds;
  told.speedup = progress.speedup;
  told.seconds_left = progress.secondsLeft;
  return options.progress(options.progress_user, &told) == 0;
}

/// `cancel` ends the tuning if the caller's function asks for that.
Result<TuneOptions> tuneOptions(const tesela_tune_options *options, std::stop_source &cancel) {
  TuneOptions chosen;
  chosen.limits.cancelled = cancel.get_token();
  if (!options)
    return chosen;
  tesela_tune_options given;
  if (Status status = readSized(options, given, "tesela_tune_options"); !status)
    return status.error();
  if (given.seconds != 0)
    chosen.seconds = given.seconds;
  chosen.exhaustive = given.exhaustive != 0;
  chosen.compileThreads = given.compile_threads;
  if (given.memory_bytes != 0)
    chosen.memoryBytes = given.memory_bytes;
  chosen.keep = given.keep_nothing == 0;
  if (given.progress)
    chosen.progress = [given, &cancel](const TuneProgress &progress) {
      if (!goesOn(progress, given))
        cancel.request_stop();
    };
  return chosen;
}

tesela_tuned_choice choiceOf(const TunedChoice &from) {
  auto to = zeroed<tesela_tuned_choice>();
  to.sizes = {from.sizes.batch, from.sizes.heads, from.sizes.kvHeads, from.sizes.length,
              from.sizes.kvLength};
  to.bucket = from.bucket.c_str();
  to.schedule = from.schedule.c_str();
  to.milliseconds = from.milliseconds;
  to.heuristic_milliseconds = from.heuristicMilliseconds;
  to.confidence = from.confidence;
  to.timed = from.timed;
  to.version = from.version.c_str();
  to.made = from.made.c_str();
  to.path = from.path.c_str();
  return to;
}

} // namespace

tesela_code tesela_tune(const tesela_context *context, const tesela_kernel_options *options,
                        const tesela_tune_shape *shape, const tesela_tune_options *tuning,
                        tesela_tune_report **report) {
  return guarded([&]() -> Status {
    if (report)
      *report = nullptr;
    if (!context)
      return noHandle("context", contextMaker);
    Result<KernelOptions> kernel = kernelOptions(options);
    if (!kernel)
      return kernel.error();
    Result<TuneShape> launch = tuneShape(shape);
    if (!launch)
      return launch.error();
    std::stop_source cancel;
    Result<TuneOptions> chosen = tuneOptions(tuning, cancel);
    if (!chosen)
      return chosen.error();
    Result<TuneReport> made = tune(context->context, *kernel, *launch, *chosen);
    if (!made)
      return made.error();
    if (report)
      *report = new tesela_tune_report{std::move(*made)};
    return Status::success();
  });
}

void tesela_tune_report_destroy(tesela_tune_report *report) { delete report; }

tesela_code tesela_tune_report_describe(const tesela_tune_report *report,
                                        tesela_tune_result *result) {
  return guarded([&]() -> Status {
    if (!report)
      return noHandle("report", "tesela_tune");
    const TuneReport &from = report->report;
    auto known = zeroed<tesela_tune_result>();
    known.schedule = from.schedule.c_str();
    known.is_heuristic = from.isHeuristic;
    known.timed = from.timed;
    known.milliseconds = from.milliseconds;
    known.speedup = from.speedup;
    known.over_heuristic = from.overHeuristic;
    known.over_runner_up = from.overRunnerUp;
    known.seconds = from.seconds;
    known.time_up = from.timeUp;
    known.record = from.record.c_str();
    known.trial_count = from.trials.size();
    return writeSized(known, result, "tesela_tune_result");
  });
}

tesela_code tesela_tune_report_trial(const tesela_tune_report *report, size_t index,
                                     tesela_trial *trial) {
  return guarded([&]() -> Status {
    if (!report)
      return noHandle("report", "tesela_tune");
    if (Status status = checkIndex(index, report->report.trials.size(), "trials"); !status)
      return status;
    const Trial &from = report->report.trials[index];
    auto known = zeroed<tesela_trial>();
    known.schedule = from.schedule.c_str();
    known.predicted_milliseconds = from.predictedMilliseconds;
    known.milliseconds = from.milliseconds;
    known.speedup = from.speedup;
    known.launches = from.launches;
    known.is_heuristic = from.isHeuristic;
    known.dropped = from.dropped.c_str();
    return writeSized(known, trial, "tesela_trial");
  });
}

tesela_code tesela_tuned_choices_find(const tesela_context *context,
                                      const tesela_kernel_options *options,
                                      tesela_tuned_choices **choices) {
  return guarded([&]() -> Status {
    if (Status status = checkPlace(choices, "choices"); !status)
      return status;
    if (!context)
      return noHandle("context", contextMaker);
    Result<KernelOptions> kernel = kernelOptions(options);
    if (!kernel)
      return kernel.error();
    Result<std::vector<TunedChoice>> known = tunedChoices(context->context, *kernel);
    if (!known)
      return known.error();
    *choices = new tesela_tuned_choices{std::move(*known)};
    return Status::success();
  });
}

void tesela_tuned_choices_destroy(tesela_tuned_choices *choices) { delete choices; }

size_t tesela_tuned_choices_count(const tesela_tuned_choices *choices) {
  return choices ? choices->choices.size() : 0;
}

tesela_code tesela_tuned_choices_describe(const tesela_tuned_choices *choices, size_t index,
                                          tesela_tuned_choice *choice) {
  return guarded([&]() -> Status {
    if (!choices)
      return noHandle("choices", "tesela_tuned_choices_find");
    if (Status status = checkIndex(index, choices->choices.size(), "choices"); !status)
      return status;
    return writeSized(choiceOf(choices->choices[index]), choice, "tesela_tuned_choice");
  });
}

tesela_code tesela_tuned_table_add(const char *path, const char *const *records,
                                   size_t record_count) {
  return guarded([&]() -> Status {
    if (!path || !*path)
      return invalid(std::string("path is ") + (path ? "empty" : "NULL") +
                     ": pass the table's file");
    if (record_count > 0 && !records)
      return noArray("records", "record_count", record_count);
    std::vector<std::string> files;
    for (size_t i = 0; i < record_count; ++i) {
      if (!records[i])
        return invalid("record " + std::to_string(i) + " is NULL: pass a file's name");
      files.push_back(records[i]);
    }
    return addToTable(path, files);
  });
}
