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

/// Row numbers (b * H + h) * Sq + q, ascending; nullopt: all rows. The reference of a list has B =
/// H = 1 and one query per row.
using RowList = std::optional<std::vector<int64_t>>;

/// hostReference() for `rows` only.
Result<Reference> hostReferenceOf(const RowList &rows, const KernelOptions &options,
                                  const LaunchArguments &arguments, int threads);

/// deviceReference() for `rows` only, by the oracle on the backend's GPU, after earlier work on
/// `stream`. `oracles` caches cubins by their source.
Result<Reference> deviceReferenceOf(const RowList &rows, const Backend &backend,
                                    OnceMap<std::string> &oracles, const KernelOptions &options,
                                    const LaunchArguments &arguments, void *stream);

} // namespace tesela

#endif // TESELA_CHECK_ROWREFERENCE_H
