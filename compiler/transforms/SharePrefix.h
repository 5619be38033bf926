//===- SharePrefix.h - A variant over a prefix and behind it ----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TRANSFORMS_SHAREPREFIX_H
#define TESELA_COMPILER_TRANSFORMS_SHAREPREFIX_H

#include "attn/Attn.h"
#include "tile/SharedPrefix.h"

#include "mlir/IR/OwningOpRef.h"

namespace tesela {

/// A copy of `variant`, changed for the hooks of a kernel of kind `part` (tile-share-prefix).
mlir::OwningOpRef<attn::VariantOp> variantOf(tile::PrefixPart part, attn::VariantOp variant);

} // namespace tesela

#endif // TESELA_COMPILER_TRANSFORMS_SHAREPREFIX_H
