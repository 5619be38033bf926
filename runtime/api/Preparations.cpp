//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "api/Preparations.h"

#include "api/State.h"
#include "system/Caught.h"
#include "system/Processors.h"
#include "system/UnfinishedWork.h"

#include <algorithm>

namespace tesela {

/// In a child of fork(): what was ready then, else a sentence. Whose lock is held was not ready.
static Result<Kernel> parentsResult(Preparation::State &state) {
  std::unique_lock lock(state.mutex, std::try_to_lock);
  if (lock && state.result)
    return *state.result;
  return Error(Code::cancelled, "the kernel was still being prepared when this process was forked, "
                                "and is not in it: ask for it again");
}

bool Preparation::ready() const {
  if (state->isParents())
    return true;
  std::lock_guard lock(state->mutex);
  return state->result.has_value();
}

bool Preparation::waitFor(std::chrono::milliseconds time) const {
  if (state->isParents())
    return true;
  std::unique_lock lock(state->mutex);
  return state->changed.wait_for(lock, time, [&] { return state->result.has_value(); });
}

Result<Kernel> Preparation::get() const {
  if (state->isParents())
    return parentsResult(*state);
  std::unique_lock lock(state->mutex);
  auto done = [&] { return state->result.has_value(); };
  if (!state->limits.deadline)
    state->changed.wait(lock, done);
  else if (!state->changed.wait_until(lock, *state->limits.deadline, done))
    state->result = state->limits.check().error();
  return *state->result;
}

void Preparation::cancel() const {
  if (!state->isParents())
    state->cancelled.request_stop();
}

// A compilation takes one core and, for a host kernel, some 20 MB at its peak: beyond eight a
// server's own work would feel it more than the last kernel's coming a little later.
static constexpr int mostThreads = 8;

Preparations::Preparations()
    : begun([] { return std::make_unique<Begun>(); }),
      threads(std::clamp(usableProcessors(), 1, mostThreads)) {}

Preparations::~Preparations() {
  Begun &begun = this->begun.get();
  std::lock_guard lock(begun.mutex);
  for (const std::weak_ptr<Preparation::State> &each : begun.states)
    if (std::shared_ptr<Preparation::State> state = each.lock())
      state->cancelled.request_stop();
}

Result<Preparation> Preparations::add(ContextState &context, KernelSpecification specification,
                                      std::optional<ProblemSizes> sizes,
                                      std::optional<std::chrono::milliseconds> time) {
  UnfinishedWork work;
  if (Status status = work.mayBegin(); !status)
    return status.error();
  auto state = std::make_shared<Preparation::State>();
  state->limits.cancelled = state->cancelled.get_token();
  if (time)
    state->limits.deadline = std::chrono::steady_clock::now() + *time;
  {
    Begun &begun = this->begun.get();
    std::lock_guard lock(begun.mutex);
    std::erase_if(begun.states, [](const auto &each) { return each.expired(); });
    begun.states.push_back(state);
  }
  auto task = [&context, state, specification = std::move(specification), sizes] {
    Result<Kernel> kernel =
        caught([&] { return context.tuning->request(specification, sizes, state->limits); });
    std::lock_guard lock(state->mutex);
    if (!state->result)
      state->result = std::move(kernel);
    state->changed.notify_all();
  };
  Status added = caught([&]() -> Status {
    threads.add(std::move(task));
    return Status::success();
  });
  if (!added)
    return added.error().within("preparing a kernel");
  return Preparation(std::move(state));
}

} // namespace tesela
