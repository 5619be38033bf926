//===- ForeignWords.h - Words of other languages ----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_FRONTEND_FOREIGNWORDS_H
#define TESELA_FRONTEND_FOREIGNWORDS_H

#include <string_view>

namespace tesela {

/// What the language writes for a word of Python, of NumPy or of FlexAttention's functions, from
/// which many masks are translated. Empty: `word` is none of them.
inline std::string_view writtenFor(std::string_view word) {
  constexpr std::string_view words[][2] = {
      {"and", "&&"},         {"or", "||"},           {"not", "!"},       {"if", "c ? x : y"},
      {"else", "c ? x : y"}, {"where", "c ? x : y"}, {"maximum", "max"}, {"minimum", "min"},
      {"q_idx", "q"},        {"kv_idx", "k"},
  };
  for (const auto &[foreign, own] : words)
    if (foreign == word)
      return own;
  return {};
}

} // namespace tesela

#endif // TESELA_FRONTEND_FOREIGNWORDS_H
