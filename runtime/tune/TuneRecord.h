//===- TuneRecord.h - A schedule that was measured --------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESELA_TUNE_TUNERECORD_H
#define TESELA_TUNE_TUNERECORD_H

#include "tesela/Device.h"
#include "tesela/Status.h"
#include "tesela/compiler/Compile.h"
#include "tune/SizeBucket.h"

#include <string>
#include <string_view>
#include <vector>

namespace tesela {

/// The winner of a race, and of what. Files of records are documented in docs/tuning.md.
struct TuneRecord {
  std::string device; ///< recordDevice()
  std::string kernel; ///< recordKernel()
  SizeBucket bucket;
  std::string schedule; ///< every choice

  // What people want to know of it; nothing depends on these.
  std::string variant, target, type;
  int headDimQk = 0, headDimV = 0;
  Extents sizes; ///< that were timed
  double milliseconds = 0, heuristicMilliseconds = 0;
  double confidence = 0; ///< that it is faster than the heuristic's, 0 to 1
  int tried = 0;         ///< schedules that were timed
  std::string version;   ///< of Tesela
  std::string made;      ///< "2026-01-31T12:00:00Z"
  std::string path;      ///< where it was read from; not written
};

/// The device's name; of the host with the number of threads, on which schedules depend.
std::string recordDevice(const Device &device, int threads);

/// A digest of what `specification` asks for beside its schedule and the lengths that it expects.
/// Records outlive versions of Tesela, and tables ship with it: what it is made of stays as it is,
/// whatever the keys of caches are made of.
std::string recordKernel(const KernelSpecification &specification);

/// A file of records.
std::string formatRecords(const std::vector<TuneRecord> &records);

/// The records of a file; an error says what is wrong with it. Never trusts its input: a schedule
/// in it is still verified before it is used.
Result<std::vector<TuneRecord>> parseRecords(std::string_view text);

} // namespace tesela

#endif // TESELA_TUNE_TUNERECORD_H
