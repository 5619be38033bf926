//===- SimpleSchedule.h - The kernel that is there soonest ------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_SIMPLESCHEDULE_H
#define TESELA_COMPILER_SIMPLESCHEDULE_H

#include "tesela/compiler/Compile.h"

#include <string>

namespace tesela {

/// Overrides that give `specification` the kernel with the least code: it is compiled and assembled
/// in a half to a fifth of the time that the heuristic's takes, and is slower. "": there is none
/// that is worth it: on the host, for other templates than attention's, and for heads wider than
/// 256.
std::string simpleSchedule(const KernelSpecification &specification);

} // namespace tesela

#endif // TESELA_COMPILER_SIMPLESCHEDULE_H
