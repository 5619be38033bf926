//===- TuneCommand.cpp - `tesela tune` ------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "Commands.h"
#include "ExitCode.h"
#include "LaunchRequest.h"
#include "OutputFile.h"
#include "ProgressLine.h"
#include "StandardOutput.h"
#include "TuneReport.h"
#include "VariantFile.h"

#include "tesela/Tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <stop_token>

namespace tesela::tool {

namespace {

/// Ctrl-C ends the race at its next step, so that nothing half-written is left.
volatile std::sig_atomic_t interrupted = 0;
void onInterrupt(int) { interrupted = 1; }

std::string lineOf(const TuneProgress &progress) {
  std::string line =
      fmt::format("{} of {} schedules, best {:.4g} ms ({:.2f} times)", progress.decided,
                  progress.total, progress.bestMilliseconds, progress.speedup);
  if (progress.secondsLeft > 0)
    line += fmt::format(", {:.0f} s left at most", progress.secondsLeft);
  return line;
}

Result<Context> createContext(const TuneCommandOptions &options) {
  ContextOptions context;
  context.cacheFolder = options.cacheFolder;
  context.diskCache = !options.noCache;
  context.threads = options.threads;
  context.log = [](const std::string &sentence) {
    std::fputs(fmt::format("tesela: note: {}\n", sentence).c_str(), stderr);
  };
  return tool::createContext(options, std::move(context));
}

/// Prints the kept choices (--show).
int show(const TuneCommandOptions &options, const Context &context, const KernelOptions &kernel,
         const std::string &name) {
  Result<std::vector<TunedChoice>> choices = tunedChoices(context, kernel);
  if (!choices)
    return report(choices.error());
  std::string text = options.json ? formatJson(name, *choices) : formatText(name, *choices);
  print(text);
  return exitSuccess;
}

} // namespace

int tune(const TuneCommandOptions &options) {
  Result<OpenedVariant> opened = openVariant(options.variant);
  if (!opened)
    return reportBadInput(opened.error());
  const auto &[file, variant] = *opened;
  if (!options.table.empty() && options.noCache)
    return reportBadInput(Error(Code::invalidArgument,
                                "--table takes what is kept, and --no-cache keeps nothing: leave "
                                "one of them out."));
  // Checked before the race, because otherwise the race would be in vain.
  if (!options.table.empty())
    if (Status table = addToTable(options.table, {}); !table)
      return reportBadInput(Error(
          table.code(),
          fmt::format("{}. --table adds to a table of tuned schedules: name one, or a new file.",
                      table.error().message())));
  if (!options.table.empty() && !options.show)
    if (Status status = checkWritable(options.table); !status)
      return report(status.error());
  // --show looks up a kernel, and only `const` parameters are part of a kernel.
  Result<std::vector<ScalarArgument>> scalars = options.show
                                                    ? parseConstants(options.parameters, variant)
                                                    : parseScalars(options.parameters, variant);
  if (!scalars)
    return reportBadInput(scalars.error());
  Result<Context> context = createContext(options);
  if (!context)
    return report(context.error());

  TunedVariant tuned;
  tuned.name = variant.name;
  tuned.path = file.path;
  tuned.device = context->device();
  KernelOptions &kernel = tuned.kernel;
  if (options.gradients)
    kernel.algorithm = "backward";
  kernel.variantText = file.text;
  kernel.variantFile = file.path;
  kernel.inputType = parseElementType(options.dtype).value_or(ElementType::bf16);
  kernel.headDimQk = static_cast<int>(options.headDim);
  kernel.headDimV = static_cast<int>(options.headDimV.value_or(options.headDim));
  kernel.schedule = options.schedule;
  kernel.constants = takeConstants(*scalars, variant);
  if (options.target.starts_with("sm_"))
    kernel.target = options.target;
  if (options.show)
    return show(options, *context, kernel, variant.name);

  Result<LaunchRequest> request = launchRequest(options, options.input, options.layout, variant);
  if (!request)
    return request.code() == Code::outOfMemory ? report(request.error())
                                               : reportBadInput(request.error());
  const LaunchExtents &e = tuned.extents = request->extents;
  kernel.headDimQk = static_cast<int>(request->shape.headDim);
  kernel.headDimV = static_cast<int>(request->shape.headDimV.value_or(request->shape.headDim));
  kernel.inputType = parseElementType(request->shape.dtype).value_or(ElementType::bf16);
  kernel.expectedLength = e.Sk;
  kernel.expectedQueries = e.Sq;
  TuneShape shape;
  static_cast<ProblemSizes &>(shape) = {e.B, e.H, e.Hkv, e.Sq, e.Sk};
  shape.scalars = std::move(*scalars);
  for (const auto &[name, tensor] : request->captures)
    shape.captures.push_back({name, tensor.view()});

  ProgressLine line;
  std::stop_source stop;
  std::signal(SIGINT, onInterrupt);
  TuneOptions tuning;
  tuning.seconds = options.seconds;
  tuning.exhaustive = options.exhaustive;
  // While tuning, nothing else should use the device, so a large launch may use a quarter of its
  // memory.
  tuning.memoryBytes = std::max(tuning.memoryBytes, context->device().memoryBytes / 4);
  tuning.keep = !options.noCache;
  tuning.limits.cancelled = stop.get_token();
  tuning.progress = [&](const TuneProgress &progress) {
    if (interrupted)
      stop.request_stop();
    line.show(lineOf(progress));
  };
  Result<TuneReport> result = tesela::tune(*context, kernel, shape, tuning);
  line.clear();
  if (!result)
    return report(result.error());
  tuned.report = std::move(*result);
  std::string text = options.json ? formatJson(tuned) : formatText(tuned);
  print(text);
  if (!options.table.empty() && !tuned.report.record.empty())
    if (Status status = addToTable(options.table, {tuned.report.record}); !status)
      return report(status.error());
  return exitSuccess;
}

} // namespace tesela::tool
