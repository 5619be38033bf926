//===- CExpressions.h - Expressions over extents as C -----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_BUNDLE_CEXPRESSIONS_H
#define TESELA_BUNDLE_CEXPRESSIONS_H

#include "tesela/compiler/Artifact.h"

#include <string>
#include <string_view>

namespace tesela {

/// The expression in a launcher's C. B H Hkv Sq Sk are members of `extents` ("c->x."), extents of
/// captured tensors those of the call's views. Empty where it has a negative number, which no
/// number of extents is.
std::string expressionInC(const Expression &expression, std::string_view extents);

/// The expression as a reader of the header has it: "B + 1".
std::string expressionForReaders(const Expression &expression);

} // namespace tesela

#endif // TESELA_BUNDLE_CEXPRESSIONS_H
