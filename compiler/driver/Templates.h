//===- Templates.h - The templates in the library ---------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_DRIVER_TEMPLATES_H
#define TESELA_COMPILER_DRIVER_TEMPLATES_H

#include "tesela/Status.h"

#include <string>

#include <string>

namespace tesela {

struct Template {
  std::string text;
  std::string file; ///< empty: the one in the library
};

/// templates/NAME.mlir, a name of letters, digits and underscores: the file in the folder that
/// setTemplateFolder (Compile.h) named, or the one in the library. The folder of those who name one
/// has a forward.mlir; of the others it may have any.
Result<Template> findTemplate(const std::string &name);

} // namespace tesela

#endif // TESELA_COMPILER_DRIVER_TEMPLATES_H
