//===- Tune.cpp -----------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tesela/Tune.h"

#include "api/State.h"
#include "cache/CacheFolder.h"
#include "system/Caught.h"
#include "system/File.h"
#include "system/MachineLock.h"
#include "system/UnfinishedWork.h"
#include "tune/ContextTuning.h"
#include "tune/Tuner.h"

#include <algorithm>

namespace tesela {

Result<TuneReport> tune(const Context &context, const KernelOptions &options,
                        const TuneShape &shape, const TuneOptions &tuning) {
  if (!(tuning.seconds > 0))
    return Error(Code::invalidArgument, "the time for tuning is " + std::to_string(tuning.seconds) +
                                            " seconds, it must be more than 0");
  if (options.algorithm != forwardAlgorithm && options.algorithm != backwardAlgorithm)
    return Error(Code::unsupported,
                 "tuning supports the algorithms 'forward' and 'backward', not '" +
                     options.algorithm + "': use one of them");
  if (!options.bindings.empty())
    return Error(Code::unsupported, "tuning supports only dense queries and keys, not '" +
                                        options.bindings.front() + "': leave the bindings out");
  if (options.dropout)
    return Error(Code::unsupported, "kernels with dropout are not tuned: tune without dropout, and "
                                    "give the schedule that was found in the options");
  UnfinishedWork work;
  if (Status status = work.mayBegin(); !status)
    return status.error();
  const std::shared_ptr<ContextState> &state = context.internal();
  Result<TunedKernel> tuned = caught([&] {
    return raceSchedules(context.device(), state->threads, *state->events, options, shape, tuning);
  });
  if (!tuned)
    return tuned.error();
  if (tuning.keep && options.schedule.empty()) {
    Result<KernelSpecification> specification = makeSpecification(options, context.device().target);
    if (!specification)
      return specification.error();
    Result<std::string> path = state->tuning->keep(*specification, tuned->record);
    if (path)
      tuned->report.record = *path;
    else
      state->events->warn("the tuned schedule is not kept: " + path.error().message());
  }
  return std::move(tuned->report);
}

Result<std::vector<TunedChoice>> tunedChoices(const Context &context,
                                              const KernelOptions &options) {
  Result<KernelSpecification> specification = makeSpecification(options, context.device().target);
  if (!specification)
    return specification.error();
  std::vector<TunedChoice> choices;
  for (const TuneRecord &record : context.internal()->tuning->records(*specification)) {
    const Extents &e = record.sizes;
    choices.push_back({.sizes = {e.B, e.H, e.Hkv, e.Sq, e.Sk},
                       .bucket = record.bucket.name(),
                       .schedule = record.schedule,
                       .milliseconds = record.milliseconds,
                       .heuristicMilliseconds = record.heuristicMilliseconds,
                       .confidence = record.confidence,
                       .timed = record.tried,
                       .version = record.version,
                       .made = record.made,
                       .path = record.path});
  }
  return choices;
}

Status addToTable(const std::string &path, const std::vector<std::string> &files) {
  auto recordsOf = [](const std::string &file) -> Result<std::vector<TuneRecord>> {
    Result<std::string> text = readFile(file);
    if (!text)
      return text.error();
    Result<std::vector<TuneRecord>> records = parseRecords(*text);
    return records ? records : records.error().within(file);
  };
  // Without the lock, two processes that add at the same time would lose records.
  MachineLock lock = MachineLock::acquire(CacheFolder(path).lockName("table"));
  std::vector<TuneRecord> table;
  Result<std::vector<TuneRecord>> old = recordsOf(path);
  if (old)
    table = std::move(*old);
  else if (old.code() != Code::notFound)
    return old.error();
  for (const std::string &file : files) {
    Result<std::vector<TuneRecord>> added = recordsOf(file);
    if (!added)
      return added.error();
    for (TuneRecord &record : *added) {
      std::erase_if(table, [&](const TuneRecord &each) {
        return each.device == record.device && each.kernel == record.kernel &&
               each.bucket == record.bucket;
      });
      table.push_back(std::move(record));
    }
  }
  if (files.empty())
    return Status::success();
  return writeFileAtomically(path, formatRecords(table));
}

} // namespace tesela
