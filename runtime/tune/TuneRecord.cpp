//===- TuneRecord.cpp - A schedule that was measured ------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tune/TuneRecord.h"

#include "artifact/Digest.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <set>
#include <type_traits>

namespace tesela {

using nlohmann::ordered_json;

/// To be increased when files of an older version would be misread.
static constexpr int recordFormat = 1;

std::string recordDevice(const Device &device, int threads) {
  if (device.kind == Device::Kind::cuda)
    return device.name;
  return fmt::format("{}, {} threads", device.name, threads > 0 ? threads : device.processors);
}

std::string recordKernel(const KernelSpecification &specification) {
  std::string text = fmt::format(
      "{}\n{}\n{}\n{} {}\n", specification.algorithm, specification.target.name(),
      elementTypeName(specification.inputType), specification.headDimQk, specification.headDimV);
  for (const std::string &binding :
       std::multiset(specification.bindings.begin(), specification.bindings.end()))
    text += fmt::format("{} {}\n", binding.size(), binding);
  std::map<std::string, double> constants;
  for (const ConstantValue &constant : specification.constants)
    constants[constant.name] = constant.value;
  for (const auto &[name, value] : constants)
    text += fmt::format("{} {} {}\n", name.size(), name, std::bit_cast<uint64_t>(value));
  return sha256Hex(text + specification.variantText);
}

static ordered_json toJson(const TuneRecord &record) {
  const Extents &e = record.sizes;
  return {{"device", record.device},
          {"kernel", record.kernel},
          {"bucket", record.bucket.name()},
          {"schedule", record.schedule},
          {"variant", record.variant},
          {"target", record.target},
          {"dtype", record.type},
          {"head_dim_qk", record.headDimQk},
          {"head_dim_v", record.headDimV},
          {"sizes", {e.B, e.H, e.Hkv, e.Sq, e.Sk}},
          {"milliseconds", record.milliseconds},
          {"heuristic_milliseconds", record.heuristicMilliseconds},
          {"confidence", record.confidence},
          {"tried", record.tried},
          {"version", record.version},
          {"made", record.made}};
}

std::string formatRecords(const std::vector<TuneRecord> &records) {
  ordered_json json = {{"tesela_tuned", recordFormat}, {"records", ordered_json::array()}};
  for (const TuneRecord &record : records)
    json["records"].push_back(toJson(record));
  return json.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

/// Sets `to` from `name` of `json`, if it exists and has the type; else `to` stays.
template <typename T> static void take(const ordered_json &json, const char *name, T &to) {
  auto found = json.find(name);
  if (found == json.end())
    return;
  if constexpr (std::is_same_v<T, std::string>) {
    if (found->is_string())
      to = found->get<std::string>();
  } else if constexpr (std::is_floating_point_v<T>) {
    if (found->is_number())
      to = found->get<T>();
  } else if (found->is_number_integer()) {
    to = T(found->get<int64_t>());
  }
}

static Result<TuneRecord> fromJson(const ordered_json &json) {
  auto damaged = [](const std::string &what) { return Error(Code::inputOutput, what); };
  if (!json.is_object())
    return damaged("a record is not an object");
  TuneRecord record;
  std::string bucket;
  take(json, "device", record.device);
  take(json, "kernel", record.kernel);
  take(json, "bucket", bucket);
  take(json, "schedule", record.schedule);
  for (auto [name, value] : {std::pair("device", &record.device),
                             {"kernel", &record.kernel},
                             {"schedule", &record.schedule}})
    if (value->empty())
      return damaged(fmt::format("a record has no '{}'", name));
  std::optional<SizeBucket> parsed = SizeBucket::parse(bucket);
  if (!parsed)
    return damaged(fmt::format("a record's bucket is '{}', not like h32.g1.q1024.k1024", bucket));
  record.bucket = *parsed;
  take(json, "variant", record.variant);
  take(json, "target", record.target);
  take(json, "dtype", record.type);
  take(json, "head_dim_qk", record.headDimQk);
  take(json, "head_dim_v", record.headDimV);
  if (auto sizes = json.find("sizes"); sizes != json.end() && sizes->is_array())
    for (size_t i = 0; i < std::min<size_t>(sizes->size(), 5); ++i)
      if ((*sizes)[i].is_number_integer())
        *std::array{&record.sizes.B, &record.sizes.H, &record.sizes.Hkv, &record.sizes.Sq,
                    &record.sizes.Sk}[i] = int32_t((*sizes)[i].get<int64_t>());
  take(json, "milliseconds", record.milliseconds);
  take(json, "heuristic_milliseconds", record.heuristicMilliseconds);
  take(json, "confidence", record.confidence);
  take(json, "tried", record.tried);
  take(json, "version", record.version);
  take(json, "made", record.made);
  return record;
}

Result<std::vector<TuneRecord>> parseRecords(std::string_view text) {
  ordered_json json = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    return Error(Code::inputOutput, "it is not a JSON object");
  int format = 0;
  take(json, "tesela_tuned", format);
  if (format != recordFormat)
    return Error(Code::inputOutput,
                 fmt::format("its format is {}, this version reads {}", format, recordFormat));
  auto records = json.find("records");
  if (records == json.end() || !records->is_array())
    return Error(Code::inputOutput, "it has no list 'records'");
  std::vector<TuneRecord> result;
  for (const ordered_json &each : *records) {
    Result<TuneRecord> record = fromJson(each);
    if (!record)
      return record.error();
    result.push_back(std::move(*record));
  }
  return result;
}

} // namespace tesela
