//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "bundle/CExpressions.h"

#include <fmt/format.h>

#include <algorithm>

namespace tesela {

namespace {

/// Reads a text that Expression::parse() has accepted, and writes it with functions.
template <typename Join, typename Name, typename Capture> class Translator {
public:
  Translator(std::string_view text, Join join, Name name, Capture capture)
      : rest(text), join(join), name(name), capture(capture) {}

  /// Translates the expression at the front of the text.
  std::string next() {
    std::string_view first = token();
    if (first == "(") {
      std::string_view symbol = token();
      std::string left = next();
      std::string right = next();
      token();
      return join(symbol, left, right);
    }
    if (first.starts_with('$')) {
      size_t dot = first.rfind('.');
      return capture(first.substr(1, dot - 1), first.substr(dot + 1));
    }
    bool isNumber = first.find_first_not_of("-0123456789") == first.npos;
    return isNumber ? std::string(first) : name(first);
  }

private:
  std::string_view rest;
  Join join;
  Name name;
  Capture capture;

  std::string_view token() {
    rest.remove_prefix(std::min(rest.find_first_not_of(" \t\n"), rest.size()));
    bool isParenthesis = rest.starts_with('(') || rest.starts_with(')');
    size_t length = isParenthesis ? 1 : std::min(rest.find_first_of(" \t\n()"), rest.size());
    std::string_view found = rest.substr(0, length);
    rest.remove_prefix(length);
    return found;
  }
};

} // namespace

std::string expressionInC(const Expression &expression, std::string_view extents) {
  // Plans add -1 to a number of parts and to a quotient, and have no other negative numbers.
  std::string_view text = expression.text();
  for (size_t at = text.find('-'); at != text.npos; at = text.find('-', at + 1))
    if (!text.substr(0, at).ends_with("(+ "))
      return "";
  Translator translator(
      expression.text(),
      [](std::string_view symbol, const std::string &left, const std::string &right) {
        const char *function = symbol == "+"     ? "plus"
                               : symbol == "*"   ? "times"
                               : symbol == "max" ? "greater"
                                                 : "ceil_divide";
        return fmt::format("{}({}, {})", function, left, right);
      },
      [&](std::string_view name) { return fmt::format("{}{}", extents, name); },
      [](std::string_view capture, std::string_view axis) {
        return fmt::format("c->capture_{}.extents[{}]", capture, axis);
      });
  return translator.next();
}

std::string expressionForReaders(const Expression &expression) {
  Translator translator(
      expression.text(),
      [](std::string_view symbol, const std::string &left, const std::string &right) {
        if (symbol == "max")
          return fmt::format("max({}, {})", left, right);
        auto operand = [](const std::string &text) {
          return text.find(' ') == text.npos ? text : "(" + text + ")";
        };
        const char *sign = symbol == "ceildiv" ? "ceil/" : symbol == "+" ? "+" : "*";
        return fmt::format("{} {} {}", operand(left), sign, operand(right));
      },
      [](std::string_view name) { return std::string(name); },
      [](std::string_view capture, std::string_view axis) {
        return fmt::format("{}.extents[{}]", capture, axis);
      });
  return translator.next();
}

} // namespace tesela
