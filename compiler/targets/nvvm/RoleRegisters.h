//===- RoleRegisters.h - The registers of each role -------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_ROLEREGISTERS_H
#define TESELA_COMPILER_TARGETS_NVVM_ROLEREGISTERS_H

#include "targets/nvvm/Passes.h"

namespace tesela::nvvm {

/// Gives the warpgroup of the finder and the producer, whose programs must be there, the registers
/// that they need, and the consumers the rest of what all enter with (PTX ISA, "setmaxnreg").
void dealRegisters(pipe::RolesOp roles, tile::ScheduleAttr schedule);

/// Gives two consumers eight registers more, of the producer's, which may then spill: where the
/// consumers would spill their tiles. False where the roles are others.
bool dealConsumersMore(pipe::RolesOp roles);

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_ROLEREGISTERS_H
