//===- ExplainReport.h - What `tesela explain` prints -----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TOOLS_EXPLAINREPORT_H
#define TESELA_TOOLS_EXPLAINREPORT_H

#include "Parameters.h"

#include "tesela/Explain.h"

#include <string>

namespace tesela::tool {

/// An explanation, and the launch that it explains.
struct ExplainReport {
  std::string variantPath;
  LaunchExtents extents;
  int64_t Dqk = 0, Dv = 0;
  ElementType type = ElementType::bf16;
  Explanation explanation;
};

/// "b 0, h 3": the heads with these tiles; "every head" if the mask does not depend on the head.
std::string headLabel(const HeadTiles &tiles);

/// A count with its share: "12 (3.1 %)".
std::string withShare(int64_t part, int64_t whole);

/// The report as lines of text.
std::string formatText(const ExplainReport &report);

/// The report as one JSON object. docs/command.md lists its members.
std::string formatJson(const ExplainReport &report);

} // namespace tesela::tool

#endif // TESELA_TOOLS_EXPLAINREPORT_H
