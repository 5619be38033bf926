//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "driver/DriverApi.h"

#include "system/DynamicLibrary.h"

#include <mutex>
#include <optional>

namespace tesela::cuda {

Status DriverApi::check(int result, const char *call) const {
  if (result == success)
    return Status::success();
  const char *name = nullptr;
  const char *text = nullptr;
  cuGetErrorName(result, &name);
  cuGetErrorString(result, &text);
  std::string message = std::string(call) + " failed: " + (text ? text : "unknown error") + " (" +
                        (name ? name : std::to_string(result).c_str()) + ")";
  const DriverError &known = driverError(result);
  return Error(known.code, message + "; " + known.remedy);
}

static std::string textOfVersion(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string DriverApi::versionText() const { return textOfVersion(version); }

static Error tooOld(const std::string &what) {
  return Error(Code::unsupported,
               what + ", Tesela needs CUDA " + textOfVersion(DriverApi::oldestVersion) +
                   ": install NVIDIA's driver 525 or later, or use the device 'host'");
}

Result<DriverApi> DriverApi::open(const std::vector<std::string> &names) {
  Result<DynamicLibrary> library =
      DynamicLibrary::open(names, "a GPU needs NVIDIA's driver; without one use the device 'host'");
  if (!library)
    return library.error().within("CUDA");
  const std::string &opened = library->name();
  DriverApi api;
  // The version first, which needs no cuInit: an old driver lacks functions of the table.
  if (Result<void *> address = library->find("cuDriverGetVersion"))
    api.cuDriverGetVersion = reinterpret_cast<decltype(api.cuDriverGetVersion)>(*address);
  else
    return tooOld(opened + " has no function cuDriverGetVersion");
  int result = api.cuDriverGetVersion(&api.version);
  if (result == success && api.version < oldestVersion)
    return tooOld(opened + " is of CUDA " + api.versionText());
#define TESELA_ENTRY(name, parameters)                                                             \
  if (Result<void *> address = library->find(#name))                                               \
    api.name = reinterpret_cast<decltype(api.name)>(*address);                                     \
  else                                                                                             \
    return tooOld(opened + " of CUDA " + api.versionText() + " has no function " #name);
  TESELA_CUDA_DRIVER_TABLE(TESELA_ENTRY)
#undef TESELA_ENTRY
  if (Status status = api.check(result, "cuDriverGetVersion"); !status)
    return status.error();
  if (Status status = api.check(api.cuInit(0), "cuInit"); !status)
    return status.error();
  return api;
}

Result<const DriverApi *> driver() {
  static std::mutex mutex;
  static std::optional<DriverApi> opened;
  std::lock_guard lock(mutex);
  if (!opened) {
    Result<DriverApi> api = DriverApi::open({"libcuda.so.1"});
    if (!api)
      return api.error();
    opened = *api;
  }
  return &*opened;
}

} // namespace tesela::cuda
