//===- EntryFormat.h - A kernel as a file of the cache ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// An entry, little-endian:
//
//   header    "TESELA\0K", the format's version (u32), the header's bytes (u32), the key (64
//   hexadecimal
//             digits), when it was made (i64, seconds since 1970), the artifact's bytes (u64) and
//             digest (32 bytes), the input type, the head dimensions of q and k and of v (u32
//             each), the names of the variant and of the target and the schedule (each a u32 of
//             bytes before it); SHA-256 over all before it
//   artifact  as Artifact::serialize gives it; its last 32 bytes are the digest that the header
//   names
//
// The header tells what a list shows, so a list reads no more of a file than its first page. It
// names the artifact by its digest: parts of two entries never make a third.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_CACHE_ENTRYFORMAT_H
#define TESELA_CACHE_ENTRYFORMAT_H

#include "tesela/compiler/Artifact.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace tesela {

/// The cache's folders are named after it too: an entry of another version is never looked for.
inline constexpr uint32_t entryVersion = 1;
/// A header fits into a page; longer names and schedules are cut off in it.
inline constexpr size_t longestEntryHeader = 4096;
/// What is longer is no entry: the largest measured, on sm_90, have some 185 KB.
inline constexpr size_t longestEntry = size_t(256) << 20;

struct EntryHeader {
  std::string key;
  int64_t made = 0; ///< seconds since 1970
  uint64_t artifactBytes = 0;
  std::string artifactDigest; ///< 32 bytes
  ElementType inputType = ElementType::bf16;
  int headDimQk = 0, headDimV = 0;
  std::string variantName, target, schedule;
  size_t bytes = 0; ///< the header's own
};

/// Whether `key` is 64 hexadecimal digits, as the cache's keys are.
bool isEntryKey(std::string_view key);

std::string encodeEntry(const std::string &key, const Artifact &artifact, int64_t made);

// Neither trusts what it reads. Any damage is Code::inputOutput, and the sentence names it.

/// `start`: the first longestEntryHeader bytes of a file, or all where it is shorter.
Result<EntryHeader> decodeEntryHeader(std::string_view start);

/// The artifact of an entry that must be that of `key`. `bytes`: the whole file.
Result<Artifact> decodeEntry(std::string_view bytes, std::string_view key);

} // namespace tesela

#endif // TESELA_CACHE_ENTRYFORMAT_H
