//===- Processors.cpp -----------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "system/Processors.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

namespace tesela {

std::optional<int> processorsOfGroup(std::string_view cpuMax) {
  std::istringstream text{std::string(cpuMax)};
  int64_t quota = 0, period = 0;
  if (!(text >> quota >> period) || quota <= 0 || period <= 0)
    return std::nullopt;
  return int(std::min<int64_t>((quota - 1) / period + 1, 1 << 16));
}

int usableProcessors() {
  int count = int(std::thread::hardware_concurrency());
  cpu_set_t bound; // for 1024 processors; with more the call fails, and the hardware's count is
                   // used
  if (sched_getaffinity(0, sizeof(bound), &bound) == 0)
    count = CPU_COUNT(&bound);
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string line;
  if (std::getline(file, line))
    if (std::optional<int> ofGroup = processorsOfGroup(line))
      count = std::min(count, *ofGroup);
  return std::max(1, count);
}

} // namespace tesela
