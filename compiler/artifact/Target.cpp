//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tesela/compiler/Artifact.h"

namespace tesela {

/// The compute capabilities that a target may name: those of compiler/targets/nvvm/ChipFacts.cpp.
/// They are repeated here because artifacts are read without that file.
static constexpr int knownCapabilities[] = {80, 86, 87, 89, 90, 100, 103, 120};

std::string Target::name() const {
  return kind == Kind::host ? "host" : "sm_" + std::to_string(sm);
}

Result<Target> Target::parse(std::string_view name) {
  if (name == "host")
    return Target{Kind::host, 0};
  std::string known = "host";
  for (int sm : knownCapabilities) {
    Target target{Kind::cuda, sm};
    if (name == target.name())
      return target;
    known += ", " + target.name();
  }
  return Error(Code::invalidArgument,
               "the target '" + std::string(name) + "' is not known; choose one of " + known);
}

} // namespace tesela
