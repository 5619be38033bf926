//===- LanguageTest.cpp - The examples of docs/language.md ----------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// ```attn blocks are variants, or a few statements of one. They must be accepted.
// ```attn-error blocks must be rejected, with the message that the comment in
// their last line quotes.
//
//===----------------------------------------------------------------------===//
#include "frontend/Parser.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

using namespace tesela;

namespace {

struct Example {
  int line;
  bool isError;
  std::string text;
};

std::vector<Example> examples() {
  std::vector<Example> result;
  std::ifstream file(TESELA_LANGUAGE);
  std::string line;
  bool isInside = false;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line == "```attn" || line == "```attn-error") {
      result.push_back({number, line == "```attn-error", ""});
      isInside = true;
    } else if (line == "```") {
      isInside = false;
    } else if (isInside) {
      result.back().text += line + "\n";
    }
  }
  return result;
}

} // namespace

TEST(Language, EveryExampleDoesWhatThePageSays) {
  std::vector<Example> all = examples();
  EXPECT_GE(all.size(), 30u) << "examples are missing";
  for (const Example &example : all) {
    std::string text = example.text;
    if (text.find("attention") == std::string::npos)
      text = "attention example {\n" + text + "}\n";
    ParseOutcome outcome = parseWithDiagnostics(text, "language.md");
    EXPECT_EQ(outcome.variant.has_value(), !example.isError)
        << "docs/language.md:" << example.line << "\n"
        << outcome.rendered;
    if (!example.isError)
      continue;
    size_t comment = example.text.rfind("// ");
    ASSERT_NE(comment, std::string::npos) << "docs/language.md:" << example.line;
    std::string message = example.text.substr(comment + 3);
    message.pop_back();
    EXPECT_NE(outcome.rendered.find(message), std::string::npos)
        << "docs/language.md:" << example.line << "\n"
        << outcome.rendered;
  }
}
