//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "assemble/Ptxas.h"
#include "backend/Backend.h"
#include "backend/LaunchCounters.h"
#include "cache/KernelKey.h"
#include "driver/ClearMemory.h"
#include "driver/CurrentContext.h"
#include "driver/GraphOwned.h"
#include "driver/KnownTensorMaps.h"
#include "system/ThreadOwn.h"

#include <algorithm>
#include <atomic>

namespace tesela {

using namespace cuda;

namespace {

/// The first GPU with asynchronous copies and bf16 (compiler/targets/nvvm/ChipFacts.cpp).
constexpr int oldestCapability = 80;

DevicePointer devicePointer(const void *address) {
  return reinterpret_cast<DevicePointer>(address);
}

class CudaBackend : public Backend {
public:
  static Result<std::shared_ptr<Backend>> create(const Device &device) {
    if (device.sm < oldestCapability)
      return Error(Code::unsupported, "cuda:" + std::to_string(device.index) + " (" + device.name +
                                          ") has " + device.target +
                                          ", but Tesela's kernels need sm_" +
                                          std::to_string(oldestCapability) +
                                          " or later: use another device, or 'host'");
    Result<const DriverApi *> api = driver();
    if (!api)
      return api.error();
    int handle = 0;
    CUctx_st *context = nullptr;
    if (Status status = (*api)->check((*api)->cuDeviceGet(&handle, device.index), "cuDeviceGet");
        !status)
      return status.error();
    if (Status status = (*api)->check((*api)->cuDevicePrimaryCtxRetain(&context, handle),
                                      "cuDevicePrimaryCtxRetain");
        !status)
      return status.error();
    auto backend = std::make_shared<CudaBackend>(device, **api, handle, context);
    if (Status status = backend->prepareMemory(); !status)
      return status.error();
    if (Status status = (*api)->check(
            (*api)->cuDeviceGetAttribute(&backend->multiprocessors, multiprocessorCount, handle),
            "cuDeviceGetAttribute");
        !status)
      return status.error();
    return std::shared_ptr<Backend>(backend);
  }

  CudaBackend(const Device &device, const DriverApi &api, int handle, CUctx_st *context)
      : Backend(device), counters(api), api(api), handle(handle), context(context),
        ptxas(Ptxas::find()) {}
  ~CudaBackend() override {
    if (zero)
      release(zero);
    if (CurrentContext current(api, context); current.status())
      counters.release();
    api.cuDevicePrimaryCtxRelease_v2(handle);
  }

  /// Allocates the launch counters and the zeros.
  Status prepareMemory() {
    BackendCall call(*this);
    if (!call.status())
      return call.status();
    if (Status status = counters.create(); !status)
      return status;
    Result<void *> made = allocate(LoadedCode::zeroBytes);
    if (!made)
      return made.error();
    zero = *made;
    return clearMemory(api, {{devicePointer(zero)}}, LoadedCode::zeroBytes);
  }
  mutable LaunchCounters counters;
  int multiprocessors = 1;

  /// LoadedCode::zeroBytes zeros on the device.
  void *zero = nullptr;

  int addressAlignment() const override { return 16; }

  std::string codeIdentity() const override {
    return ptxas ? assembledIdentity(device().target, ptxas->identity())
                 : device().target + byDriver();
  }
  bool knowsIdentity() const override { return !ptxas || ptxas->knownIdentity(); }
  std::string spareIdentity() const override {
    return ptxas ? codeIdentity() + " is too old," + byDriver() : "";
  }
  std::string identityOf(const Artifact &assembled) const override {
    return ptxas && !assembled.resources ? spareIdentity() : codeIdentity(); // only ptxas reports
                                                                             // resources
  }
  std::string assemblerName() const override {
    return ptxas ? ptxas->path() : "driver " + api.versionText();
  }

  Result<Artifact> assemble(Artifact artifact, const RequestLimits &limits) const override;
  Result<std::shared_ptr<const LoadedCode>> load(const Artifact &artifact) const override;

  Result<void *> allocate(size_t bytes) const override {
    BackendCall call(*this);
    if (!call.status())
      return call.status().error();
    DevicePointer address = 0;
    // The driver refuses to allocate 0 bytes.
    if (Status status =
            api.check(api.cuMemAlloc_v2(&address, std::max<size_t>(bytes, 1)), "cuMemAlloc");
        !status)
      return status.error().within("allocating " + std::to_string(bytes) + " bytes");
    return reinterpret_cast<void *>(address);
  }
  void release(void *address) const override {
    BackendCall call(*this);
    if (call.status())
      api.cuMemFree_v2(devicePointer(address));
  }
  Status copyToDevice(void *to, const void *from, size_t bytes, void *stream) const override {
    auto *queue = static_cast<CUstream_st *>(stream);
    return onStream(bytes, queue, "cuMemcpyHtoDAsync", [&] {
      return api.cuMemcpyHtoDAsync_v2(devicePointer(to), from, bytes, queue);
    });
  }
  Status copyToHost(void *to, const void *from, size_t bytes, void *stream) const override {
    auto *queue = static_cast<CUstream_st *>(stream);
    return onStream(bytes, queue, "cuMemcpyDtoHAsync", [&] {
      return api.cuMemcpyDtoHAsync_v2(to, devicePointer(from), bytes, queue);
    });
  }
  Status fill(void *address, uint8_t byte, size_t bytes, void *stream) const override {
    auto *queue = static_cast<CUstream_st *>(stream);
    return onStream(bytes, queue, "cuMemsetD8Async", [&] {
      return api.cuMemsetD8Async(devicePointer(address), byte, bytes, queue);
    });
  }
  Result<void *> createStream() const override {
    BackendCall call(*this);
    if (!call.status())
      return call.status().error();
    CUstream_st *stream = nullptr;
    if (Status status = api.check(api.cuStreamCreate(&stream, streamNonBlocking), "cuStreamCreate");
        !status)
      return status.error();
    return static_cast<void *>(stream);
  }
  void destroyStream(void *stream) const override {
    BackendCall call(*this);
    if (call.status())
      api.cuStreamDestroy_v2(static_cast<CUstream_st *>(stream));
  }
  Status synchronize(void *stream) const override {
    BackendCall call(*this);
    if (!call.status())
      return call.status();
    return api.check(api.cuStreamSynchronize(static_cast<CUstream_st *>(stream)),
                     "cuStreamSynchronize");
  }
  Result<double> time(const std::function<Status()> &work, void *stream) const override;

  /// No other backend of the process ever has the same number.
  const uint64_t number = ++count;

  const DriverApi &driverApi() const { return api; }
  CUctx_st *contextHandle() const { return context; }

private:
  /// During its life, the device's context is current, and captures of graphs are not disturbed.
  class BackendCall {
  public:
    explicit BackendCall(const CudaBackend &backend)
        : current(backend.api, backend.context), relaxed(backend.api) {}
    const Status &status() const { return current.status(); }

  private:
    CurrentContext current;
    RelaxedCapture relaxed;
  };

  /// Calls `begin`, the driver's function `name`, on `stream` and waits until it is done.
  template <typename Begin>
  Status onStream(size_t bytes, CUstream_st *stream, const char *name, Begin begin) const {
    BackendCall call(*this);
    if (!call.status() || bytes == 0)
      return call.status();
    if (Status status = api.check(begin(), name); !status)
      return status;
    return api.check(api.cuStreamSynchronize(stream), "cuStreamSynchronize");
  }

  std::string byDriver() const { return " driver " + std::to_string(api.version); }

  static inline std::atomic<uint64_t> count = 0;

  const DriverApi &api;
  int handle;
  CUctx_st *context;
  std::optional<Ptxas> ptxas;

  Result<std::string> link(const std::string &ptx) const;
};

/// A module and its functions.
class CudaLoadedCode : public LoadedCode {
public:
  struct Entry {
    CUfunc_st *function;
    unsigned threads;
    unsigned sharedBytes;
    bool persistent;
  };
  CudaLoadedCode(std::shared_ptr<const CudaBackend> backend, CUmod_st *module)
      : backend(std::move(backend)), api(this->backend->driverApi()),
        context(this->backend->contextHandle()), module(module) {}
  ~CudaLoadedCode() override {
    CurrentContext current(api, context);
    RelaxedCapture relaxed(api);
    if (current.status())
      api.cuModuleUnload(module);
  }

  Status prepare(const Artifact &artifact);

  uint64_t addressOfZero() const override { return reinterpret_cast<uintptr_t>(backend->zero); }
  Result<bool> enter() const override { return makeCurrent(api, context); }
  void leave() const override {
    CUctx_st *popped;
    api.cuCtxPopCurrent_v2(&popped);
  }
  Result<StreamUse> streamUse(void *stream, bool isNumbered) const override {
    auto *queue = static_cast<CUstream_st *>(stream);
    int capture = captureNone;
    unsigned long long id = 0;
    CUgraph_st *graph = nullptr;
    if (Status status =
            api.check(api.cuStreamGetCaptureInfo_v2(queue, &capture, &id, &graph, nullptr, nullptr),
                      "cuStreamGetCaptureInfo");
        !status)
      return status.error();
    // A broken capture has no graph; the launch then returns the driver's error.
    if (capture == captureActive)
      return StreamUse{reinterpret_cast<uintptr_t>(stream), true, id, graph};
    // In a capture, asking the driver for the number would fail and break the capture.
    if (isNumbered && capture == captureNone)
      if (Status status = api.check(api.cuStreamGetId(queue, &id), "cuStreamGetId"); !status)
        return status.error();
    return StreamUse{.stream = id};
  }
  Result<LaunchCounter> counter(const StreamUse &use) const override {
    return backend->counters.of(use);
  }
  Status keepForGraph(const StreamUse &use, std::shared_ptr<const void> kept) const override {
    return cuda::keepForGraph(api, static_cast<CUgraph_st *>(use.graph), std::move(kept));
  }
  Status encodeTensorMap(const TensorTiling &tiling, TensorMap &map) const override {
    // One per thread, so that launches of different threads do not wait for each other.
    KnownTensorMaps *known = ThreadOwn<KnownTensorMaps>::get();
    return known ? known->find(api, backend->number, tiling, map)
                 : cuda::encodeTensorMap(api, tiling, map);
  }
  Status launch(size_t index, int64_t items, void **arguments, void *stream,
                bool overlaps) const override {
    const Entry &entry = entries[index];
    unsigned blocks =
        unsigned(entry.persistent ? std::min<int64_t>(items, backend->multiprocessors) : items);
    // Overlapping was slower with fewer thread blocks than multiprocessors
    // (docs/decisions/launch.md).
    if (overlaps && api.overlapsLaunches() && int(blocks) >= backend->multiprocessors) {
      LaunchAttribute mayBegin{launchProgrammaticStreamSerialization, 1, {}};
      LaunchConfig config{.gridX = blocks,
                          .blockX = entry.threads,
                          .sharedBytes = entry.sharedBytes,
                          .stream = static_cast<CUstream_st *>(stream),
                          .attributes = &mayBegin,
                          .attributeCount = 1};
      return api.check(api.cuLaunchKernelEx(&config, entry.function, arguments, nullptr),
                       "cuLaunchKernelEx");
    }
    return api.check(api.cuLaunchKernel(entry.function, blocks, 1, 1, entry.threads, 1, 1,
                                        entry.sharedBytes, static_cast<CUstream_st *>(stream),
                                        arguments, nullptr),
                     "cuLaunchKernel");
  }
  std::optional<Resources> resources() const override { return known; }
  std::optional<int64_t> sharedBytes() const override { return shared; }

private:
  std::shared_ptr<const CudaBackend> backend;
  const DriverApi &api;
  CUctx_st *context;
  CUmod_st *module;
  std::vector<Entry> entries;
  Resources known;
  int64_t shared = 0;
};

Status CudaLoadedCode::prepare(const Artifact &artifact) {
  for (const Launch &launch : artifact.launches) {
    CUfunc_st *function = nullptr;
    if (Status status = api.check(api.cuModuleGetFunction(&function, module, launch.kernel.c_str()),
                                  "cuModuleGetFunction");
        !status)
      return status.error().within("kernel " + launch.kernel);
    int staticBytes = 0, registers = 0, localBytes = 0;
    for (auto [value, attribute] :
         {std::pair(&staticBytes, sharedSizeBytes), std::pair(&registers, numberOfRegisters),
          std::pair(&localBytes, localSizeBytes)})
      if (Status status =
              api.check(api.cuFuncGetAttribute(value, attribute, function), "cuFuncGetAttribute");
          !status)
        return status;
    // More than 48 KB must be requested. This fails if the GPU has less.
    if (Status status = api.check(
            api.cuFuncSetAttribute(function, maxDynamicSharedSizeBytes, int(launch.sharedBytes)),
            "cuFuncSetAttribute");
        !status)
      return Error(Code::unsupported,
                   "the kernel " + launch.kernel + " needs " + std::to_string(launch.sharedBytes) +
                       " bytes of shared memory for each thread block, more than " +
                       backend->device().name + " has (" + status.error().message() +
                       "); choose a schedule with fewer stages or smaller blocks");
    entries.push_back(
        {function, unsigned(launch.threads), unsigned(launch.sharedBytes), launch.persistent});
    known.registers = std::max(known.registers, registers);
    known.spillBytes = std::max(known.spillBytes, localBytes);
    shared = std::max(shared, staticBytes + launch.sharedBytes);
  }
  // The driver's local memory also contains arrays, so the assembler's number of spills is
  // preferred.
  if (artifact.resources)
    known = *artifact.resources;
  return Status::success();
}

/// The driver's linker and nvJitLink ignore setmaxnreg and serialise such kernels.
bool setsRegisters(const std::string &ptx) { return ptx.find("setmaxnreg") != std::string::npos; }

/// The driver's log of an assembly.
class JitLog {
public:
  std::string info = std::string(1 << 15, '\0');
  std::string error = std::string(1 << 13, '\0');
  int options[5] = {jitInfoLogBuffer, jitInfoLogBufferSizeBytes, jitErrorLogBuffer,
                    jitErrorLogBufferSizeBytes, jitLogVerbose};
  void *values[5] = {info.data(), reinterpret_cast<void *>(info.size()), error.data(),
                     reinterpret_cast<void *>(error.size()), reinterpret_cast<void *>(1)};
  /// The error of `status`, followed by the log's text.
  Error explain(const Status &status) const {
    std::string text = error.c_str();
    return Error(status.code(), status.error().message() + (text.empty() ? "" : "\n") + text);
  }
  std::string infoText() const { return info.c_str(); }
};

Status serialisationStatus(const std::string &log) {
  std::string warning = serialisationWarning(log);
  if (warning.empty())
    return Status::success();
  return Error(Code::defect, "the driver serialises the kernel: " + warning);
}

/// Assembles PTX to a cubin by the driver's linker.
Result<std::string> CudaBackend::link(const std::string &ptx) const {
  BackendCall call(*this);
  if (!call.status())
    return call.status().error();
  JitLog log;
  CUlinkState_st *state = nullptr;
  if (Status status =
          api.check(api.cuLinkCreate_v2(5, log.options, log.values, &state), "cuLinkCreate");
      !status)
    return status.error();
  auto finish = [&]() -> Result<std::string> {
    std::string text = ptx; // the driver's parameter is not const
    if (Status status =
            api.check(api.cuLinkAddData_v2(state, jitInputPtx, text.data(), text.size() + 1,
                                           "kernel.ptx", 0, nullptr, nullptr),
                      "cuLinkAddData");
        !status)
      return log.explain(status);
    void *cubin = nullptr;
    size_t bytes = 0;
    if (Status status = api.check(api.cuLinkComplete(state, &cubin, &bytes), "cuLinkComplete");
        !status)
      return log.explain(status);
    if (Status status = serialisationStatus(log.infoText()); !status)
      return status.error();
    return std::string(static_cast<char *>(cubin), bytes); // a copy, because the linker's state
                                                           // owns the cubin
  };
  Result<std::string> cubin = finish();
  api.cuLinkDestroy(state);
  return cubin;
}

Result<Artifact> CudaBackend::assemble(Artifact artifact, const RequestLimits &limits) const {
  if (artifact.format != CodeFormat::ptx)
    return artifact;
  if (ptxas) {
    Result<Artifact> assembled = ptxas->assembled(artifact, device().sm, limits);
    if (assembled || assembled.code() != Code::unsupported)
      return assembled;
  }
  if (setsRegisters(artifact.code))
    return artifact; // the driver assembles it when it loads it
  Result<std::string> cubin = link(artifact.code);
  if (!cubin)
    return cubin.error();
  artifact.code = std::move(*cubin);
  artifact.format = CodeFormat::cubin;
  return artifact;
}

Result<std::shared_ptr<const LoadedCode>> CudaBackend::load(const Artifact &artifact) const {
  BackendCall call(*this);
  if (!call.status())
    return call.status().error();
  CUmod_st *module = nullptr;
  JitLog log;
  bool jit = artifact.format == CodeFormat::ptx;
  if (Status status = api.check(api.cuModuleLoadDataEx(&module, artifact.code.c_str(), jit ? 5 : 0,
                                                       log.options, log.values),
                                "cuModuleLoadDataEx");
      !status)
    return log.explain(status);
  auto self = std::static_pointer_cast<const CudaBackend>(shared_from_this());
  auto code = std::make_shared<CudaLoadedCode>(self, module);
  if (Status status = serialisationStatus(log.infoText()); !status)
    return status.error();
  if (Status status = code->prepare(artifact); !status)
    return status.error();
  return std::shared_ptr<const LoadedCode>(std::move(code));
}

Result<double> CudaBackend::time(const std::function<Status()> &work, void *stream) const {
  BackendCall call(*this);
  if (!call.status())
    return call.status().error();
  auto *queue = static_cast<CUstream_st *>(stream);
  CUevent_st *events[2] = {};
  float milliseconds = 0;
  auto measure = [&]() -> Status {
    for (CUevent_st *&event : events)
      if (Status status = api.check(api.cuEventCreate(&event, 0), "cuEventCreate"); !status)
        return status;
    if (Status status = api.check(api.cuEventRecord(events[0], queue), "cuEventRecord"); !status)
      return status;
    if (Status status = work(); !status)
      return status;
    if (Status status = api.check(api.cuEventRecord(events[1], queue), "cuEventRecord"); !status)
      return status;
    if (Status status = api.check(api.cuEventSynchronize(events[1]), "cuEventSynchronize"); !status)
      return status;
    return api.check(api.cuEventElapsedTime(&milliseconds, events[0], events[1]),
                     "cuEventElapsedTime");
  };
  Status status = measure();
  for (CUevent_st *event : events)
    if (event)
      api.cuEventDestroy_v2(event);
  if (!status)
    return status.error();
  return double(milliseconds);
}

} // namespace

Result<std::shared_ptr<Backend>> createCudaBackend(const Device &device) {
  return CudaBackend::create(device);
}

} // namespace tesela
