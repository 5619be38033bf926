//===- Opcodes.h - Counts of opcodes in PTX ---------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TESTS_TARGETS_NVVM_OPCODES_H
#define TESELA_TESTS_TARGETS_NVVM_OPCODES_H

#include <cctype>
#include <map>
#include <sstream>
#include <string>

namespace tesela {

/// Counts how often each opcode occurs in a text.
class Opcodes {
public:
  explicit Opcodes(const std::string &ptx) : text(ptx) {
    std::istringstream lines(ptx);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string word;
      words >> word;
      if (word.starts_with("@"))
        words >> word;
      if (!word.empty() && std::islower(word.front()))
        ++counts[word.substr(0, word.find_first_of(";,"))];
    }
  }

  /// The number of opcodes with this prefix.
  int count(const std::string &prefix) const {
    int sum = 0;
    for (auto it = counts.lower_bound(prefix); it != counts.end() && it->first.starts_with(prefix);
         ++it)
      sum += it->second;
    return sum;
  }
  int exactly(const std::string &opcode) const {
    auto it = counts.find(opcode);
    return it == counts.end() ? 0 : it->second;
  }

  std::string text;

private:
  std::map<std::string, int> counts;
};

inline int occurrences(const std::string &text, const std::string &part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

} // namespace tesela

#endif // TESELA_TESTS_TARGETS_NVVM_OPCODES_H
