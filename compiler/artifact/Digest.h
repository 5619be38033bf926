//===- Digest.h - SHA-256 ---------------------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_ARTIFACT_DIGEST_H
#define TESELA_ARTIFACT_DIGEST_H

#include <string>
#include <string_view>

namespace tesela {

/// SHA-256 of `bytes` (FIPS 180-4): 32 raw bytes.
std::string sha256(std::string_view bytes);

/// The same as 64 hexadecimal digits.
std::string sha256Hex(std::string_view bytes);

} // namespace tesela

#endif // TESELA_ARTIFACT_DIGEST_H
