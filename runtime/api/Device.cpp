//===- Device.cpp ---------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tesela/Device.h"

#include "driver/DriverApi.h"
#include "system/Processors.h"

#include <algorithm>
#include <fstream>
#include <unistd.h>

namespace tesela {

static std::string cpuName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("model name", 0) == 0)
      if (size_t colon = line.find(": "); colon != std::string::npos)
        return line.substr(colon + 2);
  return "CPU";
}

Device hostDevice() {
  Device device;
  device.name = cpuName();
  device.target = "host";
  device.processors = usableProcessors();
  device.memoryBytes = int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  return device;
}

Result<std::vector<Device>> cudaDevices() {
  Result<const cuda::DriverApi *> opened = cuda::driver();
  if (!opened)
    return opened.error();
  const cuda::DriverApi &api = **opened;
  int count = 0;
  if (Status status = api.check(api.cuDeviceGetCount(&count), "cuDeviceGetCount"); !status)
    return status.error();
  if (count == 0)
    return Error(Code::notFound, "the driver shows no GPU: see CUDA_VISIBLE_DEVICES and "
                                 "nvidia-smi, or use the device 'host'");
  std::vector<Device> devices;
  for (int index = 0; index < count; ++index) {
    Device device;
    device.kind = Device::Kind::cuda;
    device.index = index;
    device.driver = api.versionText();
    int handle = 0, major = 0, minor = 0;
    char name[256] = {};
    size_t memory = 0;
    struct Call {
      int result;
      const char *name;
    };
    int found = api.cuDeviceGet(&handle, index);
    for (const Call &call : {
             Call{found, "cuDeviceGet"},
             Call{api.cuDeviceGetName(name, sizeof name, handle), "cuDeviceGetName"},
             Call{api.cuDeviceGetAttribute(&major, cuda::computeCapabilityMajor, handle),
                  "cuDeviceGetAttribute"},
             Call{api.cuDeviceGetAttribute(&minor, cuda::computeCapabilityMinor, handle),
                  "cuDeviceGetAttribute"},
             Call{api.cuDeviceGetAttribute(&device.processors, cuda::multiprocessorCount, handle),
                  "cuDeviceGetAttribute"},
             Call{api.cuDeviceTotalMem_v2(&memory, handle), "cuDeviceTotalMem"},
         })
      if (Status status = api.check(call.result, call.name); !status)
        return status.error();
    device.name = name;
    device.sm = major * 10 + minor;
    device.target = "sm_" + std::to_string(device.sm);
    device.memoryBytes = int64_t(memory);
    devices.push_back(std::move(device));
  }
  return devices;
}

} // namespace tesela
