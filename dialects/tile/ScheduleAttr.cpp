//===- ScheduleAttr.cpp - The text of #tile.schedule ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tile/Tile.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace tesela::tile {

void ScheduleAttr::print(AsmPrinter &printer) const {
  printer << '<' << getChoices().text() << '>';
}

/// Reads a value into a text: a word or an integer.
static ParseResult parseValue(AsmParser &parser, std::string &value) {
  StringRef word;
  if (succeeded(parser.parseOptionalKeyword(&word))) {
    value = word.str();
    return success();
  }
  int64_t number = 0; // g++ 12 does not see that parseInteger sets it
  if (parser.parseInteger(number))
    return failure();
  value = std::to_string(number);
  return success();
}

Attribute ScheduleAttr::parse(AsmParser &parser, Type) {
  Schedule schedule;
  SmallVector<std::string> given;
  auto parseField = [&]() -> ParseResult {
    SMLoc loc = parser.getCurrentLocation();
    StringRef name;
    std::string value;
    if (parser.parseKeyword(&name) || parser.parseEqual() || parseValue(parser, value))
      return failure();
    if (llvm::is_contained(given, name))
      return parser.emitError(loc) << name << " is given twice; leave one out";
    given.push_back(name.str());
    if (std::string fault = schedule.set(name, value); !fault.empty())
      return parser.emitError(loc) << fault;
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, parseField))
    return {};
  for (const ScheduleField &field : scheduleFields())
    if (field.printed == ScheduleField::Printed::always && !llvm::is_contained(given, field.name)) {
      parser.emitError(parser.getNameLoc())
          << "expected a schedule with " << field.name << ", got none; add it";
      return {};
    }
  return get(parser.getContext(), schedule);
}

} // namespace tesela::tile
