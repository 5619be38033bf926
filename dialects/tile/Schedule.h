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

/// The number that is subtracted in a row's exponentials (TileAttributes.td).
enum class ScheduleReference { follow, lazy, recompute };
llvm::StringRef nameOf(ScheduleReference reference);

/// All choices about how a kernel runs. ScheduleFields.def lists the fields, TileAttributes.td
/// says what each field means.
struct Schedule {
#define TESELA_NUMBER(scope, name, member, initial, least, most, printed) int64_t member = initial;
#define TESELA_FLAG(scope, name, member, printed) bool member = false;
#define TESELA_REFERENCE(scope, name, member, printed)                                             \
  ScheduleReference member = ScheduleReference::follow;
#include "tile/ScheduleFields.def"

  bool operator==(const Schedule &other) const = default;

  /// Threads of a GPU's thread block.
  int64_t threads() const { return consumers > 0 ? 128 * (consumers + 1) : 32 * warps; }

  /// The same blocks and warps without roles, for a kernel without products: its warps load and
  /// store themselves.
  Schedule withoutRoles() const;

  /// "block_m = 128, block_n = 64, …": the text inside #tile.schedule<…>.
  std::string text() const;
  /// Every field that the target has, with defaults that text() leaves out. If these are given as
  /// overrides, the result is this schedule, whatever a heuristic chooses.
  std::string pinnedText() const;

  /// Sets the field `name` to `value`. Returns an error message, or "" if there is no error.
  std::string set(llvm::StringRef name, llvm::StringRef value);
};

llvm::hash_code hash_value(const Schedule &schedule);

/// The targets that have a field.
enum class ScheduleScope {
  common, ///< all targets
  gpu,    ///< GPUs
  roles,  ///< GPUs, in schedules with consumers
  host    ///< the host
};

/// A row of ScheduleFields.def.
struct ScheduleField {
  enum class Printed { always, unlessDefault };
  using Member = std::variant<int64_t Schedule::*, bool Schedule::*, ScheduleReference Schedule::*>;

  ScheduleScope scope;
  llvm::StringRef name;
  Member member;
  Printed printed;
  int64_t least = 0, most = 0; ///< the limits of a number

  /// The value as schedules print it: "64", "true", "lazy".
  std::string valueOf(const Schedule &schedule) const;
  bool isDefault(const Schedule &schedule) const;
};
const std::vector<ScheduleField> &scheduleFields();

/// The names of the fields of `scope`, for example "overlap, turns and persistent".
std::string namesOf(ScheduleScope scope);
/// Whether a field of `scope` differs from its default in `schedule`.
bool usesScope(const Schedule &schedule, ScheduleScope scope);

} // namespace tesela

#endif // TESELA_TILE_SCHEDULE_H
