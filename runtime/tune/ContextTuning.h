//===- ContextTuning.h - A context's tuned schedules ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Stands between compile() and requests for a kernel with one schedule. It knows which schedules
// were measured for a specification, and for which sizes of launches.
//
// One process, one answer: choices depend only on the records that existed when the context was
// created, and on those that this context was asked to make. Records are small (a kilobyte, from a
// race of seconds) and are kept as long as the context. The kernels made from them, with the
// variants' texts, can be made again from the same records, so only the most recently requested
// ones are kept.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TUNE_CONTEXTTUNING_H
#define TESELA_TUNE_CONTEXTTUNING_H

#include "cache/OnceMap.h"
#include "system/PerProcess.h"
#include "system/TaskThreads.h"
#include "tesela/Context.h"
#include "tesela/compiler/Compile.h"
#include "tune/RecordStore.h"
#include "tune/TunedKernels.h"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <unordered_map>

namespace tesela {

struct ContextState;
struct LoadedKernel;

class ContextTuning {
public:
  /// `context` owns this object and outlives it.
  ContextTuning(ContextState &context, const ContextOptions &options);
  /// Ends all tuning in the background.
  ~ContextTuning();

  /// The kernel of requestKernel(), with a tuned schedule if one is known and `specification` names
  /// none. `sizes`: of most launches.
  Result<Kernel> request(const KernelSpecification &specification,
                         const std::optional<ProblemSizes> &sizes, const RequestLimits &limits);

  /// Stores a record that was just made, for later requests and, if launches swap kernels, for
  /// launches. Returns the path of its file.
  Result<std::string> keep(const KernelSpecification &specification, const TuneRecord &record);

  /// All stored records of a kernel, whoever made them.
  std::vector<TuneRecord> records(const KernelSpecification &specification) const;

  /// The number of variants whose kernels are kept.
  size_t keptCount() const { return known.size(); }

private:
  /// A specification without its schedule, and the kernels of its records by sizes.
  struct Known {
    Known(const KernelSpecification &specification, bool swaps)
        : specification(specification), kernels(swaps) {}
    KernelSpecification specification;
    mutable TunedKernels kernels; ///< thread-safe by itself
  };
  struct Records {
    std::vector<TuneRecord> list; ///< one per bucket
    /// How many new records must not change the answers to earlier requests.
    int revision = 0;
  };
  /// Outlives the context, because kernels may ask later. `owner` is then null.
  struct Mailbox {
    std::mutex mutex;
    ContextTuning *owner;
  };
  using KnownPointer = std::shared_ptr<const Known>;

  ContextState &context;
  const Tuning mode;
  const double seconds;
  const std::string device;
  RecordStore store;
  mutable std::mutex mutex;                          ///< guards `recorded`
  std::unordered_map<std::string, Records> recorded; ///< the key is recordKernel()
  OnceMap<Known> known;                              ///< the key is knownKey()
  std::atomic<bool> hasDropped = false;              ///< a value of `known`
  std::shared_ptr<Mailbox> mailbox;
  PerProcess<std::stop_source> stopping;
  std::atomic<bool> warned = false;
  TaskThreads tuning{1}; ///< the last member, so that races end first

  bool swaps() const { return mode == Tuning::onFirstUse || mode == Tuning::full; }
  Records recordsOf(const std::string &kernel) const;
  std::optional<TuneRecord> find(const std::string &kernel, const SizeBucket &bucket) const;
  void add(const TuneRecord &record, bool isNewAnswer);
  static std::string knownKey(const std::string &kernel, int revision);

  /// The kernel of `record`, or the heuristic's if there is no record.
  Result<Kernel> requestOne(const KernelSpecification &specification,
                            const std::optional<TuneRecord> &record, const RequestLimits &limits);
  /// The same kernel, whose launches with other sizes run other kernels.
  Result<Kernel> requestAll(const KernelSpecification &specification,
                            const std::optional<TuneRecord> &record, const RequestLimits &limits);
  Result<Kernel> load(const KernelSpecification &specification, const TuneRecord &record,
                      const RequestLimits &limits);
  /// Makes the kernels of all `records`, and runs `alsoDo` at the same time.
  Result<KnownPointer> makeKnown(const KernelSpecification &specification, const Records &records,
                                 const std::function<void()> &alsoDo, const RequestLimits &limits);
  void missing(const KnownPointer &known, const Extents &extents,
               const std::vector<ScalarArgument> &scalars);
  /// Races for launches of `extents` and stores the winner. A failure becomes a warning.
  void tune(const KernelSpecification &specification, const Extents &extents,
            const std::vector<ScalarArgument> &scalars, bool inBackground,
            const RequestLimits &limits);
  /// If launches swap, they run the record's kernel from now on.
  void swapIn(const KernelSpecification &specification, const TuneRecord &record,
              const RequestLimits &limits);
  void warnOnce(const std::string &sentence);
};

} // namespace tesela

#endif // TESELA_TUNE_CONTEXTTUNING_H
