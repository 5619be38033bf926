//===- ObjectLoader.cpp - Makes host code callable --------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/host/ObjectLoader.h"

#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/ExecutionEngine/Orc/Core.h"
#include "llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h"
#include "llvm/ExecutionEngine/Orc/SelfExecutorProcessControl.h"
#include "llvm/Object/ELFObjectFile.h"

#include <cmath>
#include <cstring>
#include <mutex>

using namespace llvm;
using namespace llvm::orc;

namespace tesela {

struct HostCode::Session {
  explicit Session(std::unique_ptr<ExecutorProcessControl> control)
      : execution(std::move(control)), linker(execution),
        library(execution.createBareJITDylib("kernels")) {
    execution.setErrorReporter([this](llvm::Error error) {
      std::lock_guard lock(mutex);
      report += (report.empty() ? "" : "; ") + toString(std::move(error));
    });
  }
  ~Session() { consumeError(execution.endSession()); }

  std::mutex mutex; ///< guards `report`
  std::string report;
  ExecutionSession execution;
  ObjectLinkingLayer linker;
  JITDylib &library;
};

HostCode::HostCode(std::unique_ptr<Session> session) : session_(std::move(session)) {}
HostCode::~HostCode() = default;

/// Defines all functions that generated code may call. On CPUs without an instruction for an
/// operation LLVM calls the C library's function.
static llvm::Error defineLibraryFunctions(ExecutionSession &session, JITDylib &library) {
  auto symbol = [](auto *function) {
    return ExecutorSymbolDef(ExecutorAddr::fromPtr(function),
                             JITSymbolFlags::Exported | JITSymbolFlags::Callable);
  };
  return library.define(absoluteSymbols({
      {session.intern("memcpy"), symbol(&std::memcpy)},
      {session.intern("memset"), symbol(&std::memset)},
      {session.intern("memmove"), symbol(&std::memmove)},
      {session.intern("floorf"), symbol(static_cast<float (*)(float)>(&::floorf))},
      {session.intern("fmaf"), symbol(static_cast<float (*)(float, float, float)>(&::fmaf))},
  }));
}

/// Checks what JITLink assumes without checking.
static Status checkObject(MemoryBufferRef buffer) {
  Error damaged(Code::inputOutput, "the host code is no object file of this machine; remove the "
                                   "cached artifact and compile again");
  Expected<std::unique_ptr<object::ObjectFile>> object =
      object::ObjectFile::createELFObjectFile(buffer);
  if (!object) {
    consumeError(object.takeError());
    return damaged;
  }
  if (!(*object)->isRelocatableObject() || (*object)->getArch() != Triple::x86_64)
    return damaged;
  return Status::success();
}

Result<std::shared_ptr<HostCode>> HostCode::load(std::string_view object) {
  auto failure = [](llvm::Error error) {
    return Error(Code::inputOutput,
                 "the host code could not be linked: " + toString(std::move(error)) +
                     "; remove the cached artifact and compile again");
  };
  // The linker needs an aligned buffer of its own, so copy the object.
  std::unique_ptr<MemoryBuffer> buffer =
      MemoryBuffer::getMemBufferCopy(StringRef(object.data(), object.size()), "kernel");
  if (Status status = checkObject(*buffer); !status)
    return status.error();

  Expected<std::unique_ptr<SelfExecutorProcessControl>> control =
      SelfExecutorProcessControl::Create(std::make_shared<SymbolStringPool>(),
                                         std::make_unique<InPlaceTaskDispatcher>());
  if (!control)
    return failure(control.takeError());
  auto session = std::make_unique<Session>(std::move(*control));
  if (llvm::Error error = defineLibraryFunctions(session->execution, session->library))
    return failure(std::move(error));
  if (llvm::Error error = session->linker.add(session->library, std::move(buffer)))
    return failure(std::move(error));
  return std::shared_ptr<HostCode>(new HostCode(std::move(session)));
}

Result<HostKernel *> HostCode::find(const std::string &symbol) const {
  Expected<ExecutorSymbolDef> found =
      session_->execution.lookup({&session_->library}, session_->execution.intern(symbol));
  if (found)
    return found->getAddress().toPtr<HostKernel *>();
  std::string reason = toString(found.takeError());
  std::lock_guard lock(session_->mutex);
  if (!session_->report.empty())
    reason += ": " + session_->report;
  return Error(Code::notFound, "the host code has no kernel \"" + symbol + "\" (" + reason +
                                   "); remove the cached artifact and compile again");
}

} // namespace tesela
