//===- Diagnostics.cpp ----------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/Diagnostics.h"

#include <algorithm>
#include <tuple>

namespace tesela {
namespace {

/// A text with more errors is most likely not a variant.
constexpr size_t kMaxDiagnostics = 50;
/// A longer line is cut at both sides of the error's place.
constexpr size_t kMaxShownLine = 160;

std::string_view lineOf(std::string_view text, int line) {
  size_t begin = 0;
  for (int i = 1; i < line; ++i) {
    size_t end = text.find('\n', begin);
    if (end == std::string_view::npos)
      return {};
    begin = end + 1;
  }
  std::string_view rest = text.substr(std::min(begin, text.size()));
  rest = rest.substr(0, rest.find('\n'));
  if (!rest.empty() && rest.back() == '\r')
    rest.remove_suffix(1);
  return rest;
}

/// A variant's text must not be able to send control characters to a terminal.
char printable(char c) {
  auto byte = static_cast<unsigned char>(c);
  return c == '\t' || (byte >= 0x20 && byte < 0x7f) ? c : '?';
}

std::string printable(std::string_view text) {
  std::string result(text);
  for (char &c : result)
    c = printable(c);
  return result;
}

void appendSourceLine(std::string &out, std::string_view line, const SourceRange &range) {
  size_t column = static_cast<size_t>(range.begin.column - 1);
  size_t cut =
      column > kMaxShownLine / 2 && line.size() > kMaxShownLine ? column - kMaxShownLine / 2 : 0;
  std::string_view shown = cut < line.size() ? line.substr(cut, kMaxShownLine) : std::string_view();
  size_t caret = column - cut;
  out += "  ";
  out += printable(shown);
  out += "\n  ";
  for (size_t i = 0; i < caret; ++i)
    out += i < shown.size() && shown[i] == '\t' ? '\t' : ' ';
  out += '^';
  size_t length = static_cast<size_t>(std::max(range.length, 1));
  size_t room = shown.size() > caret ? shown.size() - caret : 1;
  out.append(std::min(length, room) - 1, '~');
  out += '\n';
}

} // namespace

void Diagnostics::error(SourceRange range, std::string_view message) {
  ++errors_;
  add(Severity::error, range, message);
}

void Diagnostics::warning(SourceRange range, std::string_view message) {
  add(Severity::warning, range, message);
}

void Diagnostics::note(SourceRange range, std::string_view message) {
  add(Severity::note, range, message);
}

bool Diagnostics::isFull() const { return all_.size() >= kMaxDiagnostics; }

void Diagnostics::add(Severity severity, SourceRange range, std::string_view message) {
  if (!isFull())
    all_.push_back({severity, range, printable(message)});
}

std::vector<Diagnostic> Diagnostics::sorted() const {
  std::vector<Diagnostic> result = all_;
  std::stable_sort(result.begin(), result.end(), [](const Diagnostic &a, const Diagnostic &b) {
    return std::tie(a.range.begin.line, a.range.begin.column) <
           std::tie(b.range.begin.line, b.range.begin.column);
  });
  return result;
}

std::string Diagnostics::render() const {
  std::string out;
  for (const Diagnostic &diagnostic : sorted()) {
    const SourceLocation &at = diagnostic.range.begin;
    out += file_ + ":" + std::to_string(at.line) + ":" + std::to_string(at.column) + ": ";
    out += diagnostic.severity == Severity::error     ? "error: "
           : diagnostic.severity == Severity::warning ? "warning: "
                                                      : "note: ";
    out += diagnostic.message + "\n";
    appendSourceLine(out, lineOf(text_, at.line), diagnostic.range);
  }
  if (isFull())
    out += "more diagnostics are not shown: correct these first\n";
  return out;
}

} // namespace tesela
