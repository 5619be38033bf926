//===- EntryFormat.cpp ----------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "cache/EntryFormat.h"

#include "artifact/Digest.h"

#include <algorithm>

namespace tesela {

namespace {

constexpr std::string_view magic("TESELA\0K", 8);
constexpr size_t digestSize = 32, keySize = 64;
constexpr size_t startSize = magic.size() + 4 + 4;
// With these limits and the fields of fixed width, a header is shorter than longestEntryHeader.
constexpr size_t longestName = 512, longestSchedule = 2560;

void putNumber(std::string &bytes, uint64_t value, int width) {
  for (int i = 0; i < width; ++i)
    bytes += char(value >> (8 * i));
}

void putText(std::string &bytes, std::string_view text, size_t longest) {
  text = text.substr(0, longest);
  putNumber(bytes, text.size(), 4);
  bytes += text;
}

/// Takes fields from the front of `bytes`. After the first failure `failed` is true and all fields
/// are zero or empty.
struct FieldReader {
  std::string_view bytes;
  bool failed = false;

  std::string_view take(uint64_t size) {
    if (size > bytes.size()) {
      failed = true;
      bytes = {};
      return {};
    }
    std::string_view taken = bytes.substr(0, size);
    bytes.remove_prefix(size);
    return taken;
  }
  uint64_t number(int width) {
    uint64_t value = 0;
    int shift = 0;
    for (char byte : take(uint64_t(width))) {
      value |= uint64_t(uint8_t(byte)) << shift;
      shift += 8;
    }
    return value;
  }
  std::string text() { return std::string(take(number(4))); }
};

Error damaged(const std::string &what) { return Error(Code::inputOutput, "the entry " + what); }

} // namespace

bool isEntryKey(std::string_view key) {
  return key.size() == keySize &&
         key.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string encodeEntry(const std::string &key, const Artifact &artifact, int64_t made) {
  std::string serialized = artifact.serialize();
  std::string fields = key;
  putNumber(fields, uint64_t(made), 8);
  putNumber(fields, serialized.size(), 8);
  fields += std::string_view(serialized).substr(serialized.size() - digestSize);
  putNumber(fields, uint64_t(artifact.inputType), 4);
  putNumber(fields, uint64_t(artifact.headDimQk), 4);
  putNumber(fields, uint64_t(artifact.headDimV), 4);
  putText(fields, artifact.variantName, longestName);
  putText(fields, artifact.target.name(), longestName);
  putText(fields, artifact.schedule, longestSchedule);

  std::string entry(magic);
  putNumber(entry, entryVersion, 4);
  putNumber(entry, startSize + fields.size() + digestSize, 4);
  entry += fields;
  entry += sha256(entry);
  return entry + serialized;
}

Result<EntryHeader> decodeEntryHeader(std::string_view start) {
  if (start.size() < startSize)
    return damaged("is truncated: it has " + std::to_string(start.size()) + " bytes");
  if (start.substr(0, magic.size()) != magic)
    return damaged("does not begin with Tesela's file signature");
  FieldReader sizes{start.substr(magic.size())};
  uint64_t version = sizes.number(4), size = sizes.number(4);
  if (version != entryVersion)
    return damaged("has format " + std::to_string(version) + ", its folder is that of format " +
                   std::to_string(entryVersion));
  if (size < startSize + digestSize || size > std::min(start.size(), longestEntryHeader))
    return damaged("is truncated, or its header's length is wrong");
  std::string_view covered = start.substr(0, size - digestSize);
  if (sha256(covered) != start.substr(covered.size(), digestSize))
    return damaged("is damaged: the checksum of its header is wrong");

  FieldReader fields{covered.substr(startSize)};
  EntryHeader header;
  header.bytes = size;
  header.key = fields.take(keySize);
  header.made = int64_t(fields.number(8));
  header.artifactBytes = fields.number(8);
  header.artifactDigest = fields.take(digestSize);
  uint64_t type = fields.number(4);
  header.inputType = ElementType(type);
  header.headDimQk = int(fields.number(4));
  header.headDimV = int(fields.number(4));
  header.variantName = fields.text();
  header.target = fields.text();
  header.schedule = fields.text();
  if (fields.failed || !fields.bytes.empty() || !isEntryKey(header.key) ||
      type > uint64_t(ElementType::e4m3) || elementSize(header.inputType) == 0)
    return damaged("is not well-formed");
  return header;
}

Result<Artifact> decodeEntry(std::string_view bytes, std::string_view key) {
  Result<EntryHeader> header = decodeEntryHeader(bytes.substr(0, longestEntryHeader));
  if (!header)
    return header.error();
  if (header->key != key)
    return damaged("is another kernel's");
  std::string_view serialized = bytes.substr(header->bytes);
  if (serialized.size() != header->artifactBytes)
    return damaged("is truncated or too long: its header tells of " +
                   std::to_string(header->artifactBytes) + " bytes after it, there are " +
                   std::to_string(serialized.size()));
  if (!serialized.ends_with(header->artifactDigest))
    return damaged("is damaged: its header belongs to another kernel");
  return Artifact::deserialize(serialized);
}

} // namespace tesela
