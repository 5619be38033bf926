//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "LaunchRecord.h"

#include "launch/LaunchPlan.h"

#include <algorithm>
#include <cstring>

namespace tesela {

/// Loaded code that forwards all calls to other code. A subclass defines what starts a kernel.
class LaunchRecord::Forwarding : public LoadedCode {
public:
  explicit Forwarding(const LoadedCode &code) : code(code) {}

  Result<bool> enter() const override { return code.enter(); }
  void leave() const override { code.leave(); }
  Result<StreamUse> streamUse(void *stream, bool isNumbered) const override {
    return code.streamUse(stream, isNumbered);
  }
  Result<LaunchCounter> counter(const StreamUse &use) const override { return code.counter(use); }
  uint64_t addressOfZero() const override { return code.addressOfZero(); }
  Status encodeTensorMap(const TensorTiling &tiling, TensorMap &map) const override {
    return code.encodeTensorMap(tiling, map);
  }

protected:
  const LoadedCode &code;
};

/// Starts no kernel.
class LaunchRecord::Silent : public Forwarding {
public:
  using Forwarding::Forwarding;
  Status launch(size_t, int64_t, void **, void *, bool) const override { return Status::success(); }
};

/// Counts kernels, and starts none.
class LaunchRecord::Counter : public Forwarding {
public:
  using Forwarding::Forwarding;
  Status launch(size_t, int64_t, void **, void *, bool) const override {
    ++kernels;
    return Status::success();
  }
  mutable size_t kernels = 0;
};

/// Records what is started, and starts it.
class LaunchRecord::Recorder : public Forwarding {
public:
  Recorder(const LoadedCode &code, const Artifact &artifact, LaunchRecord &record)
      : Forwarding(code), artifact(artifact), record(record) {}

  Status encodeTensorMap(const TensorTiling &tiling, TensorMap &map) const override {
    ++record.maps;
    return code.encodeTensorMap(tiling, map);
  }
  Status launch(size_t index, int64_t items, void **arguments, void *stream,
                bool overlaps) const override {
    const Launch &launch = artifact.launches[index];
    CUfunc_st *function = nullptr;
    if (Status status = record.api->check(
            record.api->cuModuleGetFunction(&function, record.module, launch.kernel.c_str()),
            "cuModuleGetFunction");
        !status)
      return status;
    if (Status status = record.api->check(
            record.api->cuFuncSetAttribute(function, cuda::maxDynamicSharedSizeBytes,
                                           int(launch.sharedBytes)),
            "cuFuncSetAttribute");
        !status)
      return status;
    int processors = record.backend->device().processors;
    Call call{function,
              unsigned(launch.persistent ? std::min<int64_t>(items, processors) : items),
              unsigned(launch.threads),
              unsigned(launch.sharedBytes),
              overlaps,
              {},
              {}};
    call.parameters.resize(launch.slots.size());
    for (size_t i = 0; i < launch.slots.size(); ++i) {
      // A value has 8 bytes, a tensor map 128.
      bool isMap = launch.slots[i].kind == ArgumentSlot::Kind::tensorMap;
      std::memcpy(call.parameters[i].bytes, arguments[i], isMap ? sizeof(TensorMap) : 8);
    }
    for (Parameter &parameter : call.parameters)
      call.pointers.push_back(parameter.bytes);
    record.calls.push_back(std::move(call));
    return code.launch(index, items, arguments, stream, overlaps);
  }

private:
  const Artifact &artifact;
  LaunchRecord &record;
};

Result<std::unique_ptr<LaunchRecord>>
LaunchRecord::create(const std::shared_ptr<const Backend> &backend, const Artifact &artifact,
                     const LaunchArguments &arguments, CUstream_st *stream) {
  auto record = std::unique_ptr<LaunchRecord>(new LaunchRecord);
  Result<const cuda::DriverApi *> api = cuda::driver();
  if (!api)
    return api.error();
  record->api = *api;
  record->backend = backend;
  record->stream = stream;
  if (Status status = (*api)->check(
          (*api)->cuModuleLoadDataEx(&record->module, artifact.code.c_str(), 0, nullptr, nullptr),
          "cuModuleLoadDataEx");
      !status)
    return status.error();
  Result<std::shared_ptr<const LoadedCode>> code = backend->load(artifact);
  if (!code)
    return code.error();
  record->code = *code;
  Result<LaunchPlan> plan = LaunchPlan::create(artifact);
  if (!plan)
    return plan.error();
  record->plan = std::move(*plan);
  record->arguments = arguments;
  record->workspaces = std::make_shared<Workspaces>(backend);
  if (Status status = record->launchThrough(Recorder(**code, artifact, *record)); !status)
    return status.error();
  Counter counter(**code);
  record->arguments.capturesUnchanged = true;
  if (Status status = record->launchThrough(counter); !status)
    return status.error();
  record->arguments.capturesUnchanged = arguments.capturesUnchanged;
  record->kept = counter.kernels;
  return Result<std::unique_ptr<LaunchRecord>>(std::move(record));
}

Status LaunchRecord::launchThrough(const LoadedCode &through) const {
  CheckedArguments checked;
  if (Status status = checkArguments(plan->signature(), arguments,
                                     {backend->addressAlignment(), true}, checked);
      !status)
    return status;
  return plan->launch(through, checked, stream, workspaces.get());
}

Status LaunchRecord::launchNothing() const { return launchThrough(Silent(*code)); }

LaunchRecord::~LaunchRecord() {
  if (module)
    api->cuModuleUnload(module);
}

Status LaunchRecord::launch() const {
  for (const Call &call : calls)
    if (int result =
            api->cuLaunchKernel(call.function, call.grid, 1, 1, call.block, 1, 1, call.sharedBytes,
                                stream, const_cast<void **>(call.pointers.data()), nullptr))
      return api->check(result, "cuLaunchKernel");
  return Status::success();
}

Status LaunchRecord::launchEx() const {
  cuda::LaunchAttribute mayBegin{cuda::launchProgrammaticStreamSerialization, 1, {}};
  for (const Call &call : calls) {
    cuda::LaunchConfig config{.gridX = call.grid,
                              .blockX = call.block,
                              .sharedBytes = call.sharedBytes,
                              .stream = stream,
                              .attributes = &mayBegin,
                              .attributeCount = call.overlaps ? 1u : 0u};
    if (int result = api->cuLaunchKernelEx(&config, call.function,
                                           const_cast<void **>(call.pointers.data()), nullptr))
      return api->check(result, "cuLaunchKernelEx");
  }
  return Status::success();
}

} // namespace tesela
