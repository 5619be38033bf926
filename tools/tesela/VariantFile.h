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
  std::string path; ///< as diagnostics name it
  std::string text;
};

/// Reads the variant that the command line calls `name`: a path, "-" for standard input, or
/// the name of a library variant ("causal"). A file of that name wins over the library.
/// At most 1 MiB.
Result<VariantFile> readVariant(const std::string &name);

/// A variant that may be compiled.
struct OpenedVariant {
  VariantFile file;
  VariantInfo info;
};

/// readVariant and checkVariant; prints the warnings.
Result<OpenedVariant> openVariant(const std::string &name);

/// The names of the library's variants, sorted; empty where its folder is not found. The folder
/// is ../share/tesela/variants, seen from the executable.
std::vector<std::string> libraryVariants();

} // namespace tesela::tool

#endif // TESELA_TOOLS_VARIANTFILE_H
