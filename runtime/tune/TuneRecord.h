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

/// The winner of a race, and which race that was. docs/tuning.md documents files of records.
struct TuneRecord {
  std::string device; ///< recordDevice()
  std::string kernel; ///< recordKernel()
  SizeBucket bucket;
  std::string schedule; ///< every choice

  // Information for people; nothing depends on it.
  std::string variant, target, type;
  int headDimQk = 0, headDimV = 0;
  Extents sizes; ///< the sizes that were timed
  double milliseconds = 0, heuristicMilliseconds = 0;
  double confidence = 0; ///< probability that it is faster than the heuristic's
  int tried = 0;         ///< how many schedules were timed
  std::string version;   ///< of Tesela
  std::string made;      ///< "2026-01-31T12:00:00Z"
  std::string path;      ///< where it was read from; not part of the file
};

/// The device's name; for the host also the number of threads, because schedules depend on it.
std::string recordDevice(const Device &device, int threads);

/// A digest of everything that `specification` asks for, except its schedule and expected lengths.
/// Records outlive versions of Tesela, and tables are shipped with it. So this digest must not
/// change, even if the keys of caches do.
std::string recordKernel(const KernelSpecification &specification);

/// The text of a file of records.
std::string formatRecords(const std::vector<TuneRecord> &records);

/// The records of a file. An Error says what is wrong with the file. Everything is checked;
/// schedules are verified again before they are used.
Result<std::vector<TuneRecord>> parseRecords(std::string_view text);

} // namespace tesela

#endif // TESELA_TUNE_TUNERECORD_H
