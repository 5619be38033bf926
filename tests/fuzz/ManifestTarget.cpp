//===- ManifestTarget.cpp - Any bytes as a bundle's manifest --------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Reads the bytes as they are. Then reads them as a manifest with the right digest of its variant,
// which mutations would not find, so that the checks behind the digest are tested.
//
//===----------------------------------------------------------------------===//
#include "artifact/Digest.h"
#include "bundle/Manifest.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstdlib>
#include <set>

using namespace tesela;

/// Checks what the loader relies on.
static void check(std::string_view text) {
  Result<BundleInfo> info = parseManifest(text);
  if (!info)
    return;
  if (!looksLikeManifest(text) || info->targets.empty())
    std::abort();
  std::set<std::string> names;
  for (const BundleTarget &target : info->targets) {
    bool staysInside = target.file.find('/') == std::string::npos && !target.file.empty() &&
                       target.file != "." && target.file != ".." &&
                       target.file.find('\0') == std::string::npos;
    if (!staysInside || target.digest.size() != 64 || !Target::parse(target.target) ||
        !names.insert(target.target).second)
      std::abort();
  }
}

static std::string sealed(std::string_view text) {
  nlohmann::json document = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object() || !document.contains("variant") || !document["variant"].is_object())
    return "";
  nlohmann::json &variant = document["variant"];
  if (!variant.contains("text") || !variant["text"].is_string())
    return "";
  variant["digest"] = sha256Hex(variant["text"].get<std::string>());
  return document.dump();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view text(reinterpret_cast<const char *>(data), size);
  check(text);
  check(sealed(text));
  return 0;
}
