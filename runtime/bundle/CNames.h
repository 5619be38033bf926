//===- CNames.h - Names that C accepts --------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_BUNDLE_CNAMES_H
#define TESELA_BUNDLE_CNAMES_H

#include "tesela/compiler/Artifact.h"

#include <string>
#include <string_view>
#include <vector>

namespace tesela {

/// Whether C identifiers and file names may begin with `name`: a letter, then letters, digits and
/// underscores, at most 100 characters.
bool isCName(std::string_view name);

/// Whether a header `name`.h would hide a header of the system.
bool isHeaderOfC(std::string_view name);

/// The names of the members of the launcher's arguments, by tensor and by parameter. An underscore
/// is appended to names that are taken: by other members, by keywords of C and C++, by macros and
/// types of the C library (or names of their form), or by the launcher of `bundle`.
struct MemberNames {
  std::vector<std::string> tensors, parameters;
};
MemberNames memberNames(const std::vector<TensorArgument> &tensors,
                        const std::vector<Parameter> &parameters, std::string_view bundle);

} // namespace tesela

#endif // TESELA_BUNDLE_CNAMES_H
