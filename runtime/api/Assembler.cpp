//===- Assembler.cpp ------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tesela/Assembler.h"

#include "assemble/Ptxas.h"

namespace tesela {

Assembler assembler() {
  Assembler used;
  if (std::optional<Ptxas> ptxas = Ptxas::find()) {
    std::string identity = ptxas->identity(); // without a version: the file's path, size and time
    used = {Assembler::Kind::ptxas, ptxas->path(),
            identity.starts_with("release ") ? identity : ""};
  }
  return used;
}

} // namespace tesela
