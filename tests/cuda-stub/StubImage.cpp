//===- StubImage.cpp - Reads PTX and cubins -------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "StubImage.h"

#include <algorithm>
#include <cstring>
#include <elf.h>

namespace tesela::stub {

/// The bytes of a parameter's declaration, "  .param .align 64 .b8 name[128]": 128.
static size_t parameterBytes(const std::string &declaration) {
  for (size_t dot = declaration.find('.'); dot != std::string::npos;
       dot = declaration.find('.', dot + 1)) {
    const char *text = declaration.c_str() + dot + 1;
    int bits = std::strchr("usfb", *text) ? std::atoi(text + 1) : 0;
    size_t bracket = declaration.find('[');
    if (bits > 0)
      return size_t(bits) / 8 *
             (bracket == std::string::npos ? 1 : std::atoi(declaration.c_str() + bracket + 1));
  }
  return 0;
}

bool StubImage::read(const void *image) {
  const char *begin = static_cast<const char *>(image);
  isText = std::memcmp(begin, ELFMAG, SELFMAG) != 0;
  if (isText) {
    bytes = begin;
    return bytes.find(".entry") != std::string::npos;
  }
  Elf64_Ehdr header;
  std::memcpy(&header, begin, sizeof header);
  bytes.assign(begin, std::max(header.e_shoff + size_t(header.e_shnum) * header.e_shentsize,
                               header.e_phoff + size_t(header.e_phnum) * header.e_phentsize));
  return true;
}

const StubImage::Kernel *StubImage::find(const std::string &name) {
  if (auto kernel = known.find(name); kernel != known.end())
    return &kernel->second;
  Kernel kernel{name, {}};
  if (!isText) {
    if (bytes.find('\0' + name + '\0') == std::string::npos)
      return nullptr;
    return &known.emplace(name, std::move(kernel)).first->second;
  }
  size_t entry = bytes.find(".entry " + name + "(");
  if (entry == std::string::npos)
    return nullptr;
  size_t end = bytes.find(')', entry);
  for (size_t begin = bytes.find('(', entry) + 1; begin < end;) {
    size_t comma = std::min(bytes.find(',', begin), end);
    if (size_t size = parameterBytes(bytes.substr(begin, comma - begin)))
      kernel.parameterBytes.push_back(size);
    begin = comma + 1;
  }
  return &known.emplace(name, std::move(kernel)).first->second;
}

} // namespace tesela::stub
