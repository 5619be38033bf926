//===- LanguageTarget.cpp - Any bytes as a variant's text -----------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Parsed, checked and, where it is accepted, emitted: no crash, no hang, no module that does not
// verify.
//
//===----------------------------------------------------------------------===//
#include "frontend/Parser.h"
#include "frontend/emit/Emit.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"

#include <cstdint>
#include <cstdlib>

using namespace tesela;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view text(reinterpret_cast<const char *>(data), size);
  ParseOutcome outcome = parseWithDiagnostics(text, "fuzz.attn");
  if (!outcome.variant)
    return 0;
  // One for all inputs: a context keeps types and attributes, and making one takes longer than a
  // text. Without threads, which would hide who crashed.
  static mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  mlir::OwningOpRef<mlir::ModuleOp> module = emitVariant(*outcome.variant, context);
  if (!module || failed(mlir::verify(*module)))
    std::abort();
  return 0;
}
