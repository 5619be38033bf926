//===- SimpleSchedule.h - The kernel that is ready soonest ------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_SIMPLESCHEDULE_H
#define TESELA_COMPILER_SIMPLESCHEDULE_H

#include "tesela/compiler/Compile.h"

#include <string>

namespace tesela {

/// Overrides that give `specification` the kernel with the least code. It is compiled and assembled
/// in a half to a fifth of the time of the heuristic's kernel, and is slower. "" if there is no
/// such kernel, or it is not worth it: on the host, for templates other than attention, and for
/// heads wider than 256.
std::string simpleSchedule(const KernelSpecification &specification);

} // namespace tesela

#endif // TESELA_COMPILER_SIMPLESCHEDULE_H
