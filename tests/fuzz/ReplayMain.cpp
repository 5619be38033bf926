//===- ReplayMain.cpp - A fuzz target over kept files ---------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A main for compilers without libFuzzer: runs the target on each given file, and on each file of
// the given folders.
//
//===----------------------------------------------------------------------===//
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replayed = 0;

static bool replay(const std::filesystem::path &path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  if (file.fail() && !file.eof()) {
    std::fprintf(stderr, "%s cannot be read\n", path.c_str());
    return false;
  }
  std::fprintf(stderr, "%s\n", path.c_str()); // the last printed path is the one that crashed
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size());
  ++replayed;
  return true;
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i])) {
      if (!replay(argv[i]))
        return 2;
      continue;
    }
    for (const auto &entry : std::filesystem::directory_iterator(argv[i]))
      if (!replay(entry.path()))
        return 2;
  }
  std::fprintf(stderr, "%d inputs replayed\n", replayed);
  return replayed > 0 ? 0 : 2;
}
