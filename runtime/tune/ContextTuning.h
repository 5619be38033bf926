//===- ContextTuning.h - A context's tuned schedules ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Between compile() and the requests for kernels of one schedule: which schedules are known for a
// specification, and for which sizes of launches.
//
// One process, one answer: what decides is the records that were there when the context was made,
// and those that this context was asked to make. They are small (a race takes seconds, its record a
// kilobyte), and none goes before the context does. The kernels that are made of them, with the
// variants' texts, can be made again by the same records: of these the ones asked for last are
// kept.
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
  /// `context` holds this and outlives it.
  ContextTuning(ContextState &context, const ContextOptions &options);
  /// Ends what runs in the background.
  ~ContextTuning();

  /// What requestKernel gives, with a tuned schedule where one is known and `specification` names
  /// none itself. `sizes`: of most launches.
  Result<Kernel> request(const KernelSpecification &specification,
                         const std::optional<ProblemSizes> &sizes, const RequestLimits &limits);

  /// Keeps a record that was just made and lets later requests use it, and launches where they swap
  /// kernels; the path of its file.
  Result<std::string> keep(const KernelSpecification &specification, const TuneRecord &record);

  /// What is kept of a kernel by now, whoever made it.
  std::vector<TuneRecord> records(const KernelSpecification &specification) const;

  /// How many variants' kernels are kept.
  size_t keptCount() const { return known.size(); }

private:
  /// A specification without its schedule, and the kernels of its records by sizes.
  struct Known {
    Known(const KernelSpecification &specification, bool swaps)
        : specification(specification), kernels(swaps) {}
    KernelSpecification specification;
    mutable TunedKernels kernels; ///< guards itself
  };
  struct Records {
    std::vector<TuneRecord> list; ///< one a bucket
    /// How often what is said of earlier requests was not to change with a new record.
    int revision = 0;
  };
  /// What outlives the context, for kernels that ask it: no owner then.
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
  std::unordered_map<std::string, Records> recorded; ///< by recordKernel()
  OnceMap<Known> known;                              ///< by knownKey()
  std::atomic<bool> hasDropped = false;              ///< one of `known`
  std::shared_ptr<Mailbox> mailbox;
  PerProcess<std::stop_source> stopping;
  std::atomic<bool> warned = false;
  TaskThreads tuning{1}; ///< races; the last member: it goes first

  bool swaps() const { return mode == Tuning::onFirstUse || mode == Tuning::full; }
  Records recordsOf(const std::string &kernel) const;
  std::optional<TuneRecord> find(const std::string &kernel, const SizeBucket &bucket) const;
  void add(const TuneRecord &record, bool isNewAnswer);
  static std::string knownKey(const std::string &kernel, int revision);

  /// The kernel of `record`, or where there is none the heuristic's.
  Result<Kernel> requestOne(const KernelSpecification &specification,
                            const std::optional<TuneRecord> &record, const RequestLimits &limits);
  /// That kernel, whose launches run others for other sizes.
  Result<Kernel> requestAll(const KernelSpecification &specification,
                            const std::optional<TuneRecord> &record, const RequestLimits &limits);
  Result<Kernel> load(const KernelSpecification &specification, const TuneRecord &record,
                      const RequestLimits &limits);
  /// The kernels of all `records`; `alsoDo` is done beside them.
  Result<KnownPointer> makeKnown(const KernelSpecification &specification, const Records &records,
                                 const std::function<void()> &alsoDo, const RequestLimits &limits);
  void missing(const KnownPointer &known, const Extents &extents,
               const std::vector<ScalarArgument> &scalars);
  /// Races for launches of `extents` and keeps the winner; a failure is told as a warning.
  void tune(const KernelSpecification &specification, const Extents &extents,
            const std::vector<ScalarArgument> &scalars, bool inBackground,
            const RequestLimits &limits);
  /// Launches that swap run the record's kernel from now on.
  void swapIn(const KernelSpecification &specification, const TuneRecord &record,
              const RequestLimits &limits);
  void warnOnce(const std::string &sentence);
};

} // namespace tesela

#endif // TESELA_TUNE_CONTEXTTUNING_H
