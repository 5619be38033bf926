//===- ArtifactTarget.cpp - Any bytes as an artifact ----------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Reads the bytes as they are, guarded by a checksum. Then reads them as the fields of an artifact
// with a right checksum, so that the checks behind the checksum are tested.
//
//===----------------------------------------------------------------------===//
#include "artifact/Digest.h"
#include "tesela/compiler/Artifact.h"

#include <cstdint>
#include <cstdlib>
#include <string>

using namespace tesela;

/// An artifact's text: magic and version as in an empty artifact, the fields' length, the fields,
/// the checksum.
static std::string sealed(std::string_view fields) {
  static const std::string start = Artifact().serialize().substr(0, 12);
  std::string bytes = start;
  for (int i = 0; i < 8; ++i)
    bytes += static_cast<char>(uint64_t(fields.size()) >> 8 * i);
  bytes += fields;
  return bytes + sha256(bytes);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view text(reinterpret_cast<const char *>(data), size);
  (void)Artifact::deserialize(text);
  std::string bytes = sealed(text);
  auto artifact = Artifact::deserialize(bytes);
  if (!artifact)
    return 0;
  // An artifact has only one serialised form, so what was read must be written in the same way.
  if (artifact->serialize() != bytes)
    std::abort();
  const Extents extents{2147483647, 2147483647, 1, 2147483647, 0};
  const int64_t captured[] = {9223372036854775807, 0, 1};
  for (const Launch &launch : artifact->launches) {
    launch.items.evaluate(extents, captured);
    for (const Expression &extent : launch.extents)
      extent.evaluate(extents, captured);
  }
  for (const Workspace &workspace : artifact->workspaces)
    for (const Expression &extent : workspace.extents)
      extent.evaluate(extents, captured);
  return 0;
}
