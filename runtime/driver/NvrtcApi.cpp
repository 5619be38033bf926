//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "driver/NvrtcApi.h"

#include "system/DynamicLibrary.h"

#include <cstdlib>

namespace tesela::cuda {

Status NvrtcApi::check(int result, const char *call) const {
  if (result == 0)
    return Status::success();
  return Error(Code::driver, std::string(call) + " failed: " + nvrtcGetErrorString(result));
}

Result<std::string> NvrtcApi::compile(const std::string &source, const std::string &name,
                                      int sm) const {
  _nvrtcProgram *program = nullptr;
  if (Status status =
          check(nvrtcCreateProgram(&program, source.c_str(), name.c_str(), 0, nullptr, nullptr),
                "nvrtcCreateProgram");
      !status)
    return status.error();

  auto compileProgram = [&]() -> Result<std::string> {
    std::string architecture = "--gpu-architecture=sm_" + std::to_string(sm);
    const char *options[] = {architecture.c_str(), "--std=c++17"};
    if (int result = nvrtcCompileProgram(program, 2, options); result != 0) {
      size_t size = 0;
      std::string log;
      if (nvrtcGetProgramLogSize(program, &size) == 0) {
        log.resize(size);
        nvrtcGetProgramLog(program, log.data());
      }
      return Error(Code::defect, "NVRTC does not compile " + name + " for sm_" +
                                     std::to_string(sm) + ": " + nvrtcGetErrorString(result) +
                                     "\n" + log.c_str());
    }
    size_t size = 0;
    if (Status status = check(nvrtcGetCUBINSize(program, &size), "nvrtcGetCUBINSize"); !status)
      return status.error();
    std::string cubin(size, '\0');
    if (Status status = check(nvrtcGetCUBIN(program, cubin.data()), "nvrtcGetCUBIN"); !status)
      return status.error();
    return cubin;
  };
  Result<std::string> cubin = compileProgram();
  nvrtcDestroyProgram(&program);
  return cubin;
}

Result<NvrtcApi> NvrtcApi::open(const std::vector<std::string> &names) {
  Result<DynamicLibrary> library =
      DynamicLibrary::open(names, "install NVRTC (CUDA's package cuda-nvrtc) or set CUDA_HOME");
  if (!library)
    return library.error().within("NVRTC");
  NvrtcApi api;
#define TESELA_ENTRY(name, parameters)                                                             \
  if (Result<void *> address = library->find(#name))                                               \
    api.name = reinterpret_cast<decltype(api.name)>(*address);                                     \
  else                                                                                             \
    return address.error();
  TESELA_NVRTC_TABLE(TESELA_ENTRY)
#undef TESELA_ENTRY
  Result<void *> errorString = library->find("nvrtcGetErrorString");
  if (!errorString)
    return errorString.error();
  api.nvrtcGetErrorString = reinterpret_cast<decltype(api.nvrtcGetErrorString)>(*errorString);
  return api;
}

/// Library names, in the order in which they are tried.
static std::vector<std::string> nvrtcNames() {
  std::vector<std::string> folders = {""};
  if (const char *home = std::getenv("CUDA_HOME"))
    folders.push_back(std::string(home) + "/lib64/");
  folders.push_back("/usr/local/cuda/lib64/");
  std::vector<std::string> names;
  for (const char *version : {"libnvrtc.so.13", "libnvrtc.so.12"})
    for (const std::string &folder : folders)
      names.push_back(folder + version);
  return names;
}

Result<const NvrtcApi *> nvrtc() {
  static const Result<NvrtcApi> opened = NvrtcApi::open(nvrtcNames());
  if (!opened)
    return opened.error();
  return &*opened;
}

} // namespace tesela::cuda
