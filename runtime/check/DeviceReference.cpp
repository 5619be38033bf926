//===- DeviceReference.cpp ------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "api/State.h"
#include "check/ReferenceInputs.h"
#include "check/RowReference.h"
#include "driver/CurrentContext.h"
#include "driver/NvrtcApi.h"
#include "launch/TensorSpan.h"
#include "oracle/Oracle.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace tesela {

using namespace cuda;

namespace {

OracleArguments oracleArguments(const ReferenceInputs &inputs) {
  const CheckedArguments &checked = inputs.arguments;
  const Tensor &q = checked.tensors[AttentionTensors::q];
  const Tensor &k = checked.tensors[AttentionTensors::k];
  const Tensor &v = checked.tensors[AttentionTensors::v];
  auto address = [](const Tensor &tensor) {
    return uint64_t(reinterpret_cast<uintptr_t>(tensor.data));
  };
  OracleArguments arguments;
  arguments.q = address(q);
  arguments.k = address(k);
  arguments.v = address(v);
  std::copy_n(q.strides.begin(), 4, arguments.qStrides);
  std::copy_n(k.strides.begin(), 4, arguments.kStrides);
  std::copy_n(v.strides.begin(), 4, arguments.vStrides);
  arguments.B = checked.extents.B;
  arguments.H = checked.extents.H;
  arguments.Hkv = checked.extents.Hkv;
  arguments.Sq = checked.extents.Sq;
  arguments.Sk = checked.extents.Sk;
  arguments.headDimQk = int32_t(q.extents[3]);
  arguments.headDimV = int32_t(v.extents[3]);
  arguments.scale = checked.scale;
  if (inputs.firstOfDropout) {
    const uint32_t *scalars = &checked.scalarBits[*inputs.firstOfDropout];
    const Tensor &state = checked.captures[*inputs.firstOfDropout + dropoutScalarCount];
    arguments.dropoutProbability = std::bit_cast<float>(scalars[0]);
    std::copy_n(scalars + 1, dropoutStateWords, arguments.dropoutWords);
    std::copy_n(scalars + 1 + dropoutStateWords, 2, arguments.dropoutFirst);
    arguments.dropoutState = hasNoElements(state) ? 0 : address(state);
    arguments.dropoutStateStride = state.strides[0];
  }
  // oracleSource has checked that the number of parameters fits.
  for (size_t i = 0; i < inputs.variant.parameters.size(); ++i) {
    OracleParameter &parameter = arguments.parameters[i];
    const Tensor &capture = checked.captures[i];
    parameter.data = address(capture);
    std::copy_n(capture.extents.begin(), capture.rank, parameter.extents);
    std::copy_n(capture.strides.begin(), capture.rank, parameter.strides);
    parameter.integer = int32_t(checked.scalarBits[i]);
    parameter.number = std::bit_cast<float>(checked.scalarBits[i]);
  }
  return arguments;
}

/// Launches `tesela_oracle` of `cubin` for `rows` rows on `stream` and waits.
Status launchOracle(const DriverApi &api, const std::string &cubin, unsigned rows,
                    OracleArguments &arguments, void *stream) {
  CUmod_st *module = nullptr;
  auto *queue = static_cast<CUstream_st *>(stream);
  if (Status status = api.check(api.cuModuleLoadDataEx(&module, cubin.data(), 0, nullptr, nullptr),
                                "cuModuleLoadDataEx");
      !status)
    return status;
  auto launch = [&]() -> Status {
    CUfunc_st *function = nullptr;
    if (Status status = api.check(api.cuModuleGetFunction(&function, module, kOracleKernel),
                                  "cuModuleGetFunction");
        !status)
      return status;
    void *parameters[] = {&arguments};
    if (Status status = api.check(api.cuLaunchKernel(function, rows, 1, 1, kOracleThreads, 1, 1, 0,
                                                     queue, parameters, nullptr),
                                  "cuLaunchKernel");
        !status)
      return status;
    return api.check(api.cuStreamSynchronize(queue), "cuStreamSynchronize");
  };
  Status status = launch();
  api.cuModuleUnload(module);
  return status;
}

/// Retains the primary context of a device during its life.
class PrimaryContext {
public:
  PrimaryContext(const DriverApi &api, int index) : api(api) {
    status = api.check(api.cuDeviceGet(&device, index), "cuDeviceGet");
    if (status)
      status = api.check(api.cuDevicePrimaryCtxRetain(&handle, device), "cuDevicePrimaryCtxRetain");
  }
  PrimaryContext(const PrimaryContext &) = delete;
  PrimaryContext &operator=(const PrimaryContext &) = delete;
  ~PrimaryContext() {
    if (status)
      api.cuDevicePrimaryCtxRelease_v2(device);
  }
  Status status;
  CUctx_st *handle = nullptr;

private:
  const DriverApi &api;
  int device = 0;
};

/// Memory of a backend's device.
class DeviceMemory {
public:
  static Result<std::unique_ptr<DeviceMemory>> create(const Backend &backend, size_t bytes) {
    Result<void *> address = backend.allocate(bytes);
    if (!address)
      return address.error().within("memory of the oracle");
    return std::unique_ptr<DeviceMemory>(new DeviceMemory(backend, *address));
  }
  DeviceMemory(const DeviceMemory &) = delete;
  DeviceMemory &operator=(const DeviceMemory &) = delete;
  ~DeviceMemory() { backend.release(data); }
  uint64_t address() const { return uint64_t(reinterpret_cast<uintptr_t>(data)); }

  void *const data;

private:
  DeviceMemory(const Backend &backend, void *data) : data(data), backend(backend) {}
  const Backend &backend;
};

/// An array that the oracle computes: its place on the host, and the argument with its device
/// address.
struct Output {
  std::vector<double> *host;
  uint64_t OracleArguments::*address;
  std::unique_ptr<DeviceMemory> memory = nullptr;
};

} // namespace

Result<Reference> deviceReferenceOf(const RowList &list, const Backend &backend,
                                    OnceMap<std::string> &oracles, const KernelOptions &options,
                                    const LaunchArguments &arguments, void *stream) {
  const Device &device = backend.device();
  Result<ReferenceInputs> inputs = referenceInputs(options, arguments, 0);
  if (!inputs)
    return inputs.error();
  Result<Reference> empty = emptyReference(options, *inputs, list);
  if (!empty)
    return empty.error();
  Reference reference = std::move(*empty);
  size_t rows = reference.lse.size();
  if (rows == 0)
    return reference;
  if (rows > size_t(std::numeric_limits<int32_t>::max()))
    return Error(Code::unsupported, "the oracle takes at most 2147483647 rows, these are " +
                                        std::to_string(rows) +
                                        ": make the batch, the heads or the queries fewer");

  Result<std::string> source = oracleSource(inputs->variant, options.inputType);
  if (!source)
    return source.error();
  Result<std::shared_ptr<const std::string>> cubin =
      oracles.get(*source, [&]() -> Result<std::shared_ptr<const std::string>> {
        Result<const NvrtcApi *> compiler = nvrtc();
        if (!compiler)
          return compiler.error();
        Result<std::string> compiled = (*compiler)->compile(
            *source, "the oracle of '" + inputs->variant.name + "'", device.sm);
        if (!compiled)
          return compiled.error();
        return std::make_shared<const std::string>(std::move(*compiled));
      });
  if (!cubin)
    return cubin.error();

  std::vector<double> largestScores(rows);
  Output outputs[] = {{&reference.ref, &OracleArguments::ref},
                      {&reference.base, &OracleArguments::base},
                      {&reference.magnitude, &OracleArguments::absolute},
                      {&reference.lse, &OracleArguments::lse},
                      {&reference.termNorm, &OracleArguments::termNorm},
                      {&largestScores, &OracleArguments::largestScore}};
  OracleArguments oracle = oracleArguments(*inputs);
  for (Output &output : outputs) {
    auto memory = DeviceMemory::create(backend, output.host->size() * sizeof(double));
    if (!memory)
      return memory.error();
    output.memory = std::move(*memory);
    oracle.*output.address = output.memory->address();
  }
  std::unique_ptr<DeviceMemory> numbers;
  if (list) {
    auto memory = DeviceMemory::create(backend, rows * sizeof(int64_t));
    if (!memory)
      return memory.error();
    numbers = std::move(*memory);
    oracle.rows = numbers->address();
    if (Status status =
            backend.copyToDevice(numbers->data, list->data(), rows * sizeof(int64_t), stream);
        !status)
      return status.error();
  }

  Result<const DriverApi *> api = driver();
  if (!api)
    return api.error();
  PrimaryContext primary(**api, device.index);
  if (!primary.status)
    return primary.status.error();
  CurrentContext current(**api, primary.handle);
  if (!current.status())
    return current.status().error();
  RelaxedCapture relaxed(**api);
  if (Status status = launchOracle(**api, **cubin, unsigned(rows), oracle, stream); !status)
    return status.error().within("the oracle");
  for (Output &output : outputs)
    if (Status status = backend.copyToHost(output.host->data(), output.memory->data,
                                           output.host->size() * sizeof(double), stream);
        !status)
      return status.error();
  reference.maxScore = std::ranges::max(largestScores);
  return reference;
}

Result<Reference> deviceReference(const Context &context, const KernelOptions &options,
                                  const LaunchArguments &arguments) {
  if (context.device().kind != Device::Kind::cuda)
    return Error(Code::invalidArgument,
                 "the oracle runs on a GPU, the context's device is the host: use hostReference");
  const ContextState &state = *context.internal();
  return deviceReferenceOf({}, *state.backend, *state.oracles, options, arguments, nullptr);
}

} // namespace tesela
