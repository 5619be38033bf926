//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "driver/DriverApi.h"

#include "system/DynamicLibrary.h"
#include "system/UnfinishedWork.h"

#include <mutex>
#include <optional>
#include <pthread.h>

namespace tesela::cuda {

Status DriverApi::check(int result, const char *call) const {
  if (result == success)
    return Status::success();
  if (isParents)
    return Error(Code::unsupported,
                 std::string(call) +
                     ": this process was forked from one that used CUDA, which does "
                     "not work in such a child; start the process by exec (Python's "
                     "multiprocessing: the method 'spawn'), fork it before the "
                     "parent's first use of a GPU, or use a context for 'host'");
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
  // First the version, which needs no cuInit, because an old driver lacks functions of the table.
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

static std::optional<DriverApi> opened;

/// In a child of fork(), replaces all functions, so that no object of the parent can call CUDA.
static void closeInChild() {
  static constexpr int errorNotInitialized = 3; // CUDA_ERROR_NOT_INITIALIZED
  if (!opened)
    return;
#define TESELA_ENTRY(name, parameters)                                                             \
  opened->name = [] parameters -> int { return errorNotInitialized; };
  TESELA_CUDA_DRIVER_TABLE(TESELA_ENTRY)
#undef TESELA_ENTRY
  opened->isParents = true;
}

[[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, closeInChild);

Result<const DriverApi *> driver() {
  UnfinishedWork work; // opening takes tenths of a second
  if (Status status = work.mayBegin(); !status)
    return status.error();
  static std::mutex mutex;
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
