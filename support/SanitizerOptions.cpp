//===- SanitizerOptions.cpp - What the sanitizers must know ---------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// LLVM's allocators poison what they have not handed out yet, in code that stands in its headers
// and in its libraries. Ours is instrumented, that of the system's libraries is not: what the one
// poisons the other would hand out poisoned.
//
//===----------------------------------------------------------------------===//

extern "C" __attribute__((visibility("default"))) const char *__asan_default_options() {
  return "allow_user_poisoning=0";
}

// Some tests ask for more memory than there is.
extern "C" __attribute__((visibility("default"))) const char *__tsan_default_options() {
  return "allocator_may_return_null=1";
}
