//===- Status.cpp ---------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tesela/Status.h"

namespace tesela {

const char *codeName(Code code) {
  switch (code) {
  case Code::ok:
    return "ok";
  case Code::invalidArgument:
    return "invalid argument";
  case Code::invalidVariant:
    return "invalid variant";
  case Code::unsupported:
    return "unsupported";
  case Code::notFound:
    return "not found";
  case Code::inputOutput:
    return "input/output error";
  case Code::driver:
    return "driver error";
  case Code::outOfMemory:
    return "out of memory";
  case Code::defect:
    return "defect in Tesela";
  case Code::cancelled:
    return "cancelled";
  case Code::deadlineExceeded:
    return "deadline exceeded";
  }
  return "unknown code";
}

} // namespace tesela
