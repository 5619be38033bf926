//===- Processors.h - How many processors this process may use --*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_SYSTEM_PROCESSORS_H
#define TESELA_SYSTEM_PROCESSORS_H

#include <optional>
#include <string_view>

namespace tesela {

/// How many processors this process may use, at least 1: those that it is bound to (taskset),
/// limited by the time of its control group (containers).
int usableProcessors();

/// The number of processors in a control group's cpu.max ("max 100000"; "150000 100000":
/// microseconds per period, and the period), rounded up; nullopt if there is no limit or it cannot
/// be read. Source: the Linux kernel's Documentation/admin-guide/cgroup-v2.rst.
std::optional<int> processorsOfGroup(std::string_view cpuMax);

} // namespace tesela

#endif // TESELA_SYSTEM_PROCESSORS_H
