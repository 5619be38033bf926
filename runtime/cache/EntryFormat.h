//===- EntryFormat.h - A kernel as a file of the cache ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// An entry, little-endian:
//
//   header    "TESELA\0K", the format's version (u32), the header's bytes (u32), the key (64
//             hexadecimal digits), when the entry was made (i64, seconds since 1970), the bytes
//             (u64) and the digest (32 bytes) of the artifact, the input type, the head dimensions
//             of q and k and of v (u32 each), the names of the variant and of the target and the
//             schedule (each with its length before it, u32); SHA-256 of everything before
//
//   artifact  as Artifact::serialize gives it; its last 32 bytes are the digest that is in the
//             header
//
// The header has everything that a list shows, so a list reads only the first page of a file. It
// contains the artifact's digest, so parts of two entries are never taken for a valid one.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_CACHE_ENTRYFORMAT_H
#define TESELA_CACHE_ENTRYFORMAT_H

#include "tesela/compiler/Artifact.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace tesela {

/// Part of the cache's folder names, so entries of other versions are never found.
inline constexpr uint32_t entryVersion = 1;
/// A header fits into a page; longer names and schedules are truncated in it.
inline constexpr size_t longestEntryHeader = 4096;
/// A longer file is not an entry. The largest measured entry, on sm_90, has about 185 KB.
inline constexpr size_t longestEntry = size_t(256) << 20;

struct EntryHeader {
  std::string key;
  int64_t made = 0; ///< seconds since 1970
  uint64_t artifactBytes = 0;
  std::string artifactDigest; ///< 32 bytes
  ElementType inputType = ElementType::bf16;
  int headDimQk = 0, headDimV = 0;
  std::string variantName, target, schedule;
  size_t bytes = 0; ///< of the header itself
};

/// Whether `key` is 64 hexadecimal digits, as the cache's keys are.
bool isEntryKey(std::string_view key);

std::string encodeEntry(const std::string &key, const Artifact &artifact, int64_t made);

// These functions check everything. Any damage is Code::inputOutput, and the message names it.

/// `start`: the first longestEntryHeader bytes of a file, or all of a shorter file.
Result<EntryHeader> decodeEntryHeader(std::string_view start);

/// The artifact in an entry. Its key must be `key`. `bytes`: the whole file.
Result<Artifact> decodeEntry(std::string_view bytes, std::string_view key);

} // namespace tesela

#endif // TESELA_CACHE_ENTRYFORMAT_H
