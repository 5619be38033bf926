//===- Overrides.cpp - Choices that a caller makes -------------- -*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "schedule/Schedule.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <fmt/format.h>

namespace tesela {

Status overrideSchedule(Schedule &schedule, const std::string &text) {
  llvm::SmallVector<llvm::StringRef> items;
  if (!llvm::StringRef(text).trim().empty())
    llvm::StringRef(text).split(items, ',');
  llvm::SmallVector<llvm::StringRef> given;
  for (llvm::StringRef item : items) {
    if (item.trim().empty())
      return Error(Code::invalidArgument,
                   fmt::format("schedule: '{}' has a comma without a field next to it; write name "
                               "= value, name = value",
                               text));
    if (item.count('=') != 1) // such as "block_m: 64" or "block_m = 64 block_n = 64"
      return Error(Code::invalidArgument,
                   fmt::format("schedule: '{}' must have the form name = value, with a comma "
                               "before the next name, for example block_m = 64, block_n = 64",
                               item.trim().str()));
    auto [name, value] = item.split('=');
    name = name.trim();
    value = value.trim();
    if (llvm::is_contained(given, name))
      return Error(Code::invalidArgument,
                   fmt::format("schedule: {} is given twice; leave one out", name.str()));
    given.push_back(name);
    if (std::string fault = schedule.set(name, value); !fault.empty())
      return Error(Code::invalidArgument, "schedule: " + fault);
  }
  return Status::success();
}

std::string mergedOverrides(const std::string &weak, const std::string &strong) {
  auto itemsOf = [](llvm::StringRef text) {
    llvm::SmallVector<llvm::StringRef> items;
    text.split(items, ',', -1, /*KeepEmpty=*/false);
    return items;
  };
  auto nameOf = [](llvm::StringRef item) { return item.split('=').first.trim(); };
  llvm::SmallVector<llvm::StringRef> taken = itemsOf(strong);
  std::string merged = strong;
  for (llvm::StringRef item : itemsOf(weak)) {
    if (llvm::any_of(taken, [&](llvm::StringRef each) { return nameOf(each) == nameOf(item); }))
      continue;
    if (!llvm::StringRef(merged).trim().empty())
      merged += ",";
    merged += item;
  }
  return merged;
}

} // namespace tesela
