//===- CTensors.h - A kernel's tensors as C ---------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_BUNDLE_CTENSORS_H
#define TESELA_BUNDLE_CTENSORS_H

#include "bundle/CNames.h"
#include "tesela/compiler/Artifact.h"

#include <string>
#include <vector>

namespace tesela {

/// The parts of a launcher for an artifact's tensors, and for extents that no tensor defines.
struct CTensors {
  bool hasScale = false;    ///< whether there is a softmax scale
  std::string types;        ///< types of views that do not have four axes
  std::string fields;       ///< members of NAME_arguments
  std::string defaults;     ///< statements that set members whose default is not 0
  std::string views;        ///< members of the call
  std::string declarations; ///< declarations that views are checked against
  std::string checks;       ///< statements that check them and fill the call, views and extents
  std::string lateChecks;   ///< checks that need the captured tensors to be checked first
};

/// The extents, by index, that a launch of one of the targets needs but no tensor
/// defines.
std::vector<int> askedExtents(const std::vector<const Artifact *> &targets);

/// Code::unsupported: there is no C launcher for a kernel that has `what`.
Error noLauncherFor(const Artifact &artifact, const std::string &what);

/// `asked` is the result of askedExtents(). Code::unsupported: there is no C launcher for such
/// tensors.
Result<CTensors> writeTensors(const std::string &name, const Artifact &artifact,
                              const std::vector<int> &asked, const MemberNames &members);

} // namespace tesela

#endif // TESELA_BUNDLE_CTENSORS_H
