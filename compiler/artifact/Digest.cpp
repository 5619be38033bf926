//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "artifact/Digest.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/SHA256.h"

namespace tesela {

std::string sha256(std::string_view bytes) {
  llvm::SHA256 hash;
  hash.update(llvm::StringRef(bytes.data(), bytes.size()));
  std::array<uint8_t, 32> digest = hash.final();
  return std::string(reinterpret_cast<const char *>(digest.data()), digest.size());
}

std::string sha256Hex(std::string_view bytes) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (unsigned char byte : sha256(bytes)) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

} // namespace tesela
