//===- PngFile.cpp --------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "drawing/PngFile.h"

#include <array>
#include <string_view>

namespace tesela::tool {

static std::string bigEndian(uint32_t value) {
  return {char(value >> 24), char(value >> 16), char(value >> 8), char(value)};
}

//===----------------------------------------------------------------------===//
// Deflate (RFC 1951): one block with the fixed codes, matches at distance 1
//===----------------------------------------------------------------------===//

namespace {

class BitWriter {
public:
  /// Writes a number, lowest bit first.
  void put(uint32_t value, int bits) {
    for (int i = 0; i < bits; ++i)
      putBit(value >> i & 1);
  }
  /// Writes a Huffman code, highest bit first.
  void putCode(uint32_t code, int bits) {
    for (int i = bits - 1; i >= 0; --i)
      putBit(code >> i & 1);
  }
  std::string finish() {
    while (used != 0)
      putBit(0);
    return std::move(bytes);
  }

private:
  void putBit(uint32_t bit) {
    if (used == 0)
      bytes += '\0';
    bytes.back() = char(uint8_t(bytes.back()) | bit << used);
    used = (used + 1) % 8;
  }
  std::string bytes;
  int used = 0; ///< bits of the last byte that are used
};

} // namespace

/// Writes a literal, the end of the block (256) or a length code (257 to 285); RFC 1951, 3.2.6.
static void putSymbol(BitWriter &out, uint32_t symbol) {
  if (symbol < 144)
    out.putCode(0x30 + symbol, 8);
  else if (symbol < 256)
    out.putCode(0x190 + symbol - 144, 9);
  else if (symbol < 280)
    out.putCode(symbol - 256, 7);
  else
    out.putCode(0xc0 + symbol - 280, 8);
}

/// Writes "repeat the last byte `length` times", for 3 to 258 times; RFC 1951, 3.2.5.
static void putRepeat(BitWriter &out, uint32_t length) {
  if (length == 258) {
    putSymbol(out, 285);
  } else {
    // After the first eight symbols, groups of four symbols have lengths in steps of 1, 2, 4, ...
    uint32_t rest = length - 3;
    int extra = 0;
    while (rest >> extra >= 8)
      ++extra;
    putSymbol(out, 257 + uint32_t(4 * extra) + (rest >> extra));
    out.put(rest & ((1u << extra) - 1), extra);
  }
  out.putCode(0, 5); // distance 1
}

static std::string deflate(std::string_view bytes) {
  BitWriter out;
  out.put(1, 1); // this is the last block
  out.put(1, 2); // it has the fixed codes
  for (size_t at = 0; at < bytes.size();) {
    size_t run = 0;
    while (at > 0 && run < 258 && at + run < bytes.size() && bytes[at + run] == bytes[at - 1])
      ++run;
    if (run < 3) {
      putSymbol(out, uint8_t(bytes[at++]));
      continue;
    }
    putRepeat(out, uint32_t(run));
    at += run;
  }
  putSymbol(out, 256);
  return out.finish();
}

/// Wraps the deflate block as RFC 1950 says.
static std::string zlibStream(std::string_view bytes) {
  uint32_t a = 1, b = 0; // Adler-32
  for (char byte : bytes) {
    a = (a + uint8_t(byte)) % 65521;
    b = (b + a) % 65521;
  }
  return "\x78\x01" + deflate(bytes) + bigEndian(b << 16 | a);
}

//===----------------------------------------------------------------------===//
// The file
//===----------------------------------------------------------------------===//

static uint32_t crc32(std::string_view bytes) {
  static const auto table = [] {
    std::array<uint32_t, 256> entries{};
    for (uint32_t i = 0; i < 256; ++i) {
      entries[i] = i;
      for (int bit = 0; bit < 8; ++bit)
        entries[i] = entries[i] >> 1 ^ (entries[i] & 1 ? 0xedb88320u : 0);
    }
    return entries;
  }();
  uint32_t crc = ~0u;
  for (char byte : bytes)
    crc = crc >> 8 ^ table[(crc ^ uint8_t(byte)) & 0xff];
  return ~crc;
}

static std::string chunk(const char *type, const std::string &content) {
  std::string body = type + content;
  return bigEndian(uint32_t(content.size())) + body + bigEndian(crc32(body));
}

std::string pngFile(const IndexedImage &image) {
  std::string header = bigEndian(uint32_t(image.width)) + bigEndian(uint32_t(image.height));
  header += {8, 3, 0, 0, 0}; // 8 bits for each pixel, a palette, no interlace
  std::string palette;
  for (Color color : image.palette)
    palette += {char(color.red), char(color.green), char(color.blue)};

  std::string rows;
  for (int y = 0; y < image.height; ++y) {
    const uint8_t *row = &image.pixels[size_t(y) * image.width];
    rows += char(y == 0 ? 0 : 2); // filter of the row: none, or the difference from the row above
    for (int x = 0; x < image.width; ++x)
      rows += char(y == 0 ? row[x] : uint8_t(row[x] - row[x - image.width]));
  }
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", header) + chunk("PLTE", palette) +
         chunk("IDAT", zlibStream(rows)) + chunk("IEND", "");
}

} // namespace tesela::tool
