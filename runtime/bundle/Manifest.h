//===- Manifest.h - A bundle's contents, as JSON ----------------*- C++ -*-===//
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

/// A larger file is not a manifest: it contains the variant's text, in the command at most 1 MiB.
inline constexpr size_t maxManifestBytes = size_t(16) << 20;

/// What writeManifest() writes for people and other programs, in addition to what is read back.
struct ManifestDetails {
  std::vector<Artifact> artifacts; ///< one per target, in the order of BundleInfo::targets
  std::vector<ConstantValue> constants;
  std::vector<std::string> cFiles; ///< the launcher's files; empty without a target for GPUs
};

/// The text of the manifest.
std::string writeManifest(const BundleInfo &info, const ManifestDetails &details);

/// Reads what writeManifest() writes. `text` may be any bytes. Code::inputOutput says what is
/// wrong.
Result<BundleInfo> parseManifest(std::string_view text);

/// Whether `text` is the manifest of any version, complete or not.
bool looksLikeManifest(std::string_view text);

/// "cubin", "ptx", "object".
std::string_view codeFormatName(CodeFormat format);

} // namespace tesela

#endif // TESELA_BUNDLE_MANIFEST_H
