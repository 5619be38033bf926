//===- CLaunches.h - The launches of one target as C ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_BUNDLE_CLAUNCHES_H
#define TESELA_BUNDLE_CLAUNCHES_H

#include "bundle/CLauncher.h"
#include "bundle/CNames.h"

#include <string>
#include <vector>

namespace tesela {

/// The functions of one target and its entry in the table of targets.
struct CLaunches {
  std::string functions, row;
};

/// `members`: the names of the arguments' members.
Result<CLaunches> writeLaunches(const std::string &name, const CLauncherTarget &target,
                                const MemberNames &members);

} // namespace tesela

#endif // TESELA_BUNDLE_CLAUNCHES_H
