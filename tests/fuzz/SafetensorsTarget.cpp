//===- SafetensorsTarget.cpp - Any bytes as a .safetensors file -----------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "Safetensors.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

using namespace tesela::tool;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // A file in memory, because the reader opens files by their path.
  static const int memory = memfd_create("fuzz.safetensors", 0);
  if (memory < 0 || ftruncate(memory, 0) != 0 ||
      pwrite(memory, data, size, 0) != static_cast<ssize_t>(size)) {
    std::perror("fuzz: no file in memory");
    std::abort();
  }
  static const std::string path = "/proc/self/fd/" + std::to_string(memory);
  auto file = SafetensorsFile::open(path);
  if (!file)
    return 0;
  uint64_t read = 0;
  for (const auto &[name, entry] : file->entries())
    if (auto tensor = file->read(name))
      read += tensor->bytes();
  // Tensors cover the data exactly, so a small file must only need little memory.
  if (read > size)
    std::abort();
  (void)file->read("absent");
  return 0;
}
