//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "bundle/CNames.h"

#include <algorithm>
#include <set>

namespace tesela {

/// Keywords of C up to C23 and of C++ up to C++23, and macros that headers of C programs or
/// compilers define.
static constexpr std::string_view takenByC[] = {
    "EOF",
    "I",
    "INFINITY",
    "NAN",
    "NULL",
    "alignas",
    "alignof",
    "and",
    "and_eq",
    "asm",
    "assert",
    "auto",
    "bitand",
    "bitor",
    "bool",
    "break",
    "case",
    "catch",
    "char",
    "char16_t",
    "char32_t",
    "char8_t",
    "class",
    "co_await",
    "co_return",
    "co_yield",
    "compl",
    "complex",
    "concept",
    "const",
    "const_cast",
    "consteval",
    "constexpr",
    "constinit",
    "continue",
    "decltype",
    "default",
    "delete",
    "do",
    "double",
    "dynamic_cast",
    "else",
    "enum",
    "errno",
    "explicit",
    "export",
    "extern",
    "false",
    "float",
    "for",
    "friend",
    "goto",
    "if",
    "imaginary",
    "inline",
    "int",
    "linux",
    "long",
    "mutable",
    "namespace",
    "new",
    "noexcept",
    "not",
    "not_eq",
    "nullptr",
    "operator",
    "or",
    "or_eq",
    "private",
    "protected",
    "public",
    "register",
    "reinterpret_cast",
    "requires",
    "restrict",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "static_assert",
    "static_cast",
    "stderr",
    "stdin",
    "stdout",
    "struct",
    "switch",
    "template",
    "this",
    "thread_local",
    "throw",
    "true",
    "try",
    "typedef",
    "typeid",
    "typename",
    "typeof",
    "typeof_unqual",
    "union",
    "unix",
    "unsigned",
    "using",
    "virtual",
    "void",
    "volatile",
    "wchar_t",
    "while",
    "xor",
    "xor_eq",
};

static constexpr std::string_view takenByArguments[] = {
    "scale", "workspace", "workspace_bytes", "captures_unchanged", "B", "H", "Hkv", "Sq", "Sk",
};

/// Names in the launcher's functions that use tensors' names, too.
static constexpr std::string_view takenByFunctions[] = {
    "c",      "x",       "kernel",     "arguments", "stream",    "error",
    "status", "counter", "workspaces", "sizes",     "too_large",
};

/// Headers that a launcher or its program includes. If the bundle's folder is searched for headers,
/// a header of the bundle with such a name would hide them.
static constexpr std::string_view takenByHeaders[] = {
    "assert",   "complex", "ctype",       "cuda",   "dlfcn",     "errno",   "fenv",    "float",
    "inttypes", "iso646",  "limits",      "locale", "malloc",    "math",    "memory",  "pthread",
    "setjmp",   "signal",  "stdalign",    "stdarg", "stdatomic", "stdbool", "stddef",  "stdint",
    "stdio",    "stdlib",  "stdnoreturn", "string", "strings",   "tgmath",  "threads", "time",
    "uchar",    "unistd",  "wchar",       "wctype",
};

/// Whether a name has the form of the C library's macros (SIZE_MAX, RAND_MAX, HUGE_VAL) or types
/// (int32_t).
static bool looksLikeTheLibrarys(std::string_view name) {
  bool hasLower =
      std::any_of(name.begin(), name.end(), [](char c) { return c >= 'a' && c <= 'z'; });
  return name.ends_with("_t") || (name.size() > 2 && !hasLower && !name.ends_with('_'));
}

static bool isTaken(std::string_view name) {
  auto isIn = [&](const auto &names) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
  };
  return isIn(takenByC) || isIn(takenByArguments) || name.starts_with('_') || // reserved in C
         looksLikeTheLibrarys(name);
}

bool isCName(std::string_view name) {
  auto isLetter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  auto isPart = [&](char c) { return isLetter(c) || (c >= '0' && c <= '9') || c == '_'; };
  constexpr size_t longest = 100; // leaves room for suffixes in the 255 bytes of a file name
  return !name.empty() && name.size() <= longest && isLetter(name.front()) &&
         std::all_of(name.begin(), name.end(), isPart);
}

bool isHeaderOfC(std::string_view name) {
  return std::find(std::begin(takenByHeaders), std::end(takenByHeaders), name) !=
         std::end(takenByHeaders);
}

MemberNames memberNames(const std::vector<TensorArgument> &tensors,
                        const std::vector<Parameter> &parameters, std::string_view bundle) {
  auto isTaken = [&](std::string_view name) { // the launcher's types are NAME_tensor, NAME_kernel
    bool isType = name.starts_with(bundle) && name.substr(bundle.size()).starts_with('_') &&
                  !name.ends_with('_');
    return isType || tesela::isTaken(name);
  };
  auto isCapture = [&](std::string_view name) { // the launcher's name for a captured tensor
    return std::ranges::any_of(parameters, [&](const Parameter &parameter) {
      return name == "capture_" + parameter.name;
    });
  };
  auto isTakenForTensors = [&](std::string_view name) {
    return isTaken(name) || isCapture(name) || std::ranges::count(takenByFunctions, name) > 0;
  };
  std::set<std::string> used; // a tensor keeps a free name before a parameter does
  auto freeName = [&](std::string name, const auto &isTaken) {
    if (isTaken(name) || used.contains(name)) {
      name = (name.starts_with('_') ? "p" : "") + name + "_";
      while (isTaken(name) || used.contains(name))
        name += '_';
    }
    used.insert(name);
    return name;
  };
  MemberNames names;
  for (const TensorArgument &tensor : tensors)
    names.tensors.push_back(freeName(tensor.name, isTakenForTensors));
  std::set<std::string> kept; // parameters' own names come before generated ones
  for (const Parameter &parameter : parameters)
    if (!isTaken(parameter.name) && used.insert(parameter.name).second)
      kept.insert(parameter.name);
  for (const Parameter &parameter : parameters)
    names.parameters.push_back(kept.contains(parameter.name) ? parameter.name
                                                             : freeName(parameter.name, isTaken));
  return names;
}

} // namespace tesela
