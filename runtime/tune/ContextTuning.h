//===- ContextTuning.h - A context's tuned schedules ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Between compile() and the requests for kernels of one schedule: which schedules are known for a
// specification, and for which sizes of launches.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TUNE_CONTEXTTUNING_H
#define TESELA_TUNE_CONTEXTTUNING_H

#include "system/TaskThreads.h"
#include "tesela/Context.h"
#include "tesela/compiler/Compile.h"
#include "tune/RecordStore.h"
#include "tune/TunedKernels.h"

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

  /// Keeps a record that was just made and lets launches use it; the path of its file.
  Result<std::string> keep(const KernelSpecification &specification, const TuneRecord &record);

  /// What is known of a kernel.
  std::vector<TuneRecord> records(const KernelSpecification &specification) const;

private:
  /// A specification without its schedule, what is known of it, and its kernels by size.
  struct Known {
    KernelSpecification specification;
    std::mutex mutex; ///< guards `records`
    std::vector<TuneRecord> records;
    TunedKernels kernels;

    std::optional<TuneRecord> find(const SizeBucket &bucket);
    void add(const TuneRecord &record);
  };
  /// What outlives the context, for kernels that ask it: no owner then.
  struct Mailbox {
    std::mutex mutex;
    ContextTuning *owner;
  };

  ContextState &context;
  const Tuning mode;
  const double seconds;
  const std::string device;
  RecordStore store;
  std::mutex mutex;                                              ///< guards `known`
  std::unordered_map<std::string, std::shared_ptr<Known>> known; ///< by recordKernel()
  std::shared_ptr<Mailbox> mailbox;
  std::stop_source stopping;
  std::atomic<bool> warned = false;
  TaskThreads loading{1}; ///< kernels of records: soon done
  TaskThreads tuning{1};  ///< races; the last member: it goes first

  std::shared_ptr<Known> lookUp(const KernelSpecification &specification);
  Result<Kernel> load(const KernelSpecification &specification, const TuneRecord &record,
                      const RequestLimits &limits);
  void loadInBackground(std::shared_ptr<Known> kernel, TuneRecord record, SizeBucket bucket);
  void missing(std::shared_ptr<Known> kernel, const Extents &extents,
               const std::vector<ScalarArgument> &scalars);
  /// Races for launches of `extents` and keeps the winner; a failure is told as a warning.
  void tune(Known &kernel, const Extents &extents, const std::vector<ScalarArgument> &scalars,
            bool inBackground, const RequestLimits &limits);
  void warnOnce(const std::string &sentence);
};

} // namespace tesela

#endif // TESELA_TUNE_CONTEXTTUNING_H
