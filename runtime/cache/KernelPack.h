//===- KernelPack.h - Many kernels in one read-only file --------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A pack, little-endian:
//
//   header   "TESELA\0P", the format's version (u32), the header's bytes (u32), compilerVersion()
//            of the kernels and the identity of the ptxas that assembled them (each with its length
//            before it, u32), the number of keys in each of the index's 256 parts (u32 each);
//            SHA-256 of everything before
//   index    256 parts, by the keys' first two digits. Each has its keys in order and their
//            SHA-256. A key: its 64 digits as 32 bytes, the offset and bytes of a frame in the file
//            (u64, u32), the offset and bytes of the artifact in the decompressed frame (u32, u32)
//   frames   compressed by Zstandard; each contains several similar artifacts (Artifact::serialize)
//
// So reading one kernel takes the header, one part of the index, and the beginning of a frame.
// Several keys may have the same kernel, if their specifications have the same schedule. An
// artifact ends with its own digest.
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

/// A pack, open for reading. It stays readable if other processes replace the file.
class KernelPack {
public:
  /// Code::notFound: there is no such file. Code::inputOutput: it is damaged.
  static Result<KernelPack> open(const std::string &path);

  const std::string &compiler() const { return compiler_; }
  const std::string &assembler() const { return assembler_; }

  /// The kernel of `key`; nullopt if it is not in the pack. Code::inputOutput: the pack is damaged.
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

/// A kernel to put into a pack.
struct PackedKernel {
  std::vector<std::string> keys; ///< the keys by which it is found; no other kernel has them
  std::string group;             ///< kernels of one group share a frame, in their order
  Artifact artifact;
};

/// The bytes of a pack, made by `threads` threads. Equal kernels in equal order give equal bytes.
Result<std::string> encodePack(const std::string &compiler, const std::string &assembler,
                               const std::vector<PackedKernel> &kernels, int threads = 1);

} // namespace tesela

#endif // TESELA_CACHE_KERNELPACK_H
