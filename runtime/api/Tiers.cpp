//===- Tiers.cpp - A simple kernel first, then the best ----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "api/Tiers.h"

#include "api/KernelRequest.h"
#include "api/State.h"
#include "cache/KernelKey.h"
#include "system/UnfinishedWork.h"
#include "tesela/compiler/SimpleSchedule.h"

namespace tesela {

static bool isOver(Code code) { return code == Code::cancelled || code == Code::deadlineExceeded; }

static std::string textOf(const std::optional<ProblemSizes> &sizes) {
  std::string text;
  if (sizes)
    for (int64_t size :
         {sizes->batch, sizes->heads, sizes->kvHeads, sizes->length, sizes->kvLength})
      text += std::to_string(size) + " ";
  return text;
}

Result<Kernel> Tiers::request(const KernelSpecification &specification,
                              const std::optional<ProblemSizes> &sizes,
                              const RequestLimits &limits) {
  UnfinishedWork work;
  if (Status status = work.mayBegin(); !status)
    return status.error();
  bool isChosen = !specification.schedule.empty() || templateFolderInUse();
  std::string schedule = isChosen ? "" : simpleSchedule(specification);
  if (schedule.empty())
    return context.tuning->request(specification, sizes, limits);
  // A request whose deadline has passed searches the caches, but neither compiles nor waits.
  RequestLimits inCaches = limits;
  inCaches.deadline = std::chrono::steady_clock::now();
  Result<Kernel> found = context.tuning->request(specification, sizes, inCaches);
  if (found || !isOver(found.code()))
    return found;
  if (Status status = limits.check(); !status)
    return status.error();

  KernelSpecification simple = specification;
  simple.schedule = schedule;
  Result<Kernel> first = requestKernel(context, simple, limits);
  if (!first && isOver(first.code()))
    return first;
  if (!first) {
    Result<Kernel> best = context.tuning->request(specification, sizes, limits);
    if (best)
      context.events->warn(
          "the simple schedule of '" + best->info().variantName +
          "' does not compile, and the best one was waited for: " + first.error().message());
    return best;
  }
  auto state = std::make_shared<Kernel::State>(*first->internal());
  state->info.scheduleOrigin = KernelInfo::ScheduleOrigin::simple;
  state->better = replacementFor(specification, sizes);
  return Kernel(std::move(state));
}

std::shared_ptr<Replacement> Tiers::replacementFor(const KernelSpecification &specification,
                                                   const std::optional<ProblemSizes> &sizes) {
  std::string key = kernelKey(specification, textOf(sizes));
  std::lock_guard lock(mutex);
  std::erase_if(replacements, [](const auto &each) { return each.second.expired(); });
  if (std::shared_ptr<Replacement> known = replacements[key].lock())
    if (known->isMade(std::chrono::milliseconds(0))) // if it failed, make it again
      return known;
  auto make = [&context = context, specification, sizes](const RequestLimits &limits) {
    Result<Kernel> best = context.tuning->request(specification, sizes, limits);
    if (!best && !isOver(best.code()))
      context.events->warn(
          "the best schedule of a kernel did not compile in the background, so its "
          "launches continue with the simple one: " +
          best.error().message());
    return best;
  };
  auto made = std::make_shared<Replacement>(
      context.preparations.add(make, std::nullopt, Preparations::Urgency::background));
  replacements[key] = made;
  return made;
}

} // namespace tesela
