//===- ChipSpeeds.cpp - How fast each GPU is --------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/ChipSpeeds.h"

namespace tesela {

// Behind each row stands the part whose figures it has.
static constexpr ChipSpeeds knownSpeeds[] = {
    {80, 108, 1.41, 2048, 0, 16, 64, int64_t(40) << 20, 1.6e12},   // A100
    {86, 84, 1.70, 1024, 0, 16, 128, int64_t(6) << 20, 0.77e12},   // A40, RTX 3090 (half of this)
    {87, 16, 1.30, 1024, 0, 16, 128, int64_t(4) << 20, 0.2e12},    // Orin
    {89, 142, 2.50, 1024, 0, 16, 128, int64_t(96) << 20, 0.86e12}, // L40S
    {90, 132, 1.70, 2048, 4096, 16, 128, int64_t(50) << 20, 4.25e12}, // H200, as measured
    {100, 148, 1.85, 2048, 0, 16, 128, int64_t(126) << 20, 7.7e12},   // B200, without tcgen05
    {103, 148, 1.85, 2048, 0, 32, 128, int64_t(126) << 20, 7.7e12},   // B300, without tcgen05
    {120, 170, 2.40, 1024, 0, 16, 128, int64_t(96) << 20, 1.79e12},   // RTX 5090 (half of this)
};

Result<ChipSpeeds> chipSpeeds(int sm) {
  std::string known;
  for (const ChipSpeeds &chip : knownSpeeds) {
    if (chip.sm == sm)
      return chip;
    known += (known.empty() ? "sm_" : ", sm_") + std::to_string(chip.sm);
  }
  return Error(Code::unsupported, "the speeds of sm_" + std::to_string(sm) +
                                      " are not known, those of " + known + " are");
}

} // namespace tesela
