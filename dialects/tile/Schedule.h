//===- Schedule.h - How a kernel runs ---------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TILE_SCHEDULE_H
#define TESELA_TILE_SCHEDULE_H

#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace tesela {

/// What the exponents of a row are relative to (TileAttributes.td).
enum class ScheduleReference { follow, lazy, recompute };
llvm::StringRef nameOf(ScheduleReference reference);

/// Every choice about how a kernel runs. ScheduleFields.def lists the choices, TileAttributes.td
/// says what each means.
struct Schedule {
#define TESELA_NUMBER(scope, name, member, initial, least, most, printed) int64_t member = initial;
#define TESELA_FLAG(scope, name, member, printed) bool member = false;
#define TESELA_REFERENCE(scope, name, member, printed) ScheduleReference member = ScheduleReference::follow;
#include "tile/ScheduleFields.def"

  bool operator==(const Schedule &other) const = default;

  /// Threads of a GPU's thread block.
  int64_t threads() const { return consumers > 0 ? 128 * (consumers + 1) : 32 * warps; }

  /// The same blocks and warps without roles: of a kernel without products, whose loads and stores
  /// the warps do themselves.
  Schedule withoutRoles() const;

  /// "block_m = 128, block_n = 64, …": the body of #tile.schedule.
  std::string text() const;
  /// Every choice that the target has, also those that text() leaves out as defaults: as overrides
  /// they give this schedule whatever a heuristic chooses.
  std::string pinnedText() const;

  /// Sets the choice `name` to `value`. Returns what is wrong, or "".
  std::string set(llvm::StringRef name, llvm::StringRef value);
};

llvm::hash_code hash_value(const Schedule &schedule);

/// Who has a choice.
enum class ScheduleScope {
  common, ///< all targets
  gpu,    ///< GPUs
  roles,  ///< GPUs, with consumers
  host    ///< the host
};

/// A row of ScheduleFields.def.
struct ScheduleField {
  enum class Printed { always, unlessDefault };
  using Member =
      std::variant<int64_t Schedule::*, bool Schedule::*, ScheduleReference Schedule::*>;

  ScheduleScope scope;
  llvm::StringRef name;
  Member member;
  Printed printed;
  int64_t least = 0, most = 0; ///< of a number

  /// As a text has it: "64", "true", "lazy".
  std::string valueOf(const Schedule &schedule) const;
  bool isDefault(const Schedule &schedule) const;
};
const std::vector<ScheduleField> &scheduleFields();

/// "overlap, turns and persistent": the names of the choices that `scope` has.
std::string namesOf(ScheduleScope scope);
/// Whether `schedule` makes a choice of `scope` that is not the default.
bool usesScope(const Schedule &schedule, ScheduleScope scope);

} // namespace tesela

#endif // TESELA_TILE_SCHEDULE_H
