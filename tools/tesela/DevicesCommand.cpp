//===- DevicesCommand.cpp - `tesela devices` ------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "Commands.h"
#include "ExitCode.h"
#include "StandardOutput.h"

#include "tesela/Assembler.h"
#include "tesela/Device.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tesela::tool {

using nlohmann::ordered_json;

static std::string formatLine(const Device &device) {
  bool host = device.kind == Device::Kind::host;
  std::string name = host ? "host" : fmt::format("cuda:{}", device.index);
  return fmt::format("{:<8} {:<7} {}: {} {}, {:.1f} GiB{}\n", name, device.target, device.name,
                     device.processors, host ? "threads" : "multiprocessors",
                     double(device.memoryBytes) / double(1 << 30),
                     device.driver.empty() ? "" : ", driver for CUDA " + device.driver);
}

/// Says which assembler is used, and what the other one would change.
static std::string formatLine(const Assembler &assembler) {
  if (assembler.kind == Assembler::Kind::driver)
    return "kernels for GPUs are assembled by the driver: no ptxas was found on PATH, in "
           "$CUDA_HOME/bin or in /usr/local/cuda/bin. It would take about as long, and machines "
           "with "
           "other drivers could then share the kernels. CUDA's toolkit and PyPI's nvidia-cuda-nvcc "
           "have it.\n";
  std::string version =
      assembler.version.empty() ? "which does not tell its version" : assembler.version;
  return fmt::format(
      "kernels for GPUs are assembled by {} ({}). Without it the driver would do so: "
      "that takes about as long, but only machines with the same driver could then "
      "share the kernels.\n",
      assembler.path, version);
}

static ordered_json toJson(const Assembler &assembler) {
  bool isProgram = assembler.kind == Assembler::Kind::ptxas;
  return {{"kind", isProgram ? "ptxas" : "driver"},
          {"path", assembler.path},
          {"version", assembler.version}};
}

static ordered_json toJson(const Device &device) {
  return {{"kind", device.kind == Device::Kind::host ? "host" : "cuda"},
          {"index", device.index},
          {"name", device.name},
          {"target", device.target},
          {"processors", device.processors},
          {"memory_bytes", device.memoryBytes},
          {"driver", device.driver}};
}

int devices(bool json) {
  std::vector<Device> all{hostDevice()};
  Result<std::vector<Device>> gpus = cudaDevices();
  // A machine without a GPU is not an error: the host works. Any other failure sets the exit code.
  if (!gpus && gpus.code() != Code::notFound)
    return report(gpus.error());
  if (gpus)
    all.insert(all.end(), gpus->begin(), gpus->end());

  if (json) {
    ordered_json list = ordered_json::array();
    for (const Device &device : all) {
      list.push_back(toJson(device));
      if (device.kind == Device::Kind::cuda)
        list.back()["assembler"] = toJson(assembler());
    }
    std::string text = list.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
    print(text);
    return exitSuccess;
  }
  for (const Device &device : all)
    print(formatLine(device));
  if (!gpus)
    print(fmt::format("no GPU: {}\n", gpus.error().message()));
  print(formatLine(assembler()));
  return exitSuccess;
}

} // namespace tesela::tool
