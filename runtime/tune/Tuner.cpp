//===- Tuner.cpp - Races the schedules of one kernel ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tune/Tuner.h"

#include "api/State.h"
#include "system/Processors.h"
#include "system/UnfinishedWork.h"
#include "tesela/compiler/ScheduleCandidates.h"
#include "tune/CompileAhead.h"
#include "tune/Race.h"
#include "tune/TuneProblem.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>

namespace tesela {

namespace {

using Clock = std::chrono::steady_clock;

/// A sample takes this long, because a GPU's events are accurate to half a microsecond only, and
/// because the time in which the host sends a launch is not part of the kernel's.
constexpr double sampleMilliseconds = 2;
constexpr int mostLaunches = 100;
/// Threads that compile. On the host they compile while nothing is timed, so a batch should be
/// quick; for a GPU they compile during launches. ptxas takes 80 MB for a large mask.
constexpr int mostAtOnce = 8, mostBeside = 32;
/// The least time between two calls of the progress callback.
constexpr auto progressInterval = std::chrono::milliseconds(200);

double secondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// The kernels of the candidates, compiled ahead, and the launches that time them.
class KernelTrack : public RaceTrack {
public:
  KernelTrack(const Context &context, const EventSink &events, const KernelOptions &options,
              const TuneOptions &tuning, std::vector<ScheduleCandidate> candidates,
              Kernel heuristic, TuneProblem problem, Clock::time_point begin)
      : context(context), events(events), tuning(tuning), candidates(std::move(candidates)),
        problem(std::move(problem)), begin(begin), kernels(this->candidates.size()),
        reasons(this->candidates.size()), launches(this->candidates.size(), 1),
        compiling(this->candidates.size() - 1, compileThreads(), isHost(),
                  [&context, options, &tuning, this](size_t number) {
                    KernelOptions wanted = options;
                    wanted.schedule = this->candidates[number + 1].schedule;
                    return context.compile(wanted, tuning.limits);
                  }) {
    // Spills that the heuristic's own kernel has are allowed.
    allowedSpills = heuristic.info().spillBytes.value_or(0);
    kernels[0] = std::move(heuristic);
  }

  size_t count() const override { return candidates.size(); }

  std::optional<size_t> next() override {
    if (decided++ == 0)
      return 0;
    while (std::optional<CompileAhead::Made> made = compiling.take()) {
      size_t number = made->number + 1;
      int spilled = made->kernel ? made->kernel->info().spillBytes.value_or(0) : 0;
      if (made->kernel && spilled <= allowedSpills) {
        kernels[number] = std::move(*made->kernel);
        return number;
      }
      leaveOut(number, made->kernel ? fmt::format("spills {} bytes of registers", spilled)
                                    : "does not compile: " + made->kernel.error().message());
      ++decided;
    }
    return std::nullopt;
  }

  Result<double> sample(size_t number) override {
    const Kernel &kernel = *kernels[number];
    int count = launches[number];
    auto work = [&] {
      for (int i = 0; i < count; ++i)
        if (Status status = kernel.launch(problem.next(), problem.stream()); !status)
          return status;
      return Status::success();
    };
    Result<std::vector<double>> times = context.measure(work, 0, 1, problem.stream());
    if (!times)
      return times.error();
    double each = times->front() / count;
    launches[number] = int(std::clamp(std::ceil(sampleMilliseconds / std::max(each, 1e-4)), 1.0,
                                      double(mostLaunches)));
    tell(number, each);
    return each;
  }

  double secondsLeft() const override {
    double left = tuning.seconds - secondsSince(begin);
    if (tuning.limits.deadline)
      left = std::min(
          left, std::chrono::duration<double>(*tuning.limits.deadline - Clock::now()).count());
    return std::max(left, 0.0);
  }
  bool isCancelled() const override { return tuning.limits.cancelled.stop_requested(); }

  void progressed() override {
    if (!tuning.progress || Clock::now() - lastProgress < progressInterval)
      return;
    lastProgress = Clock::now();
    TuneProgress progress;
    progress.decided = decided;
    progress.total = int(candidates.size());
    progress.secondsLeft = tuning.exhaustive ? 0 : secondsLeft();
    progress.best = candidates[best].schedule;
    progress.bestMilliseconds = bestMilliseconds;
    progress.speedup = bestMilliseconds > 0 ? firstMilliseconds / bestMilliseconds : 1;
    try { // the caller's function may throw, but no exception may leave the library
      tuning.progress(progress);
    } catch (...) {
    }
  }

  const std::string &reason(size_t number) const { return reasons[number]; }
  const Kernel &kernel(size_t number) const { return *kernels[number]; }
  const ScheduleCandidate &candidate(size_t number) const { return candidates[number]; }
  const TuneProblem &launched() const { return problem; }

private:
  const Context &context;
  const EventSink &events;
  const TuneOptions &tuning;
  std::vector<ScheduleCandidate> candidates; ///< the heuristic's schedule is the first
  TuneProblem problem;
  Clock::time_point begin, lastProgress;
  std::vector<std::optional<Kernel>> kernels;
  std::vector<std::string> reasons; ///< why it was not timed
  std::vector<int> launches;        ///< per sample
  int allowedSpills = 0, decided = 0;
  size_t best = 0;
  double bestMilliseconds = 0, firstMilliseconds = 0;
  CompileAhead compiling; ///< the last member: its threads use the others

  bool isHost() const { return context.device().kind == Device::Kind::host; }
  int compileThreads() const {
    if (tuning.compileThreads > 0)
      return tuning.compileThreads;
    return isHost() ? std::min(usableProcessors(), mostAtOnce)
                    : std::clamp(usableProcessors() - 1, 1, mostBeside);
  }

  void leaveOut(size_t number, std::string reason) {
    Event event;
    event.kind = Event::Kind::trial;
    event.text = candidates[number].schedule;
    event.failure = Error(Code::unsupported, reason);
    reasons[number] = std::move(reason);
    if (events.wantsEvents())
      events.emit(event);
  }

  void tell(size_t number, double milliseconds) {
    if (number == 0)
      firstMilliseconds =
          firstMilliseconds > 0 ? std::min(firstMilliseconds, milliseconds) : milliseconds;
    if (bestMilliseconds == 0 || milliseconds < bestMilliseconds) {
      best = number;
      bestMilliseconds = milliseconds;
    }
    if (!events.wantsEvents())
      return;
    Event event;
    event.kind = Event::Kind::trial;
    event.variant = kernel(number).info().variantName;
    event.target = kernel(number).info().target;
    event.text = candidates[number].schedule;
    event.milliseconds = milliseconds;
    events.emit(event);
  }
};

/// If the winner's results differ from the heuristic's, it is dropped and the heuristic's schedule
/// is taken, because something is wrong then.
void checkWinner(const Context &context, const KernelTrack &track, RaceResult &result) {
  if (result.winner == 0)
    return;
  Status status = track.launched().compare(context, track.kernel(result.winner), track.kernel(0));
  if (status)
    return;
  result.runners[result.winner].dropped = status.error().message();
  result.winner = 0;
  result.overReference = result.overRunnerUp = 0.5;
}

std::string now() { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))); }

TuneReport reportOf(const KernelTrack &track, const RaceResult &result, double seconds) {
  TuneReport report;
  for (size_t i = 0; i < result.runners.size(); ++i) {
    const Runner &runner = result.runners[i];
    Trial trial;
    trial.schedule = track.candidate(i).schedule;
    trial.predictedMilliseconds = track.candidate(i).predictedMilliseconds;
    trial.isHeuristic = i == 0;
    trial.milliseconds = runner.milliseconds;
    trial.launches = int(runner.rounds.size() + runner.heat.size());
    if (runner.ran)
      trial.speedup = i == 0 ? 1 : 1 / runner.ratio;
    trial.dropped = track.reason(i).empty() ? runner.dropped : track.reason(i);
    report.timed += runner.ran;
    report.trials.push_back(std::move(trial));
  }
  const Trial &winner = report.trials[result.winner];
  report.schedule = winner.schedule;
  report.isHeuristic = result.winner == 0;
  report.milliseconds = winner.milliseconds;
  report.speedup = winner.speedup;
  report.overHeuristic = result.overReference;
  report.overRunnerUp = result.overRunnerUp;
  report.seconds = seconds;
  report.timeUp = result.timeUp;
  // Kernels that were dropped early have fewer measurements, so finalists come first.
  std::ranges::stable_sort(report.trials, [&](const Trial &a, const Trial &b) {
    bool aFinal = a.dropped.empty(), bFinal = b.dropped.empty();
    bool aTimed = a.speedup > 0, bTimed = b.speedup > 0;
    return std::tuple(!aTimed, !aFinal, -a.speedup) < std::tuple(!bTimed, !bFinal, -b.speedup);
  });
  return report;
}

} // namespace

Result<TunedKernel> raceSchedules(const Device &device, int threads, const EventSink &events,
                                  const KernelOptions &options, const TuneShape &shape,
                                  const TuneOptions &tuning) {
  UnfinishedWork work;
  if (Status status = work.mayBegin(); !status)
    return status.error();
  Clock::time_point begin = Clock::now();
  ContextOptions own;
  own.device = device.kind == Device::Kind::host ? "host" : fmt::format("cuda:{}", device.index);
  own.threads = threads;
  own.diskCache = false; // only one of its kernels will be requested again
  own.tuning = Tuning::off;
  Result<Context> context = Context::create(own);
  if (!context)
    return context.error();
  Result<KernelSpecification> specification = makeSpecification(options, device.target);
  if (!specification)
    return specification.error();
  Result<TuneInputs> inputs = tuneInputs(options, shape);
  if (!inputs)
    return inputs.error();
  int processors = device.processors;
  if (device.kind == Device::Kind::host && threads > 0)
    processors = threads;
  Result<std::vector<ScheduleCandidate>> candidates =
      scheduleCandidates({*specification, inputs->bindings, processors});
  if (!candidates)
    return candidates.error();
  auto heuristic = std::ranges::find_if(*candidates, &ScheduleCandidate::isHeuristic);
  if (heuristic == candidates->end())
    return Error(Code::defect, "the heuristic's schedule is not among the candidates");
  std::rotate(candidates->begin(), heuristic, heuristic + 1); // the order of the others does not
                                                              // change
  Result<TuneProblem> problem =
      TuneProblem::create(*context, options, shape, *inputs, tuning.memoryBytes);
  if (!problem)
    return problem.error();

  KernelOptions base = options;
  base.schedule = candidates->front().schedule;
  Result<Kernel> kernel = context->compile(base, tuning.limits);
  if (!kernel)
    return kernel.error();

  KernelTrack track(*context, events, options, tuning, std::move(*candidates), std::move(*kernel),
                    std::move(*problem), begin);
  Result<RaceResult> result = race(track, 0, {.exhaustive = tuning.exhaustive});
  if (!result)
    return result.error();
  checkWinner(*context, track, *result);

  TunedKernel tuned{reportOf(track, *result, secondsSince(begin)), {}};
  TuneRecord &record = tuned.record;
  record.device = recordDevice(device, threads);
  record.kernel = recordKernel(*specification);
  record.bucket = SizeBucket::of(inputs->bindings.extents);
  record.schedule = tuned.report.schedule;
  record.variant = inputs->variant.name;
  record.target = specification->target.name();
  record.type = std::string(elementTypeName(options.inputType));
  record.headDimQk = options.headDimQk;
  record.headDimV = options.headDimV;
  record.sizes = inputs->bindings.extents;
  record.milliseconds = tuned.report.milliseconds;
  record.heuristicMilliseconds = result->runners[0].milliseconds;
  record.confidence = tuned.report.overHeuristic;
  record.tried = tuned.report.timed;
  record.version = version();
  record.made = now();
  return tuned;
}

} // namespace tesela
