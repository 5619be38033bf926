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

/// The result of a race, and the launch that was tuned.
struct TunedVariant {
  std::string name, path;
  Device device;
  KernelOptions kernel;
  LaunchExtents extents;
  TuneReport report;
};

/// The result as lines of text: the choice, and a table of the best ten schedules.
std::string formatText(const TunedVariant &tuned);
/// The result as one JSON object, with every schedule.
std::string formatJson(const TunedVariant &tuned);

/// The choices that are kept for a kernel, as text.
std::string formatText(const std::string &name, const std::vector<TunedChoice> &choices);
std::string formatJson(const std::string &name, const std::vector<TunedChoice> &choices);

/// The choices in `schedule` that differ from those in `base`: "block_m = 32".
std::string differences(const std::string &schedule, const std::string &base);

} // namespace tesela::tool

#endif // TESELA_TOOLS_TUNEREPORT_H
