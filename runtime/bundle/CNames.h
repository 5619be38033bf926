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

/// What C identifiers and files' names may begin with: a letter, then letters, digits, underscores;
/// 100 at most.
bool isCName(std::string_view name);

/// Whether a header `name`.h would hide one of the system's.
bool isHeaderOfC(std::string_view name);

/// What the members of the launcher's arguments are called, by tensor and by parameter: as these,
/// with an underscore behind names that are taken: by the other members, by C's and C++'s keywords,
/// by macros and types of the C library or what looks like them, by the launcher of `bundle`.
struct MemberNames {
  std::vector<std::string> tensors, parameters;
};
MemberNames memberNames(const std::vector<TensorArgument> &tensors,
                        const std::vector<Parameter> &parameters, std::string_view bundle);

} // namespace tesela

#endif // TESELA_BUNDLE_CNAMES_H
