//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "api/Preparations.h"

#include "system/Caught.h"
#include "system/Processors.h"
#include "system/UnfinishedWork.h"

#include <algorithm>

namespace tesela {

/// In a child of fork(): the result if it was ready, else an error. If the lock is held, it was not
/// ready.
static Result<Kernel> parentsResult(Preparation::State &state) {
  std::unique_lock lock(state.mutex, std::try_to_lock);
  if (lock && state.result)
    return *state.result;
  return Error(Code::cancelled, "the kernel was still being prepared when this process was forked, "
                                "so this process does not have it: request it again");
}

namespace {
/// Makes a task more urgent as long as a thread waits for it.
class Waiting {
public:
  explicit Waiting(std::atomic<int> &urgency) : urgency(urgency) { ++urgency; }
  Waiting(const Waiting &) = delete;
  Waiting &operator=(const Waiting &) = delete;
  ~Waiting() { --urgency; }

private:
  std::atomic<int> &urgency;
};
} // namespace

bool Preparation::ready() const {
  if (state->isParents())
    return true;
  std::lock_guard lock(state->mutex);
  return state->result.has_value();
}

bool Preparation::waitFor(std::chrono::milliseconds time) const {
  if (state->isParents())
    return true;
  if (time <= time.zero())
    return ready();
  Waiting waiting(*state->urgency);
  std::unique_lock lock(state->mutex);
  return state->changed.wait_for(lock, time, [&] { return state->result.has_value(); });
}

Result<Kernel> Preparation::get() const {
  if (state->isParents())
    return parentsResult(*state);
  Waiting waiting(*state->urgency);
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

// A compilation takes one core and, for a GPU, up to about 150 MB, most of it in ptxas.
static constexpr int mostThreads = 16;

Preparations::Preparations()
    : begun([] { return std::make_unique<Begun>(); }),
      threads(std::clamp(usableProcessors(), 1, mostThreads)) {}

Preparations::~Preparations() {
  Begun &begun = this->begun.get();
  std::lock_guard lock(begun.mutex);
  begun.closing = true;
  for (const std::weak_ptr<Preparation::State> &each : begun.states)
    if (std::shared_ptr<Preparation::State> state = each.lock())
      state->cancelled.request_stop();
}

Result<Preparation> Preparations::add(Make make, std::optional<std::chrono::milliseconds> time,
                                      Urgency urgency) {
  UnfinishedWork work;
  if (Status status = work.mayBegin(); !status)
    return status.error();
  auto state = std::make_shared<Preparation::State>();
  state->limits.cancelled = state->cancelled.get_token();
  if (time)
    state->limits.deadline = std::chrono::steady_clock::now() + *time;
  *state->urgency = int(urgency);
  auto task = [state, make = std::move(make)] {
    Result<Kernel> kernel = caught([&] { return make(state->limits); });
    std::lock_guard lock(state->mutex);
    if (!state->result)
      state->result = std::move(kernel);
    state->changed.notify_all();
  };
  Begun &begun = this->begun.get();
  std::lock_guard lock(begun.mutex);
  if (begun.closing)
    return Error(
        Code::cancelled,
        "the context was destroyed before the kernel was prepared: keep the context until then");
  std::erase_if(begun.states, [](const auto &each) { return each.expired(); });
  begun.states.push_back(state);
  Status added = caught([&]() -> Status {
    threads.add(std::move(task), state->urgency);
    return Status::success();
  });
  if (!added)
    return added.error().within("preparing a kernel");
  return Preparation(std::move(state));
}

} // namespace tesela
