//===- FileShape.h - What a file says of a launch's shape -------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TOOLS_FILESHAPE_H
#define TESELA_TOOLS_FILESHAPE_H

#include "RunOptions.h"
#include "Safetensors.h"

#include "tesela/Variant.h"

#include <string>

namespace tesela::tool {

/// A file of tensors, and the layout of q, k and v in it.
struct InputFile {
  const SafetensorsFile &tensors;
  std::string path;
  Layout layout = Layout::bhsd;
  bool areAmongKeys = false; ///< whether queries are (RunOptions)
};

/// `asked`, with defaults replaced by what the file's q, k, v (if it has them) and the variant's
/// captures say. A capture `i32[B, 2*Sk]` with extents [3, 200] says that B is 3 and Sk 100. Behind
/// a cache a capture's extent Sq counts keys. If no tensor gives a length, an extent that a capture
/// names itself counts as Sk, as for random data. If only one of Sq and Sk is known, the other is
/// equal to it; the same holds for H and Hkv. Fails if two tensors, or a tensor and an option of
/// `asked.given`, contradict each other.
Result<LaunchShape> shapeOfFile(const InputFile &file, const VariantInfo &variant,
                                const LaunchShape &asked);

} // namespace tesela::tool

#endif // TESELA_TOOLS_FILESHAPE_H
