//===- LaunchRequest.cpp --------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "LaunchRequest.h"

#include "FileShape.h"
#include "Safetensors.h"

#include <optional>

namespace tesela::tool {

Result<LaunchRequest> launchRequest(const LaunchShape &asked, const std::string &input,
                                    Layout layout, const VariantInfo &variant) {
  LaunchRequest request{.shape = asked, .extents = {}, .captures = {}};
  std::optional<SafetensorsFile> file;
  if (!input.empty()) {
    Result<SafetensorsFile> opened = SafetensorsFile::open(input);
    if (!opened)
      return opened.error();
    file = std::move(*opened);
    Result<LaunchShape> shape = shapeOfFile({*file, input, layout}, variant, asked);
    if (!shape)
      return shape.error();
    request.shape = std::move(*shape);
  }
  Result<LaunchExtents> extents = extentsOf(request.shape);
  if (!extents)
    return extents.error();
  request.extents = *extents;
  Result<std::vector<NamedTensor>> captures =
      file ? readCaptures(*file, variant) : randomCaptures(variant, *extents, asked.seed);
  if (!captures)
    return captures.error();
  request.captures = std::move(*captures);
  return request;
}

} // namespace tesela::tool
