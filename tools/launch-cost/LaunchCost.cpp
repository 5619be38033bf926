//===- LaunchCost.cpp - What a ready launch costs the host ----------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// tesela_launch_cost VARIANT.attn...: times Kernel::launch beside the driver's cuLaunchKernel and
// cuLaunchKernelEx with the same parameters, prepared in advance. They take turns in short runs.
// After each run the program waits for the device, so the driver's queue never fills up. A fourth
// function does everything that Tesela does for a launch, but starts no kernel; its time is the
// column "own". With tests/cuda-stub's folder on LD_LIBRARY_PATH the program runs without a GPU and
// times only Tesela's part. From sm_90 on each variant is also compiled for sm_80, whose kernels
// use no tensor maps. The difference is the cost of tensor maps.
//
//===----------------------------------------------------------------------===//
#include "LaunchRecord.h"

#include "driver/CurrentContext.h"
#include "tesela/Context.h"
#include "tesela/compiler/Compile.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <map>

using namespace tesela;

namespace {

struct Options {
  std::vector<std::string> variants;
  std::string device = "cuda";
  int64_t batch = 1, heads = 8, length = 256;
  int headDim = 128, runs = 400, launches = 50;
};

struct Spread {
  double low, median, high; ///< microseconds for each launch; quartiles
};

Spread spreadOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  auto at = [&](double part) { return values[size_t(part * double(values.size() - 1))]; };
  return {at(0.25), at(0.5), at(0.75)};
}

/// Makes zeros for a captured tensor. Extents that are the variant's own are 16.
struct Captures {
  std::vector<Buffer> buffers;

  Result<CaptureArgument> make(const Context &context, const VariantParameter &parameter,
                               const std::map<std::string, int64_t> &extents) {
    Tensor tensor;
    tensor.type = parameter.type;
    tensor.rank = int(parameter.extents.size());
    for (int axis = 0; axis < tensor.rank; ++axis) {
      const VariantExtent &extent = parameter.extents[axis];
      auto known = extents.find(extent.name);
      int64_t named = known == extents.end() ? 16 : known->second;
      tensor.extents[axis] = extent.coefficient * named + extent.offset;
    }
    int64_t stride = 1;
    for (int axis = tensor.rank - 1; axis >= 0; --axis) {
      tensor.strides[axis] = stride;
      stride *= tensor.extents[axis];
    }
    Result<Buffer> buffer = context.allocate(tensor.spanBytes());
    if (!buffer)
      return buffer.error();
    if (Status status = context.fill(*buffer, 0); !status)
      return status.error();
    tensor.data = buffer->data();
    buffers.push_back(std::move(*buffer));
    return CaptureArgument{parameter.name, tensor};
  }
};

/// One variant's kernel and its launches.
class Case {
public:
  Case(const Options &options, const Context &context, CUstream_st *stream)
      : options(options), context(context), stream(stream) {}

  struct Cost {
    double over = 0; ///< microseconds more than cuLaunchKernelEx
    int tensorMaps = 0;
  };

  /// `target`: "" means the device's own target.
  Result<Cost> run(const std::string &file, const std::string &target) {
    kernelOptions.target = target;
    std::ifstream text(file);
    kernelOptions.variantText.assign(std::istreambuf_iterator<char>(text), {});
    kernelOptions.variantFile = file;
    kernelOptions.headDimQk = kernelOptions.headDimV = options.headDim;
    Result<Kernel> kernel = context.compile(kernelOptions);
    if (!kernel)
      return kernel.error();
    if (Status status = fillArguments(kernel->info()); !status)
      return status.error();
    Result<std::unique_ptr<LaunchRecord>> record = makeRecord();
    if (!record)
      return record.error();
    Result<Cost> cost = report(*kernel, **record);
    arguments.capturesUnchanged = true;
    if (cost && (*record)->kernels() > 1) {
      Result<Spread> kept = time([&] { return kernel->launch(arguments, stream); });
      if (!kept)
        return kept.error();
      fmt::print("{:<24}{:>8}{:>6}{:>10.3f}   captures unchanged\n", "", (*record)->keptKernels(),
                 "", kept->median);
    }
    return cost;
  }

private:
  const Options &options;
  const Context &context;
  CUstream_st *stream;
  KernelOptions kernelOptions;
  LaunchArguments arguments;
  Captures captures;
  Buffer memory;

  Status fillArguments(const KernelInfo &info) {
    int64_t B = options.batch, H = options.heads, S = options.length, D = options.headDim;
    int64_t bytes = B * H * S * D * 2;
    Result<Buffer> allocated = context.allocate(4 * bytes + B * H * S * 4);
    if (!allocated)
      return allocated.error();
    memory = std::move(*allocated);
    if (Status status = context.fill(memory, 0); !status)
      return status;
    char *next = static_cast<char *>(memory.data());
    for (Tensor *tensor : {&arguments.q, &arguments.k, &arguments.v, &arguments.o}) {
      *tensor = Tensor::bshd(next, ElementType::bf16, B, H, S, D);
      next += bytes;
    }
    arguments.lse = Tensor::contiguous(next, ElementType::f32, {B, H, S});
    for (const VariantParameter &parameter : info.parameters) {
      if (!parameter.isCapture && !parameter.defaultValue)
        arguments.scalars.push_back({parameter.name, 1});
      if (!parameter.isCapture)
        continue;
      Result<CaptureArgument> capture =
          captures.make(context, parameter, {{"B", B}, {"H", H}, {"Hkv", H}, {"Sq", S}, {"Sk", S}});
      if (!capture)
        return capture.error();
      arguments.captures.push_back(*capture);
    }
    return Status::success();
  }

  Result<std::unique_ptr<LaunchRecord>> makeRecord() const {
    KernelSpecification specification;
    specification.variantText = kernelOptions.variantText;
    specification.headDimQk = specification.headDimV = options.headDim;
    std::string name =
        kernelOptions.target.empty() ? context.device().target : kernelOptions.target;
    Result<Target> target = Target::parse(name);
    if (!target)
      return target.error();
    specification.target = *target;
    Result<Artifact> compiled = compile(specification);
    if (!compiled)
      return compiled.error();
    Result<std::shared_ptr<Backend>> backend = createCudaBackend(context.device());
    if (!backend)
      return backend.error();
    Result<Artifact> artifact = (*backend)->assemble(std::move(*compiled), {});
    if (!artifact)
      return artifact.error();
    return LaunchRecord::create(*backend, *artifact, arguments, stream);
  }

  template <typename Launch> Result<double> timeRun(const Launch &launch) const {
    auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < options.launches; ++i)
      if (Status status = launch(); !status)
        return status.error();
    std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - begin;
    if (Status status = context.synchronize(stream); !status)
      return status.error();
    return taken.count() / options.launches;
  }

  template <typename Launch> Result<Spread> time(const Launch &launch) const {
    std::vector<double> times;
    for (int run = 0; run < options.runs; ++run) {
      Result<double> taken = timeRun(launch);
      if (!taken)
        return taken.error();
      times.push_back(*taken);
    }
    return spreadOf(std::move(times));
  }

  Result<Cost> report(const Kernel &kernel, const LaunchRecord &record) const {
    std::vector<double> ours, bare, extended, over, own;
    for (int run = 0; run < options.runs; ++run) {
      Result<double> taken[] = {timeRun([&] { return kernel.launch(arguments, stream); }),
                                timeRun([&] { return record.launch(); }),
                                timeRun([&] { return record.launchEx(); }),
                                timeRun([&] { return record.launchNothing(); })};
      for (const Result<double> &each : taken)
        if (!each)
          return each.error();
      ours.push_back(*taken[0]);
      bare.push_back(*taken[1]);
      extended.push_back(*taken[2]);
      over.push_back(*taken[0] - *taken[2]);
      own.push_back(*taken[3]);
    }
    Spread a = spreadOf(ours), b = spreadOf(bare), c = spreadOf(extended), d = spreadOf(over);
    fmt::print("{:<24}{:>8}{:>6}{:>10.3f}{:>10.3f}{:>10.3f}{:>10.3f} [{:.3f}, {:.3f}]{:>8.3f}\n",
               kernel.info().variantName + " " + kernel.info().target, record.kernels(),
               record.tensorMaps(), a.median, b.median, c.median, d.median, d.low, d.high,
               spreadOf(own).median);
    return Cost{d.median, record.tensorMaps()};
  }
};

Status measure(const Options &options) {
  ContextOptions contextOptions;
  contextOptions.device = options.device;
  contextOptions.diskCache = false;
  Result<Context> context = Context::create(contextOptions);
  if (!context)
    return context.error();
  Result<const cuda::DriverApi *> api = cuda::driver();
  if (!api)
    return api.error();
  // As in programs that launch kernels of their own, the primary context is current.
  CUctx_st *primary = nullptr;
  CUstream_st *stream = nullptr;
  if (Status status =
          (*api)->check((*api)->cuDevicePrimaryCtxRetain(&primary, context->device().index),
                        "cuDevicePrimaryCtxRetain");
      !status)
    return status;
  cuda::CurrentContext current(**api, primary);
  if (Status status =
          (*api)->check((*api)->cuStreamCreate(&stream, cuda::streamNonBlocking), "cuStreamCreate");
      !status)
    return status;
  fmt::print("{}, driver {}; microseconds of the host a launch, medians of {} runs of {}\n",
             context->device().name, context->device().driver, options.runs, options.launches);
  fmt::print("{:<24}{:>8}{:>6}{:>10}{:>10}{:>10}{:>10} {:<16}{:>8}\n", "variant", "kernels", "maps",
             "Tesela", "bare", "bare Ex", "over Ex", "[quartiles]", "own");
  for (const std::string &file : options.variants) {
    Result<Case::Cost> own = Case(options, *context, stream).run(file, "");
    if (!own)
      return own.error();
    if (own->tensorMaps == 0)
      continue;
    Result<Case::Cost> without = Case(options, *context, stream).run(file, "sm_80");
    if (!without)
      return without.error();
    fmt::print("{:<24}a tensor map: {:.3f}\n", "", (own->over - without->over) / own->tensorMaps);
  }
  return (*api)->check((*api)->cuStreamDestroy_v2(stream), "cuStreamDestroy");
}

} // namespace

int main(int count, char **values) {
  Options options;
  CLI::App app("Times ready launches beside the driver's own functions");
  app.add_option("variants", options.variants, "Files of variants")->required();
  app.add_option("--device", options.device, "cuda, cuda:1");
  app.add_option("--batch", options.batch);
  app.add_option("--heads", options.heads);
  app.add_option("--length", options.length);
  app.add_option("--head-dim", options.headDim);
  app.add_option("--runs", options.runs, "How often each takes its turn");
  app.add_option("--launches", options.launches, "Launches a turn");
  CLI11_PARSE(app, count, values);
  if (Status status = measure(options); !status) {
    fmt::print(stderr, "{}\n", status.error().message());
    return 1;
  }
  return 0;
}
