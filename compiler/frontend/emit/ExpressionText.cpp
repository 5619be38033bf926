//===- ExpressionText.cpp -------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/emit/ExpressionText.h"

#include "frontend/Parser.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>
#include <charconv>
#include <cmath>

using namespace mlir;

namespace tesela {
namespace {

/// A value with several uses becomes a let if this saves at least so many operators and names.
constexpr int64_t kWorthALet = 16;
/// A value that is nested deeper becomes a let, too. The language's limit is 200 levels.
constexpr int kDeepestText = 100;
/// The largest number of operators, numbers and names in all texts with their lets. The language's
/// limit is 8192.
constexpr int64_t kLargestText = 8000;

/// The value of an i32 constant; nullopt for anything else.
std::optional<int32_t> integerOf(Value value) {
  APInt number;
  if (!matchPattern(value, m_ConstantInt(&number)) || number.getBitWidth() != 32)
    return std::nullopt;
  return int32_t(number.getSExtValue());
}

std::string numberText(float value) {
  char text[40];
  auto [end, failure] = std::to_chars(text, text + sizeof text, value);
  std::string result(text, end);
  if (result.find_first_of(".en") == std::string::npos) // "inf" and "nan" have an n
    result += ".0";
  return result;
}

} // namespace

ExpressionText::ExpressionText(attn::VariantOp variant, Block &body, ArrayRef<Value> roots)
    : variant(variant), body(body) {
  for (const char *word : {"attention", "let", "mask", "score", "sink",  "const", "exact", "true",
                           "false",     "inf", "s",    "b",     "h",     "hkv",   "q",     "k",
                           "int",       "min", "max",  "abs",   "clamp", "exp",   "log",   "sqrt",
                           "tanh",      "sin", "cos",  "floor", "any",   "all",   "sum"})
    taken.insert(word);
  for (Attribute parameter : variant.getParameters()) {
    auto capture = dyn_cast<attn::CaptureAttr>(parameter);
    taken.insert(capture ? capture.getName() : cast<attn::ScalarAttr>(parameter).getName());
    if (!capture)
      continue;
    for (auto extent : capture.getExtents().getAsRange<StringAttr>()) {
      StringRef text = extent.getValue();
      if (text.contains('*'))
        text = text.split('*').second;
      taken.insert(text.take_until([](char c) { return c == '+' || c == '-'; }));
    }
  }
  chooseLets(roots);
}

std::string ExpressionText::freshName(StringRef stem, int &number) {
  std::string name;
  do
    name = (stem + Twine(++number)).str();
  while (taken.contains(name));
  return name;
}

//===----------------------------------------------------------------------===//
// Forms
//===----------------------------------------------------------------------===//

ExpressionText::Form ExpressionText::binary(StringRef symbol, Value a, Value b) {
  constexpr std::pair<StringRef, int> levels[] = {
      {"||", 1}, {"&&", 2}, {"==", 3}, {"!=", 3}, {"<", 4}, {"<=", 4}, {">", 4},
      {">=", 4}, {"+", 5},  {"-", 5},  {"*", 6},  {"/", 6}, {"%", 6}};
  auto *known = llvm::find_if(levels, [&](auto &entry) { return entry.first == symbol; });
  return {Kind::binary, symbol.str(), {a, b}, known->second, false};
}

ExpressionText::Form ExpressionText::call(StringRef function, ValueRange arguments) {
  Form form{Kind::call, function.str(), {}, kPrimary, false};
  form.operands.append(arguments.begin(), arguments.end());
  return form;
}

std::string ExpressionText::indexName(size_t depth) const {
  std::string name;
  for (size_t free = 0, number = 0; free <= depth; ++number) {
    constexpr StringRef letters = "ijlmn";
    name = letters[number % letters.size()];
    if (number >= letters.size())
      name += std::to_string(number / letters.size());
    free += !taken.contains(name);
  }
  return name;
}

ExpressionText::Form ExpressionText::ofArgument(BlockArgument argument) {
  if (argument.getOwner() != &body)
    return {Kind::index, "", {}, kPrimary, true};
  constexpr StringRef names[] = {"s", "b", "h", "hkv", "q", "k"};
  // The arguments of a sink begin with b: they have no s.
  size_t number = argument.getArgNumber() + (body.getNumArguments() == 6 ? 0 : 1);
  return {Kind::name, names[number].str(), {}, kPrimary, number > 0};
}

ExpressionText::Form ExpressionText::ofConstant(TypedAttr constant) {
  auto name = [](std::string text, bool isInteger) {
    int level = text.starts_with('-') ? kUnary : kPrimary;
    return Form{Kind::name, std::move(text), {}, level, isInteger};
  };
  if (auto integer = dyn_cast<IntegerAttr>(constant)) {
    if (integer.getType().isInteger(1))
      return name(integer.getValue().isZero() ? "false" : "true", false);
    return name(std::to_string(integer.getInt()), true);
  }
  float value = cast<FloatAttr>(constant).getValue().convertToFloat();
  if (std::isnan(value))
    return name("(inf - inf)", false);
  // Integers are written without a point, except -0.0, which is not an i32.
  bool isWhole = value == std::trunc(value) && std::fabs(value) < 1e6f;
  if (isWhole && !(value == 0 && std::signbit(value)))
    return name(std::to_string(int32_t(value)), true);
  return name(numberText(value), false);
}

ExpressionText::Form ExpressionText::ofSelect(Value condition, Value whereTrue, Value whereFalse) {
  // min and max as Emit.cpp writes them: (b before a || isnan(a)) ? b : a.
  Value before = condition;
  bool ofFloats = whereTrue.getType().isF32();
  if (ofFloats) {
    auto either = condition.getDefiningOp<arith::OrIOp>();
    auto isNaN = either ? either.getRhs().getDefiningOp<arith::CmpFOp>() : nullptr;
    before = isNaN && isNaN.getPredicate() == arith::CmpFPredicate::UNO &&
                     isNaN.getLhs() == whereFalse && isNaN.getRhs() == whereFalse
                 ? either.getLhs()
                 : Value();
  }
  StringRef function;
  Operation *compare = before ? before.getDefiningOp() : nullptr;
  if (auto floats = dyn_cast_if_present<arith::CmpFOp>(compare))
    function = floats.getPredicate() == arith::CmpFPredicate::OLT   ? "min"
               : floats.getPredicate() == arith::CmpFPredicate::OGT ? "max"
                                                                    : "";
  else if (auto integers = dyn_cast_if_present<arith::CmpIOp>(compare))
    function = integers.getPredicate() == arith::CmpIPredicate::slt   ? "min"
               : integers.getPredicate() == arith::CmpIPredicate::sgt ? "max"
                                                                      : "";
  if (!function.empty() && compare->getOperand(0) == whereTrue &&
      compare->getOperand(1) == whereFalse) {
    auto negated = whereTrue.getDefiningOp<arith::SubIOp>(); // abs(x) is max(x, -x)
    if (function == "max" && negated && negated.getRhs() == whereFalse &&
        integerOf(negated.getLhs()) == 0)
      return call("abs", {whereFalse});
    return call(function, {whereFalse, whereTrue});
  }
  return {Kind::select, "?", {condition, whereTrue, whereFalse}, 0, false};
}

/// The extent as the tensor's declaration writes it: "2*M+1".
ExpressionText::Form ExpressionText::ofExtent(Value value, attn::CaptureExtentOp extent) {
  auto capture = cast<attn::CaptureAttr>(variant.findParameter(extent.getName()));
  std::string text = cast<StringAttr>(capture.getExtents()[extent.getAxis()]).getValue().str();
  int level = kPrimary;
  if (text.find_first_of("+-*") != std::string::npos)
    text = "(" + text + ")";
  return {Kind::name, text, {}, level, true};
}

/// Recognises (extent - offset) / coefficient, which is a name that a tensor's shape binds.
bool ExpressionText::findsBoundExtent(Value value, Form &form) {
  int32_t coefficient = 1, offset = 0;
  if (auto quotient = value.getDefiningOp<attn::FloorDivOp>()) {
    std::optional<int32_t> divisor = integerOf(quotient.getRhs());
    if (!divisor)
      return false;
    coefficient = *divisor;
    value = quotient.getLhs();
  }
  if (auto difference = value.getDefiningOp<arith::SubIOp>()) {
    std::optional<int32_t> subtracted = integerOf(difference.getRhs());
    if (!subtracted)
      return false;
    offset = *subtracted;
    value = difference.getLhs();
  }
  auto extent = value.getDefiningOp<attn::CaptureExtentOp>();
  if (!extent)
    return false;
  auto capture = cast<attn::CaptureAttr>(variant.findParameter(extent.getName()));
  StringRef written = cast<StringAttr>(capture.getExtents()[extent.getAxis()]).getValue();
  StringRef name = written.contains('*') ? written.split('*').second : written;
  name = name.take_until([](char c) { return c == '+' || c == '-'; });
  std::string expected =
      coefficient == 1 ? name.str() : std::to_string(coefficient) + "*" + name.str();
  if (offset != 0)
    expected += (offset > 0 ? "+" : "") + std::to_string(offset);
  if (written != expected || name.empty() || llvm::isDigit(name.front()))
    return false;
  form = {Kind::name, name.str(), {}, kPrimary, true};
  return true;
}

/// Writes 1 / u · x as x / u. The sweep puts uniform factors first; the quotient is easier to read.
ExpressionText::Form ExpressionText::ofProduct(Value a, Value b) {
  auto quotient = a.getDefiningOp<arith::DivFOp>();
  if (quotient && quotient->hasOneUse() && matchPattern(quotient.getLhs(), m_OneFloat()))
    return binary("/", b, quotient.getRhs());
  return binary("*", a, b);
}

ExpressionText::Form ExpressionText::findForm(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return ofArgument(argument);
  Form bound;
  if (findsBoundExtent(value, bound))
    return bound;
  Operation *op = value.getDefiningOp();
  auto operand = [&](unsigned index) { return op->getOperand(index); };
  auto pair = [&](StringRef symbol) { return binary(symbol, operand(0), operand(1)); };
  auto function = [&](StringRef name) { return call(name, op->getOperands()); };
  auto unary = [&](StringRef symbol, Value a) {
    return Form{Kind::unary, symbol.str(), {a}, kUnary, false};
  };
  return llvm::TypeSwitch<Operation *, Form>(op)
      .Case([&](arith::ConstantOp constant) { return ofConstant(constant.getValue()); })
      .Case([&](attn::ParamOp param) {
        return Form{Kind::name, param.getName().str(), {}, kPrimary, param.getType().isInteger(32)};
      })
      .Case([&](attn::ExtentOp extent) {
        return Form{
            Kind::name, attn::stringifyExtent(extent.getExtent()).str(), {}, kPrimary, true};
      })
      .Case([&](attn::CaptureExtentOp extent) { return ofExtent(value, extent); })
      .Case([&](attn::ReadOp read) {
        Form form = call(read.getName(), read.getIndices());
        form.kind = Kind::read;
        return form;
      })
      .Case([&](attn::ReduceOp reduce) {
        Value each = reduce.getBody().front().getTerminator()->getOperand(0);
        return Form{Kind::reduce,
                    attn::stringifyReduction(reduce.getKind()).str(),
                    {reduce.getBound(), each},
                    kPrimary,
                    false};
      })
      .Case([&](arith::SelectOp) { return ofSelect(operand(0), operand(1), operand(2)); })
      .Case([&](arith::CmpIOp compare) {
        constexpr StringRef symbols[] = {"==", "!=", "<", "<=", ">", ">="};
        return pair(symbols[size_t(compare.getPredicate())]);
      })
      .Case([&](arith::CmpFOp compare) {
        switch (compare.getPredicate()) {
        case arith::CmpFPredicate::OLT:
          return pair("<");
        case arith::CmpFPredicate::OLE:
          return pair("<=");
        case arith::CmpFPredicate::OGT:
          return pair(">");
        case arith::CmpFPredicate::OGE:
          return pair(">=");
        case arith::CmpFPredicate::OEQ:
          return pair("==");
        default: // a predicate that is true for NaN, with one value twice: whether it is NaN
          return pair("!=");
        }
      })
      .Case([&](arith::SIToFPOp) {
        return Form{Kind::conversion, "", {operand(0)}, kPrimary, true};
      })
      .Case([&](arith::XOrIOp) { return unary("!", operand(0)); })
      .Case([&](arith::SubIOp) {
        return integerOf(operand(0)) == 0 ? unary("-", operand(1)) : pair("-");
      })
      .Case([&](arith::NegFOp) { return unary("-", operand(0)); })
      .Case([&](arith::MulFOp) { return ofProduct(operand(0), operand(1)); })
      .Case<arith::AddIOp, arith::AddFOp>([&](auto) { return pair("+"); })
      .Case([&](arith::SubFOp) { return pair("-"); })
      .Case([&](arith::MulIOp) { return pair("*"); })
      .Case<attn::FloorDivOp, arith::DivFOp>([&](auto) { return pair("/"); })
      .Case([&](attn::FloorModOp) { return pair("%"); })
      .Case([&](arith::AndIOp) { return pair("&&"); })
      .Case([&](arith::OrIOp) { return pair("||"); })
      .Case([&](attn::ToIntOp) { return function("int"); })
      .Case([&](math::AbsFOp) { return function("abs"); })
      .Case([&](math::ExpOp) { return function("exp"); })
      .Case([&](math::LogOp) { return function("log"); })
      .Case([&](math::SqrtOp) { return function("sqrt"); })
      .Case([&](math::TanhOp) { return function("tanh"); })
      .Case([&](math::SinOp) { return function("sin"); })
      .Case([&](math::CosOp) { return function("cos"); })
      .Case([&](math::FloorOp) { return function("floor"); });
}

const ExpressionText::Form &ExpressionText::form(Value value) {
  auto known = forms.find(value);
  if (known != forms.end())
    return known->second;
  Form found = findForm(value); // may add other forms to the map, so no reference is kept
  return forms[value] = std::move(found);
}

bool ExpressionText::isInteger(Value value) {
  if (value.getType().isInteger() || letNames.contains(value))
    return value.getType().isInteger(32);
  auto known = integers.find(value);
  if (known != integers.end())
    return known->second;
  bool found = findIsInteger(value);
  return integers[value] = found;
}

bool ExpressionText::findIsInteger(Value value) {
  const Form known = form(value);
  auto operand = [&](size_t index) { return isInteger(known.operands[index]); };
  switch (known.kind) {
  case Kind::name:
  case Kind::index:
  case Kind::conversion:
    return known.isInteger;
  case Kind::read:
  case Kind::binary: // its text shows that an operand is an f32
  case Kind::reduce: // so does the text of a reduction
    return false;
  case Kind::unary:
    return operand(0);
  case Kind::select:
    return operand(1) && operand(2);
  case Kind::call:
    if (known.word != "abs" && known.word != "min" && known.word != "max")
      return false;
    return llvm::all_of(known.operands, [&](Value v) { return isInteger(v); });
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Lets
//===----------------------------------------------------------------------===//

void ExpressionText::chooseLets(ArrayRef<Value> roots) {
  // The values that are written, operands first, and the number of uses of each.
  llvm::DenseMap<Value, int64_t> uses;
  SmallVector<Value> order;
  auto visit = [&](auto &self, Value value) -> void {
    if (uses[value]++ > 0)
      return;
    SmallVector<Value, 3> operands = form(value).operands; // a copy: forms grow
    for (Value operand : operands)
      self(self, operand);
    order.push_back(value);
  };
  for (Value root : roots)
    visit(visit, root);

  llvm::DenseMap<Value, int64_t> sizes;
  llvm::DenseMap<Value, int> depths;
  int64_t written = 0;
  for (Value value : order) {
    int64_t size = 1;
    int depth = 1;
    const Form known = form(value);
    for (Value operand : known.operands) {
      size = std::min(size + sizes[operand], int64_t(1) << 40);
      depth = std::max(depth, depths[operand] + 1);
    }
    Operation *op = value.getDefiningOp();
    bool mayBeLet =
        op && op->getBlock() == &body && known.kind != Kind::name && known.kind != Kind::conversion;
    bool isWorth = (uses[value] - 1) * size >= kWorthALet && known.kind != Kind::read;
    if (mayBeLet && (isWorth || depth > kDeepestText)) {
      std::string text = write(value, 0, value.getType().isF32());
      letNames[value] = freshName("t", letNumber);
      letTexts.push_back("let " + letNames[value] + " = " + text);
      written += size;
      size = depth = 1;
    }
    sizes[value] = size;
    depths[value] = depth;
    withinLimits &=
        depth < 2 * kDeepestText - 10 && size <= kLargestText && written <= kLargestText;
    if (!withinLimits) // the text would exceed the limits
      return;
  }
  for (Value root : roots)
    withinLimits &= written + sizes[root] <= kLargestText;
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

std::string ExpressionText::text(Value value, ArrayRef<attn::RoundsOp> around) {
  for (auto [depth, rounds] : llvm::enumerate(around))
    indexNames[attn::RoundsOp(rounds).getBody().getArgument(0)] = indexName(depth);
  openReductions = around.size();
  std::string result = write(value, 0, false);
  openReductions = 0;
  return result;
}

std::string ExpressionText::round(ArrayRef<attn::RoundsOp> around) {
  attn::RoundsOp last = around.back();
  return indexName(around.size() - 1) + " < " + text(last.getBound(), around.drop_back());
}

std::string ExpressionText::write(Value value, int level, bool asFloat) {
  auto let = letNames.find(value);
  if (let != letNames.end())
    return let->second;
  const Form known = form(value);
  asFloat &= isInteger(value);
  if (known.kind == Kind::conversion && !asFloat) // the language converts implicitly
    return write(known.operands[0], level, false);
  int own = known.kind == Kind::conversion ? 6 : known.level; // it is written as a product
  std::string text = writeForm(known, value, asFloat);
  return own < level ? "(" + text + ")" : text;
}

std::string ExpressionText::writeForm(const Form &known, Value value, bool asFloat) {
  auto list = [&](bool firstAsFloat) {
    std::string text;
    for (auto [index, operand] : llvm::enumerate(known.operands))
      text += (index ? ", " : "") + write(operand, 0, firstAsFloat && index == 0);
    return text;
  };
  switch (known.kind) {
  case Kind::name:
    return asFloat ? known.word + ".0" : known.word; // an integer
  case Kind::index:
    return indexNames.lookup(value);
  case Kind::conversion:
    return "1.0 * " + write(known.operands[0], kUnary, false);
  case Kind::unary:
    return known.word + write(known.operands[0], kUnary, asFloat);
  case Kind::call:
    return known.word + "(" + list(asFloat || known.word == "int") + ")";
  case Kind::read:
    return known.word + "[" + list(false) + "]";
  case Kind::select:
    return write(known.operands[0], 1, false) + " ? " + write(known.operands[1], 0, asFloat) +
           " : " + write(known.operands[2], 0, false);
  case Kind::reduce: {
    std::string bound = write(known.operands[0], 0, false), name = indexName(openReductions);
    indexNames[cast<attn::ReduceOp>(value.getDefiningOp()).getBody().getArgument(0)] = name;
    ++openReductions;
    std::string each = write(known.operands[1], 0, value.getType().isF32());
    --openReductions;
    return known.word + "(" + name + " < " + bound + ": " + each + ")";
  }
  case Kind::binary:
    break;
  }
  Value a = known.operands[0], b = known.operands[1];
  // If both texts are i32, the language would compute in i32.
  bool needsFloat = a.getType().isF32() && isInteger(a) && isInteger(b);
  bool isOfConstant = b.getDefiningOp<arith::ConstantOp>() != nullptr;
  // Write x + -2 as x - 2.
  std::string symbol = known.word;
  std::string right = write(b, known.level + 1, needsFloat && isOfConstant);
  if (symbol == "+" && isOfConstant && right.starts_with('-') && right != "-2147483648") {
    symbol = "-";
    right = right.substr(1);
  }
  return write(a, known.level, needsFloat && !isOfConstant) + " " + symbol + " " + right;
}

} // namespace tesela
