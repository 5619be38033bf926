//===- LanguageTarget.cpp - Any bytes as a variant's text -----------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Parses and checks a text and, if it is accepted, emits it. It must not crash or hang, and the
// module must verify.
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
  // One context for all inputs: it keeps types and attributes, and making one takes longer than
  // parsing a text. Without threads, so that a crash is in this thread.
  static mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  mlir::OwningOpRef<mlir::ModuleOp> module = emitVariant(*outcome.variant, context);
  if (!module || failed(mlir::verify(*module)))
    std::abort();
  return 0;
}
