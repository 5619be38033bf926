//===- Parser.cpp ---------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Recursive descent, with precedence climbing for the binary operators. The
// parser calls Sema to check names and types. After an error it continues at the
// next parameter or statement.
//
//===----------------------------------------------------------------------===//
#include "frontend/Parser.h"

#include "frontend/ForeignWords.h"
#include "frontend/Lexer.h"
#include "frontend/Sema.h"
#include "tesela/NearestName.h"

#include <algorithm>
#include <charconv>
#include <iterator>

namespace tesela {
namespace {

/// The largest depth of nested parentheses, calls, '?' and signs. It limits the use of the stack.
constexpr int kMaxDepth = 200;
/// The largest number of operators, calls, numbers and names of one variant. 2040 terms of
/// `|| k == 3` take 7 s to PTX for sm_90 (`tesela compile --emit ptx`). Also, passes recurse.
constexpr size_t kMostNodes = 8192;
/// The largest text that is accepted. Code that reads a variant may rely on it.
constexpr size_t kMaxText = size_t{1} << 20;

int precedence(const Token &token) {
  if (token.kind != Token::Kind::symbol)
    return 0;
  constexpr std::pair<std::string_view, int> table[] = {
      {"||", 1}, {"&&", 2}, {"==", 3}, {"!=", 3}, {"<", 4}, {"<=", 4}, {">", 4},
      {">=", 4}, {"+", 5},  {"-", 5},  {"*", 6},  {"/", 6}, {"%", 6}};
  for (const auto &[symbol, level] : table)
    if (token.text == symbol)
      return level;
  return 0;
}

std::string described(const Token &token) {
  return token.kind == Token::Kind::end ? "the end of the text"
                                        : "'" + std::string(token.text) + "'";
}

class Parser {
public:
  Parser(std::string_view text, Variant &variant, Diagnostics &diagnostics)
      : variant_(variant), diagnostics_(diagnostics), tokens_(tokenize(text, diagnostics)),
        sema_(variant, diagnostics) {}

  void run() {
    if (!header())
      return;
    parameters();
    if (!expect("{", "to begin the variant's body"))
      return;
    while (!here().is("}") && !atEnd())
      statement();
    if (expect("}", "to close the variant's body") && !atEnd())
      error(here(), described(here()) + " stands after the variant; a text holds one variant");
    if (!diagnostics_.hasErrors())
      sema_.finish();
  }

private:
  // Tokens.
  const Token &here() const { return tokens_[position_]; }
  const Token &ahead() const { return tokens_[std::min(position_ + 1, tokens_.size() - 1)]; }
  bool atEnd() const { return here().kind == Token::Kind::end; }
  const Token &take() {
    const Token &token = here();
    if (!atEnd())
      ++position_;
    return token;
  }
  bool takeIf(std::string_view text) {
    if (!here().is(text))
      return false;
    take();
    return true;
  }
  void error(const Token &at, std::string_view message) {
    if (at.kind != Token::Kind::unknown) // the lexer has reported it
      diagnostics_.error(at.range, message);
  }
  bool expect(std::string_view text, std::string_view purpose) {
    if (takeIf(text))
      return true;
    error(here(), "write '" + std::string(text) + "' " + std::string(purpose) + ", not " +
                      described(here()));
    return false;
  }

  // The variant.
  bool header() {
    if (!here().is("attention")) {
      bool isMisspelt =
          ahead().kind == Token::Kind::name && !nearestName(here().text, {"attention"}).empty();
      error(here(), "a variant begins with 'attention name(...) {', not with " + described(here()) +
                        (isMisspelt ? "; did you mean 'attention'?" : ""));
      if (!isMisspelt)
        return false;
    }
    take();
    if (here().kind != Token::Kind::name) {
      error(here(), "write the variant's name after 'attention', not " + described(here()));
      return false;
    }
    variant_.name = here().text;
    variant_.location = take().range.begin;
    return true;
  }

  void parameters() {
    if (!takeIf("(")) // a variant without parameters may leave the parentheses out
      return;
    while (!here().is(")") && !here().is("{") && !atEnd()) {
      if (!parameter())
        skipTo([this] { return here().is(",") || here().is(")") || here().is("{"); });
      if (!takeIf(",") && !here().is(")")) {
        error(here(), "write ',' or ')' after a parameter, not " + described(here()));
        skipTo([this] { return here().is(",") || here().is(")") || here().is("{"); });
        takeIf(",");
      }
    }
    expect(")", "to close the parameters");
  }

  template <typename Stop> void skipTo(Stop stop) {
    while (!atEnd() && !stop())
      take();
  }

  /// Parses [const] name: type [= default], or name: type[extents].
  bool parameter() {
    const Token *constant = nullptr;
    if (here().is("const") && ahead().kind == Token::Kind::name)
      constant = &take();
    if (here().kind != Token::Kind::name) {
      error(here(), "write a parameter as 'name: i32' or 'name: f32[H]', not " + described(here()));
      return false;
    }
    const Token &name = take();
    Parameter parameter;
    std::vector<const Token *> extentNames;
    parameter.name = name.text;
    parameter.isConstant = constant != nullptr;
    bool ok = expect(":", "and a type after a parameter's name") && elementType(parameter);
    if (ok && here().is("[")) {
      parameter.isCapture = true;
      ok = extents(parameter, extentNames);
      if (!ok) { // a ',' between extents does not end the parameter
        skipTo([this] { return here().is("]") || here().is(")") || here().is("{"); });
        takeIf("]");
      }
    } else if (ok && takeIf("=")) {
      ok = defaultValue(parameter);
    }
    if (ok && parameter.isCapture && constant) {
      error(*constant, "a captured tensor is an argument of the launch; leave 'const' out");
      ok = false;
    }
    if (ok && parameter.isCapture && here().is("=")) {
      error(here(), "a captured tensor has no default; remove it");
      ok = false;
    }
    if (!ok)
      sema_.declareLet(name, kInvalid); // so that its uses are not reported, too
    else if (parameter.isCapture)
      sema_.declareCapture(name, std::move(parameter), extentNames);
    else
      sema_.declareScalar(name, std::move(parameter));
    return ok;
  }

  bool elementType(Parameter &parameter) {
    const Token &token = here();
    auto type = parseElementType(token.text);
    if (!type || *type == ElementType::e4m3) {
      std::string_view near = nearestName(token.text, {"i32", "f32", "f16", "bf16", "bool"});
      error(token, described(token) + " is not a type" +
                       (near.empty() ? "" : "; did you mean '" + std::string(near) + "'?") +
                       (near.empty() ? "; " : " (") +
                       "scalars are i32 or f32, and captured tensors hold i32, f32, f16, "
                       "bf16 or bool" +
                       (near.empty() ? "" : ")"));
      return false;
    }
    take();
    if (*type != ElementType::i32 && *type != ElementType::f32 && !here().is("[")) {
      error(token, "a scalar parameter is i32 or f32, not " + std::string(token.text) +
                       (*type == ElementType::boolean ? "; take an i32 and compare it with '!= 0'"
                                                      : "; take an f32"));
      return false;
    }
    parameter.type = *type;
    return true;
  }

  /// `names` gets a token for each axis; null if the extent is a number.
  bool extents(Parameter &parameter, std::vector<const Token *> &names) {
    take(); // '['
    do {
      if (parameter.extents.size() == kMaxRank) {
        error(here(), "a captured tensor has at most 8 axes; join some of them");
        return false;
      }
      CaptureExtent extent;
      if (!captureExtent(extent, names.emplace_back()))
        return false;
      parameter.extents.push_back(std::move(extent));
    } while (takeIf(","));
    return expect("]", "to close the extents");
  }

  /// Parses number, or [number *] name [(+ | -) number].
  bool captureExtent(CaptureExtent &extent, const Token *&named) {
    if (here().kind == Token::Kind::integer) {
      int32_t number = 0;
      if (!positiveInteger(number))
        return false;
      if (!takeIf("*")) {
        extent.coefficient = 0;
        extent.offset = number;
        return true;
      }
      extent.coefficient = number;
    }
    const Token &name = here();
    if (name.kind != Token::Kind::name) {
      error(name, "write an extent as 'H', '2*Sk', 'P-1' or a number, not " + described(name));
      return false;
    }
    bool isExtent = std::find(std::begin(kExtentNames), std::end(kExtentNames), name.text) !=
                    std::end(kExtentNames);
    if (!isExtent && (name.is("s") || sema_.isParameter(name.text) ||
                      std::find(std::begin(kIndexNames), std::end(kIndexNames), name.text) !=
                          std::end(kIndexNames))) {
      std::string_view near =
          nearestName(name.text, {std::begin(kExtentNames), std::end(kExtentNames)});
      error(name,
            described(name) + " is not an extent" +
                (near.empty() ? "" : "; did you mean '" + std::string(near) + "'?") +
                " (extents are B H Hkv Sq Sk, or a new name, which the tensor's own shape binds)");
      return false;
    }
    named = &take();
    extent.name = named->text;
    if (here().is("+") || here().is("-")) {
      bool minus = take().is("-");
      if (!positiveInteger(extent.offset))
        return false;
      if (minus)
        extent.offset = -extent.offset;
    }
    return true;
  }

  bool positiveInteger(int32_t &value) {
    const Token &token = here();
    const char *begin = token.text.data(), *end = begin + token.text.size();
    if (token.kind != Token::Kind::integer ||
        std::from_chars(begin, end, value).ec != std::errc() || value <= 0) {
      error(token, "write an integer from 1 to 2147483647 here, not " + described(token));
      return false;
    }
    take();
    return true;
  }

  bool defaultValue(Parameter &parameter) {
    const Token &begin = here();
    bool negative = takeIf("-");
    const Token &token = here();
    NodeId id = kInvalid;
    if (token.kind == Token::Kind::integer || token.kind == Token::Kind::number) {
      id = sema_.literal(take(), negative);
      if (id == kInvalid)
        return false;
    } else if (token.is("inf")) {
      id = sema_.name(take());
      variant_.nodes[id].number *= negative ? -1.0f : 1.0f;
    } else {
      error(begin, "a default is a number, as 1024, -0.5 or inf, not " + described(begin));
      return false;
    }
    Node value = variant_.nodes[id];
    variant_.nodes.pop_back(); // no expression uses it
    if (parameter.type == ElementType::i32 && value.type != ScalarType::i32) {
      error(token, "the default of an i32 is an integer; write one, or make the parameter f32");
      return false;
    }
    if (parameter.type == ElementType::f32 && value.type == ScalarType::i32)
      value.number = static_cast<float>(value.integer);
    parameter.defaultValue =
        parameter.type == ElementType::i32 ? double(value.integer) : value.number;
    return true;
  }

  // Statements.
  void statement() {
    if (takeIf(";"))
      return;
    const Token &first = here();
    if (first.is("let")) {
      take();
      if (here().kind != Token::Kind::name) {
        error(here(), "write a let as 'let name = value', not with " + described(here()));
        return recover();
      }
      const Token &name = take();
      NodeId value = kInvalid;
      bool ok =
          expect("=", "after the let's name") && (value = valueOf(Statement::let)) != kInvalid;
      sema_.declareLet(name, value);
      return ok ? endStatement() : recover();
    }
    bool exact = first.is("exact") && ahead().is("score");
    if (exact || first.is("mask") || first.is("score") || first.is("sink")) {
      take();
      const Token &keyword = exact ? take() : first;
      Statement kind = first.is("mask")   ? Statement::mask
                       : first.is("sink") ? Statement::sink
                                          : Statement::score;
      NodeId value = kInvalid;
      if (expect("=", "after '" + std::string(keyword.text) + "'"))
        value = valueOf(kind);
      if (kind == Statement::mask)
        sema_.setMask(keyword, value);
      else if (kind == Statement::sink)
        sema_.setSink(keyword, value);
      else
        sema_.setScore(keyword, value, exact);
      return value != kInvalid ? endStatement() : recover();
    }
    if (first.is("exact"))
      error(first, "'exact' may only be written before a score, as in 'exact score = ...'; masks "
                   "are always exact");
    else
      unknownStatement(first);
    take();
    recover();
  }

  void unknownStatement(const Token &first) {
    std::string message = described(first) + " does not begin a statement; ";
    std::string_view near = first.kind == Token::Kind::name && ahead().is("=")
                                ? nearestName(first.text, {"mask", "score", "sink"})
                                : std::string_view();
    if (!near.empty())
      message += "did you mean '" + std::string(near) + "'?";
    else if (first.kind == Token::Kind::name && ahead().is("="))
      message += "write 'let " + std::string(first.text) + " = ...'";
    else
      message += "statements are 'let name = ...', 'mask = ...', 'score = ...' and 'sink = ...'";
    error(first, message);
  }

  NodeId valueOf(Statement kind) {
    sema_.beginStatement(kind);
    depth_ = 0;
    syntaxError_ = false;
    NodeId value = expression();
    if (!syntaxError_ && here().is("="))
      return syntaxError(here(), "'=' assigns; write '==' to compare");
    return value;
  }

  /// A statement ends with its line, or with ';'.
  void endStatement() {
    if (takeIf(";") || here().is("}") || atEnd() || here().startsLine)
      return;
    bool isOperator = here().is("and") || here().is("or") || here().is("if") || here().is("else");
    if (std::string_view own = writtenFor(here().text); isOperator && !own.empty())
      error(here(), described(here()) + " is not an operator; write '" + std::string(own) + "'");
    else
      error(here(), "write an operator before " + described(here()) +
                        ", or end the statement before it with a new line or ';'");
    recover();
  }

  /// Skips to the next statement: to a line that begins like one, or past ';'.
  void recover() {
    skipTo([this] {
      if (here().is("}") || here().is(";"))
        return true;
      bool begins = here().is("let") || here().is("mask") || here().is("score") ||
                    here().is("sink") || here().is("exact") ||
                    (here().kind == Token::Kind::name && ahead().is("="));
      return here().startsLine && begins;
    });
    takeIf(";");
  }

  // Expressions. A syntax error ends the whole expression (syntaxError_). An
  // error of names or types does not, so that several can be reported.
  NodeId syntaxError(const Token &at, std::string_view message) {
    if (!syntaxError_)
      error(at, message);
    syntaxError_ = true;
    return kInvalid;
  }

  /// Reports the error only once: everything that follows exceeds the limit, too.
  NodeId tooMany(const Token &at) {
    if (!tooMany_)
      error(at, "the variant has more than " + std::to_string(kMostNodes) +
                    " operators, numbers and names; put numbers into a captured tensor and read it "
                    "in a reduction, as in 'any(i < count: chosen[i] == k)'");
    tooMany_ = syntaxError_ = true;
    return kInvalid;
  }

  /// Increases the depth of nesting while the object lives.
  struct Nesting {
    explicit Nesting(int &depth) : depth(depth) { ++depth; }
    ~Nesting() { --depth; }
    int &depth;
  };

  NodeId expression() {
    Nesting nesting(depth_);
    if (depth_ > kMaxDepth)
      return syntaxError(here(), "the expression is nested more than " + std::to_string(kMaxDepth) +
                                     " levels deep; name parts of it with 'let'");
    if (sema_.nodeCount() > kMostNodes)
      return tooMany(here());
    NodeId condition = binary(1);
    if (syntaxError_ || !here().is("?"))
      return condition;
    const Token &question = take();
    NodeId whereTrue = expression();
    if (syntaxError_)
      return kInvalid;
    if (!takeIf(":"))
      return syntaxError(here(),
                         "write ':' and the other value of '?' here, not " + described(here()));
    NodeId whereFalse = expression();
    return syntaxError_ ? kInvalid : sema_.select(question, condition, whereTrue, whereFalse);
  }

  NodeId binary(int lowest) {
    NodeId left = unary();
    while (!syntaxError_) {
      const Token &op = here();
      int level = precedence(op);
      if (level < lowest || level == 0)
        break;
      take();
      NodeId right = binary(level + 1);
      if (syntaxError_)
        return kInvalid;
      left = sema_.binary(op, left, right);
      if (sema_.nodeCount() > kMostNodes)
        return tooMany(op);
    }
    return left;
  }

  NodeId unary() {
    const Token &op = here();
    if (!op.is("-") && !op.is("+") && !op.is("!"))
      return primary();
    Nesting nesting(depth_);
    if (depth_ > kMaxDepth)
      return syntaxError(op, "the expression is nested more than " + std::to_string(kMaxDepth) +
                                 " levels deep; remove some signs");
    take();
    // -2147483648 is an i32, but 2147483648 is not.
    if (op.is("-") && here().kind == Token::Kind::integer)
      return sema_.literal(take(), /*negative=*/true);
    NodeId operand = unary();
    return syntaxError_ ? kInvalid : sema_.unary(op, operand);
  }

  NodeId primary() {
    const Token &token = here();
    if (token.kind == Token::Kind::integer || token.kind == Token::Kind::number)
      return sema_.literal(take(), /*negative=*/false);
    if (token.is("(")) {
      take();
      NodeId inner = expression();
      if (!syntaxError_ && !takeIf(")"))
        return syntaxError(here(), "write ')' to close the '(' in line " +
                                       std::to_string(token.range.begin.line) + ", not " +
                                       described(here()));
      return inner;
    }
    if (token.kind == Token::Kind::name)
      return nameCallOrRead();
    return syntaxError(token, "a value is missing before " + described(token) +
                                  "; write a number, a name or a '('");
  }

  NodeId nameCallOrRead() {
    const Token &name = here();
    if (name.is("mask") || name.is("score") || name.is("let") || name.is("sink") ||
        name.is("exact"))
      return syntaxError(name, "a value is missing before " + described(name) +
                                   ", which begins a statement; complete the expression before it");
    take();
    if (here().is("(")) {
      if (name.is("any") || name.is("all") || name.is("sum"))
        return reduction(name);
      take();
      std::vector<NodeId> arguments;
      return list(name, ")", arguments) ? sema_.call(name, arguments) : kInvalid;
    }
    if (here().is("[")) {
      take();
      std::vector<NodeId> indices;
      return list(name, "]", indices) ? sema_.read(name, indices) : kInvalid;
    }
    return sema_.name(name);
  }

  /// Parses (index < bound: value), which follows the name `function`.
  NodeId reduction(const Token &function) {
    Nesting nesting(depth_);
    if (depth_ > kMaxDepth)
      return syntaxError(function, "the expression is nested more than " +
                                       std::to_string(kMaxDepth) +
                                       " levels deep; name parts of it with 'let'");
    take(); // '('
    const Token &index = here();
    if (index.kind != Token::Kind::name || !ahead().is("<"))
      return syntaxError(index, "write a reduction as '" + std::string(function.text) +
                                    "(i < M: ...)', with a new name for i, not " +
                                    described(index));
    take();
    take(); // '<'
    NodeId bound = expression();
    if (syntaxError_)
      return kInvalid;
    if (!takeIf(":"))
      return syntaxError(here(), "write ':' after the bound of " + described(function) + ", not " +
                                     described(here()));
    int32_t number = sema_.beginReduction(index, function, bound);
    NodeId value = expression();
    NodeId result = sema_.endReduction(index, function, number, bound, value);
    if (syntaxError_)
      return kInvalid;
    if (!takeIf(")"))
      return syntaxError(here(), "write ')' to close the '(' of " + described(function) + ", not " +
                                     described(here()));
    return result;
  }

  bool list(const Token &name, std::string_view close, std::vector<NodeId> &values) {
    if (!here().is(close)) {
      do {
        values.push_back(expression());
        if (syntaxError_)
          return false;
      } while (takeIf(","));
    }
    if (takeIf(close))
      return true;
    syntaxError(here(), "write ',' or '" + std::string(close) + "' in the list after " +
                            described(name) + ", not " + described(here()));
    return false;
  }

  Variant &variant_;
  Diagnostics &diagnostics_;
  std::vector<Token> tokens_;
  Sema sema_;
  size_t position_ = 0;
  int depth_ = 0;
  bool tooMany_ = false;
  bool syntaxError_ = false;
};

} // namespace

ParseOutcome parseWithDiagnostics(std::string_view text, std::string_view file) {
  ParseOutcome outcome;
  Diagnostics diagnostics(text, file);
  Variant variant;
  variant.file = file;
  if (text.size() > kMaxText)
    diagnostics.error({}, "the text has " + std::to_string(text.size()) +
                              " bytes; a variant has at most " + std::to_string(kMaxText));
  else
    Parser(text, variant, diagnostics).run();
  outcome.diagnostics = diagnostics.sorted();
  outcome.rendered = diagnostics.render();
  if (!diagnostics.hasErrors())
    outcome.variant = std::move(variant);
  return outcome;
}

Result<Variant> parseVariant(std::string_view text, std::string_view file) {
  ParseOutcome outcome = parseWithDiagnostics(text, file);
  if (!outcome.variant)
    return Error(Code::invalidVariant, outcome.rendered);
  return std::move(*outcome.variant);
}

} // namespace tesela
