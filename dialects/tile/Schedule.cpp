//===- Schedule.cpp - How a kernel runs ---------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tile/Schedule.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <optional>

namespace tesela {

static constexpr llvm::StringRef references[] = {"follow", "lazy", "recompute"};

llvm::StringRef nameOf(ScheduleReference reference) { return references[int(reference)]; }

const std::vector<ScheduleField> &scheduleFields() {
  using enum ScheduleScope;
  using enum ScheduleField::Printed;
  static const std::vector<ScheduleField> fields = {
#define TESELA_NUMBER(scope, name, member, initial, least, most, printed)                          \
  {scope, name, &Schedule::member, printed, least, most},
#define TESELA_FLAG(scope, name, member, printed) {scope, name, &Schedule::member, printed},
#define TESELA_REFERENCE(scope, name, member, printed) {scope, name, &Schedule::member, printed},
#include "tile/ScheduleFields.def"
  };
  return fields;
}

std::string ScheduleField::valueOf(const Schedule &schedule) const {
  return std::visit(
      [&](auto field) -> std::string {
        auto value = schedule.*field;
        if constexpr (std::is_same_v<decltype(value), bool>)
          return value ? "true" : "false";
        else if constexpr (std::is_same_v<decltype(value), ScheduleReference>)
          return nameOf(value).str();
        else
          return std::to_string(value);
      },
      member);
}

bool ScheduleField::isDefault(const Schedule &schedule) const {
  return std::visit([&](auto field) { return schedule.*field == Schedule().*field; }, member);
}

std::string namesOf(ScheduleScope scope) {
  std::string names;
  std::optional<llvm::StringRef> last;
  for (const ScheduleField &field : scheduleFields()) {
    if (field.scope != scope)
      continue;
    if (last)
      names += (names.empty() ? "" : ", ") + last->str();
    last = field.name;
  }
  return names + (names.empty() ? "" : " and ") + last->str();
}

bool usesScope(const Schedule &schedule, ScheduleScope scope) {
  return llvm::any_of(scheduleFields(), [&](const ScheduleField &field) {
    return field.scope == scope && !field.isDefault(schedule);
  });
}

llvm::hash_code hash_value(const Schedule &schedule) {
  llvm::hash_code hash = 0;
  for (const ScheduleField &field : scheduleFields())
    hash =
        std::visit([&](auto member) { return llvm::hash_combine(hash, int64_t(schedule.*member)); },
                   field.member);
  return hash;
}

Schedule Schedule::withoutRoles() const {
  Schedule plain = *this;
  plain.consumers = 0;
  for (const ScheduleField &field : scheduleFields())
    if (field.scope == ScheduleScope::roles)
      std::visit([&](auto member) { plain.*member = Schedule().*member; }, field.member);
  return plain;
}

/// "name = value, …" for the fields that `prints` selects.
static std::string join(const Schedule &schedule,
                        llvm::function_ref<bool(const ScheduleField &)> prints) {
  std::string text;
  for (const ScheduleField &field : scheduleFields())
    if (prints(field))
      text += (text.empty() ? "" : ", ") + field.name.str() + " = " + field.valueOf(schedule);
  return text;
}

std::string Schedule::text() const {
  return join(*this, [&](const ScheduleField &field) {
    return field.printed == ScheduleField::Printed::always || !field.isDefault(*this);
  });
}

std::string Schedule::pinnedText() const {
  bool isHost = vectorLength > 0;
  return join(*this, [&](const ScheduleField &field) {
    return field.scope == ScheduleScope::common || (field.scope == ScheduleScope::host) == isHost ||
           !field.isDefault(*this);
  });
}

std::string Schedule::set(llvm::StringRef name, llvm::StringRef value) {
  auto *field = llvm::find_if(scheduleFields(), [&](const ScheduleField &each) {
                  return each.name == name;
                }).base();
  if (field == scheduleFields().data() + scheduleFields().size()) {
    auto names = llvm::map_range(scheduleFields(), [](auto &each) { return each.name; });
    return "'" + name.str() + "' is not a field of a schedule; the fields are " +
           llvm::join(llvm::drop_end(names), ", ") + " and " + scheduleFields().back().name.str();
  }
  if (auto *number = std::get_if<int64_t Schedule::*>(&field->member)) {
    int64_t given;
    if (value.getAsInteger(10, given) || given < field->least || given > field->most)
      return name.str() + " must be a whole number from " + std::to_string(field->least) + " to " +
             std::to_string(field->most) + ", not '" + value.str() + "'";
    this->**number = given;
  } else if (auto *flag = std::get_if<bool Schedule::*>(&field->member)) {
    if (value != "true" && value != "false")
      return name.str() + " must be true or false, not '" + value.str() + "'";
    this->**flag = value == "true";
  } else {
    const auto *known = llvm::find(references, value);
    if (known == std::end(references))
      return name.str() + " must be follow, lazy or recompute, not '" + value.str() + "'";
    this->*std::get<ScheduleReference Schedule::*>(field->member) =
        ScheduleReference(known - std::begin(references));
  }
  return "";
}

} // namespace tesela
