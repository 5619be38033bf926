//===- Templates.h - The templates in the library ---------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_DRIVER_TEMPLATES_H
#define TESELA_COMPILER_DRIVER_TEMPLATES_H

#include "tesela/Status.h"

#include <string>

namespace tesela {

struct Template {
  std::string text;
  std::string file; ///< empty: the one in the library
};

/// templates/forward.mlir: the one in the library, or the file in the folder that
/// setTemplateFolder (Compile.h) named.
Result<Template> forwardTemplate();

/// templates/summary.mlir: the one in the library, or that folder's where it has one.
Result<Template> summaryTemplate();

} // namespace tesela

#endif // TESELA_COMPILER_DRIVER_TEMPLATES_H
