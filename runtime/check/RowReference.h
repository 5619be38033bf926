//===- RowReference.h - The references of some rows -------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_CHECK_ROWREFERENCE_H
#define TESELA_CHECK_ROWREFERENCE_H

#include "backend/Backend.h"
#include "cache/OnceMap.h"
#include "tesela/Check.h"

#include <optional>
#include <vector>

namespace tesela {

/// Numbers (b * H + h) * Sq + q, ascending; none: all rows. The reference of a list has B and H of
/// 1, and one query a row.
using RowList = std::optional<std::vector<int64_t>>;

/// hostReference() of `rows` alone.
Result<Reference> hostReferenceOf(const RowList &rows, const KernelOptions &options,
                                  const LaunchArguments &arguments, int threads);

/// deviceReference() of `rows` alone, by the oracle on the backend's GPU: behind what `stream` was
/// given before. `oracles` keeps cubins by their source.
Result<Reference> deviceReferenceOf(const RowList &rows, const Backend &backend,
                                    OnceMap<std::string> &oracles, const KernelOptions &options,
                                    const LaunchArguments &arguments, void *stream);

} // namespace tesela

#endif // TESELA_CHECK_ROWREFERENCE_H
