//===- EntryTarget.cpp - Any bytes as an entry of the cache ---------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Reads the bytes as they are, guarded by checksums. Then reads them as a header's fields with a
// right checksum, followed by the rest, so that the checks behind the checksum are tested.
//
//===----------------------------------------------------------------------===//
#include "artifact/Digest.h"
#include "cache/EntryFormat.h"

#include <cstdint>
#include <cstdlib>
#include <string>

using namespace tesela;

static const std::string key(64, 'a');

/// A header: magic and version as in a valid entry, the header's length, the fields, the checksum.
static std::string sealed(std::string_view fields) {
  static const std::string start = encodeEntry(key, Artifact(), 0).substr(0, 12);
  std::string bytes = start;
  size_t size = start.size() + 4 + fields.size() + 32;
  for (int i = 0; i < 4; ++i)
    bytes += static_cast<char>(size >> 8 * i);
  bytes += fields;
  return bytes + sha256(bytes);
}

static void decode(std::string_view bytes) {
  Result<EntryHeader> header = decodeEntryHeader(bytes.substr(0, longestEntryHeader));
  Result<Artifact> artifact = decodeEntry(bytes, header ? header->key : key);
  if (!artifact)
    return;
  // If something is read, it is a whole entry: the header is within bounds, and gives the rest's
  // size.
  if (!header || !isEntryKey(header->key) || header->bytes > longestEntryHeader ||
      header->bytes + header->artifactBytes != bytes.size())
    std::abort();
  // An entry must never be read as another kernel's.
  std::string other = header->key;
  other[0] = other[0] == '0' ? '1' : '0';
  if (decodeEntry(bytes, other))
    std::abort();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view text(reinterpret_cast<const char *>(data), size);
  decode(text);
  decode(sealed(text));
  // The first two bytes say where the header's fields end and the artifact begins.
  if (size >= 2) {
    std::string_view rest = text.substr(2);
    size_t fields = std::min<size_t>(data[0] | data[1] << 8, rest.size());
    decode(sealed(rest.substr(0, fields)) + std::string(rest.substr(fields)));
  }
  return 0;
}
