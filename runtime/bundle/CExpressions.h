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

/// The expression in a launcher's C. `extents` is the prefix of B H Hkv Sq Sk ("c->x."); extents of
/// captured tensors are those of the call's views. Empty if the expression has a negative number
/// that is not the first of two to be added,
/// which an extent never is.
std::string expressionInC(const Expression &expression, std::string_view extents);

/// The expression for readers of the header: "B + 1".
std::string expressionForReaders(const Expression &expression);

} // namespace tesela

#endif // TESELA_BUNDLE_CEXPRESSIONS_H
