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
  std::string file; ///< empty for a built-in template
};

/// templates/NAME.mlir; the name consists of letters, digits and underscores. If setTemplateFolder
/// (Compile.h) has named a folder, the file is read there. A folder must have a forward.mlir; for
/// all other names, files in it are optional.
Result<Template> findTemplate(const std::string &name);

} // namespace tesela

#endif // TESELA_COMPILER_DRIVER_TEMPLATES_H
