//===- Safetensors.h - Reads and writes .safetensors files ------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The format (github.com/huggingface/safetensors): eight bytes with the header's length N, little
// endian; N bytes of JSON, {"name": {"dtype": "BF16", "shape": [..], "data_offsets": [begin, end]},
// ...}; then the data, row-major without gaps. The tensors must cover the data exactly: nothing
// overlaps and no byte is left over. A file is checked before it is used.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TOOLS_SAFETENSORS_H
#define TESELA_TOOLS_SAFETENSORS_H

#include "HostTensor.h"

#include "tesela/Status.h"

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tesela::tool {

/// An opened file: the header is read and checked, the data is read on demand.
class SafetensorsFile {
public:
  struct Entry {
    std::string dtype;               ///< as the file names it: "BF16"
    std::optional<ElementType> type; ///< empty if Tesela has no such type
    std::vector<int64_t> shape;
    uint64_t begin = 0, end = 0; ///< bytes from the start of the data
  };

  /// Code::inputOutput if the file cannot be read or is damaged; the message says where.
  static Result<SafetensorsFile> open(const std::string &path);

  const std::map<std::string, Entry> &entries() const { return entries_; }
  bool contains(const std::string &name) const { return entries_.count(name) != 0; }

  /// The tensor called `name`: F32, F16, BF16, I32 or BOOL (each byte becomes 0 or 1), of rank
  /// 8 at most. Code::notFound lists what the file holds.
  Result<HostTensor> read(const std::string &name) const;

private:
  struct Close {
    void operator()(std::FILE *file) const { std::fclose(file); }
  };
  std::string path;
  std::unique_ptr<std::FILE, Close> file;
  uint64_t dataStart = 0;
  std::map<std::string, Entry> entries_;
};

/// Writes `tensors` to `path`, as writeFile does. They must be in host memory, row-major and
/// without gaps.
Status writeSafetensors(const std::string &path,
                        const std::vector<std::pair<std::string, Tensor>> &tensors);

} // namespace tesela::tool

#endif // TESELA_TOOLS_SAFETENSORS_H
