//===- Workers.h - How many work items share keys ---------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_WORKERS_H
#define TESELA_WORKERS_H

#include "tesela/Device.h"
#include "tesela/Variant.h"

namespace tesela {

/// The best number of work items among which a kernel of "forward_in_parts" shares its keys on
/// `device`: N of the binding "workers=N", which decides the launch's grid and its workspaces.
///
/// `options`: the kernel's, without that binding. Compile the kernel with sizes.length as its
/// expectedQueries, because that decides its thread blocks. `sizes`: of a launch, as far as the
/// host knows them; length and kvLength are upper bounds of a sequence's queries and keys.
/// Code::invalidArgument: a size is negative or the heads are no multiple of the key/value heads,
/// or the algorithm is not "forward_in_parts".
TESELA_EXPORT Result<int64_t> workersFor(const Device &device, const KernelOptions &options,
                                         const ProblemSizes &sizes);

} // namespace tesela

#endif // TESELA_WORKERS_H
