//===- Diagnostics.h - Errors in a variant's text ---------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_FRONTEND_DIAGNOSTICS_H
#define TESELA_FRONTEND_DIAGNOSTICS_H

#include <string>
#include <string_view>
#include <vector>

namespace tesela {

/// A place in a variant's text. Line and column count from 1; the column counts
/// bytes.
struct SourceLocation {
  int line = 1;
  int column = 1;
};

/// A part of one line.
struct SourceRange {
  SourceLocation begin;
  int length = 1; ///< bytes; at least 1
};

enum class Severity { error, warning, note };

/// An error, warning or note: the place, what is wrong, and how to correct it.
struct Diagnostic {
  Severity severity = Severity::error;
  SourceRange range;
  std::string message;
};

/// Collects the diagnostics of one run over `text`.
class Diagnostics {
public:
  Diagnostics(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  void error(SourceRange range, std::string_view message);
  void warning(SourceRange range, std::string_view message);
  void note(SourceRange range, std::string_view message);

  bool hasErrors() const { return errors_ > 0; }
  /// True if there are so many errors that further diagnostics are not shown.
  bool isFull() const;
  /// All diagnostics, sorted by their places in the text.
  std::vector<Diagnostic> sorted() const;
  /// The text of sorted(): for each one `file:line:column: error: message`, the
  /// line of the source and a caret. Unprintable bytes are shown as '?'.
  std::string render() const;

private:
  void add(Severity severity, SourceRange range, std::string_view message);

  std::string_view text_;
  std::string file_;
  std::vector<Diagnostic> all_;
  int errors_ = 0;
};

} // namespace tesela

#endif // TESELA_FRONTEND_DIAGNOSTICS_H
