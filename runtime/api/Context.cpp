//===- Context.cpp --------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "api/State.h"
#include "artifact/Digest.h"

#include <algorithm>
#include <chrono>

namespace tesela {

namespace {

using Stages = std::vector<std::pair<std::string, double>>;

/// Milliseconds since it was made or last asked.
class Stopwatch {
public:
  double lap() {
    auto now = std::chrono::steady_clock::now();
    double milliseconds = std::chrono::duration<double, std::milli>(now - begin).count();
    begin = now;
    return milliseconds;
  }

private:
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
};

KernelInfo describeKernel(const Artifact &artifact, const Backend &backend,
                          const LoadedCode &code) {
  KernelInfo info;
  info.variantName = artifact.variantName;
  info.target = artifact.target.name();
  info.inputType = artifact.inputType;
  info.headDimQk = artifact.headDimQk;
  info.headDimV = artifact.headDimV;
  info.schedule = artifact.schedule;
  for (const Parameter &parameter : artifact.parameters)
    info.parameters.push_back(describeParameter(parameter));
  info.assembler = backend.assemblerName();
  if (std::optional<Resources> resources = code.resources()) {
    info.registers = resources->registers;
    info.spillBytes = resources->spillBytes;
    int threads = 0;
    for (const Launch &launch : artifact.launches)
      threads = std::max(threads, launch.threads);
    info.threads = threads;
  }
  info.sharedBytes = code.sharedBytes();
  return info;
}

Result<std::shared_ptr<const LoadedKernel>> loadKernel(const Artifact &artifact,
                                                       const Backend &backend) {
  Result<LaunchPlan> plan = LaunchPlan::create(artifact);
  if (!plan)
    return plan.error();
  Result<std::shared_ptr<const LoadedCode>> code = backend.load(artifact);
  if (!code)
    return code.error();
  KernelInfo info = describeKernel(artifact, backend, **code);
  return std::shared_ptr<const LoadedKernel>(std::make_shared<LoadedKernel>(
      LoadedKernel{backend.shared_from_this(), std::move(*plan), std::move(*code),
                   std::make_unique<Workspaces>(backend.shared_from_this()), std::move(info)}));
}

/// Finds or makes a kernel and says where it came from.
class KernelRequest {
public:
  KernelRequest(ContextState &context, const KernelSpecification &specification)
      : context(context), specification(specification) {}

  Result<Kernel> run() {
    std::string key = sha256Hex(specification.canonicalText() + "\ncompiler " + compilerVersion() +
                                "\n" + context.backend->codeIdentity());
    origin = KernelInfo::Origin::memoryCache;
    Result<std::shared_ptr<const LoadedKernel>> kernel =
        templateFolderInUse() ? compileAnew()
                              : context.memory.get(key, [&] { return fromDiskOrCompiler(key); });
    if (!kernel)
      return kernel.error();
    if (origin == KernelInfo::Origin::memoryCache)
      stages = {{"cache", watch.lap()}};
    auto state = std::make_shared<Kernel::State>();
    state->kernel = std::move(*kernel);
    state->info = state->kernel->info;
    state->info.origin = origin;
    state->info.stages = std::move(stages);
    return Kernel(std::move(state));
  }

private:
  ContextState &context;
  const KernelSpecification &specification;
  KernelInfo::Origin origin = KernelInfo::Origin::memoryCache;
  Stages stages;
  Stopwatch watch;

  Result<std::shared_ptr<const LoadedKernel>> fromDiskOrCompiler(const std::string &key) {
    watch.lap(); // the time in which others compiled the same kernel is not this one's
    if (context.disk) {
      if (std::optional<Artifact> artifact = context.disk->load(key)) {
        stages.emplace_back("cache", watch.lap());
        // An entry that does not load counts as damaged: it is compiled anew.
        if (auto kernel = loadKernel(*artifact, *context.backend)) {
          stages.emplace_back("load", watch.lap());
          origin = KernelInfo::Origin::diskCache;
          return kernel;
        }
        stages.clear();
      }
    }
    return compileAnew(context.disk ? &key : nullptr);
  }

  /// Compiles, assembles, loads; keeps the artifact on disk under `key`, where given.
  Result<std::shared_ptr<const LoadedKernel>> compileAnew(const std::string *key = nullptr) {
    origin = KernelInfo::Origin::compiled;
    ++context.compileCount;
    CompileTimes times;
    Result<Artifact> compiled = tesela::compile(specification, &times);
    if (!compiled)
      return compiled.error();
    stages = std::move(times.stages);
    watch.lap();
    Result<Artifact> assembled = context.backend->assemble(std::move(*compiled));
    if (!assembled)
      return assembled.error();
    if (specification.target.kind == Target::Kind::cuda)
      stages.emplace_back("assemble", watch.lap());
    Result<std::shared_ptr<const LoadedKernel>> kernel = loadKernel(*assembled, *context.backend);
    stages.emplace_back("load", watch.lap());
    if (kernel && key)
      context.disk->store(*key, *assembled);
    return kernel;
  }
};

} // namespace

Context::Context(std::shared_ptr<ContextState> state) : state(std::move(state)) {}

/// The device that `name` asks for.
static Result<Device> chooseDevice(const std::string &name) {
  if (name == "host")
    return hostDevice();
  bool any = name == "auto" || name.empty();
  size_t index = 0;
  if (name.rfind("cuda:", 0) == 0 && name.size() > 5 && name.size() < 9 &&
      name.find_first_not_of("0123456789", 5) == std::string::npos)
    index = std::stoul(name.substr(5));
  else if (!any && name != "cuda")
    return Error(Code::invalidArgument,
                 "the device '" + name + "' is not known; choose auto, host, cuda or cuda:N");
  Result<std::vector<Device>> devices = cudaDevices();
  if (!devices) {
    if (any && devices.code() == Code::notFound)
      return hostDevice();
    return devices.error();
  }
  if (index >= devices->size())
    return Error(Code::notFound, "there is no device " + name + "; the driver shows " +
                                     std::to_string(devices->size()) + ", from cuda:0 on");
  return (*devices)[index];
}

Result<Context> Context::create(const ContextOptions &options) {
  if (options.threads < 0 || options.threads > 4096)
    return Error(Code::invalidArgument, "the number of threads is " +
                                            std::to_string(options.threads) +
                                            ", it must lie in [0, 4096]; 0 is the hardware's");
  Result<Device> device = chooseDevice(options.device);
  if (!device)
    return device.error();
  Result<std::shared_ptr<Backend>> backend = device->kind == Device::Kind::host
                                                 ? createHostBackend(options.threads)
                                                 : createCudaBackend(*device);
  if (!backend)
    return backend.error();
  auto state = std::make_shared<ContextState>();
  state->backend = std::move(*backend);
  state->threads = options.threads;
  state->events = std::make_shared<EventSink>(options.log, options.events);
  if (options.diskCache)
    state->disk.emplace(options.cacheFolder, state->events);
  return Context(std::move(state));
}

const Device &Context::device() const { return state->backend->device(); }

Result<Kernel> Context::compile(const KernelOptions &options) const {
  Result<KernelSpecification> specification = makeSpecification(options, device().target);
  if (!specification)
    return specification.error();
  const Target &target = specification->target;
  bool onHost = device().kind == Device::Kind::host;
  if (onHost != (target.kind == Target::Kind::host) || target.sm > device().sm)
    return Error(Code::invalidArgument, "the target " + target.name() + " does not run on " +
                                            device().name + " (" + device().target +
                                            "); leave the target out");
  return KernelRequest(*state, *specification).run();
}

int64_t Context::compileCount() const { return state->compileCount; }

} // namespace tesela
