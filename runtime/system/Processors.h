//===- Processors.h - How many processors there are for us ------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_SYSTEM_PROCESSORS_H
#define TESELA_SYSTEM_PROCESSORS_H

#include <optional>
#include <string_view>

namespace tesela {

/// The processors that this process may use, 1 at least: those that it is bound to (taskset), and
/// no more than its control group has time for (containers).
int usableProcessors();

/// What a control group's cpu.max ("max 100000", "150000 100000": microseconds in a period, and the
/// period) gives, rounded up; nothing where it sets no limit or cannot be read. Source: the Linux
/// kernel's Documentation/admin-guide/cgroup-v2.rst.
std::optional<int> processorsOfGroup(std::string_view cpuMax);

} // namespace tesela

#endif // TESELA_SYSTEM_PROCESSORS_H
