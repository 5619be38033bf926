//===- Parser.h - A variant's text, checked ---------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// docs/language.md describes the language.
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

/// The result of parsing a text.
struct ParseOutcome {
  std::optional<Variant> variant;      ///< absent if there are errors
  std::vector<Diagnostic> diagnostics; ///< errors and warnings, in the order of the text
  std::string rendered;                ///< the diagnostics with source lines and carets
};

/// Parses and checks `text`, which may be any bytes. `file` is its name in diagnostics.
ParseOutcome parseWithDiagnostics(std::string_view text, std::string_view file);

/// The same for callers that need only the variant. Error: Code::invalidVariant
/// with the rendered diagnostics.
Result<Variant> parseVariant(std::string_view text, std::string_view file);

} // namespace tesela

#endif // TESELA_FRONTEND_PARSER_H
