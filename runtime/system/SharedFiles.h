//===- SharedFiles.h - Files installed with the library ---------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_SYSTEM_SHAREDFILES_H
#define TESELA_SYSTEM_SHAREDFILES_H

#include <string>

namespace tesela {

/// The path of the file or folder `name` in share/tesela, relative to the library's own location;
/// "" if there is none.
std::string sharedFile(const std::string &name);

} // namespace tesela

#endif // TESELA_SYSTEM_SHAREDFILES_H
