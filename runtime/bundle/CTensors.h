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

/// What a launcher has of an artifact's tensors, and of the extents that none of them tells.
struct CTensors {
  bool hasScale = false;    ///< there is a softmax scale
  std::string types;        ///< of views that have not four axes
  std::string fields;       ///< members of NAME_arguments
  std::string defaults;     ///< statements that set members which are not 0
  std::string views;        ///< members of the call
  std::string declarations; ///< what views are held against
  std::string checks;       ///< statements that check them and fill the call, views and extents
  std::string lateChecks;   ///< those that captured tensors have to be checked for
};

/// The extents, by their index, that a launch of one of the targets cannot do without and that no
/// tensor tells.
std::vector<int> askedExtents(const std::vector<const Artifact *> &targets);

/// Code::unsupported: there is no launcher in C for a kernel that has `what`.
Error noLauncherFor(const Artifact &artifact, const std::string &what);

/// `asked`: as askedExtents() has them. Code::unsupported where C has no launcher for tensors such
/// as the artifact's.
Result<CTensors> writeTensors(const std::string &name, const Artifact &artifact,
                              const std::vector<int> &asked, const MemberNames &members);

} // namespace tesela

#endif // TESELA_BUNDLE_CTENSORS_H
