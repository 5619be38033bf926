//===- CheckedParameters.h - Checks scalars and captures --------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_LAUNCH_CHECKEDPARAMETERS_H
#define TESELA_LAUNCH_CHECKEDPARAMETERS_H

#include "launch/CheckedArguments.h"

#include <string>
#include <string_view>

namespace tesela {

/// Checks scalars and captured tensors against the variant's parameters: each is given once and has
/// the right type, and the extents of captured tensors agree with the launch and with each other.
/// Fills scalarBits and captures; `checked.extents` must be set before.
Status checkParameters(const std::vector<Parameter> &parameters, const LaunchArguments &arguments,
                       CheckedArguments &checked);

/// The end of a message about an axis of a captured tensor that has another length than `extent`, a
/// bound that the launch gives for its sequences. "" if it is not Sq or Sk.
std::string atPositions(std::string_view extent);

} // namespace tesela

#endif // TESELA_LAUNCH_CHECKEDPARAMETERS_H
