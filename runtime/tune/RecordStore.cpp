//===- RecordStore.cpp - Stores tuned schedules -----------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tune/RecordStore.h"

#include "artifact/Digest.h"
#include "system/File.h"
#include "system/SharedFiles.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace tesela {

namespace fs = std::filesystem;

/// A larger file is not read: a table of 10,000 records has 5 MB.
static constexpr uintmax_t mostBytes = 16 << 20;

RecordStore::RecordStore(std::string folder, std::string shipped,
                         std::shared_ptr<const EventSink> events)
    : folder_(std::move(folder)), shipped(std::move(shipped)), events(std::move(events)) {}

std::string RecordStore::shippedFolder() { return sharedFile("tuned"); }

void RecordStore::warnOnce(const std::string &path, const std::string &problem) const {
  if (!warned.exchange(true))
    events->warn("the tuned schedules in " + path + " are not used: " + problem +
                 "; tune again, or remove the file");
}

/// The file's records. Empty if there is no file, or (with a warning) if it is damaged.
std::vector<TuneRecord> RecordStore::read(const std::string &path) const {
  std::error_code failure;
  uintmax_t size = fs::file_size(path, failure);
  if (failure)
    return {};
  if (size > mostBytes) {
    warnOnce(path, "it is too large");
    return {};
  }
  Result<std::string> text = readFile(path);
  if (!text) {
    if (text.code() != Code::notFound) // removed in the meantime
      warnOnce(path, text.error().message());
    return {};
  }
  Result<std::vector<TuneRecord>> records = parseRecords(*text);
  if (!records) {
    warnOnce(path, records.error().message());
    return {};
  }
  for (TuneRecord &record : *records)
    record.path = path;
  return std::move(*records);
}

static std::vector<std::string> jsonFiles(const std::string &folder) {
  std::vector<std::string> files;
  std::error_code failure;
  for (fs::directory_iterator each(folder, failure), end; !failure && each != end;
       each.increment(failure))
    if (each->path().extension() == ".json")
      files.push_back(each->path());
  std::sort(files.begin(), files.end());
  return files;
}

std::string RecordStore::folderOf(const std::string &device, const std::string &kernel) const {
  return folder_ + "/" + sha256Hex(device + "\n" + kernel).substr(0, 32);
}

const std::vector<TuneRecord> &RecordStore::shippedRecords() const {
  std::call_once(shippedOnce, [&] {
    if (!shipped.empty())
      for (const std::string &path : jsonFiles(shipped))
        for (TuneRecord &record : read(path))
          readOfShipped.push_back(std::move(record));
  });
  return readOfShipped;
}

/// Adds `record` unless its bucket already has one.
static void addNew(const TuneRecord &record, std::vector<TuneRecord> &records) {
  if (std::ranges::find(records, record.bucket, &TuneRecord::bucket) == records.end())
    records.push_back(record);
}

std::vector<TuneRecord> RecordStore::find(const std::string &device,
                                          const std::string &kernel) const {
  std::vector<TuneRecord> result;
  auto add = [&](const TuneRecord &record) {
    if (record.device == device && record.kernel == kernel)
      addNew(record, result);
  };
  if (!folder_.empty())
    for (const std::string &path : jsonFiles(folderOf(device, kernel)))
      for (const TuneRecord &record : read(path))
        add(record);
  for (const TuneRecord &record : shippedRecords())
    add(record);
  return result;
}

RecordStore::Records RecordStore::findAll(const std::string &device) const {
  Records result;
  auto add = [&](const TuneRecord &record) {
    if (record.device == device)
      addNew(record, result[record.kernel]);
  };
  std::error_code failure;
  for (fs::directory_iterator each(folder_, failure), end; !failure && each != end;
       each.increment(failure))
    for (const std::string &path : jsonFiles(each->path()))
      for (const TuneRecord &record : read(path))
        if (std::string(each->path()) == folderOf(device, record.kernel)) // the folder where find()
                                                                          // looks
          add(record);
  for (const TuneRecord &record : shippedRecords())
    add(record);
  return result;
}

Result<std::string> RecordStore::store(const TuneRecord &record) const {
  if (folder_.empty())
    return Error(Code::notFound, "there is no folder for tuned schedules: the disk cache is off, "
                                 "or none of TESELA_CACHE_DIR, XDG_CACHE_HOME and HOME is set");
  std::string folder = folderOf(record.device, record.kernel);
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure)
    return Error(Code::inputOutput, folder + ": " + failure.message());
  std::string path = folder + "/" + record.bucket.name() + ".json";
  if (Status status = writeFileAtomically(path, formatRecords({record})); !status)
    return status.error();
  return path;
}

} // namespace tesela
