//===- CApi.cpp - tesela/c/base.h and shared functions ---------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "api/CApi.h"

#include "system/ThreadOwn.h"

#include <span>

using namespace tesela;
using namespace tesela::c;

static_assert(int(TESELA_OK) == int(Code::ok) &&
              int(TESELA_INVALID_ARGUMENT) == int(Code::invalidArgument) &&
              int(TESELA_INVALID_VARIANT) == int(Code::invalidVariant) &&
              int(TESELA_UNSUPPORTED) == int(Code::unsupported) &&
              int(TESELA_NOT_FOUND) == int(Code::notFound) &&
              int(TESELA_INPUT_OUTPUT) == int(Code::inputOutput) &&
              int(TESELA_DRIVER) == int(Code::driver) &&
              int(TESELA_OUT_OF_MEMORY) == int(Code::outOfMemory) &&
              int(TESELA_DEFECT) == int(Code::defect) &&
              int(TESELA_CANCELLED) == int(Code::cancelled) &&
              int(TESELA_DEADLINE_EXCEEDED) == int(Code::deadlineExceeded));
static_assert(int(TESELA_F32) == int(ElementType::f32) &&
              int(TESELA_F16) == int(ElementType::f16) &&
              int(TESELA_BF16) == int(ElementType::bf16) &&
              int(TESELA_I32) == int(ElementType::i32) &&
              int(TESELA_BOOL) == int(ElementType::boolean) &&
              int(TESELA_E4M3) == int(ElementType::e4m3));

namespace {

struct FailureText {
  std::string message;
  std::vector<std::string> chain;
};

thread_local tesela_code lastCode = TESELA_OK;
thread_local uint64_t lastCount = 0;
/// Used instead of a text if there was no memory for the text of the last failure.
thread_local const char *lastLiteral = nullptr;

const char *lastSentence() {
  if (lastLiteral)
    return lastLiteral;
  const FailureText *text = ThreadOwn<FailureText>::known();
  return text ? text->message.c_str() : "";
}

std::span<const std::string> lastChain() {
  const FailureText *text = ThreadOwn<FailureText>::known();
  return text && !lastLiteral ? std::span<const std::string>(text->chain)
                              : std::span<const std::string>();
}

} // namespace

namespace tesela::c {

static tesela_code reportWithoutMemory(Code code) noexcept {
  ++lastCount;
  lastLiteral = "there is no host memory left, not even for this error's message: free memory";
  return lastCode = tesela_code(code);
}

tesela_code report(const Error &error) noexcept {
  try {
    FailureText *text = ThreadOwn<FailureText>::get();
    if (!text)
      return reportWithoutMemory(error.code());
    text->message = error.message();
    text->chain = error.chain();
    lastLiteral = nullptr;
    ++lastCount;
    return lastCode = tesela_code(error.code());
  } catch (...) {
    return reportWithoutMemory(error.code());
  }
}

tesela_code report(Code code, const char *sentence) noexcept {
  try {
    return report(Error(code, sentence));
  } catch (...) {
    return reportWithoutMemory(code);
  }
}

Error lastFailure() {
  std::span<const std::string> chain = lastChain();
  if (chain.empty())
    return Error(Code(lastCode), lastSentence());
  Error error(Code(lastCode), chain.back());
  for (size_t link = chain.size() - 1; link > 0; --link)
    error = error.within(chain[link - 1]);
  return error;
}

uint64_t failureCount() { return lastCount; }

Error invalid(const std::string &message) { return Error(Code::invalidArgument, message); }

Error noHandle(const char *name, const char *maker) {
  return invalid(std::string(name) + " is NULL: make one by " + maker);
}

Error noArray(const char *array, const char *count, size_t value) {
  return invalid(std::string(array) + " is NULL, but " + count + " is " + std::to_string(value) +
                 ": pass an array of that length, or set " + count + " to 0");
}

Status checkSize(const void *structure, const char *name) {
  if (!structure)
    return invalid(std::string(name) + " is NULL");
  size_t size;
  std::memcpy(&size, structure, sizeof size);
  // The limit leaves room for later versions. Any other number means that the caller forgot the
  // size.
  if (size < sizeof size || size > 4096)
    return invalid(std::string(name) + "'s size is " + std::to_string(size) +
                   ": set it to sizeof(" + name + ")");
  return Status::success();
}

Status checkUnknownFields(const void *structure, size_t known, const char *name) {
  size_t size;
  std::memcpy(&size, structure, sizeof size);
  const unsigned char *bytes = static_cast<const unsigned char *>(structure);
  if (std::all_of(bytes + known, bytes + size, [](unsigned char byte) { return byte == 0; }))
    return Status::success();
  return Error(Code::unsupported, std::string(name) + " sets fields that Tesela " + version() +
                                      " does not know: leave them 0, or use the library that the "
                                      "program was compiled for");
}

Status checkIndex(size_t index, size_t count, const char *what) {
  if (index < count)
    return Status::success();
  return invalid("the index is " + std::to_string(index) + ", there are " + std::to_string(count) +
                 " " + what);
}

Result<ElementType> elementType(int type) {
  if (type == TESELA_I64)
    return invalid("the type is i64, which only captured tensors may have: convert it to i32");
  if (elementSize(ElementType(type)) == 0)
    return invalid("the type " + std::to_string(type) +
                   " is not a value of tesela_type: use one of its values");
  return ElementType(type);
}

std::vector<tesela_stage> stagesOf(const std::vector<std::pair<std::string, double>> &stages) {
  std::vector<tesela_stage> result;
  result.reserve(stages.size());
  for (const auto &[name, milliseconds] : stages)
    result.push_back({name.c_str(), milliseconds});
  return result;
}

} // namespace tesela::c

#define TESELA_TEXT(number) #number
#define TESELA_VERSION_TEXT(major, minor, patch)                                                   \
  TESELA_TEXT(major) "." TESELA_TEXT(minor) "." TESELA_TEXT(patch)
static_assert(std::string_view(TESELA_VERSION) == TESELA_VERSION_TEXT(TESELA_VERSION_MAJOR,
                                                                      TESELA_VERSION_MINOR,
                                                                      TESELA_VERSION_PATCH),
              "the project's version is that of the header");

const char *tesela_version(void) { return TESELA_VERSION; }

int tesela_version_number(void) { return TESELA_VERSION_NUMBER; }

const char *tesela_code_name(tesela_code code) { return codeName(Code(code)); }

const char *tesela_last_error(void) { return lastSentence(); }

tesela_code tesela_last_error_code(void) { return lastCode; }

size_t tesela_last_error_count(void) { return lastChain().size(); }

const char *tesela_last_error_link(size_t index) {
  return index < lastChain().size() ? lastChain()[index].c_str() : nullptr;
}

const char *tesela_bytes_data(const tesela_bytes *bytes) {
  return bytes ? bytes->data.c_str() : "";
}

size_t tesela_bytes_size(const tesela_bytes *bytes) { return bytes ? bytes->data.size() : 0; }

void tesela_bytes_destroy(tesela_bytes *bytes) { delete bytes; }
