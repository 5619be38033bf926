//===- Compare.h - A result beside some rows of a reference -----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_CHECK_COMPARE_H
#define TESELA_CHECK_COMPARE_H

#include "tesela/Check.h"

#include <functional>

namespace tesela {

/// compare() of rows that are a sample of others. `nameOf` tells where a row of the reference
/// stands: "b 0, h 3, q 17". The elements' tolerance, whose maxima are over all of O, does not
/// count, only that of each row: it needs nothing but the row's own numbers.
Result<Comparison> compareRows(const Reference &reference, const Tensor &o, const Tensor &lse,
                               const std::function<std::string(int64_t)> &nameOf);

} // namespace tesela

#endif // TESELA_CHECK_COMPARE_H
