//===- Run.cpp - `tesela run` ---------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "Commands.h"
#include "ExitCode.h"
#include "GradientProblem.h"
#include "OutputFile.h"
#include "Parameters.h"
#include "Problem.h"
#include "RunOptions.h"
#include "RunReport.h"
#include "Safetensors.h"
#include "SequenceProblem.h"
#include "StandardOutput.h"
#include "VariantFile.h"

#include "tesela/Check.h"
#include "tesela/Context.h"
#include "tesela/Workers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <system_error>

namespace tesela::tool {

/// From this number of pairs on, the interpreter takes long enough for a note.
static constexpr double manyPairs = double(1 << 26);

static void note(const std::string &sentence) {
  std::fputs(fmt::format("tesela: note: {}\n", sentence).c_str(), stderr);
}

/// `verified` receives the context's report about the first launch.
static Result<Context> createContext(const RunOptions &options, std::optional<Event> &verified) {
  ContextOptions contextOptions;
  contextOptions.cacheFolder = options.cacheFolder;
  contextOptions.diskCache = !options.noCache;
  contextOptions.threads = options.threads;
  contextOptions.tuning = options.tuning == "off"    ? Tuning::off
                          : options.tuning == "full" ? Tuning::full
                                                     : Tuning::cached;
  contextOptions.log = note;
  contextOptions.verify = options.verify;
  if (options.verify)
    contextOptions.events = [&verified](const Event &event) {
      if (event.kind == Event::Kind::verified)
        verified = event;
    };
  return tool::createContext(options, std::move(contextOptions));
}

namespace {
/// The problem's tensors in the device's memory.
struct DeviceProblem {
  std::vector<Buffer> buffers; ///< the memory that the arguments point to
  const Buffer *o = nullptr, *lse = nullptr;
  LaunchArguments arguments;
};
} // namespace

static Result<DeviceProblem> copyToDevice(const Context &context, const Problem &problem) {
  DeviceProblem result;
  result.arguments = problem.hostArguments();
  result.buffers.reserve(5 + problem.captures.size());
  auto place = [&](const HostTensor &tensor, Tensor &view, bool isInput) -> Status {
    Result<Buffer> buffer = context.allocate(tensor.bytes());
    if (!buffer)
      return buffer.error();
    if (Status status = isInput ? context.copyToDevice(*buffer, tensor.data(), tensor.bytes())
                                : Status::success();
        !status)
      return status;
    view = view.at(buffer->data());
    result.buffers.push_back(std::move(*buffer));
    return Status::success();
  };
  LaunchArguments &arguments = result.arguments;
  std::vector<std::pair<const HostTensor *, Tensor *>> tensors{{&problem.q, &arguments.q},
                                                               {&problem.k, &arguments.k},
                                                               {&problem.v, &arguments.v},
                                                               {&problem.o, &arguments.o},
                                                               {&problem.lse, &arguments.lse}};
  for (size_t i = 0; i < problem.captures.size(); ++i)
    tensors.emplace_back(&problem.captures[i].second, &arguments.captures[i].tensor);
  for (auto [tensor, view] : tensors)
    if (Status status = place(*tensor, *view, tensor != &problem.o && tensor != &problem.lse);
        !status)
      return status.error();
  result.o = &result.buffers[3];
  result.lse = &result.buffers[4];
  // Memory that a kernel does not write must not look like a result: all ones are NaN.
  for (const Buffer *buffer : {result.o, result.lse})
    if (Status status = context.fill(*buffer, 0xff); !status)
      return status.error();
  return result;
}

static Status copyResults(const Context &context, const DeviceProblem &device, Problem &problem) {
  if (Status status = context.synchronize(); !status)
    return status;
  if (Status status = context.copyToHost(problem.o.data(), *device.o, problem.o.bytes()); !status)
    return status;
  return context.copyToHost(problem.lse.data(), *device.lse, problem.lse.bytes());
}

static void noteManyPairs(const Problem &problem) {
  double pairs = double(problem.B) * double(problem.H) * double(problem.Sq) * double(problem.Sk);
  if (pairs > manyPairs)
    note(fmt::format("checking {:.3g} pairs on the host takes a while; --no-check leaves it out.",
                     pairs));
}

/// The oracle if there is a GPU and the oracle accepts the variant, otherwise the interpreter.
static Result<Reference> makeReference(const Context &context, const KernelOptions &options,
                                       const DeviceProblem &device, const Problem &problem,
                                       int threads, std::string &name) {
  if (context.device().kind == Device::Kind::cuda) {
    Result<Reference> reference = deviceReference(context, options, device.arguments);
    // There is no NVRTC, or the oracle does not support the variant.
    bool interpret = reference.code() == Code::notFound || reference.code() == Code::unsupported;
    if (!interpret) {
      name = "device oracle";
      return reference;
    }
    note(reference.error().message() + ". The interpreter checks instead.");
  }
  name = "interpreter";
  noteManyPairs(problem);
  return hostReference(options, problem.hostArguments(), threads);
}

/// The arguments of a dense launch. With --values keys it passes no v.
static LaunchArguments launched(LaunchArguments arguments, const RunOptions &options) {
  if (!options.values.empty())
    arguments.v = {};
  return arguments;
}

/// The times of `repeat` launches, sorted. Without `repeat`: as many as fit into a second, between
/// 3 and 100.
static Result<std::vector<double>> timeLaunches(const Context &context, const Kernel &kernel,
                                                const LaunchArguments &arguments,
                                                std::optional<int> repeat) {
  auto launch = [&] { return kernel.launch(arguments); };
  if (repeat == 0)
    return std::vector<double>();
  if (!repeat) {
    Result<std::vector<double>> once = context.measure(launch, 1, 1);
    if (!once)
      return once.error();
    repeat = static_cast<int>(std::clamp(1000.0 / std::max(once->front(), 0.001), 3.0, 100.0));
  }
  Result<std::vector<double>> times = context.measure(launch, 2, *repeat);
  if (times)
    std::sort(times->begin(), times->end());
  return times;
}

/// Reports reads outside of captured tensors (--check-reads). Gives their number.
static Result<int64_t> reportOutsideReads(const KernelOptions &options, const Problem &problem,
                                          int threads) {
  Result<std::vector<OutsideReads>> reads = checkReads(options, problem.hostArguments(), threads);
  if (!reads)
    return reads.error();
  int64_t count = 0;
  for (const OutsideReads &each : *reads) {
    count += each.count;
    std::string key = each.k < 0 ? " (in the sink)" : fmt::format(", k {}", each.k);
    std::fputs(
        fmt::format("tesela: '{}' is read outside: index {} of axis {}, whose extent is {}, first "
                    "at b {}, h {}, q {}{}; {} reads in all. They give the nearest element; a "
                    "guard before them, as 'i >= 0 && i < n && ...', leaves them out.\n",
                    each.capture, each.index, each.axis, each.extent, each.b, each.h, each.q, key,
                    each.count)
            .c_str(),
        stderr);
  }
  return count;
}

/// Compiles, launches, checks and times the backward pass. The device already has o and lse.
static Status runGradients(const RunOptions &options, const Context &context, KernelOptions kernel,
                           const Problem &problem, const DeviceProblem &device,
                           GradientProblem &gradients, RunReport &result) {
  kernel.algorithm = "backward";
  kernel.schedule = options.schedule;
  Result<Kernel> compiled = context.compile(kernel);
  if (!compiled)
    return compiled.error();
  result.kernel = compiled->info();
  result.isBackward = true;
  Result<DeviceGradients> onDevice = DeviceGradients::create(context, gradients);
  if (!onDevice)
    return onDevice.error();
  LaunchArguments arguments = gradients.arguments(problem, device.arguments);
  onDevice->place(arguments);
  if (Status status = compiled->launch(arguments); !status)
    return status;
  if (Status status = onDevice->copyResults(context, gradients); !status)
    return status;
  if (!options.noCheck) {
    result.referenceName = "interpreter";
    noteManyPairs(problem);
    Result<GradientReference> reference = hostGradientReference(
        kernel, gradients.arguments(problem, problem.hostArguments()), options.threads);
    if (!reference)
      return reference.error();
    Result<std::vector<std::pair<std::string, Comparison>>> comparisons =
        gradients.compare(problem, *reference);
    if (!comparisons)
      return comparisons.error();
    result.gradients = std::move(*comparisons);
    result.keptPairs = reference->dq.keptPairs;
  }
  Result<std::vector<double>> times = timeLaunches(context, *compiled, arguments, options.repeat);
  if (!times)
    return times.error();
  result.milliseconds = std::move(*times);
  return Status::success();
}

/// Checks and times the forward pass. The results are already in host memory.
static Status checkForward(const RunOptions &options, const Context &context, const Kernel &kernel,
                           const KernelOptions &kernelOptions, const Problem &problem,
                           const DeviceProblem &device, RunReport &result) {
  if (!options.noCheck && !options.verify) {
    Result<Reference> reference = makeReference(context, kernelOptions, device, problem,
                                                options.threads, result.referenceName);
    if (!reference)
      return reference.error();
    Result<Comparison> comparison = compare(*reference, problem.oView, problem.lse.view());
    if (!comparison)
      return comparison.error();
    result.comparison = std::move(*comparison);
    result.keptPairs = reference->keptPairs;
  }
  Result<std::vector<double>> times =
      timeLaunches(context, kernel, launched(device.arguments, options), options.repeat);
  if (!times)
    return times.error();
  result.milliseconds = std::move(*times);
  return Status::success();
}

/// Fails if `--ragged` or `--page` do not fit to the other options.
static Status checkSequences(const RunOptions &options) {
  auto invalid = [](const char *sentence) { return Error(Code::invalidArgument, sentence); };
  if (!options.ragged && options.page == 0)
    return options.split || !options.positions.empty() || !options.cache.empty()
               ? Status(invalid("--split, --positions and --cache need sequences: add --ragged or "
                                "--page"))
               : Status::success();
  if (options.scales == "page" && options.page == 0)
    return invalid("--scales page needs keys in pages: add --page, or take --scales head");
  if (options.gradients || options.verify || options.checkReads)
    return invalid("--gradients, --verify and --check-reads need dense queries and keys: leave "
                   "out either them or --ragged and --page");
  if (!options.output.empty())
    return invalid("--output needs dense queries: leave out either it or --ragged and --page");
  return Status::success();
}

/// Launches, checks and times the sequences of --ragged or --page.
static Status runSequences(const RunOptions &options, const Context &context, const Kernel &kernel,
                           const KernelOptions &kernelOptions, const VariantInfo &variant,
                           const Problem &problem, const DeviceProblem &captures,
                           SequenceProblem &sequences, RunReport &result) {
  Result<DeviceSequences> device = DeviceSequences::create(context, sequences);
  if (!device)
    return device.error();
  result.sequencePairs = sequences.pairs(problem);
  LaunchArguments arguments = sequences.arguments(problem);
  arguments.captures = captures.arguments.captures;
  device->place(arguments);
  if (Status status = kernel.launch(arguments); !status)
    return status;
  if (Status status = device->copyResults(context, sequences); !status)
    return status;
  if (!options.noCheck) {
    result.referenceName = "interpreter";
    noteManyPairs(problem);
    Result<Comparison> comparison =
        sequences.check(kernelOptions, problem, variant, options.threads, result.keptPairs);
    if (!comparison)
      return comparison.error();
    result.comparison = std::move(*comparison);
  }
  Result<std::vector<double>> times = timeLaunches(context, kernel, arguments, options.repeat);
  if (!times)
    return times.error();
  result.milliseconds = std::move(*times);
  return Status::success();
}

/// Prints that the result is wrong, or why it cannot be checked. False if it is right.
static bool reportFailure(const Comparison &comparison, const std::string &what) {
  if (comparison.passed)
    return false;
  const char *verdict = std::isnan(comparison.tolerance) ? "cannot be checked" : "is wrong";
  std::fputs(fmt::format("tesela: {} {}: {}\n", what, verdict, comparison.failure).c_str(), stderr);
  return true;
}

static std::vector<std::pair<std::string, Tensor>> resultsOf(const Problem &problem,
                                                             const GradientProblem *gradients) {
  std::vector<std::pair<std::string, Tensor>> results{{"o", problem.o.view()},
                                                      {"lse", problem.lse.view()}};
  if (gradients)
    for (const auto &[name, tensor] : gradients->tensors)
      if (name != "dlse")
        results.emplace_back(name, tensor.view());
  return results;
}

/// The results must not overwrite the file of the inputs, and there must be a place for them.
static Status checkOutput(const RunOptions &options) {
  if (options.output.empty())
    return Status::success();
  std::error_code error;
  if (!std::filesystem::equivalent(options.input, options.output, error))
    return checkWritable(options.output);
  return Error(Code::invalidArgument,
               fmt::format("--output {} is the file of --input: it would be overwritten. Name "
                           "another.",
                           options.output));
}

int run(const RunOptions &given) {
  RunOptions options = given;
  if (Status status = checkOutput(options); !status)
    return report(status.error());
  if (Status status = checkSequences(options); !status)
    return report(status.error());
  if (options.positions.empty())
    options.positions = options.page > 0 ? "end" : "begin";
  Result<OpenedVariant> opened = openVariant(options.variant);
  if (!opened)
    return reportBadInput(opened.error());
  const auto &[file, variant] = *opened;
  useTemplateFolder(options.templateFolder);

  Result<Problem> problem = makeProblem(options, variant);
  if (!problem)
    return problem.code() == Code::outOfMemory ? report(problem.error())
                                               : reportBadInput(problem.error());

  if (problem->randomInputs && !options.input.empty())
    note(options.input + " has no q, k and v: they are random.");
  if (!problem->unused.empty())
    note(fmt::format("{} has tensors that this run does not use: {}.", options.input,
                     fmt::join(problem->unused, ", ")));
  std::optional<GradientProblem> gradients;
  if (options.gradients) {
    Result<GradientProblem> made = makeGradientProblem(options, *problem);
    if (!made)
      return made.code() == Code::outOfMemory ? report(made.error()) : reportBadInput(made.error());
    gradients = std::move(*made);
  }

  RunReport result;
  Result<Context> context = createContext(options, result.verified);
  if (!context)
    return report(context.error());
  KernelOptions kernelOptions;
  kernelOptions.variantText = file.text;
  kernelOptions.variantFile = file.path;
  kernelOptions.inputType = problem->type;
  kernelOptions.headDimQk = static_cast<int>(problem->Dqk);
  kernelOptions.headDimV = static_cast<int>(problem->Dv);
  if (!options.gradients) // with --gradients, --schedule is for the backward pass
    kernelOptions.schedule = options.schedule;
  kernelOptions.expectedLength = problem->Sk;
  kernelOptions.expectedQueries = problem->Sq;
  kernelOptions.sizes =
      ProblemSizes{problem->B, problem->H, problem->Hkv, problem->Sq, problem->Sk};
  kernelOptions.constants = takeConstants(problem->scalars, variant);
  if (options.dropout) {
    kernelOptions.dropout = true;
    for (ScalarArgument &scalar : dropoutScalars(*options.dropout, options.seed))
      problem->scalars.push_back(std::move(scalar));
  }
  if (options.target.starts_with("sm_"))
    kernelOptions.target = options.target;
  std::optional<SequenceProblem> sequences;
  if (options.ragged || options.page > 0) {
    Result<SequenceProblem> made = makeSequences(options, *problem, variant);
    if (!made)
      return made.code() == Code::outOfMemory ? report(made.error()) : reportBadInput(made.error());
    sequences = std::move(*made);
    kernelOptions.algorithm = sequences->algorithm;
    kernelOptions.bindings = sequences->bindings;
    if (options.split) {
      Result<int64_t> workers = workersFor(context->device(), kernelOptions, *kernelOptions.sizes);
      if (!workers)
        return report(workers.error());
      kernelOptions.bindings.push_back(fmt::format("workers={}", *workers));
    }
    kernelOptions.sizes.reset(); // tuned schedules are measured with dense tensors
  }
  KernelOptions referenceOptions = kernelOptions; // the reference has a tensor of values of its own
  if (!options.values.empty() && !sequences) {
    kernelOptions.bindings = {"values=" + options.values};
    kernelOptions.sizes.reset(); // tuned schedules are measured with three tensors
  }
  int64_t outsideReads = 0;
  if (options.checkReads) {
    Result<int64_t> found = reportOutsideReads(referenceOptions, *problem, options.threads);
    if (!found)
      return report(found.error());
    outsideReads = *found;
  }
  Result<Kernel> kernel = context->compile(kernelOptions);
  if (!kernel)
    return report(kernel.error());

  Result<DeviceProblem> device = copyToDevice(*context, *problem);
  if (!device)
    return report(device.error());
  if (!sequences) {
    if (Status status = kernel->launch(launched(device->arguments, options)); !status) {
      int code = report(status.error());
      return result.verified ? exitWrongResult : code;
    }
    if (Status status = copyResults(*context, *device, *problem); !status)
      return report(status.error());
  }

  result.variantPath = file.path;
  result.device = context->device();
  result.kernel = kernel->info();
  result.problem = &*problem;
  if (problem->randomInputs) {
    result.seed = options.seed;
    result.inputs = options.inputs;
  }

  if (Status status = sequences   ? runSequences(options, *context, *kernel, kernelOptions, variant,
                                                 *problem, *device, *sequences, result)
                      : gradients ? runGradients(options, *context, kernelOptions, *problem,
                                                 *device, *gradients, result)
                                  : checkForward(options, *context, *kernel, referenceOptions,
                                                 *problem, *device, result);
      !status)
    return report(status.error());

  std::string text = options.json ? formatJson(result) : formatText(result);
  print(text);
  if (!options.output.empty())
    if (Status status = writeSafetensors(options.output,
                                         resultsOf(*problem, gradients ? &*gradients : nullptr));
        !status)
      return report(status.error());
  if (result.comparison && result.comparison->passed && result.comparison->nanRows > 0)
    note(fmt::format("{} of {} rows are NaN, as they must be: a kept score or the sink is NaN or "
                     "+inf there.",
                     result.comparison->nanRows, problem->B * problem->H * problem->Sq));
  bool isWrong = result.comparison && reportFailure(*result.comparison, "the result");
  for (const auto &[name, comparison] : result.gradients)
    isWrong |= reportFailure(comparison, "the gradient " + name);
  if (isWrong)
    return exitWrongResult;
  return outsideReads > 0 ? exitWrongResult : exitSuccess;
}

} // namespace tesela::tool
