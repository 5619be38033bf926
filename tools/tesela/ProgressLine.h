//===- ProgressLine.h - How far a command is --------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TOOLS_PROGRESSLINE_H
#define TESELA_TOOLS_PROGRESSLINE_H

#include <string>

namespace tesela::tool {

/// A line of standard error that is overwritten with each call. Only printed to a terminal.
class ProgressLine {
public:
  ProgressLine();
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine &) = delete;
  void show(const std::string &text);
  void clear();

private:
  bool isTerminal, isShown = false;
};

} // namespace tesela::tool

#endif // TESELA_TOOLS_PROGRESSLINE_H
