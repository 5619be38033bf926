//===- FirstResult.cpp - From the start of a process to its first result --===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// tesela_first_result VARIANT.attn...: starts itself as a new process for each run, as a server
// starts, and times that process until o is in the host's memory. A run begins on a machine that
// never compiled ("nothing"), the same with two tiers ("tiers"), with the kernels that come with
// the library ("package"), or with the kernel in the disk cache ("disk"). Every program pays for
// the start of the GPU's driver, so that step is shown but not counted. In a run with two tiers
// nothing waits for the best kernel, so the time until it is ready is shown but not counted. The
// program links the shared library, because loading it is one of the steps. All tensors hold zeros,
// also captured ones; scalars without a default are 1.
//
//===----------------------------------------------------------------------===//
#include "tesela/Context.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace tesela;

namespace {

struct Options {
  std::vector<std::string> variants;
  std::string device = "auto", cacheFolder, dtype = "bf16";
  int64_t batch = 1, heads = 2, length = 256;
  int headDim = 64, runs = 9;
  std::vector<std::string> starts = {"nothing", "tiers", "package", "disk"};
  std::string start;   ///< a run's start: one of these; "": whatever is there
  int64_t started = 0; ///< when the run's process was started, in steady_clock ticks
};

std::optional<KernelInfo::Origin> originOf(const std::string &start) {
  if (start == "nothing" || start == "tiers")
    return KernelInfo::Origin::compiled;
  if (start == "package")
    return KernelInfo::Origin::package;
  if (start == "disk")
    return KernelInfo::Origin::diskCache;
  return std::nullopt;
}

int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }
static_assert(std::is_same_v<std::chrono::steady_clock::period, std::nano>);

/// `best`: when the best kernel of two tiers is ready, counted from the process' start without the
/// driver's start.
enum Step { load, driver, context, kernel, tensors, result, best, stepCount };
using Steps = std::array<double, stepCount>; ///< milliseconds
constexpr std::array<const char *, stepCount> stepNames = {"load",    "driver", "context", "kernel",
                                                           "tensors", "result", "best"};

double countedOf(const Steps &steps) {
  double all = 0;
  for (int step = 0; step < stepCount; ++step)
    all += step == driver || step == best ? 0 : steps[step];
  return all;
}

/// Makes zeros on the device for each captured tensor, and a number for each scalar without a
/// default.
Status addParameters(const Context &context, const KernelInfo &kernel,
                     const std::map<std::string, int64_t> &extents, LaunchArguments &arguments,
                     std::vector<Buffer> &buffers) {
  for (const VariantParameter &parameter : kernel.parameters) {
    if (parameter.isConstant || (!parameter.isCapture && parameter.defaultValue))
      continue;
    if (!parameter.isCapture) {
      arguments.scalars.push_back({parameter.name, 1.0});
      continue;
    }
    Tensor tensor;
    tensor.type = parameter.type;
    tensor.rank = int(parameter.extents.size());
    int64_t elements = 1;
    for (int axis = tensor.rank - 1; axis >= 0; --axis) {
      const VariantExtent &extent = parameter.extents[size_t(axis)];
      // An extent that is the variant's own gets the length of the keys.
      auto known = extents.find(extents.contains(extent.name) ? extent.name : "Sk");
      int64_t value = extent.name.empty() ? 0 : extent.coefficient * known->second;
      tensor.extents[size_t(axis)] = value + extent.offset;
      tensor.strides[size_t(axis)] = elements;
      elements *= tensor.extents[size_t(axis)];
    }
    Result<Buffer> buffer = context.allocate(size_t(elements) * size_t(elementSize(tensor.type)));
    if (!buffer)
      return buffer.error();
    if (Status status = context.fill(*buffer, 0); !status)
      return status;
    tensor.data = buffer->data();
    arguments.captures.push_back({parameter.name, tensor});
    buffers.push_back(std::move(*buffer));
  }
  return Status::success();
}

/// Stands for a program that uses the GPU before it calls Tesela: starts the driver, and makes the
/// primary context current. Does nothing if there is no driver.
void startDriver() {
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library)
    return;
  auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(library, "cuInit"));
  auto retain = reinterpret_cast<int (*)(void **, int)>(dlsym(library, "cuDevicePrimaryCtxRetain"));
  auto setCurrent = reinterpret_cast<int (*)(void *)>(dlsym(library, "cuCtxSetCurrent"));
  void *primary = nullptr;
  if (init && retain && setCurrent && init(0) == 0 && retain(&primary, 0) == 0)
    setCurrent(primary);
}

/// The steps of this process. The first one begins at `options.started`.
Result<Steps> runOnce(const Options &options) {
  Steps steps{};
  int64_t last = options.started;
  auto took = [&](Step step) {
    int64_t at = now();
    steps[step] = double(at - last) * 1e-6;
    last = at;
  };
  took(load);
  if (options.device != "host")
    startDriver();
  took(driver);

  ContextOptions contextOptions;
  contextOptions.device = options.device;
  contextOptions.cacheFolder = options.cacheFolder;
  contextOptions.tiers = options.start == "tiers";
  Result<Context> context = Context::create(contextOptions);
  if (!context)
    return context.error();
  took(Step::context);

  KernelOptions kernelOptions;
  std::ifstream text(options.variants.front());
  kernelOptions.variantText.assign(std::istreambuf_iterator<char>(text), {});
  kernelOptions.variantFile = options.variants.front();
  kernelOptions.headDimQk = kernelOptions.headDimV = options.headDim;
  const std::optional<ElementType> type = parseElementType(options.dtype);
  if (!type)
    return Error(Code::invalidArgument,
                 fmt::format("'{}' is not an element type; give f16, bf16 or f32", options.dtype));
  kernelOptions.inputType = *type;
  Result<Kernel> kernel = context->compile(kernelOptions);
  if (!kernel)
    return kernel.error();
  took(Step::kernel);

  const int64_t B = options.batch, H = options.heads, S = options.length, D = options.headDim;
  const size_t bytes = size_t(B * H * S * D) * size_t(elementSize(*type));
  std::vector<char> host(bytes, 0);
  LaunchArguments arguments;
  std::vector<Buffer> buffers;
  for (Tensor *tensor : {&arguments.q, &arguments.k, &arguments.v, &arguments.o}) {
    Result<Buffer> buffer = context->allocate(bytes);
    if (!buffer)
      return buffer.error();
    if (tensor != &arguments.o)
      if (Status status = context->copyToDevice(*buffer, host.data(), bytes); !status)
        return status.error();
    *tensor = Tensor::bshd(buffer->data(), *type, B, H, S, D);
    buffers.push_back(std::move(*buffer));
  }
  Result<Buffer> lse = context->allocate(size_t(B * H * S) * sizeof(float));
  if (!lse)
    return lse.error();
  arguments.lse = Tensor::contiguous(lse->data(), ElementType::f32, {B, H, S});
  const Buffer &output = buffers[3];
  std::vector<Buffer> captured;
  if (Status status = addParameters(
          *context, kernel->info(),
          {{"B", B}, {"H", H}, {"Hkv", H}, {"Sq", S}, {"Sk", S}, {"D", D}}, arguments, captured);
      !status)
    return status.error();
  took(tensors);

  if (Status status = kernel->launch(arguments); !status)
    return status.error();
  if (Status status = context->copyToHost(host.data(), output, bytes); !status)
    return status.error();
  took(result);
  if (contextOptions.tiers) {
    const bool isSimple = kernel->info().scheduleOrigin == KernelInfo::ScheduleOrigin::simple;
    if (!isSimple && options.device != "host")
      return Error(Code::defect, "the kernel did not begin with a simple schedule");
    if (Result<bool> made = kernel->isBest(std::chrono::minutes(1)); !made)
      return made.error();
    steps[best] = double(now() - options.started) * 1e-6 - steps[driver];
  }
  if (std::optional<KernelInfo::Origin> origin = originOf(options.start);
      origin && kernel->info().origin != *origin)
    return Error(Code::defect,
                 "the kernel did not come from what the run began with, " + options.start);
  return steps;
}

/// Runs `command` as a process of its own, and gives the steps that it prints.
Result<Steps> runAnew(const std::string &command) {
  std::string line = fmt::format("exec {} --started {}", command, now());
  // NOLINTNEXTLINE(bugprone-command-processor): the command is this program's own
  std::unique_ptr<FILE, int (*)(FILE *)> output(popen(line.c_str(), "r"), pclose);
  Steps steps{};
  for (double &step : steps)
    // NOLINTNEXTLINE(bugprone-unchecked-string-to-number-conversion): the program printed it
    if (!output || std::fscanf(output.get(), "%lf", &step) != 1)
      return Error(Code::defect, fmt::format("'{}' gave no times", line));
  return steps;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Sets an environment variable for child processes, until this object is destroyed.
class Variable {
public:
  Variable(const char *name, bool isSet, const char *value) : name(name) {
    if (const char *found = std::getenv(name))
      before = found;
    if (isSet)
      setenv(name, value, 1);
  }
  ~Variable() {
    if (before)
      setenv(name, before->c_str(), 1);
    else
      unsetenv(name);
  }
  Variable(const Variable &) = delete;

private:
  const char *name;
  std::optional<std::string> before;
};

/// Runs processes of `command` that begin with `start`, and prints a line with their times.
Status measureFrom(const std::string &start, const std::string &command, const Options &options,
                   const std::string &name) {
  const std::string folder = options.cacheFolder + "/" + start;
  // A run must not find more than `start` says. So the package's kernels are hidden in all other
  // runs, and the driver's own cache is off if nothing may be cached.
  const Variable shipped("TESELA_SHIPPED_KERNELS", start != "package", "");
  const Variable driverCache("CUDA_CACHE_DISABLE", start == "nothing" || start == "tiers", "1");
  const std::string line = fmt::format("{} --cache-folder '{}'", command, folder);
  std::error_code ignored;
  if (start == "disk") // the first run may compile; it is not counted
    if (Result<Steps> first = runAnew(line); !first)
      return first.error();
  std::array<std::vector<double>, stepCount> times;
  std::vector<double> counted;
  for (int run = 0; run < options.runs; ++run) {
    if (start != "disk")
      std::filesystem::remove_all(folder, ignored);
    Result<Steps> steps = runAnew(line + " --start " + start);
    if (!steps)
      return steps.error();
    for (int step = 0; step < stepCount; ++step)
      times[step].push_back((*steps)[step]);
    counted.push_back(countedOf(*steps));
  }
  fmt::print("{:<24}{:<9}", name, start);
  for (int step = 0; step < stepCount; ++step)
    fmt::print("{:>9}",
               step == best && start != "tiers" ? "" : fmt::format("{:.2f}", median(times[step])));
  auto [low, high] = std::minmax_element(counted.begin(), counted.end());
  fmt::print("{:>9.2f} [{:.2f}, {:.2f}]\n", median(counted), *low, *high);
  return Status::success();
}

Status measure(const Options &options, const std::string &program) {
  fmt::print("milliseconds from the start of a process to its first result, medians of {}\n",
             options.runs);
  fmt::print("{:<24}{:<9}", "variant", "kernels");
  for (const char *name : stepNames)
    fmt::print("{:>9}", name);
  fmt::print("{:>24}\n", "all without the driver");
  for (const std::string &variant : options.variants) {
    std::string command = fmt::format(
        "'{}' '{}' --device {} --dtype {} --batch {} --heads {} --length {} --head-dim {}", program,
        variant, options.device, options.dtype, options.batch, options.heads, options.length,
        options.headDim);
    for (const std::string &start : options.starts)
      if (Status status =
              measureFrom(start, command, options, variant.substr(variant.rfind('/') + 1));
          !status)
        return status;
  }
  return Status::success();
}

} // namespace

int main(int count, char **values) {
  Options options;
  CLI::App app("Times a new process up to its first result");
  app.add_option("variants", options.variants, "Files of variants")->required();
  app.add_option("--device", options.device, "host, cuda, cuda:1 or auto");
  app.add_option("--dtype", options.dtype, "bf16, f16 or f32 (host only)");
  app.add_option("--cache-folder", options.cacheFolder, "A folder for the caches of the runs")
      ->required();
  app.add_option("--batch", options.batch);
  app.add_option("--heads", options.heads);
  app.add_option("--length", options.length);
  app.add_option("--head-dim", options.headDim);
  app.add_option("--runs", options.runs, "How many processes are started for each variant");
  app.add_option("--from", options.starts,
                 "What processes find: nothing, package, disk; with "
                 "tiers: nothing, and they begin with a simple schedule")
      ->check(CLI::IsMember({"nothing", "tiers", "package", "disk"}));
  // Internal options that the program passes to its runs.
  app.add_option("--start", options.start)->group("");
  app.add_option("--started", options.started)->group("");
  CLI11_PARSE(app, count, values);
  if (options.started != 0) {
    Result<Steps> steps = runOnce(options);
    if (!steps) {
      fmt::print(stderr, "{}\n", steps.error().message());
      return 1;
    }
    for (double step : *steps)
      fmt::print("{} ", step);
    return 0;
  }
  if (Status status = measure(options, values[0]); !status) {
    fmt::print(stderr, "{}\n", status.error().message());
    return 1;
  }
  return 0;
}
