//===- Caught.h - Exceptions become errors ----------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_SYSTEM_CAUGHT_H
#define TESELA_SYSTEM_CAUGHT_H

#include "tesela/Status.h"

#include <exception>
#include <new>
#include <system_error>

namespace tesela {

/// Calls `work` and returns its Status or Result; an exception becomes an Error. Tesela throws
/// nothing, but the C++ library throws if memory or threads run out. Such an exception must not end
/// a thread, leave another thread waiting forever, or leave the library.
template <typename Work> auto caught(Work work) noexcept -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc &) {
    return Error(Code::outOfMemory, "host memory ran out: make the problem smaller");
  } catch (const std::system_error &error) {
    return Error(Code::outOfMemory, std::string("the system cannot start a thread (") +
                                        error.what() +
                                        "): raise the limit of processes, or request less at once");
  } catch (const std::exception &error) {
    return Error(Code::defect, error.what());
  } catch (...) {
    return Error(Code::defect, "an exception of an unknown type");
  }
}

} // namespace tesela

#endif // TESELA_SYSTEM_CAUGHT_H
