//===- EnteredDevice.h - Makes a device current -----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_BACKEND_ENTEREDDEVICE_H
#define TESELA_BACKEND_ENTEREDDEVICE_H

#include "backend/Backend.h"

namespace tesela {

/// Makes the code's device current during its life.
class EnteredDevice {
public:
  explicit EnteredDevice(const LoadedCode &code) : code(code), entered(code.enter()) {}
  EnteredDevice(const EnteredDevice &) = delete;
  EnteredDevice &operator=(const EnteredDevice &) = delete;
  ~EnteredDevice() {
    if (entered && *entered)
      code.leave();
  }
  Status status() const { return entered ? Status::success() : Status(entered.error()); }

private:
  const LoadedCode &code;
  Result<bool> entered;
};

} // namespace tesela

#endif // TESELA_BACKEND_ENTEREDDEVICE_H
