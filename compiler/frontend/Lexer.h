//===- Lexer.h - A variant's text as tokens ---------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_FRONTEND_LEXER_H
#define TESELA_FRONTEND_LEXER_H

#include "frontend/Diagnostics.h"

#include <string_view>
#include <vector>

namespace tesela {

struct Token {
  enum class Kind { end, name, integer, number, symbol, unknown };
  Kind kind = Kind::end;
  std::string_view text; ///< a view of the variant's text
  SourceRange range;
  bool startsLine = false; ///< the first token of its line

  bool is(std::string_view symbolOrName) const { return kind != Kind::end && text == symbolOrName; }
};

/// The tokens of `text`, followed by one of Kind::end. Names are ASCII letters,
/// digits and '_'. Integers are decimal. Numbers have a point or an exponent.
/// `//` starts a comment until the end of the line. Other bytes are diagnosed
/// and become tokens of Kind::unknown.
std::vector<Token> tokenize(std::string_view text, Diagnostics &diagnostics);

} // namespace tesela

#endif // TESELA_FRONTEND_LEXER_H
