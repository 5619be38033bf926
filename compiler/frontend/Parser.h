//===- Parser.h - A variant's text, checked ---------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The language is told, rule by rule, in docs/language.md.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_FRONTEND_PARSER_H
#define TESELA_FRONTEND_PARSER_H

#include "frontend/Diagnostics.h"
#include "frontend/Variant.h"
#include "tesela/Status.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tesela {

/// What a run over a text found.
struct ParseOutcome {
  std::optional<Variant> variant;      ///< absent where there are errors
  std::vector<Diagnostic> diagnostics; ///< errors and warnings, in the text's order
  std::string rendered;                ///< the same with source lines and carets
};

/// Parses and checks `text`, any bytes at all; `file` names it in diagnostics.
ParseOutcome parseWithDiagnostics(std::string_view text, std::string_view file);

/// The same where only the variant matters. Error: Code::invalidVariant with
/// the rendered diagnostics.
Result<Variant> parseVariant(std::string_view text, std::string_view file);

} // namespace tesela

#endif // TESELA_FRONTEND_PARSER_H
