//===- TuneReport.h - What `tesela tune` prints -----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TOOLS_TUNEREPORT_H
#define TESELA_TOOLS_TUNEREPORT_H

#include "Parameters.h"

#include "tesela/Tune.h"

#include <string>
#include <vector>

namespace tesela::tool {

/// A race and what it was of.
struct TunedVariant {
  std::string name, path;
  Device device;
  KernelOptions kernel;
  LaunchExtents extents;
  TuneReport report;
};

/// As lines for people: the choice, a table of the best ten.
std::string formatText(const TunedVariant &tuned);
/// As one JSON object, with every schedule.
std::string formatJson(const TunedVariant &tuned);

/// What is kept for a kernel.
std::string formatText(const std::string &name, const std::vector<TunedChoice> &choices);
std::string formatJson(const std::string &name, const std::vector<TunedChoice> &choices);

/// Of the choices in `schedule` those that `base` does not make: "block_m = 32".
std::string differences(const std::string &schedule, const std::string &base);

} // namespace tesela::tool

#endif // TESELA_TOOLS_TUNEREPORT_H
