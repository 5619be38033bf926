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

/// A file of tensors, and how q, k and v lie in it.
struct InputFile {
  const SafetensorsFile &tensors;
  std::string path;
  Layout layout = Layout::bhsd;
};

/// `asked` with what the file's q, k, v (those that it has) and the variant's captures say in the
/// place of defaults. A capture `i32[B, 2*Sk]` of extents [3, 200] says that B is 3 and Sk 100. An
/// extent with a name of the capture's own counts as Sk where nothing else tells the lengths, as
/// for random data. Where one of Sq and Sk, or of H and Hkv, is told and the other is not, they are
/// equal. Fails where tensors, or a tensor and an option of `asked.given`, contradict each other.
Result<LaunchShape> shapeOfFile(const InputFile &file, const VariantInfo &variant,
                                const LaunchShape &asked);

} // namespace tesela::tool

#endif // TESELA_TOOLS_FILESHAPE_H
