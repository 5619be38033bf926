//===- Memory.cpp ---------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "api/State.h"

namespace tesela {

Buffer::Buffer(Buffer &&other) noexcept
    : owner(std::move(other.owner)), address(std::exchange(other.address, nullptr)),
      bytes(std::exchange(other.bytes, 0)) {}

Buffer &Buffer::operator=(Buffer &&other) noexcept {
  std::swap(owner, other.owner);
  std::swap(address, other.address);
  std::swap(bytes, other.bytes);
  return *this;
}

Buffer::~Buffer() {
  if (address)
    owner->backend->release(address);
}

Result<Buffer> Context::allocate(size_t bytes) const {
  Result<void *> address = state->backend->allocate(bytes);
  if (!address)
    return address.error();
  Buffer buffer;
  buffer.owner = state;
  buffer.address = *address;
  buffer.bytes = bytes;
  return buffer;
}

static Status checkWithin(size_t bytes, const Buffer &buffer) {
  if (bytes <= buffer.size())
    return Status::success();
  return Error(Code::invalidArgument, "a copy of " + std::to_string(bytes) +
                                          " bytes does not fit a buffer of " +
                                          std::to_string(buffer.size()) + " bytes");
}

Status Context::copyToDevice(const Buffer &to, const void *from, size_t bytes, void *stream) const {
  if (Status status = checkWithin(bytes, to); !status)
    return status;
  return state->backend->copyToDevice(to.data(), from, bytes, stream);
}

Status Context::copyToHost(void *to, const Buffer &from, size_t bytes, void *stream) const {
  if (Status status = checkWithin(bytes, from); !status)
    return status;
  return state->backend->copyToHost(to, from.data(), bytes, stream);
}

Status Context::fill(const Buffer &buffer, uint8_t byte, void *stream) const {
  return state->backend->fill(buffer.data(), byte, buffer.size(), stream);
}

Status Context::synchronize(void *stream) const { return state->backend->synchronize(stream); }

Result<std::vector<double>> Context::measure(const std::function<Status()> &work, int warmup,
                                             int repeat, void *stream) const {
  for (int i = 0; i < warmup; ++i)
    if (Status status = work(); !status)
      return status.error();
  if (Status status = synchronize(stream); !status)
    return status.error();
  std::vector<double> milliseconds;
  for (int i = 0; i < repeat; ++i) {
    Result<double> one = state->backend->time(work, stream);
    if (!one)
      return one.error();
    milliseconds.push_back(*one);
  }
  return milliseconds;
}

} // namespace tesela
