//===- UnfinishedWork.h - What a child of fork() cannot go on ---*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_SYSTEM_UNFINISHEDWORK_H
#define TESELA_SYSTEM_UNFINISHEDWORK_H

#include "tesela/Status.h"

namespace tesela {

/// Lives as long as a call that compiles, or looks for compiled kernels. Such a call takes locks of
/// ours and of LLVM; where another thread was in one when the process was forked, they may be
/// locked for ever in the child, so that a call there is refused instead of waiting for them.
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
