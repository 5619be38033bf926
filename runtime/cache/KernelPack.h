//===- KernelPack.h - Many kernels in one file that is read -----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A pack, little-endian:
//
//   header   "TESELA\0P", the format's version (u32), the header's bytes (u32), compilerVersion()
//            of the kernels and the identity of the ptxas that assembled them (each a u32 of bytes
//            before it), how many keys each of the index's 256 parts has (u32 each); SHA-256 over
//            all before it
//   index    256 parts, by the keys' first two digits; each: its keys in order, and SHA-256 over
//            them. A key: its 64 digits as 32 bytes, the place of a frame in the file and its bytes
//            (u64, u32), the artifact's place among what the frame holds and its bytes (u32, u32)
//   frames   by Zstandard, each of several artifacts (Artifact::serialize) that resemble each other
//
// So one kernel costs the header, a part of the index and a frame's beginning. Several keys may
// have one kernel: those of specifications whose schedule is the same. An artifact ends with its
// own digest.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_CACHE_KERNELPACK_H
#define TESELA_CACHE_KERNELPACK_H

#include "system/File.h"
#include "tesela/compiler/Artifact.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tesela {

/// A pack's file, open for reading. It stays as it is while others replace the file.
class KernelPack {
public:
  /// Code::notFound where there is no such file, Code::inputOutput where it is damaged.
  static Result<KernelPack> open(const std::string &path);

  const std::string &compiler() const { return compiler_; }
  const std::string &assembler() const { return assembler_; }

  /// The kernel of `key`; none: it is not in the pack. Code::inputOutput: it is damaged.
  Result<std::optional<Artifact>> find(const std::string &key) const;

private:
  static constexpr size_t parts = 256;
  struct Part {
    uint64_t offset;
    uint32_t keys;
  };

  explicit KernelPack(InputFile file) : file(std::move(file)) {}

  InputFile file;
  std::string compiler_, assembler_;
  std::array<Part, parts> index;
};

/// A kernel on its way into a pack.
struct PackedKernel {
  std::vector<std::string> keys; ///< by which it is found; no other kernel has them
  std::string group;             ///< kernels of one group share a frame, in their order
  Artifact artifact;
};

/// The bytes of a pack, made on `threads`. The same kernels in the same order give the same bytes.
Result<std::string> encodePack(const std::string &compiler, const std::string &assembler,
                               const std::vector<PackedKernel> &kernels, int threads = 1);

} // namespace tesela

#endif // TESELA_CACHE_KERNELPACK_H
