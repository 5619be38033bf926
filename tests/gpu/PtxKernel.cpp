//===- PtxKernel.cpp ------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "PtxKernel.h"

#include <dlfcn.h>

namespace tesela {

namespace {

/// The driver's functions that these tests need. Types as in cuda.h.
struct Driver {
  int (*cuInit)(unsigned);
  int (*cuDeviceGet)(int *, int);
  int (*cuDevicePrimaryCtxRetain)(void **, int);
  int (*cuCtxSetCurrent)(void *);
  int (*cuModuleLoadData)(void **, const void *);
  int (*cuModuleUnload)(void *);
  int (*cuModuleGetFunction)(void **, void *, const char *);
  int (*cuLaunchKernel)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        unsigned, void *, void **, void **);
};

Status check(int result, const char *call) {
  if (result == 0)
    return Status::success();
  return Error(Code::driver, std::string(call) + " failed: error " + std::to_string(result));
}

Result<Driver> openDriver() {
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library)
    return Error(Code::notFound, "the driver's libcuda.so.1 cannot be opened");
  Driver driver{};
  std::string missing;
  auto find = [&](auto &entry, const char *name) {
    entry = reinterpret_cast<std::decay_t<decltype(entry)>>(dlsym(library, name));
    if (!entry)
      missing = name;
  };
  find(driver.cuInit, "cuInit");
  find(driver.cuDeviceGet, "cuDeviceGet");
  find(driver.cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
  find(driver.cuCtxSetCurrent, "cuCtxSetCurrent");
  find(driver.cuModuleLoadData, "cuModuleLoadData");
  find(driver.cuModuleUnload, "cuModuleUnload");
  find(driver.cuModuleGetFunction, "cuModuleGetFunction");
  find(driver.cuLaunchKernel, "cuLaunchKernel");
  if (!missing.empty())
    return Error(Code::notFound, "the driver has no " + missing);
  // The context stays retained and current, because this is a test's process.
  int device = 0;
  void *context = nullptr;
  if (Status status = check(driver.cuInit(0), "cuInit"); !status)
    return status.error();
  if (Status status = check(driver.cuDeviceGet(&device, 0), "cuDeviceGet"); !status)
    return status.error();
  if (Status status =
          check(driver.cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
      !status)
    return status.error();
  if (Status status = check(driver.cuCtxSetCurrent(context), "cuCtxSetCurrent"); !status)
    return status.error();
  return driver;
}

} // namespace

struct PtxKernel::State {
  explicit State(const Driver &driver) : driver(driver) {}
  State(const State &) = delete;
  ~State() {
    if (module)
      driver.cuModuleUnload(module);
  }

  const Driver &driver;
  void *module = nullptr, *function = nullptr;
};

Result<PtxKernel> PtxKernel::load(const std::string &ptx, const std::string &name) {
  static const Result<Driver> driver = openDriver();
  if (!driver)
    return driver.error();
  auto state = std::make_shared<State>(*driver);
  if (Status status =
          check(driver->cuModuleLoadData(&state->module, ptx.c_str()), "cuModuleLoadData");
      !status)
    return status.error();
  if (Status status =
          check(driver->cuModuleGetFunction(&state->function, state->module, name.c_str()),
                "cuModuleGetFunction");
      !status)
    return status.error();
  PtxKernel kernel;
  kernel.state = std::move(state);
  return kernel;
}

Status PtxKernel::launch(unsigned blocks, unsigned threads, std::vector<void *> parameters) const {
  return check(state->driver.cuLaunchKernel(state->function, blocks, 1, 1, threads, 1, 1, 0,
                                            nullptr, parameters.data(), nullptr),
               "cuLaunchKernel");
}

} // namespace tesela
