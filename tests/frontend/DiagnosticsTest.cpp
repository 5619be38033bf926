//===- DiagnosticsTest.cpp - Errors in a variant's text -------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/Parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace tesela;
using testing::HasSubstr;

namespace {

struct Case {
  const char *text;
  int line, column;
  const char *message; ///< a part of the expected message
};

void PrintTo(const Case &value, std::ostream *stream) { *stream << value.text; }

/// Each text has exactly one error, at the given place.
class OneError : public testing::TestWithParam<Case> {};

TEST_P(OneError, StandsAtItsPlaceAndNamesTheRemedy) {
  const Case &expected = GetParam();
  ParseOutcome outcome = parseWithDiagnostics(expected.text, "v.attn");
  EXPECT_FALSE(outcome.variant.has_value());
  ASSERT_EQ(outcome.diagnostics.size(), 1u) << outcome.rendered;
  const Diagnostic &found = outcome.diagnostics[0];
  EXPECT_EQ(found.severity, Severity::error);
  EXPECT_EQ(found.range.begin.line, expected.line) << outcome.rendered;
  EXPECT_EQ(found.range.begin.column, expected.column) << outcome.rendered;
  EXPECT_THAT(found.message, HasSubstr(expected.message));
}

const Case kNames[] = {
    {"attention t { mask = qq >= k }", 1, 22, "did you mean 'q'?"},
    {"attention t(window: i32 = 1) { mask = q - k < windw }", 1, 47, "did you mean 'window'?"},
    {"attention t { mask = q < sk }", 1, 26, "did you mean 'Sk'?"},
    {"attention t { score = s * zebra }", 1, 27, "declare it as a parameter, or with 'let'"},
    {"attention t { score = tanhh(s) }", 1, 23, "did you mean 'tanh'?"},
    {"attention t { score = gelu(s) }", 1, 23, "the functions are abs clamp cos"},
    {"attention t { mask = not (q > k) }", 1, 22, "there is no function 'not'; write '!'"},
    {"attention t { mask = q_idx > k }", 1, 22, "'q_idx' is not in scope; write 'q'"},
    {"attention t { score = where(q > k, s, 0) }", 1, 23, "write 'c ? x : y'"},
    {"attention t { score = if q > k then s else 0 }", 1, 23, "'if' is not in scope; write 'c ?"},
    {"attention t(slope: f32[H]) { score = s + slop[h] }", 1, 42, "did you mean 'slope'?"},
    {"attention t { score = s + bias[h] }", 1, 27, "as 'bias: f32[H]'"},
    {"attention t { mask = s > 0 }", 1, 22, "masks are exact on every target"},
    {"attention t { let a = s * 2\n mask = a > 0 }", 2, 9, "is computed from 's'"},
    {"attention t { let a = c\n let c = 1\n score = s + a + c }", 1, 23, "not in scope"},
    {"attention t { let q = 1\n mask = q > 0 }", 1, 19, "a word of the language"},
    {"attention t(q: i32) { mask = q > 0 }", 1, 13, "a word of the language"},
    {"attention t(a: f32[1, 2, 3, 4, 5, 6, 7, 8, H]) { score = s }", 1, 44, "at most 8 axes"},
    {"attention t(a: i32, a: f32) { mask = a > 0 }", 1, 21, "already declared in line 1"},
    {"attention t(a: i32) {\n let a = 1\n mask = a > 0 }", 2, 6, "already declared in line 1"},
    {"attention t { mask = true\n mask = false }", 2, 2, "join them in one with '&&'"},
    {"attention t { score = s\n score = s }", 2, 2, "the variant has two scores"},
    {"attention t { maks = q >= k }", 1, 15, "did you mean 'mask'?"},
    {"attention t { x = q >= k }", 1, 15, "write 'let x = ...'"},
};
INSTANTIATE_TEST_SUITE_P(Names, OneError, testing::ValuesIn(kNames));

const Case kTypes[] = {
    {"attention t { mask = q }", 1, 15, "compare it"},
    {"attention t { score = q < k }", 1, 15, "'mask = ...'"},
    {"attention t { mask = q && k > 0 }", 1, 24, "compare it, for example with '!= 0'"},
    {"attention t { mask = !q }", 1, 22, "the operand of '!' must be bool, but it is i32"},
    {"attention t { mask = 0 < q < k }", 1, 28, "comparisons do not chain"},
    {"attention t { score = s + (q < k) }", 1, 25, "write 'c ? 1 : 0'"},
    {"attention t { score = s % 2 }", 1, 25, "x - floor(x / y) * y"},
    {"attention t { score = q ? s : 0 }", 1, 25, "the condition of '?'"},
    {"attention t { score = exp(q < k) }", 1, 23, "write 'c ? 1 : 0'"},
    {"attention t { score = min(s) }", 1, 23, "takes 2 arguments, but 1 is given"},
    {"attention t { score = exp(s, s) }", 1, 23, "takes 1 argument, but 2 are given"},
    {"attention t(t: f32[H]) { score = t[0.5] }", 1, 34, "write 'int(...)'"},
    {"attention t(t: f32[H]) { score = t[h, k] }", 1, 34, "has 1 axis, but 2 indices are given"},
    {"attention t(t: f32[H]) { score = s + t }", 1, 38, "read one element with 't[...]'"},
    {"attention t(x: f32) { score = s + x[h] }", 1, 35, "is not a tensor"},
    {"attention t(d: bool[Sk]) { mask = d[k] > 0 }", 1, 40, "comparisons do not chain"},
    {"attention t(d: bf16[Sk]) { mask = d[k] && k > 0 }", 1, 40, "compare it"},
};
INSTANTIATE_TEST_SUITE_P(Types, OneError, testing::ValuesIn(kTypes));

const Case kSyntax[] = {
    {"", 1, 1, "a variant begins with 'attention name(...) {'"},
    {"attention { }", 1, 11, "write the variant's name"},
    {"atention t { mask = q > k }", 1, 1, "did you mean 'attention'?"},
    {"attention t(w: f23) { score = s + w }", 1, 16, "did you mean 'f32'?"},
    {"attention t(w: boolean[H]) { mask = w[h] }", 1, 16, "hold i32, f32, f16, bf16 or bool"},
    {"attention t(wide: i32[H]) { mask = wdie[h] == k }", 1, 36, "did you mean 'wide'?"},
    {"attention t { let lenght = q\n mask = length > lenght + k }", 2, 9, "did you mean 'lenght'?"},
    {"attention t { masc = q > k }", 1, 15, "did you mean 'mask'?"},
    {"attention t( { mask = true }", 1, 14, "to close the parameters"},
    {"attention t { mask = q = k }", 1, 24, "write '==' to compare"},
    {"attention t { mask = q >= k & k > 0 }", 1, 29, "write '&&'"},
    {"attention t { mask = q >= k || }", 1, 32, "a value is missing before '}'"},
    {"attention t {\n mask = q >=\n score = s }", 3, 2, "which begins a statement"},
    {"attention t { mask = (q >= k }", 1, 30, "to close the '(' in line 1"},
    {"attention t { mask = q >= k", 1, 28, "to close the variant's body, not the end of the text"},
    {"attention t { mask = q > k q < k }", 1, 28, "write an operator before 'q'"},
    {"attention t { mask = q > k and q < 4 }", 1, 28, "'and' is not an operator; write '&&'"},
    {"attention t { mask = q > k or q < 4 }", 1, 28, "'or' is not an operator; write '||'"},
    {"attention t { mask = q > k maximum 3 }", 1, 28,
     "write an operator before 'maximum', or end the statement before it with a new line or ';'"},
    {"attention t { score = s if q > k else 0 }", 1, 25, "write 'c ? x : y'"},
    {"attention t { mask = true } attention u { }", 1, 29, "a text holds one variant"},
    {"attention t { score = s * 0x10 }", 1, 27, "neither a number nor a name"},
    {"attention t { score = s @ 2 }", 1, 25, "has no meaning in this language"},
    {"attention t { score = s * \xc3\xa9 2 }", 1, 27, "only comments may contain other characters"},
    {"\xef\xbb\xbf"
     "attention t { score = s }",
     1, 1, "begins with a byte order mark; save"},
    {"attention t { mask = k < 2147483648 }", 1, 26, "does not fit i32"},
    {"attention t { mask = k < 99999999999999999999999 }", 1, 26, "does not fit i32"},
    {"attention t { score = s * 1e39 }", 1, 27, "does not fit f32"},
    {"attention t { score = q < k ? s }", 1, 33, "write ':' and the other value"},
    {"attention t { let = 3 }", 1, 19, "let name = value"},
    {"attention t { 3 }", 1, 15, "statements are 'let name = ...'"},
    {"attention t(w) { }", 1, 14, "write ':' and a type"},
    {"attention t(w: int) { }", 1, 16, "is not a type; scalars are i32 or f32"},
    {"attention t(d: bool) { mask = d }", 1, 16, "take an i32 and compare it"},
    {"attention t(d: f16) { score = s + d }", 1, 16, "take an f32"},
    {"attention t(w: i32 = 0.5) { mask = k < w }", 1, 22, "the default of an i32 is an integer"},
    {"attention t(w: i32 = k) { mask = k < w }", 1, 22, "a default is a number"},
    {"attention t(w: i32[H] = 3) { mask = k < w[h] }", 1, 23, "has no default"},
    {"attention t(t: f32[]) { score = t[h] }", 1, 20, "write an extent as"},
    {"attention t(t: f32[0]) { score = t[h] }", 1, 20, "from 1 to 2147483647"},
    {"attention t(t: f32[0, H], u: i32) { score = t[h, u] }", 1, 20, "from 1 to 2147483647"},
    {"attention t(t: f32[H, ?, Sk], u: i32) { score = t[h, 0, u] }", 1, 23, "write an extent as"},
    {"attention t(t: f32[h]) { score = t[h] }", 1, 20, "did you mean 'H'?"},
    {"attention t(w: i32, t: f32[w]) { score = t[w] }", 1, 28, "'w' is not an extent"},
};
INSTANTIATE_TEST_SUITE_P(Syntax, OneError, testing::ValuesIn(kSyntax));

// The names that a captured tensor's shape binds are values, and follow the rules of other names.
const Case kBoundExtents[] = {
    {"attention t(t: f32[M], M: i32) { mask = k < M\n score = t[k] }", 1, 24,
     "'M' is an extent that the shape of 't' binds in line 1; choose another name"},
    {"attention t(t: f32[M]) {\n let M = 3\n mask = k < M\n score = t[k] }", 2, 6,
     "'M' is an extent that the shape of 't' binds in line 1; choose another name"},
    {"attention t(t: f32[M]) { score = t[k] + sum(M < 4: M) }", 1, 45, "'M' is an extent that"},
    {"attention t(t: f32[Sq, u], u: f32[M]) { score = t[q, k] }", 1, 28,
     "'u' is an extent that the shape of 't' binds"},
    {"attention t(t: f32[t]) { score = t[k] }", 1, 20, "'t' is already declared in line 1"},
    {"attention t(t: f32[min]) { score = t[k] }", 1, 20, "'min' is a word of the language"},
    {"attention t(t: f32[M]) { score = M[k] + t[k] }", 1, 34, "'M' is not a tensor"},
    {"attention t(t: f32[M]) { mask = M\n score = t[k] }", 1, 26,
     "a mask must be bool, this one is i32"},
    {"attention t(t: f32[Many]) { mask = k < Mny\n score = t[k] }", 1, 40, "did you mean 'Many'?"},
    {"attention t(t: f32[2*M]) { score = M < k }", 1, 28, "a score must be a number"},
};
INSTANTIATE_TEST_SUITE_P(BoundExtents, OneError, testing::ValuesIn(kBoundExtents));

const Case kConstants[] = {
    {"attention t(const t: f32[H]) { score = s + t[h] }", 1, 13, "leave 'const' out"},
    {"attention t(const w: i32 = k) { mask = k < w }", 1, 28, "a default is a number"},
    {"attention t(const: i32) { mask = k < 1 }", 1, 13, "'const' is a word of the language"},
};
INSTANTIATE_TEST_SUITE_P(Constants, OneError, testing::ValuesIn(kConstants));

const Case kSinks[] = {
    {"attention t { sink = s }", 1, 22, "'s' is not in scope in a sink"},
    {"attention t { sink = 1.0 * k }", 1, 28, "'k' is not in scope in a sink"},
    {"attention t { let d = q - k\n sink = d }", 2, 9,
     "'d' is computed from 'k' and so is not in scope"},
    {"attention t { sink = q > 3 }", 1, 15, "write 'c ? x : -inf'"},
    {"attention t { sink = 1\n sink = 2 }", 2, 2, "the variant has two sinks"},
    {"attention t { snk = 1 }", 1, 15, "did you mean 'sink'?"},
    {"attention t { sink 1 }", 1, 20, "write '=' after 'sink'"},
};
INSTANTIATE_TEST_SUITE_P(Sinks, OneError, testing::ValuesIn(kSinks));

const Case kReductions[] = {
    {"attention t { mask = any(k == 4) }", 1, 26, "write a reduction as 'any(i < M: ...)'"},
    {"attention t { mask = any(4 < k: true) }", 1, 26, "with a new name for i, not '4'"},
    {"attention t { mask = any(i < q: k == i) }", 1, 22, "must be the same for the whole launch"},
    {"attention t { mask = any(i < 4: any(j < i: k == j)) }", 1, 33,
     "the same for the whole launch"},
    {"attention t { mask = any(i < 0.5: k == i) }", 1, 22,
     "the bound of 'any' must be i32, but it is f32"},
    {"attention t { mask = all(i < 4, k == i) }", 1, 31, "write ':' after the bound of 'all'"},
    {"attention t { mask = all(i < 4: k == i }", 1, 40, "write ')' to close the '(' of 'all'"},
    {"attention t { mask = all(i < 4: i) }", 1, 22,
     "the expression of 'all' must be bool, but it is i32"},
    {"attention t { score = sum(i < 4: i > 2) }", 1, 23, "write 'c ? 1 : 0'"},
    {"attention t { mask = any(q < 4: k == q) }", 1, 26, "choose another name"},
    {"attention t { mask = any(i < 4: any(i < 3: k == i)) }", 1, 37, "is already declared"},
    {"attention t { mask = any(i < 4: k == i) && i < 3 }", 1, 44, "'i' is not in scope"},
    {"attention t { mask = any(i < 4: s > i) }", 1, 33, "masks are exact on every target"},
};
INSTANTIATE_TEST_SUITE_P(Reductions, OneError, testing::ValuesIn(kReductions));

TEST(Diagnostics, ShowTheLineAndACaret) {
  ParseOutcome outcome =
      parseWithDiagnostics("attention t {\n\tmask = qq >= k\r\n}\n", "dir/v.attn");
  EXPECT_EQ(outcome.rendered, "dir/v.attn:2:9: error: 'qq' is not in scope; did you mean 'q'?\n"
                              "  \tmask = qq >= k\n"
                              "  \t       ^~\n");
}

TEST(Diagnostics, SeveralInOneRunInTheOrderOfTheText) {
  ParseOutcome outcome = parseWithDiagnostics("attention t(a: i33, b2: i32 = 0.5) {\n"
                                              "  let x = foo + bar\n"
                                              "  mask = q >= \n"
                                              "  score = s + x + true\n"
                                              "}\n",
                                              "v");
  ASSERT_EQ(outcome.diagnostics.size(), 5u) << outcome.rendered;
  EXPECT_EQ(outcome.diagnostics[0].range.begin.line, 1);
  EXPECT_EQ(outcome.diagnostics[1].range.begin.line, 1);
  EXPECT_EQ(outcome.diagnostics[2].range.begin.column, 11);
  EXPECT_EQ(outcome.diagnostics[3].range.begin.column, 17);
  EXPECT_EQ(outcome.diagnostics[4].range.begin.line, 4);
  Result<Variant> variant = parseVariant("attention t { mask = x }", "v");
  EXPECT_EQ(variant.code(), Code::invalidVariant);
}

TEST(Diagnostics, UnusedNamesAreWarnings) {
  ParseOutcome outcome =
      parseWithDiagnostics("attention t(w: i32 = 3) {\n  let a = q\n  mask = q >= k\n}", "v");
  EXPECT_TRUE(outcome.variant.has_value());
  ASSERT_EQ(outcome.diagnostics.size(), 2u) << outcome.rendered;
  EXPECT_EQ(outcome.diagnostics[0].severity, Severity::warning);
  EXPECT_THAT(outcome.rendered, HasSubstr("v:1:13: warning: 'w' is never used"));
  EXPECT_THAT(outcome.rendered, HasSubstr("v:2:7: warning: 'a' is never used"));
}

TEST(Diagnostics, ATensorIsUsedWhereItsExtentIs) {
  auto rendered = [](const char *text) { return parseWithDiagnostics(text, "v").rendered; };
  EXPECT_EQ(rendered("attention t(at: i32[M]) { mask = k < M }"), "");
  EXPECT_EQ(rendered("attention t(at: i32[2*M, N]) { mask = k < at[q, k] }"), "");
  // The first tensor defines M, so the second one is not used.
  EXPECT_THAT(rendered("attention t(at: i32[M], of: i32[M]) { mask = k < M }"),
              HasSubstr("'of' is never used"));
}

TEST(Diagnostics, NotesAreNoErrors) {
  tesela::Diagnostics diagnostics("attention a {\n  mask = q >= k\n}\n", "v");
  diagnostics.note({{2, 12}, 2}, "nothing is known");
  EXPECT_FALSE(diagnostics.hasErrors());
  EXPECT_EQ(diagnostics.render(), "v:2:12: note: nothing is known\n"
                                  "    mask = q >= k\n"
                                  "             ^~\n");
}

TEST(Diagnostics, NestingEndsWithASentence) {
  auto nested = [](const std::string &open, const std::string &close, int depth) {
    std::string text = "attention t { score = ";
    for (int i = 0; i < depth; ++i)
      text += open;
    text += "s";
    for (int i = 0; i < depth; ++i)
      text += close;
    return parseWithDiagnostics(text + " }", "v");
  };
  EXPECT_TRUE(nested("(", ")", 150).variant.has_value());
  for (auto [open, close] : {std::pair("(", ")"), {"-", ""}, {"abs(", ")"}, {"true?", ":s"}}) {
    ParseOutcome outcome = nested(open, close, 100000);
    ASSERT_EQ(outcome.diagnostics.size(), 1u) << open;
    EXPECT_THAT(outcome.rendered,
                testing::AnyOf(HasSubstr("name parts of it with 'let'"), HasSubstr("remove some")));
  }
  // A long chain has no nesting.
  EXPECT_TRUE(nested("s + ", "", 4000).variant.has_value());
}

TEST(Diagnostics, MoreThanACompilerTakesEndsWithASentence) {
  std::string chain = "q > 0", lets;
  for (int i = 0; i < 5000; ++i) {
    chain += " && k > 1";
    lets += "let a" + std::to_string(i) + " = -k\n";
  }
  for (const std::string &text :
       {"attention t { mask = " + chain + " }", "attention t {\n" + lets + "mask = q > k }",
        "attention t {\n" + lets + "mask = " + chain + " }"}) {
    ParseOutcome outcome = parseWithDiagnostics(text, "v");
    ASSERT_EQ(outcome.diagnostics.size(), 1u);
    EXPECT_THAT(outcome.rendered, HasSubstr("more than 8192 operators, numbers and names"));
  }
}

TEST(Diagnostics, ParametersHaveALimit) {
  std::string list;
  for (int i = 0; i < 6000; ++i)
    list += (i ? ", p" : "p") + std::to_string(i) + ": i32";
  ParseOutcome outcome = parseWithDiagnostics("attention t(" + list + ") { mask = q > p0 }", "v");
  ASSERT_EQ(std::ranges::count(outcome.diagnostics, Severity::error, &Diagnostic::severity), 1);
  EXPECT_THAT(outcome.rendered, HasSubstr("at most 4096 parameters"));
}

TEST(Diagnostics, ATextThatIsNoVariantIsCutShort) {
  std::string noise;
  for (int i = 0; i < 10000; ++i)
    noise += "\x01$";
  ParseOutcome outcome = parseWithDiagnostics(noise, "v");
  EXPECT_LE(outcome.diagnostics.size(), 50u);
  EXPECT_THAT(outcome.rendered, HasSubstr("more diagnostics are not shown"));
  EXPECT_EQ(outcome.rendered.find('\x01'), std::string::npos);
  ParseOutcome large = parseWithDiagnostics(std::string(2 << 20, 'a'), "v");
  EXPECT_THAT(large.rendered, HasSubstr("a variant has at most 1048576"));
}

} // namespace
