//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tesela/compiler/Compile.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>

namespace tesela {

std::string KernelSpecification::canonicalText() const {
  // The variant, the schedule and others may contain any text. Their lengths make sure
  // that two different specifications never have the same text.
  std::string text = "target " + target.name() + "\ninput " +
                     std::string(elementTypeName(inputType)) + "\nhead_dim_qk " +
                     std::to_string(headDimQk) + "\nhead_dim_v " + std::to_string(headDimV);
  text += "\nalgorithm " + std::to_string(algorithm.size()) + " " + algorithm;
  for (const std::string &binding : std::multiset(bindings.begin(), bindings.end()))
    text += "\nbinding " + std::to_string(binding.size()) + " " + binding;
  text += "\nexpected_length " + std::to_string(std::bit_width(uint64_t(expectedLength)));
  uint64_t queries = expectedQueries > 0 ? std::bit_ceil(uint64_t(expectedQueries)) : 0;
  text += "\nexpected_queries " + std::to_string(queries);
  text += "\nschedule " + std::to_string(schedule.size()) + "\n" + schedule;
  if (dropout)
    text += "\ndropout";
  std::map<std::string, double> sorted;
  for (const ConstantValue &constant : constants)
    sorted[constant.name] = constant.value;
  for (const auto &[name, value] : sorted) // the bits of the value: each number is another kernel
    text += "\nconst " + std::to_string(name.size()) + " " + name + " " +
            std::to_string(std::bit_cast<uint64_t>(value));
  text += "\nvariant " + std::to_string(variantText.size()) + "\n" + variantText;
  return text;
}

bool KernelSpecification::isPlaced() const {
  return std::ranges::any_of(bindings, [](const std::string &binding) {
    std::string name = binding.substr(0, binding.find('='));
    return std::ranges::find(placeBindings, name) != placeBindings.end();
  });
}

bool KernelSpecification::hasNarrowKeys() const {
  return std::ranges::find(bindings, "cache=e4m3") != bindings.end();
}

bool KernelSpecification::sharesPrefix() const {
  return std::ranges::find(bindings, "prefix=shared") != bindings.end();
}

double CompileTimes::total() const {
  double sum = 0;
  for (const auto &[stage, milliseconds] : stages)
    sum += milliseconds;
  return sum;
}

} // namespace tesela
