//===- Assembler.cpp ------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tesela/Assembler.h"

#include "assemble/Ptxas.h"

namespace tesela {

Assembler assembler() {
  Assembler used;
  if (std::optional<Ptxas> ptxas = Ptxas::find())
    used = {Assembler::Kind::ptxas, ptxas->path(), ptxas->identity()};
  return used;
}

} // namespace tesela
