//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "bundle/CodeReach.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/TargetParser/Host.h"

#include <set>

namespace tesela {

CodeReach reachOf(CodeFormat format, std::string_view architecture) {
  if (architecture.ends_with('a'))
    return CodeReach::here;
  if (architecture.ends_with('f') || format == CodeFormat::cubin)
    return CodeReach::inMajor;
  return CodeReach::onward;
}

bool runsOn(CodeReach reach, int sm, int deviceSm) {
  if (deviceSm == sm)
    return true;
  return deviceSm > sm &&
         (reach == CodeReach::onward || (reach == CodeReach::inMajor && deviceSm / 10 == sm / 10));
}

static std::set<std::string> ownFeatures() {
  std::set<std::string> names;
  for (const auto &feature : llvm::sys::getHostCPUFeatures())
    if (feature.getValue())
      names.insert(feature.getKey().str());
  return names;
}

static std::string join(const std::set<std::string> &names, const char *separator) {
  std::string text;
  for (const std::string &name : names)
    text += (text.empty() ? "" : separator) + name;
  return text;
}

std::string hostFeatures() { return join(ownFeatures(), ","); }

std::string lackingHostFeatures(std::string_view needed) {
  std::set<std::string> own = ownFeatures(), lacking;
  for (size_t begin = 0; begin < needed.size();) {
    size_t end = std::min(needed.find(',', begin), needed.size());
    if (std::string name(needed.substr(begin, end - begin)); !own.contains(name))
      lacking.insert(std::move(name));
    begin = end + 1;
  }
  return join(lacking, ", ");
}

} // namespace tesela
