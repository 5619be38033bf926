//===- SanitizerOptions.cpp - Options for the sanitizers ------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// LLVM's allocators poison memory that they have not handed out yet. Their code is partly in
// headers, so Tesela's copy is instrumented while the copy in LLVM's libraries is not. Memory that
// one copy has poisoned would be handed out by the other, still poisoned.
//
//===----------------------------------------------------------------------===//

extern "C" __attribute__((visibility("default"))) const char *__asan_default_options() {
  return "allow_user_poisoning=0";
}

// Some tests request more memory than there is.
extern "C" __attribute__((visibility("default"))) const char *__tsan_default_options() {
  return "allocator_may_return_null=1";
}
