// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cstdio>
#include <tesela/Check.h>
#include <tesela/Context.h>

int main() {
  auto context = tesela::Context::create({.device = "host", .diskCache = false});
  if (!context) {
    std::fprintf(stderr, "%s\n", context.error().message().c_str());
    return 1;
  }
  auto kernel = context->compile({.variantText = "attention causal() {\n  mask = q >= k\n}\n",
                                  .inputType = tesela::ElementType::f32,
                                  .headDimQk = 64,
                                  .headDimV = 64});
  if (!kernel) {
    std::fprintf(stderr, "%s\n", kernel.error().message().c_str());
    return 1;
  }
  std::printf("%s\n", kernel->info().variantName.c_str());
  return 0;
}
