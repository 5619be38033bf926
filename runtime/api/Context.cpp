//===- Context.cpp --------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "api/State.h"
#include "assemble/Ptxas.h"
#include "host/ThreadPool.h"

namespace tesela {

Context::Context(std::shared_ptr<ContextState> state) : state(std::move(state)) {}

/// The device with the name `name`.
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
  if (Status status = ThreadPool::checkThreads(options.threads); !status)
    return status.error();
  if (options.mostKernels < 1)
    return Error(Code::invalidArgument, "the limit of kernels kept in memory is " +
                                            std::to_string(options.mostKernels) +
                                            ", it must be at least 1");
  if (options.cacheBytes < 0)
    return Error(Code::invalidArgument, "the limit of the disk cache is " +
                                            std::to_string(options.cacheBytes) +
                                            " bytes, it must not be negative; 0 is the default");
  if (!(options.tuningSeconds > 0))
    return Error(Code::invalidArgument, "the time for tuning is " +
                                            std::to_string(options.tuningSeconds) +
                                            " seconds, it must be more than 0");
  Result<Device> device = chooseDevice(options.device);
  if (!device)
    return device.error();
  Result<std::shared_ptr<Backend>> backend = device->kind == Device::Kind::host
                                                 ? createHostBackend(options.threads)
                                                 : createCudaBackend(*device);
  if (!backend)
    return backend.error();
  auto state = std::make_shared<ContextState>(size_t(options.mostKernels));
  state->backend = std::move(*backend);
  state->threads = options.threads;
  state->verify = options.verify;
  state->hasTiers = options.tiers;
  state->events = std::make_shared<EventSink>(options.log, options.events);
  if (options.diskCache) {
    state->disk.emplace(options.cacheFolder, options.cacheBytes, state->events);
    if (const std::string &folder = state->disk->folder(); !folder.empty())
      Ptxas::keepVersionsIn(folder + "/assemblers");
    state->shipped.emplace(state->events);
  }
  state->tuning.emplace(*state, options);
  return Context(std::move(state));
}

const Device &Context::device() const { return state->backend->device(); }

/// The compiler's specification for `options`, if `device` can run their target.
static Result<KernelSpecification> specificationFor(const Device &device,
                                                    const KernelOptions &options) {
  Result<KernelSpecification> specification = makeSpecification(options, device.target);
  if (!specification)
    return specification;
  const Target &target = specification->target;
  bool onHost = device.kind == Device::Kind::host;
  if (onHost != (target.kind == Target::Kind::host) || target.sm > device.sm)
    return Error(Code::invalidArgument, "the target " + target.name() + " does not run on " +
                                            device.name + " (" + device.target +
                                            "); leave the target out");
  return specification;
}

/// The request of compile() and prepare().
static Result<Kernel> request(ContextState &state, const KernelSpecification &specification,
                              const std::optional<ProblemSizes> &sizes, bool hasTiers,
                              const RequestLimits &limits) {
  return hasTiers ? state.tiers.request(specification, sizes, limits)
                  : state.tuning->request(specification, sizes, limits);
}

Result<Kernel> Context::compile(const KernelOptions &options, const RequestLimits &limits) const {
  Result<KernelSpecification> specification = specificationFor(device(), options);
  if (!specification)
    return specification.error();
  return request(*state, *specification, options.sizes, state->hasTiers || options.tiers, limits);
}

Result<Preparation> Context::prepare(const KernelOptions &options,
                                     std::optional<std::chrono::milliseconds> time) const {
  Result<KernelSpecification> specification = specificationFor(device(), options);
  if (!specification)
    return specification.error();
  auto make = [&state = *state, specification = std::move(*specification), sizes = options.sizes,
               hasTiers = state->hasTiers || options.tiers](const RequestLimits &limits) {
    return request(state, specification, sizes, hasTiers, limits);
  };
  return state->preparations.add(std::move(make), time);
}

int64_t Context::compileCount() const { return state->compileCount; }

} // namespace tesela
