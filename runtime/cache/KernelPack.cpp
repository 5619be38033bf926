//===- KernelPack.cpp -----------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "cache/KernelPack.h"

#include "artifact/Digest.h"
#include "cache/EntryFormat.h"
#include "system/TaskThreads.h"

#include <zstd.h>

#include <algorithm>
#include <map>
#include <memory>

namespace tesela {

namespace {

constexpr std::string_view magic("TESELA\0P", 8);
constexpr uint32_t packVersion = 1;
constexpr size_t digestSize = 32, keyBytes = 32;
constexpr size_t startSize = magic.size() + 4 + 4;
constexpr size_t longestHeader = 4096;
constexpr size_t recordSize = keyBytes + 8 + 4 + 4 + 4;
/// Zstandard's highest level: a pack is made once, and the level does not change the time of
/// reading.
constexpr int compressionLevel = 22;

void putNumber(std::string &bytes, uint64_t value, int width) {
  for (int i = 0; i < width; ++i)
    bytes += char(value >> (8 * i));
}

uint64_t numberAt(std::string_view bytes, size_t at, int width) {
  uint64_t value = 0;
  for (int i = 0; i < width; ++i)
    value |= uint64_t(uint8_t(bytes[at + size_t(i)])) << (8 * i);
  return value;
}

int valueOfDigit(char digit) { return digit <= '9' ? digit - '0' : digit - 'a' + 10; }

/// The 32 bytes that the hexadecimal digits of `key` stand for.
std::string binaryKey(std::string_view key) {
  std::string bytes;
  for (size_t i = 0; i + 1 < key.size(); i += 2)
    bytes += char(valueOfDigit(key[i]) << 4 | valueOfDigit(key[i + 1]));
  return bytes;
}

/// The location of a kernel.
struct Place {
  uint64_t frame = 0; ///< offset in the file; while a pack is being made, relative to the end of
                      ///< the index
  uint32_t frameBytes = 0, begin = 0, bytes = 0;
};

Error damaged(const std::string &what) { return Error(Code::inputOutput, "the pack " + what); }

/// The first `most` bytes of the decompressed `frame`.
Result<std::string> beginningOf(std::string_view frame, size_t most) {
  std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx *)> context(ZSTD_createDCtx(), ZSTD_freeDCtx);
  if (!context)
    return Error(Code::outOfMemory, "there is no memory to read a kernel of the pack");
  std::string bytes(most, '\0');
  ZSTD_inBuffer input{frame.data(), frame.size(), 0};
  ZSTD_outBuffer output{bytes.data(), bytes.size(), 0};
  while (output.pos < output.size) {
    size_t before = input.pos + output.pos;
    size_t result = ZSTD_decompressStream(context.get(), &output, &input);
    if (ZSTD_isError(result))
      return damaged(std::string("is damaged: ") + ZSTD_getErrorName(result));
    if (input.pos + output.pos == before)
      return damaged("is damaged: a frame is shorter than the index says");
  }
  return bytes;
}

} // namespace

Result<KernelPack> KernelPack::open(const std::string &path) {
  Result<InputFile> file = InputFile::open(path);
  if (!file)
    return file.error();
  KernelPack pack(std::move(*file));
  uint64_t size = uint64_t(pack.file.facts().bytes);
  if (size < startSize)
    return damaged("is truncated: it has " + std::to_string(size) + " bytes");
  Result<std::string> start = pack.file.readAt(0, std::min<uint64_t>(size, longestHeader));
  if (!start)
    return start.error();
  if (!start->starts_with(magic))
    return damaged("does not begin with Tesela's file signature");
  uint64_t version = numberAt(*start, magic.size(), 4);
  if (version != packVersion)
    return damaged("has format " + std::to_string(version) + ", this version of Tesela reads " +
                   std::to_string(packVersion));
  uint64_t headerSize = numberAt(*start, magic.size() + 4, 4);
  constexpr size_t least = startSize + 4 + 4 + parts * 4 + digestSize;
  if (headerSize < least || headerSize > start->size())
    return damaged("is truncated, or its header's length is wrong");
  std::string_view covered = std::string_view(*start).substr(0, headerSize - digestSize);
  if (sha256(covered) != start->substr(covered.size(), digestSize))
    return damaged("is damaged: the checksum of its header is wrong");
  size_t at = startSize;
  for (std::string *text : {&pack.compiler_, &pack.assembler_}) {
    if (at + 4 > covered.size() || numberAt(covered, at, 4) > covered.size() - at - 4)
      return damaged("is not well-formed");
    *text = covered.substr(at + 4, numberAt(covered, at, 4));
    at += 4 + text->size();
  }
  if (covered.size() - at != parts * 4)
    return damaged("is not well-formed");
  uint64_t offset = headerSize;
  for (Part &part : pack.index) {
    part = {offset, uint32_t(numberAt(covered, at, 4))};
    at += 4;
    offset += uint64_t(part.keys) * recordSize + digestSize;
  }
  if (offset > size)
    return damaged("is truncated: it has " + std::to_string(size) + " bytes, its index ends at " +
                   std::to_string(offset));
  return pack;
}

Result<std::optional<Artifact>> KernelPack::find(const std::string &key) const {
  if (!isEntryKey(key))
    return std::optional<Artifact>();
  std::string wanted = binaryKey(key);
  const Part &part = index[uint8_t(wanted[0])];
  Result<std::string> records = file.readAt(part.offset, part.keys * recordSize + digestSize);
  if (!records)
    return records.error();
  std::string_view covered = std::string_view(*records).substr(0, part.keys * recordSize);
  if (sha256(covered) != records->substr(covered.size()))
    return damaged("is damaged: the checksum of a part of its index is wrong");
  size_t low = 0, high = part.keys;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (covered.substr(middle * recordSize, keyBytes) < wanted)
      low = middle + 1;
    else
      high = middle;
  }
  std::string_view record = covered.substr(std::min(low * recordSize, covered.size()));
  if (!record.starts_with(wanted))
    return std::optional<Artifact>();
  Place place{numberAt(record, keyBytes, 8), uint32_t(numberAt(record, keyBytes + 8, 4)),
              uint32_t(numberAt(record, keyBytes + 12, 4)),
              uint32_t(numberAt(record, keyBytes + 16, 4))};
  if (uint64_t(place.begin) + place.bytes > longestEntry)
    return damaged("is not well-formed: a kernel has more than " + std::to_string(longestEntry) +
                   " bytes");
  Result<std::string> frame = file.readAt(place.frame, place.frameBytes);
  if (!frame)
    return frame.error();
  Result<std::string> bytes = beginningOf(*frame, size_t(place.begin) + place.bytes);
  if (!bytes)
    return bytes.error();
  Result<Artifact> artifact = Artifact::deserialize(std::string_view(*bytes).substr(place.begin));
  if (!artifact)
    return artifact.error();
  return std::optional<Artifact>(std::move(*artifact));
}

/// Compresses with Zstandard; "" on failure.
static std::string compressed(const std::string &bytes) {
  std::string frame(ZSTD_compressBound(bytes.size()), '\0');
  size_t size =
      ZSTD_compress(frame.data(), frame.size(), bytes.data(), bytes.size(), compressionLevel);
  frame.resize(ZSTD_isError(size) ? 0 : size);
  return frame;
}

Result<std::string> encodePack(const std::string &compiler, const std::string &assembler,
                               const std::vector<PackedKernel> &kernels, int threads) {
  struct Group {
    std::string bytes, frame;
    uint64_t offset = 0; ///< of the frame, relative to the end of the index
  };
  std::map<std::string, Group> groups;
  std::vector<Place> places;
  for (const PackedKernel &kernel : kernels) {
    std::string &group = groups[kernel.group].bytes;
    std::string bytes = kernel.artifact.serialize();
    places.push_back({0, 0, uint32_t(group.size()), uint32_t(bytes.size())});
    group += bytes;
    if (group.size() > longestEntry)
      return Error(Code::unsupported, "the group '" + kernel.group + "' has more than " +
                                          std::to_string(longestEntry) + " bytes: divide it");
  }
  {
    TaskThreads tasks(threads); // the destructor waits for all tasks
    for (auto &[name, group] : groups)
      tasks.add([&group = group] { group.frame = compressed(group.bytes); });
  }
  uint64_t offset = 0;
  for (auto &[name, group] : groups) {
    if (group.frame.empty())
      return Error(Code::outOfMemory, "the group '" + name + "' could not be compressed");
    group.offset = offset;
    offset += group.frame.size();
  }

  std::map<std::string, Place> placeOf; // sorted by the binary key
  for (size_t i = 0; i < kernels.size(); ++i) {
    Place place = places[i];
    const Group &group = groups[kernels[i].group];
    place.frame = group.offset;
    place.frameBytes = uint32_t(group.frame.size());
    for (const std::string &key : kernels[i].keys)
      if (!isEntryKey(key) || !placeOf.emplace(binaryKey(key), place).second)
        return Error(Code::defect, "the key '" + key + "' of " + kernels[i].artifact.variantName +
                                       " is not valid, or the pack already has a kernel for it");
  }

  std::array<uint32_t, 256> counts{};
  for (const auto &[key, place] : placeOf)
    ++counts[uint8_t(key[0])];
  std::string fields;
  for (const std::string *text : {&compiler, &assembler}) {
    putNumber(fields, text->size(), 4);
    fields += *text;
  }
  for (uint32_t count : counts)
    putNumber(fields, count, 4);
  std::string pack(magic);
  putNumber(pack, packVersion, 4);
  putNumber(pack, startSize + fields.size() + digestSize, 4);
  pack += fields;
  pack += sha256(pack);
  if (pack.size() > longestHeader)
    return Error(Code::defect, "the names of the compiler and the assembler are too long");

  const uint64_t behindIndex = pack.size() + placeOf.size() * recordSize + 256 * digestSize;
  auto next = placeOf.begin();
  for (uint32_t count : counts) {
    std::string part;
    for (uint32_t i = 0; i < count; ++i, ++next) {
      const auto &[key, place] = *next;
      part += key;
      putNumber(part, behindIndex + place.frame, 8);
      for (uint32_t value : {place.frameBytes, place.begin, place.bytes})
        putNumber(part, value, 4);
    }
    pack += part + sha256(part);
  }
  for (const auto &[name, group] : groups)
    pack += group.frame;
  return pack;
}

} // namespace tesela
