//===- Manifest.h - What a bundle holds, as JSON ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_BUNDLE_MANIFEST_H
#define TESELA_BUNDLE_MANIFEST_H

#include "tesela/Bundle.h"
#include "tesela/compiler/Artifact.h"

#include <string>
#include <string_view>
#include <vector>

namespace tesela {

/// The manifest's name in a bundle's folder.
inline constexpr const char *manifestFile = "manifest.json";

/// A larger manifest is none: a variant's text, which it holds, has at most 1 MiB in the command.
inline constexpr size_t maxManifestBytes = size_t(16) << 20;

/// What writeManifest() tells besides what is read back: for people and other programs.
struct ManifestDetails {
  std::vector<Artifact> artifacts; ///< by target, as in BundleInfo::targets
  std::vector<ConstantValue> constants;
  std::vector<std::string> cFiles; ///< of the launcher; none without a GPU's target
};

/// The manifest's text.
std::string writeManifest(const BundleInfo &info, const ManifestDetails &details);

/// Reads what writeManifest() writes; any bytes at all. Code::inputOutput says what is wrong.
Result<BundleInfo> parseManifest(std::string_view text);

/// Some version's manifest, whole or not.
bool looksLikeManifest(std::string_view text);

/// "cubin", "ptx", "object".
std::string_view codeFormatName(CodeFormat format);

} // namespace tesela

#endif // TESELA_BUNDLE_MANIFEST_H
