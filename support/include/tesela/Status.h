//===- Status.h - Failures as values ----------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Every function of Tesela that can fail returns a Status or a Result<T>.
// Nothing throws, prints or exits across the library's boundary.
//
// A failure is one of two kinds, distinguished by `Error::isDefect()`. The caller or the
// environment can correct the first kind (a wrong extent, a missing driver). The second is a defect
// of Tesela (Code::defect); its message asks to report it.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_STATUS_H
#define TESELA_STATUS_H

#include "tesela/Export.h"

#include <cassert>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace tesela {

/// The kind of a failure, for programs. The C API has the same numbers.
enum class Code : int {
  ok = 0,
  /// An argument's value, shape, stride, alignment or type is not accepted.
  invalidArgument = 1,
  /// The variant's text has errors; the message holds all diagnostics.
  invalidVariant = 2,
  /// Valid, but this version or this target cannot do it.
  unsupported = 3,
  /// A file, device, kernel or library was not found.
  notFound = 4,
  /// Reading or writing failed, or what was read is damaged.
  inputOutput = 5,
  /// The GPU's driver reported an error.
  driver = 6,
  /// Host or device memory ran out.
  outOfMemory = 7,
  /// A defect of Tesela: please report it.
  defect = 8,
  /// The caller took the request back.
  cancelled = 9,
  /// The time that the caller gave was over.
  deadlineExceeded = 10,
};

/// The code's name as it is printed: "invalid argument", "driver error", ...
TESELA_EXPORT const char *codeName(Code code);

/// A failure: a code, and a sentence that names the value, the limit and the
/// remedy.
class [[nodiscard]] Error {
public:
  Error(Code code, std::string message) : code_(code), message_(message) {
    assert(code != Code::ok && "an error needs a code");
    chain_.push_back(std::move(message));
  }

  Code code() const { return code_; }
  /// The whole chain in one text, "context: cause".
  const std::string &message() const { return message_; }
  /// The links of the chain: what was tried first, its cause, the cause's cause. Never empty.
  const std::vector<std::string> &chain() const { return chain_; }
  bool isDefect() const { return code_ == Code::defect; }

  /// The same failure seen from the caller: "context: message".
  Error within(const std::string &context) const {
    Error outer = *this;
    outer.message_ = context + ": " + message_;
    outer.chain_.insert(outer.chain_.begin(), context);
    return outer;
  }

private:
  Code code_;
  std::string message_;
  std::vector<std::string> chain_;
};

/// Success, or an Error.
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}
  static Status success() { return Status(); }

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  Code code() const { return error_ ? error_->code() : Code::ok; }
  /// Only where `!ok()`.
  const Error &error() const { return *error_; }

private:
  std::optional<Error> error_;
};

/// A value, or an Error.
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  Code code() const { return ok() ? Code::ok : error().code(); }

  /// Only where `ok()`.
  T &value() & { return std::get<0>(state_); }
  const T &value() const & { return std::get<0>(state_); }
  T &&value() && { return std::get<0>(std::move(state_)); }
  T &operator*() & { return value(); }
  const T &operator*() const & { return value(); }
  T *operator->() { return &value(); }
  const T *operator->() const { return &value(); }

  /// Only where `!ok()`.
  const Error &error() const { return std::get<1>(state_); }

private:
  std::variant<T, Error> state_;
};

} // namespace tesela

#endif // TESELA_STATUS_H
