//===- TileArguments.h - The arguments that decide tiles --------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_API_TILEARGUMENTS_H
#define TESELA_API_TILEARGUMENTS_H

#include "frontend/Variant.h"
#include "launch/CheckedArguments.h"
#include "tesela/Explain.h"

namespace tesela {

/// Checks the extents, scalars and captures of `arguments`, which decide a mask's tiles without a
/// launch. Code::invalidArgument: an extent is negative or no i32, the query heads are not a
/// multiple of the key/value heads, or a parameter of `variant` does not fit.
Result<CheckedArguments> checkTileArguments(const Variant &variant,
                                            const ExplainArguments &arguments);

} // namespace tesela

#endif // TESELA_API_TILEARGUMENTS_H
