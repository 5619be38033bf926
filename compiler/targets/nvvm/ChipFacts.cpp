//===- ChipFacts.cpp - Facts about each GPU ---------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/ChipFacts.h"

namespace tesela {

// A thread block can have a kilobyte less than a multiprocessor: the driver keeps that kilobyte.
static constexpr ChipFacts knownChips[] = {
    // sm, PTX, shared memory of a thread block and of a multiprocessor, PTX of the chip's own ops
    {80, 76, 163 << 10, 164 << 10},     {86, 76, 99 << 10, 100 << 10},
    {87, 76, 163 << 10, 164 << 10},     {89, 78, 99 << 10, 100 << 10},
    {90, 78, 227 << 10, 228 << 10, 80}, {100, 86, 227 << 10, 228 << 10},
    {103, 88, 227 << 10, 228 << 10},    {120, 87, 99 << 10, 100 << 10},
};

Result<ChipFacts> chipFacts(int sm) {
  std::string known;
  for (const ChipFacts &chip : knownChips) {
    if (chip.sm == sm)
      return chip;
    known += (known.empty() ? "sm_" : ", sm_") + std::to_string(chip.sm);
  }
  return Error(Code::unsupported, "sm_" + std::to_string(sm) +
                                      " is not a target of Tesela, which knows " + known +
                                      "; choose one of these or 'host'");
}

} // namespace tesela
