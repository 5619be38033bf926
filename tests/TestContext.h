//===- TestContext.h - What the tests' contexts have in common --*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_TESTCONTEXT_H
#define TESELA_TESTS_TESTCONTEXT_H

#include "tesela/Context.h"

#include <string>

namespace tesela {

/// Of a context whose kernels compute (those on the stub of the driver do not): nothing is kept on
/// disk, and the first launch of each kernel is verified, whatever the test itself looks at.
inline ContextOptions testContextOptions(const std::string &device = "host") {
  ContextOptions options;
  options.device = device;
  options.diskCache = false;
  options.verify = true;
  return options;
}

} // namespace tesela

#endif // TESELA_TESTS_TESTCONTEXT_H
