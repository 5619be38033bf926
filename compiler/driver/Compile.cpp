//===- Compile.cpp - The compiler's one entry -------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tesela/compiler/Compile.h"

#include "SourceDigest.h"
#include "driver/Attempts.h"
#include "driver/Compilation.h"
#include "driver/LargeStack.h"

#include "llvm/Config/llvm-config.h"

#include <fmt/format.h>

namespace tesela {
namespace {

/// compile(), on the current thread's stack.
Result<Artifact> compileHere(const Attempt &attempt, CompileTimes *times,
                             const RequestLimits &limits) {
  Compilation compilation(attempt, times);
  auto runSteps = [&](std::initializer_list<Status (Compilation::*)()> steps) {
    for (auto step : steps) {
      if (Status status = limits.check(); !status)
        return status;
      if (Status status = (compilation.*step)(); !status)
        return status;
    }
    return limits.check();
  };
  if (Status status = runSteps({&Compilation::checkSpecification, &Compilation::parse,
                                &Compilation::choose, &Compilation::bind, &Compilation::lowerCore});
      !status)
    return status.error();
  Artifact artifact = compilation.makeArtifact();

  if (attempt.specification.target.kind == Target::Kind::host) {
    Result<HostObject> object = compilation.hostCode();
    if (!object)
      return object.error();
    artifact.format = CodeFormat::hostObject;
    artifact.code = std::move(object->object);
    for (Launch &launch : artifact.launches) {
      launch.threads = 0;
      launch.workspaceBytes = object->workspaceBytes;
    }
    return artifact;
  }

  if (Status status = runSteps({&Compilation::lowerPipe, &Compilation::lowerNVVM}); !status)
    return status.error();
  Result<std::string> ptx = compilation.ptx();
  if (!ptx)
    return ptx.error();
  artifact.format = CodeFormat::ptx;
  artifact.code = std::move(*ptx);
  for (Launch &launch : artifact.launches)
    launch.sharedBytes = compilation.sharedBytesOf(launch.kernel);
  return artifact;
}

/// The first attempt that lowers. If there is only one, it is not tried.
Result<Attempt> taken(const std::vector<Attempt> &attempts) {
  if (attempts.size() == 1)
    return attempts.front();
  return firstToLower<Attempt>(attempts, [](const Attempt &each) -> Result<Attempt> {
    Compilation compilation(each, nullptr);
    for (auto step : {&Compilation::checkSpecification, &Compilation::parse, &Compilation::choose,
                      &Compilation::bind, &Compilation::lowerCore, &Compilation::lowerPipe,
                      &Compilation::lowerNVVM})
      if (Status status = (compilation.*step)(); !status)
        return status.error();
    return each;
  });
}

} // namespace

struct CompileAttempts::State {
  std::vector<Attempt> attempts;
  size_t next = 0;
};

CompileAttempts::CompileAttempts(const KernelSpecification &specification)
    : state(new State{attemptsFor(specification)}) {}
CompileAttempts::~CompileAttempts() = default;

bool CompileAttempts::hasMore() const { return state->next < state->attempts.size(); }

Result<Artifact> CompileAttempts::next(CompileTimes *times, const RequestLimits &limits) {
  llvm::ArrayRef<Attempt> rest = llvm::ArrayRef(state->attempts).drop_front(state->next);
  return onLargeStack([&] {
    return firstToLower<Artifact>(rest, [&](const Attempt &each) {
      ++state->next;
      return compileHere(each, times, limits);
    });
  });
}

Result<Artifact> compile(const KernelSpecification &specification, CompileTimes *times,
                         const RequestLimits &limits) {
  return CompileAttempts(specification).next(times, limits);
}

Result<ChosenKernel> chooseKernel(const KernelSpecification &specification) {
  Result<Attempt> best = taken(attemptsFor(specification));
  if (!best)
    return best.error();
  Compilation compilation(*best, nullptr);
  for (auto step : {&Compilation::checkSpecification, &Compilation::parse, &Compilation::choose})
    if (Status status = (compilation.*step)(); !status)
      return status.error();
  return compilation.chosen();
}

Result<std::string> emit(const KernelSpecification &specification, Stage stage) {
  return onLargeStack([&] {
    Result<Attempt> best = taken(attemptsFor(specification));
    return best ? Compilation(*best, nullptr).emitStage(stage) : best.error();
  });
}

// TESELA_SOURCE_DIGEST is a hash of the compiler's sources, so every change makes caches invalid.
std::string compilerVersion(Target::Kind kind) {
#ifdef NDEBUG
  constexpr const char *build = "release";
#else
  constexpr const char *build = "debug"; // its kernels trap if a wait does not end
#endif
  std::string version = fmt::format("tesela {} {} {}, LLVM {}", TESELA_VERSION, build,
                                    TESELA_SOURCE_DIGEST, LLVM_VERSION_STRING);
  return kind == Target::Kind::host ? version + ", " + hostCpuIdentity() : version;
}

} // namespace tesela
