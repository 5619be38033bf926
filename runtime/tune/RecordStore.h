//===- RecordStore.h - Stores tuned schedules -------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// One file per record, `FOLDER/DIGEST/BUCKET.json`. The digest is of the device and the kernel. So
// different devices can share a folder, and one folder has all records of a kernel. Files are
// written atomically. The tables that are shipped with the library are searched after the folder.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_TUNE_RECORDSTORE_H
#define TESELA_TUNE_RECORDSTORE_H

#include "events/EventSink.h"
#include "tune/TuneRecord.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace tesela {

/// All members may be called from several threads at once.
class RecordStore {
public:
  /// `folder` empty: nothing is stored. `shipped`: the folder of shipped tables; empty: none.
  RecordStore(std::string folder, std::string shipped, std::shared_ptr<const EventSink> events);

  /// The folder share/tesela/tuned beside the library; empty if there is none.
  static std::string shippedFolder();

  /// The records of a kernel on a device, one per bucket: the user's, else the library's. Damaged
  /// ones are left out, with one warning.
  std::vector<TuneRecord> find(const std::string &device, const std::string &kernel) const;
  /// The records of all kernels. The key is recordKernel().
  using Records = std::unordered_map<std::string, std::vector<TuneRecord>>;
  Records findAll(const std::string &device) const;

  /// Stores the record, replacing an earlier one of its bucket. Returns the path of its file.
  Result<std::string> store(const TuneRecord &record) const;

  const std::string &folder() const { return folder_; }

private:
  void warnOnce(const std::string &path, const std::string &problem) const;
  std::vector<TuneRecord> read(const std::string &path) const;
  const std::vector<TuneRecord> &shippedRecords() const;
  std::string folderOf(const std::string &device, const std::string &kernel) const;

  std::string folder_, shipped;
  std::shared_ptr<const EventSink> events;
  mutable std::atomic<bool> warned = false;
  mutable std::once_flag shippedOnce;
  mutable std::vector<TuneRecord> readOfShipped;
};

} // namespace tesela

#endif // TESELA_TUNE_RECORDSTORE_H
