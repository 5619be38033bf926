//===- CTensors.h - A kernel's tensors as C ---------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_BUNDLE_CTENSORS_H
#define TESELA_BUNDLE_CTENSORS_H

#include "tesela/compiler/Artifact.h"

#include <string>

namespace tesela {

/// What a launcher has of an artifact's tensors.
struct CTensors {
  ElementType type = ElementType::bf16; ///< of all that have strides
  bool hasScale = false;                ///< there is a softmax scale
  std::string fields;                   ///< members of NAME_arguments
  std::string views;                    ///< members of the call
  std::string checks; ///< statements that check them and fill the call, views and extents
};

/// Code::unsupported where C has no launcher for tensors such as the artifact's.
Result<CTensors> writeTensors(const std::string &name, const Artifact &artifact);

} // namespace tesela

#endif // TESELA_BUNDLE_CTENSORS_H
