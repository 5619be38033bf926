//===- DeviceReference.cpp ------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "api/State.h"
#include "check/ReferenceInputs.h"
#include "driver/CurrentContext.h"
#include "driver/NvrtcApi.h"
#include "oracle/Oracle.h"

#include <algorithm>
#include <bit>

namespace tesela {

using namespace cuda;

namespace {

OracleArguments oracleArguments(const ReferenceInputs &inputs) {
  const CheckedArguments &checked = inputs.arguments;
  const auto &[q, k, v, o, lse] = checked.tensors;
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
  // oracleSource has made sure that the parameters fit.
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

/// Launches `tesela_oracle` of `cubin` on the default stream and waits.
Status launchOracle(const DriverApi &api, const std::string &cubin, OracleArguments &arguments) {
  CUmod_st *module = nullptr;
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
    if (Status status =
            api.check(api.cuLaunchKernel(function, unsigned(arguments.Sq), unsigned(arguments.H),
                                         unsigned(arguments.B), kOracleThreads, 1, 1, 0, nullptr,
                                         parameters, nullptr),
                      "cuLaunchKernel");
        !status)
      return status;
    return api.check(api.cuStreamSynchronize(nullptr), "cuStreamSynchronize");
  };
  Status status = launch();
  api.cuModuleUnload(module);
  return status;
}

/// The primary context of a device, retained while this lives.
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

} // namespace

Result<Reference> deviceReference(const Context &context, const KernelOptions &options,
                                  const LaunchArguments &arguments) {
  const Device &device = context.device();
  if (device.kind != Device::Kind::cuda)
    return Error(Code::invalidArgument,
                 "the oracle runs on a GPU, the context's device is the host: use hostReference");
  Result<ReferenceInputs> inputs = referenceInputs(options, arguments, 0);
  if (!inputs)
    return inputs.error();
  Result<Reference> empty = emptyReference(options, *inputs);
  if (!empty)
    return empty.error();
  Reference reference = std::move(*empty);
  if (reference.lse.empty())
    return reference;
  if (reference.H > 65535 || reference.B > 65535)
    return Error(Code::unsupported, "the oracle takes at most 65535 heads and batches");

  Result<std::string> source = oracleSource(inputs->variant, options.inputType);
  if (!source)
    return source.error();
  Result<std::shared_ptr<const std::string>> cubin =
      context.internal()->oracles.get(*source, [&]() -> Result<std::shared_ptr<const std::string>> {
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

  std::vector<double> largestScores(reference.lse.size());
  struct Output {
    std::vector<double> *host;
    uint64_t OracleArguments::*address;
    Buffer buffer = {};
  };
  Output outputs[] = {{&reference.ref, &OracleArguments::ref},
                      {&reference.base, &OracleArguments::base},
                      {&reference.magnitude, &OracleArguments::absolute},
                      {&reference.lse, &OracleArguments::lse},
                      {&reference.termNorm, &OracleArguments::termNorm},
                      {&largestScores, &OracleArguments::largestScore}};
  OracleArguments oracle = oracleArguments(*inputs);
  for (Output &output : outputs) {
    Result<Buffer> buffer = context.allocate(output.host->size() * sizeof(double));
    if (!buffer)
      return buffer.error().within("results of the oracle");
    output.buffer = std::move(*buffer);
    oracle.*output.address = uint64_t(reinterpret_cast<uintptr_t>(output.buffer.data()));
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
  if (Status status = launchOracle(**api, **cubin, oracle); !status)
    return status.error().within("the oracle");
  for (Output &output : outputs)
    if (Status status =
            context.copyToHost(output.host->data(), output.buffer, output.buffer.size());
        !status)
      return status.error();
  reference.maxScore = std::ranges::max(largestScores);
  return reference;
}

} // namespace tesela
