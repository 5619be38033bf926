//===- Lexer.cpp ----------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/Lexer.h"

#include <string>

namespace tesela {
namespace {

// These functions do not depend on the locale, unlike <cctype>.
bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool isNamePart(char c) { return isNameStart(c) || isDigit(c); }

class Lexer {
public:
  Lexer(std::string_view text, Diagnostics &diagnostics) : text_(text), diagnostics_(diagnostics) {}

  std::vector<Token> run() {
    while (skipBlanks())
      next();
    add(Token::Kind::end, 0);
    return std::move(tokens_);
  }

private:
  char at(size_t ahead) const {
    return position_ + ahead < text_.size() ? text_[position_ + ahead] : '\0';
  }

  SourceRange range(size_t length) const {
    return {{line_, static_cast<int>(position_ - lineBegin_) + 1}, static_cast<int>(length)};
  }

  void add(Token::Kind kind, size_t length) {
    tokens_.push_back({kind, text_.substr(position_, length), range(length), startsLine_});
    position_ += length;
    startsLine_ = false;
  }

  /// Skips blanks and comments. Returns false at the end of the text.
  bool skipBlanks() {
    while (position_ < text_.size()) {
      char c = at(0);
      if (c == '\n') {
        ++line_;
        lineBegin_ = ++position_;
        startsLine_ = true;
      } else if (c == ' ' || c == '\t' || c == '\r') {
        ++position_;
      } else if (c == '/' && at(1) == '/') {
        while (position_ < text_.size() && at(0) != '\n')
          ++position_;
      } else {
        return true;
      }
    }
    return false;
  }

  void next() {
    if (isNameStart(at(0))) {
      size_t length = 1;
      while (isNamePart(at(length)))
        ++length;
      return add(Token::Kind::name, length);
    }
    if (isDigit(at(0)) || (at(0) == '.' && isDigit(at(1))))
      return number();
    for (std::string_view symbol : {"<=", ">=", "==", "!=", "&&", "||"})
      if (text_.substr(position_, 2) == symbol)
        return add(Token::Kind::symbol, 2);
    if (std::string_view("+-*/%<>!?:=,;()[]{}").find(at(0)) != std::string_view::npos && at(0))
      return add(Token::Kind::symbol, 1);
    unknown();
  }

  void number() {
    size_t length = 0;
    bool isInteger = true;
    while (isDigit(at(length)))
      ++length;
    if (at(length) == '.') {
      isInteger = false;
      ++length;
      while (isDigit(at(length)))
        ++length;
    }
    if (at(length) == 'e' || at(length) == 'E') {
      size_t exponent = length + 1;
      if (at(exponent) == '+' || at(exponent) == '-')
        ++exponent;
      if (isDigit(at(exponent))) {
        isInteger = false;
        length = exponent;
        while (isDigit(at(length)))
          ++length;
      }
    }
    size_t tail = length;
    while (isNamePart(at(tail)))
      ++tail;
    if (tail != length)
      diagnostics_.error(range(tail), "'" + std::string(text_.substr(position_, tail)) +
                                          "' is neither a number nor a name; write the number "
                                          "without a suffix, as 12, 0.5 or 1e-3");
    add(isInteger ? Token::Kind::integer : Token::Kind::number, length);
    position_ += tail - length;
  }

  void unknown() {
    char c = at(0);
    size_t length = 1;
    std::string message;
    if (c == '&' || c == '|') {
      message = std::string("'") + c + "' is not an operator; write '" + c + c + "'";
    } else if (position_ == 0 && text_.starts_with("\xef\xbb\xbf")) {
      length = 3;
      message = "the text begins with a byte order mark; save the file without it";
    } else if (static_cast<unsigned char>(c) >= 0x80) {
      while (static_cast<unsigned char>(at(length)) >= 0x80)
        ++length;
      message = "this is not an ASCII character; only comments may contain other characters";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      message = "there is a control character here; remove it";
    } else {
      message = std::string("'") + c + "' has no meaning in this language; remove it";
    }
    diagnostics_.error(range(length), message);
    // '&' and '|' most likely mean '&&' and '||'. With these tokens the statement can be parsed on.
    bool isLogical = c == '&' || c == '|';
    add(isLogical ? Token::Kind::symbol : Token::Kind::unknown, length);
    if (isLogical)
      tokens_.back().text = c == '&' ? "&&" : "||";
  }

  std::string_view text_;
  Diagnostics &diagnostics_;
  std::vector<Token> tokens_;
  size_t position_ = 0, lineBegin_ = 0;
  int line_ = 1;
  bool startsLine_ = true;
};

} // namespace

std::vector<Token> tokenize(std::string_view text, Diagnostics &diagnostics) {
  return Lexer(text, diagnostics).run();
}

} // namespace tesela
