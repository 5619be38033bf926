//===- Compare.h - Compares some rows with a reference ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_CHECK_COMPARE_H
#define TESELA_CHECK_COMPARE_H

#include "tesela/Check.h"

#include <functional>

namespace tesela {

/// compare() for a sample of rows. `nameOf` describes a row of the reference: "b 0, h 3, q 17".
/// Only the rows' tolerance is used, because it needs only the row's own numbers; the elements'
/// tolerance would need maxima over all of O.
Result<Comparison> compareRows(const Reference &reference, const Tensor &o, const Tensor &lse,
                               const std::function<std::string(int64_t)> &nameOf);

} // namespace tesela

#endif // TESELA_CHECK_COMPARE_H
