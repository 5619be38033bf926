//===- RunReport.h - What `tesela run` prints --------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TOOLS_RUNREPORT_H
#define TESELA_TOOLS_RUNREPORT_H

#include "Problem.h"

#include "tesela/Check.h"
#include "tesela/Device.h"
#include "tesela/Events.h"
#include "tesela/Kernel.h"

#include <optional>
#include <string>
#include <vector>

namespace tesela::tool {

/// The results of one run.
struct RunReport {
  std::string variantPath;
  Device device;
  KernelInfo kernel;
  const Problem *problem = nullptr;
  std::optional<uint64_t> seed; ///< of the random data; empty without any
  std::string inputs;           ///< the kind of random data; empty if q, k and v come from a file

  bool isBackward = false;              ///< kernel and times are those of the gradients
  std::optional<Comparison> comparison; ///< empty with --no-check, --verify or --gradients
  /// dq, dk and dv; empty without --gradients or with --no-check.
  std::vector<std::pair<std::string, Comparison>> gradients;
  std::optional<Event> verified;    ///< with --verify; empty if the launch was not verified
  std::string referenceName;        ///< "interpreter" or "device oracle"
  int64_t keptPairs = -1;           ///< -1: not counted
  double sequencePairs = -1;        ///< all pairs of sequences; -1: the tensors are dense
  std::vector<double> milliseconds; ///< of the timed launches, sorted; may be empty
};

/// The report as lines for people.
std::string formatText(const RunReport &report);

/// The report as one JSON object; docs/command.md lists its members.
std::string formatJson(const RunReport &report);

} // namespace tesela::tool

#endif // TESELA_TOOLS_RUNREPORT_H
