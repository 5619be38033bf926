//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "driver/DriverApi.h"

#include "system/DynamicLibrary.h"

namespace tesela::cuda {

/// What to do about `result`; empty where nothing better than the driver's text is known.
static const char *remedy(int result) {
  switch (result) {
  case errorOutOfMemory:
    return "free device memory or make the problem smaller";
  case errorNoDevice:
    return "no GPU is visible: see CUDA_VISIBLE_DEVICES and nvidia-smi, or use the device 'host'";
  case errorUnsupportedPtxVersion:
    return "the driver is older than the PTX: update it, or put a ptxas of CUDA 13.0 on PATH";
  case errorNoBinaryForGpu:
    return "the kernel was compiled for another GPU: compile it for this one";
  case errorIllegalAddress:
    return "a tensor's address, extents or strides reach outside its memory; the context is lost, "
           "start the process again";
  case errorMisalignedAddress:
    return "the context is lost, start the process again; please report it with the launch's "
           "arguments";
  case errorLaunchOutOfResources:
    return "choose a schedule with fewer threads or smaller blocks";
  case errorInvalidHandle:
    return "the stream must belong to the device's primary context";
  case errorSystemDriverMismatch:
    return "the kernel module and libcuda differ in version: restart the machine";
  default:
    return "";
  }
}

static Code codeOf(int result) {
  switch (result) {
  case errorOutOfMemory:
    return Code::outOfMemory;
  case errorNoDevice:
    return Code::notFound;
  case errorInvalidPtx:
    return Code::defect;
  default:
    return Code::driver;
  }
}

Status DriverApi::check(int result, const char *call) const {
  if (result == success)
    return Status::success();
  const char *name = nullptr;
  const char *text = nullptr;
  cuGetErrorName(result, &name);
  cuGetErrorString(result, &text);
  std::string message = std::string(call) + " failed: " + (text ? text : "unknown error") + " (" +
                        (name ? name : std::to_string(result).c_str()) + ")";
  if (const char *advice = remedy(result); *advice)
    message += std::string("; ") + advice;
  return Error(codeOf(result), message);
}

std::string DriverApi::versionText() const {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Result<DriverApi> DriverApi::open(const std::vector<std::string> &names) {
  Result<DynamicLibrary> library =
      DynamicLibrary::open(names, "a GPU needs NVIDIA's driver; without one use the device 'host'");
  if (!library)
    return library.error().within("CUDA");
  DriverApi api;
#define TESELA_ENTRY(name, parameters)                                                             \
  if (Result<void *> address = library->find(#name))                                               \
    api.name = reinterpret_cast<decltype(api.name)>(*address);                                     \
  else                                                                                             \
    return address.error();
  TESELA_CUDA_DRIVER_TABLE(TESELA_ENTRY)
#undef TESELA_ENTRY
  if (Status status = api.check(api.cuInit(0), "cuInit"); !status)
    return status.error();
  if (Status status = api.check(api.cuDriverGetVersion(&api.version), "cuDriverGetVersion");
      !status)
    return status.error();
  return api;
}

Result<const DriverApi *> driver() {
  static const Result<DriverApi> opened = DriverApi::open({"libcuda.so.1"});
  if (!opened)
    return opened.error();
  return &*opened;
}

} // namespace tesela::cuda
