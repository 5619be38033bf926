//===- AssemblerVersions.h - Known versions of ptxas ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A cache key contains the version of ptxas. Asking the program takes 3 to 6 ms, more than anything
// else that a process does to load a cached kernel. So its answer is kept in a file:
//
//   release 13.0, V13.0.88, Build …<tab>/usr/local/cuda/bin/ptxas 33112456 1755024000.0
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_ASSEMBLE_ASSEMBLERVERSIONS_H
#define TESELA_ASSEMBLE_ASSEMBLERVERSIONS_H

#include <optional>
#include <string>

namespace tesela {

/// The file at `path`. If it cannot be read or written, the program is asked instead. Several
/// processes may use it at the same time: each writes the whole file at once, and the last one
/// wins.
class AssemblerVersions {
public:
  explicit AssemblerVersions(std::string path) : path(std::move(path)) {}

  /// The version of `file` (path, size and modification time); nullopt if it is not known.
  std::optional<std::string> find(const std::string &file) const;
  /// Adds an entry. Creates the folder if it is missing.
  void add(const std::string &file, const std::string &version) const;

private:
  std::string text() const;

  std::string path;
};

} // namespace tesela

#endif // TESELA_ASSEMBLE_ASSEMBLERVERSIONS_H
