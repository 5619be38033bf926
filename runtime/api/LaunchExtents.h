//===- LaunchExtents.h - The extents that explain takes ---------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_API_LAUNCHEXTENTS_H
#define TESELA_API_LAUNCHEXTENTS_H

#include "frontend/Interpreter.h"
#include "tesela/Explain.h"

namespace tesela {

/// The extents of `arguments`; Code::invalidArgument where one is no i32 from 0 on, or the query
/// heads are no multiple of the key/value heads.
Result<Extents> checkExtents(const ExplainArguments &arguments);

} // namespace tesela

#endif // TESELA_API_LAUNCHEXTENTS_H
