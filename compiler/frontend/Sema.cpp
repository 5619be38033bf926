//===- Sema.cpp -----------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/Sema.h"

#include "frontend/ForeignWords.h"
#include "tesela/NearestName.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

namespace tesela {
namespace {

/// Words that cannot be the name of a parameter or a let.
constexpr std::string_view kReserved[] = {
    "attention", "let", "mask", "score", "sink", "const", "exact", "true", "false", "inf", "s",
    "b",         "h",   "hkv",  "q",     "k",    "B",     "H",     "Hkv",  "Sq",    "Sk",  "int",
    "min",       "max", "abs",  "clamp", "exp",  "log",   "sqrt",  "tanh", "sin",   "cos", "floor",
    "any",       "all", "sum",  "i32",   "f32",  "f16",   "bf16",  "bool"};

struct Function {
  std::string_view name;
  size_t arguments;
};
constexpr Function kFunctions[] = {{"abs", 1},   {"clamp", 3}, {"cos", 1},  {"exp", 1},
                                   {"floor", 1}, {"int", 1},   {"log", 1},  {"max", 2},
                                   {"min", 2},   {"sin", 1},   {"sqrt", 1}, {"tanh", 1}};

std::optional<Operator> floatFunction(std::string_view name) {
  constexpr std::pair<std::string_view, Operator> table[] = {
      {"cos", Operator::cos},  {"exp", Operator::exp}, {"floor", Operator::floor},
      {"log", Operator::log},  {"sin", Operator::sin}, {"sqrt", Operator::sqrt},
      {"tanh", Operator::tanh}};
  for (const auto &[candidate, op] : table)
    if (candidate == name)
      return op;
  return std::nullopt;
}

std::optional<Operator> arithmetic(std::string_view symbol) {
  constexpr std::pair<std::string_view, Operator> table[] = {{"+", Operator::add},
                                                             {"-", Operator::subtract},
                                                             {"*", Operator::multiply},
                                                             {"/", Operator::divide},
                                                             {"%", Operator::remainder}};
  for (const auto &[candidate, op] : table)
    if (candidate == symbol)
      return op;
  return std::nullopt;
}

std::optional<Operator> comparison(std::string_view symbol) {
  constexpr std::pair<std::string_view, Operator> table[] = {
      {"<", Operator::less},          {"<=", Operator::lessEqual}, {">", Operator::greater},
      {">=", Operator::greaterEqual}, {"==", Operator::equal},     {"!=", Operator::notEqual}};
  for (const auto &[candidate, op] : table)
    if (candidate == symbol)
      return op;
  return std::nullopt;
}

/// More parameters do not fit into the 4 KB that a kernel's parameters have on every GPU.
constexpr size_t kMostParameters = 4096;

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

std::string didYouMean(std::string_view name, const std::vector<std::string_view> &candidates) {
  if (std::string_view own = writtenFor(name); !own.empty())
    return "; write " + quoted(own);
  std::string_view near = nearestName(name, candidates);
  return near.empty() ? std::string() : "; did you mean " + quoted(near) + "?";
}

} // namespace

Sema::Sema(Variant &variant, Diagnostics &diagnostics)
    : variant_(variant), diagnostics_(diagnostics) {}

bool Sema::declare(const Token &name, Symbol::Kind kind, int32_t value) {
  if (std::find(std::begin(kReserved), std::end(kReserved), name.text) != std::end(kReserved)) {
    diagnostics_.error(name.range,
                       quoted(name.text) + " is a word of the language; choose another name");
    return false;
  }
  auto [entry, isNew] =
      symbols_.try_emplace(std::string(name.text), Symbol{kind, value, name.range});
  if (!isNew)
    diagnostics_.error(name.range, quoted(name.text) + whatIs(entry->second) +
                                       std::to_string(entry->second.range.begin.line) +
                                       "; choose another name");
  return isNew;
}

std::string Sema::whatIs(const Symbol &symbol) const {
  if (symbol.kind != Symbol::extent)
    return " is already declared in line ";
  int32_t binding = variant_.boundExtents[symbol.value].parameter;
  return " is an extent that the shape of " + quoted(variant_.parameters[binding].name) +
         " binds in line ";
}

bool Sema::addParameter(const Token &name, Symbol::Kind kind, Parameter parameter) {
  if (!declare(name, kind, static_cast<int32_t>(variant_.parameters.size())))
    return false;
  // Report it once. The others are still declared, so that no further errors follow from it.
  if (variant_.parameters.size() == kMostParameters)
    diagnostics_.error(name.range, "a variant has at most " + std::to_string(kMostParameters) +
                                       " parameters; join scalars in a captured tensor");
  variant_.parameters.push_back(std::move(parameter));
  return true;
}

void Sema::declareScalar(const Token &name, Parameter parameter) {
  addParameter(name, Symbol::scalar, std::move(parameter));
}

void Sema::declareCapture(const Token &name, Parameter parameter,
                          const std::vector<const Token *> &extents) {
  if (!addParameter(name, Symbol::capture, std::move(parameter)))
    return;
  auto number = static_cast<int32_t>(variant_.parameters.size()) - 1;
  for (size_t axis = 0; axis < extents.size(); ++axis) {
    if (!extents[axis])
      continue;
    const Token &extent = *extents[axis];
    auto known = symbols_.find(extent.text);
    bool isBound = known != symbols_.end() && known->second.kind == Symbol::extent;
    if (isBound || std::ranges::find(kExtentNames, extent.text) != std::end(kExtentNames))
      continue;
    if (!declare(extent, Symbol::extent, static_cast<int32_t>(variant_.boundExtents.size())))
      continue;
    symbols_.find(extent.text)->second.used = true; // to name an axis counts as a use
    variant_.boundExtents.push_back({std::string(extent.text), number, static_cast<int32_t>(axis)});
  }
}

void Sema::declareLet(const Token &name, NodeId value) { declare(name, Symbol::let, value); }

void Sema::setMask(const Token &keyword, NodeId value) {
  if (std::exchange(hasMask_, true)) {
    diagnostics_.error(keyword.range, "the variant has two masks; join them in one with '&&'");
    return;
  }
  if (value == kInvalid)
    return;
  if (typeOf(value) != ScalarType::boolean) {
    diagnostics_.error(keyword.range, "a mask must be bool, this one is " +
                                          std::string(typeName(typeOf(value))) +
                                          "; compare it, for example with '!= 0'");
    return;
  }
  variant_.mask = value;
}

void Sema::setScore(const Token &keyword, NodeId value, bool exact) {
  if (std::exchange(hasScore_, true)) {
    diagnostics_.error(keyword.range,
                       "the variant has two scores; keep one, or make the first a let");
    return;
  }
  if (value == kInvalid)
    return;
  if (typeOf(value) == ScalarType::boolean) {
    diagnostics_.error(
        keyword.range,
        "a score must be a number, this one is bool; write 'mask = ...' to drop keys, or "
        "choose between two numbers with 'c ? x : y'");
    return;
  }
  variant_.score = asFloat(value, keyword.range, "a score");
  variant_.scoreIsExact = exact;
}

void Sema::setSink(const Token &keyword, NodeId value) {
  if (std::exchange(hasSink_, true)) {
    diagnostics_.error(keyword.range, "the variant has two sinks; join them in one, as "
                                      "'log(exp(x) + exp(y))'");
    return;
  }
  if (value == kInvalid)
    return;
  if (typeOf(value) == ScalarType::boolean) {
    diagnostics_.error(keyword.range,
                       "a sink must be a number, this one is bool; write 'c ? x : -inf' "
                       "for a sink that some rows do not have");
    return;
  }
  variant_.sink = asFloat(value, keyword.range, "a sink");
}

void Sema::finish() {
  if (!hasScore_)
    variant_.score = add(Operator::score, ScalarType::f32, {variant_.location, 1}, {});
  if (!hasMask_)
    variant_.mask = add(Operator::constant, ScalarType::boolean, {variant_.location, 1}, {}, 1);
  for (const auto &[name, symbol] : symbols_)
    if (!symbol.used)
      diagnostics_.warning(symbol.range,
                           quoted(name) + " is never used; remove it, or use it in mask or score");
}

bool Sema::isParameter(std::string_view name) const {
  auto entry = symbols_.find(name);
  return entry != symbols_.end() &&
         (entry->second.kind == Symbol::scalar || entry->second.kind == Symbol::capture);
}

std::vector<std::string_view> Sema::namesInScope() const {
  if (diagnostics_.isFull()) // no further diagnostics are shown, so no suggestions are needed
    return {};
  std::vector<std::string_view> names(std::begin(kIndexNames), std::end(kIndexNames));
  names.insert(names.end(), std::begin(kExtentNames), std::end(kExtentNames));
  names.insert(names.end(), {"true", "false", "inf"});
  if (statement_ != Statement::mask && statement_ != Statement::sink)
    names.push_back("s");
  for (const auto &[name, symbol] : symbols_)
    names.push_back(name);
  return names;
}

Sema::Symbol *Sema::lookUp(const Token &name) {
  auto entry = symbols_.find(name.text);
  if (entry == symbols_.end())
    return nullptr;
  entry->second.used = true;
  return &entry->second;
}

NodeId Sema::add(Operator op, ScalarType type, SourceRange range, std::vector<NodeId> operands,
                 int32_t integer, float number) {
  Node node;
  node.op = op;
  node.type = type;
  node.integer = integer;
  node.number = number;
  node.location = range.begin;
  node.dependsOnScore = op == Operator::score;
  if (op == Operator::index)
    node.indices = uint8_t(1 << integer);
  if (op == Operator::reduceIndex)
    node.reductions = {integer};
  for (NodeId id : operands) {
    const Node &operand = variant_.nodes[id];
    node.dependsOnScore |= operand.dependsOnScore;
    node.indices |= operand.indices;
    std::vector<int32_t> both;
    std::set_union(node.reductions.begin(), node.reductions.end(), operand.reductions.begin(),
                   operand.reductions.end(), std::back_inserter(both));
    node.reductions = std::move(both);
  }
  if (isReduction(op))
    std::erase(node.reductions, integer);
  node.operands = std::move(operands);
  variant_.nodes.push_back(std::move(node));
  return static_cast<NodeId>(variant_.nodes.size()) - 1;
}

NodeId Sema::asFloat(NodeId id, SourceRange range, std::string_view role) {
  if (id == kInvalid || typeOf(id) == ScalarType::f32)
    return id;
  if (!wantType(id, ScalarType::i32, range, role))
    return kInvalid;
  const Node &node = variant_.nodes[id];
  if (node.op == Operator::constant) // convert the constant now
    return add(Operator::constant, ScalarType::f32, {node.location, 1}, {}, 0,
               static_cast<float>(node.integer));
  return add(Operator::toFloat, ScalarType::f32, {node.location, 1}, {id});
}

bool Sema::wantType(NodeId id, ScalarType type, SourceRange range, std::string_view role) {
  ScalarType found = typeOf(id);
  if (found == type)
    return true;
  std::string message = std::string(role) + " must be " + std::string(typeName(type)) +
                        ", but it is " + std::string(typeName(found)) + "; ";
  if (type == ScalarType::boolean)
    message += "compare it, for example with '!= 0'";
  else if (found == ScalarType::boolean)
    message += "write 'c ? 1 : 0' to make a number of a bool";
  else
    message += "write 'int(...)' to make an i32 of an f32";
  diagnostics_.error(range, message);
  return false;
}

bool Sema::unifyNumbers(NodeId &left, NodeId &right, SourceRange range, std::string_view role) {
  for (NodeId id : {left, right})
    if (typeOf(id) == ScalarType::boolean) {
      diagnostics_.error(range, std::string(role) + " takes numbers, not bool; write "
                                                    "'c ? 1 : 0' to make a number of a bool");
      return false;
    }
  if (typeOf(left) == typeOf(right))
    return true;
  left = asFloat(left, range, role);
  right = asFloat(right, range, role);
  return true;
}

NodeId Sema::checkScope(NodeId id, SourceRange range, std::string_view name) {
  const Node &node = variant_.nodes[id];
  auto subject = [&](std::string_view source) {
    return quoted(name) + (name == source ? std::string(" is")
                                          : " is computed from " + quoted(source) + " and so is");
  };
  if (statement_ == Statement::mask && node.dependsOnScore) {
    diagnostics_.error(
        range, subject("s") + " not in scope in a mask: masks are exact on every target, but s is "
                              "not; to drop a key by its score write 'score = c ? s : -inf'");
    return kInvalid;
  }
  bool ofKey = node.indices & 1 << static_cast<int>(Index::k);
  if (statement_ == Statement::sink && (node.dependsOnScore || ofKey)) {
    diagnostics_.error(
        range, subject(node.dependsOnScore ? "s" : "k") +
                   " not in scope in a sink: a sink has one value for each query, so it may "
                   "use b h hkv q, the extents and the parameters");
    return kInvalid;
  }
  return id;
}

NodeId Sema::literal(const Token &token, bool negative) {
  const char *begin = token.text.data(), *end = begin + token.text.size();
  if (token.kind == Token::Kind::integer) {
    uint64_t magnitude = 0;
    auto [rest, failure] = std::from_chars(begin, end, magnitude);
    uint64_t limit = uint64_t{1} << 31;
    if (failure != std::errc() || magnitude > limit - !negative) {
      diagnostics_.error(token.range,
                         "the integer does not fit i32, which goes from -2147483648 to "
                         "2147483647; write a point, as 3000000000.0, to make it f32");
      return kInvalid;
    }
    int64_t value = negative ? -static_cast<int64_t>(magnitude) : static_cast<int64_t>(magnitude);
    return add(Operator::constant, ScalarType::i32, token.range, {}, static_cast<int32_t>(value));
  }
  float value = 0;
  auto [rest, failure] = std::from_chars(begin, end, value);
  if (failure != std::errc()) {
    diagnostics_.error(token.range,
                       "the number does not fit f32, whose magnitudes go from 1.4e-45 to 3.4e38; "
                       "write 0.0 for a smaller one and inf for a larger one");
    return kInvalid;
  }
  return add(Operator::constant, ScalarType::f32, token.range, {}, 0, negative ? -value : value);
}

NodeId Sema::name(const Token &name) {
  if (name.is("true") || name.is("false"))
    return add(Operator::constant, ScalarType::boolean, name.range, {}, name.is("true"));
  if (name.is("inf"))
    return add(Operator::constant, ScalarType::f32, name.range, {}, 0,
               std::numeric_limits<float>::infinity());
  if (name.is("s"))
    return checkScope(add(Operator::score, ScalarType::f32, name.range, {}), name.range, name.text);
  for (size_t i = 0; i < std::size(kIndexNames); ++i)
    if (name.is(kIndexNames[i]))
      return checkScope(
          add(Operator::index, ScalarType::i32, name.range, {}, static_cast<int32_t>(i)),
          name.range, name.text);
  for (size_t i = 0; i < std::size(kExtentNames); ++i)
    if (name.is(kExtentNames[i]))
      return add(Operator::extent, ScalarType::i32, name.range, {}, static_cast<int32_t>(i));

  Symbol *symbol = lookUp(name);
  if (!symbol) {
    std::string remedy = didYouMean(name.text, namesInScope());
    if (remedy.empty())
      remedy = "; declare it as a parameter, or with 'let'";
    diagnostics_.error(name.range, quoted(name.text) + " is not in scope" + remedy);
    return kInvalid;
  }
  switch (symbol->kind) {
  case Symbol::let:
    return symbol->value == kInvalid ? kInvalid : checkScope(symbol->value, name.range, name.text);
  case Symbol::scalar: {
    ScalarType type = elementScalar(variant_.parameters[symbol->value].type);
    return add(Operator::scalar, type, name.range, {}, symbol->value);
  }
  case Symbol::extent: {
    // The tensor counts as used, even if only its shape is.
    int32_t binding = variant_.boundExtents[symbol->value].parameter;
    symbols_.find(variant_.parameters[binding].name)->second.used = true;
    return add(Operator::boundExtent, ScalarType::i32, name.range, {}, symbol->value);
  }
  case Symbol::reduction:
    return add(Operator::reduceIndex, ScalarType::i32, name.range, {}, symbol->value);
  case Symbol::capture:
    break;
  }
  size_t rank = variant_.parameters[symbol->value].extents.size();
  diagnostics_.error(name.range, quoted(name.text) + " is a tensor; read one element with " +
                                     quoted(std::string(name.text) + "[...]") + " and " +
                                     std::to_string(rank) + (rank == 1 ? " index" : " indices"));
  return kInvalid;
}

NodeId Sema::read(const Token &name, const std::vector<NodeId> &indices) {
  Symbol *symbol = lookUp(name);
  if (!symbol) {
    std::vector<std::string_view> captures = namesInScope();
    std::erase_if(captures, [&](std::string_view candidate) {
      auto known = symbols_.find(std::string(candidate));
      return known == symbols_.end() || known->second.kind != Symbol::capture;
    });
    std::string remedy = didYouMean(name.text, captures);
    if (remedy.empty())
      remedy = "; declare it among the parameters, for example as '" + std::string(name.text) +
               ": f32[H]'";
    diagnostics_.error(name.range, "there is no captured tensor " + quoted(name.text) + remedy);
    return kInvalid;
  }
  if (symbol->kind == Symbol::let && symbol->value == kInvalid)
    return kInvalid;
  if (symbol->kind != Symbol::capture) {
    diagnostics_.error(name.range, quoted(name.text) +
                                       " is not a tensor; remove the '[...]', or declare "
                                       "it with extents, as f32[H]");
    return kInvalid;
  }
  const Parameter &parameter = variant_.parameters[symbol->value];
  if (parameter.extents.size() != indices.size()) {
    diagnostics_.error(name.range,
                       quoted(name.text) + " has " + std::to_string(parameter.extents.size()) +
                           (parameter.extents.size() == 1 ? " axis, but " : " axes, but ") +
                           std::to_string(indices.size()) +
                           (indices.size() == 1 ? " index is" : " indices are") +
                           " given; write one index for each axis");
    return kInvalid;
  }
  for (NodeId index : indices)
    if (index == kInvalid || !wantType(index, ScalarType::i32, name.range, "an index"))
      return kInvalid;
  return add(Operator::read, elementScalar(parameter.type), name.range, indices, symbol->value);
}

NodeId Sema::call(const Token &name, const std::vector<NodeId> &arguments) {
  auto *function = std::find_if(std::begin(kFunctions), std::end(kFunctions),
                                [&](const Function &f) { return f.name == name.text; });
  if (function == std::end(kFunctions)) {
    std::vector<std::string_view> names;
    for (const Function &known : kFunctions)
      names.push_back(known.name);
    names.insert(names.end(), {"any", "all", "sum"});
    std::string remedy = didYouMean(name.text, names);
    if (remedy.empty())
      remedy = "; the functions are abs clamp cos exp floor int log max min sin sqrt tanh, and the "
               "reductions are any all sum";
    diagnostics_.error(name.range, "there is no function " + quoted(name.text) + remedy);
    return kInvalid;
  }
  if (function->arguments != arguments.size()) {
    diagnostics_.error(name.range,
                       quoted(name.text) + " takes " + std::to_string(function->arguments) +
                           (function->arguments == 1 ? " argument, but " : " arguments, but ") +
                           std::to_string(arguments.size()) +
                           (arguments.size() == 1 ? " is" : " are") + " given; write " +
                           std::to_string(function->arguments));
    return kInvalid;
  }
  if (std::find(arguments.begin(), arguments.end(), kInvalid) != arguments.end())
    return kInvalid;

  std::string role = "an argument of " + quoted(name.text);
  if (name.is("int")) {
    if (typeOf(arguments[0]) == ScalarType::i32)
      return arguments[0];
    if (!wantType(arguments[0], ScalarType::f32, name.range, role))
      return kInvalid;
    return add(Operator::toInt, ScalarType::i32, name.range, arguments);
  }
  if (auto op = floatFunction(name.text)) {
    NodeId argument = asFloat(arguments[0], name.range, role);
    return argument == kInvalid ? kInvalid : add(*op, ScalarType::f32, name.range, {argument});
  }
  if (name.is("abs")) {
    NodeId argument = arguments[0];
    if (!unifyNumbers(argument, argument, name.range, quoted(name.text)))
      return kInvalid;
    return add(Operator::absolute, typeOf(argument), name.range, {argument});
  }
  auto extremum = [&](Operator op, NodeId left, NodeId right) {
    if (!unifyNumbers(left, right, name.range, quoted(name.text)))
      return kInvalid;
    return add(op, typeOf(left), name.range, {left, right});
  };
  if (name.is("clamp")) { // clamp(x, low, high)
    NodeId raised = extremum(Operator::maximum, arguments[0], arguments[1]);
    return raised == kInvalid ? kInvalid : extremum(Operator::minimum, raised, arguments[2]);
  }
  return extremum(name.is("min") ? Operator::minimum : Operator::maximum, arguments[0],
                  arguments[1]);
}

NodeId Sema::unary(const Token &op, NodeId operand) {
  if (operand == kInvalid)
    return kInvalid;
  if (op.is("!")) {
    if (!wantType(operand, ScalarType::boolean, op.range, "the operand of '!'"))
      return kInvalid;
    return add(Operator::logicalNot, ScalarType::boolean, op.range, {operand});
  }
  if (!unifyNumbers(operand, operand, op.range, quoted(op.text)))
    return kInvalid;
  return op.is("+") ? operand : add(Operator::negate, typeOf(operand), op.range, {operand});
}

NodeId Sema::binary(const Token &op, NodeId left, NodeId right) {
  if (left == kInvalid || right == kInvalid)
    return kInvalid;
  std::string role = quoted(op.text);
  if (op.is("&&") || op.is("||")) {
    std::string side = "an operand of " + role;
    if (!wantType(left, ScalarType::boolean, op.range, side) ||
        !wantType(right, ScalarType::boolean, op.range, side))
      return kInvalid;
    return add(op.is("&&") ? Operator::logicalAnd : Operator::logicalOr, ScalarType::boolean,
               op.range, {left, right});
  }
  if (auto compare = comparison(op.text)) {
    bool areBools = typeOf(left) == ScalarType::boolean && typeOf(right) == ScalarType::boolean;
    bool isEquality = *compare == Operator::equal || *compare == Operator::notEqual;
    if (typeOf(left) == ScalarType::boolean && typeOf(right) != ScalarType::boolean) {
      diagnostics_.error(op.range, role + " compares a bool with a number; comparisons do not "
                                          "chain: write 'a < b && b < c'");
      return kInvalid;
    }
    if (!(areBools && isEquality) && !unifyNumbers(left, right, op.range, role))
      return kInvalid;
    return add(*compare, ScalarType::boolean, op.range, {left, right});
  }
  Operator operation = *arithmetic(op.text);
  if (!unifyNumbers(left, right, op.range, role))
    return kInvalid;
  if (operation == Operator::remainder && typeOf(left) != ScalarType::i32) {
    diagnostics_.error(op.range, "'%' takes two i32, but an operand is f32; write 'int(...)', or "
                                 "'x - floor(x / y) * y' for f32");
    return kInvalid;
  }
  return add(operation, typeOf(left), op.range, {left, right});
}

NodeId Sema::select(const Token &question, NodeId condition, NodeId whereTrue, NodeId whereFalse) {
  if (condition == kInvalid || whereTrue == kInvalid || whereFalse == kInvalid)
    return kInvalid;
  if (!wantType(condition, ScalarType::boolean, question.range, "the condition of '?'"))
    return kInvalid;
  bool areBools =
      typeOf(whereTrue) == ScalarType::boolean && typeOf(whereFalse) == ScalarType::boolean;
  if (!areBools && !unifyNumbers(whereTrue, whereFalse, question.range, "'?' with one number"))
    return kInvalid;
  return add(Operator::select, typeOf(whereTrue), question.range,
             {condition, whereTrue, whereFalse});
}

int32_t Sema::beginReduction(const Token &index, const Token &function, NodeId bound) {
  int32_t reduction = reductions_++;
  declare(index, Symbol::reduction, reduction);
  if (bound == kInvalid ||
      !wantType(bound, ScalarType::i32, function.range, "the bound of " + quoted(function.text)))
    return reduction;
  const Node &node = variant_.nodes[bound];
  if (node.dependsOnScore || node.indices != 0 || !node.reductions.empty())
    diagnostics_.error(
        function.range,
        "the bound of " + quoted(function.text) +
            " must be the same for the whole launch; use a parameter, an extent or "
            "a number, and write the part that varies as a condition, as 'any(i < 16: i < "
            "q && ...)'");
  return reduction;
}

NodeId Sema::endReduction(const Token &index, const Token &function, int32_t reduction,
                          NodeId bound, NodeId value) {
  auto entry = symbols_.find(index.text);
  if (entry != symbols_.end() && entry->second.kind == Symbol::reduction &&
      entry->second.value == reduction)
    symbols_.erase(entry);
  if (bound == kInvalid || value == kInvalid || typeOf(bound) != ScalarType::i32)
    return kInvalid;
  std::string role = "the expression of " + quoted(function.text);
  if (function.is("sum")) {
    if (!unifyNumbers(value, value, function.range, quoted(function.text)))
      return kInvalid;
    return add(Operator::reduceSum, typeOf(value), function.range, {bound, value}, reduction);
  }
  if (!wantType(value, ScalarType::boolean, function.range, role))
    return kInvalid;
  return add(function.is("any") ? Operator::reduceAny : Operator::reduceAll, ScalarType::boolean,
             function.range, {bound, value}, reduction);
}

} // namespace tesela
