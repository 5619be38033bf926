//===- Workers.cpp --------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tesela/Workers.h"

#include "api/State.h"
#include "schedule/Workers.h"

namespace tesela {

Result<int64_t> workersFor(const Device &device, const KernelOptions &options,
                           const ProblemSizes &sizes) {
  if (options.algorithm != partsAlgorithm)
    return Error(Code::invalidArgument, "work items share keys only in the algorithm '" +
                                            std::string(partsAlgorithm) + "', not in '" +
                                            options.algorithm + "': use '" +
                                            std::string(partsAlgorithm) + "'");
  if (Status status = checkSizes(sizes, 0); !status)
    return status.error();
  Result<KernelSpecification> specification = makeSpecification(options, device.target);
  if (!specification)
    return specification.error();
  return workersFor(*specification, {.processors = device.processors,
                                     .batch = sizes.batch,
                                     .heads = sizes.heads,
                                     .kvHeads = sizes.kvHeads,
                                     .queries = sizes.length,
                                     .keys = sizes.kvLength});
}

} // namespace tesela
