//===- UnfinishedWork.h - Calls that a fork() interrupts --------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_SYSTEM_UNFINISHEDWORK_H
#define TESELA_SYSTEM_UNFINISHEDWORK_H

#include "tesela/Status.h"

namespace tesela {

/// Exists during a call that compiles or looks for compiled kernels. Such a call takes locks of
/// Tesela and of LLVM. If another thread was in such a call when the process was forked, the locks
/// may stay locked forever in the child, so calls there are refused instead of waiting.
class UnfinishedWork {
public:
  UnfinishedWork();
  UnfinishedWork(const UnfinishedWork &) = delete;
  UnfinishedWork &operator=(const UnfinishedWork &) = delete;
  ~UnfinishedWork();

  /// Code::unsupported: this process is such a child.
  Status mayBegin() const;
};

} // namespace tesela

#endif // TESELA_SYSTEM_UNFINISHEDWORK_H
