//===- AssemblerVersions.h - What programs said of themselves ---*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A cache key names the version of ptxas. To ask the program takes 3 to 6 ms, more than all else that a
// process does for a kernel that lies in a cache. So what it said is kept in a file:
//
//   release 13.0, V13.0.88, Build …<tab>/usr/local/cuda/bin/ptxas 33112456 1755024000.0
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_ASSEMBLE_ASSEMBLERVERSIONS_H
#define TESELA_ASSEMBLE_ASSEMBLERVERSIONS_H

#include <optional>
#include <string>

namespace tesela {

/// The file at `path`. What cannot be read or written there is as good as not there: the program is
/// asked. Safe to call from several processes: each writes the whole file at once, and the last one
/// counts.
class AssemblerVersions {
public:
  explicit AssemblerVersions(std::string path) : path(std::move(path)) {}

  /// The version of `file`, its path with its size and its time of change; empty: not known.
  std::optional<std::string> find(const std::string &file) const;
  /// Adds it. Makes the folder where it is missing.
  void add(const std::string &file, const std::string &version) const;

private:
  std::string text() const;

  std::string path;
};

} // namespace tesela

#endif // TESELA_ASSEMBLE_ASSEMBLERVERSIONS_H
