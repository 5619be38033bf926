//===- VariantFile.h - Finds and reads a variant ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TOOLS_VARIANTFILE_H
#define TESELA_TOOLS_VARIANTFILE_H

#include "tesela/Status.h"
#include "tesela/Variant.h"

#include <string>
#include <vector>

namespace tesela::tool {

struct VariantFile {
  std::string path; ///< the name in diagnostics
  std::string text;
};

/// Reads the variant `name`: a path, "-" for standard input, or the name of a library
/// variant ("causal"). A file of that name takes precedence over the library. At most 1
/// MiB.
Result<VariantFile> readVariant(const std::string &name);

/// A variant that was read and checked.
struct OpenedVariant {
  VariantFile file;
  VariantInfo info;
};

/// Calls readVariant and checkVariant, and prints the warnings.
Result<OpenedVariant> openVariant(const std::string &name);

/// The names of the library's variants, sorted. Empty if their folder is not found; it is
/// ../share/tesela/variants, relative to the executable.
std::vector<std::string> libraryVariants();

} // namespace tesela::tool

#endif // TESELA_TOOLS_VARIANTFILE_H
