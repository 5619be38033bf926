//===- LaunchRequest.h - A launch without q, k and v ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TOOLS_LAUNCHREQUEST_H
#define TESELA_TOOLS_LAUNCHREQUEST_H

#include "Parameters.h"
#include "RunOptions.h"

#include <string>
#include <vector>

namespace tesela::tool {

/// The extents of a launch, and the tensors that the variant captures.
struct LaunchRequest {
  LaunchShape shape;
  LaunchExtents extents;
  std::vector<NamedTensor> captures;
};

/// The launch that `asked` describes. If `input` is not empty, it is a .safetensors file with the
/// captures, which also give lengths (shapeOfFile). Otherwise the captures are random.
Result<LaunchRequest> launchRequest(const LaunchShape &asked, const std::string &input,
                                    Layout layout, const VariantInfo &variant);

} // namespace tesela::tool

#endif // TESELA_TOOLS_LAUNCHREQUEST_H
