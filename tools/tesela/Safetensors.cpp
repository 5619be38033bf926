//===- Safetensors.cpp ----------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "Safetensors.h"
#include "OutputFile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <new>
#include <sys/stat.h>

namespace tesela::tool {

using nlohmann::json;

/// The limit of the format's own library.
static constexpr uint64_t maxHeaderBytes = 100'000'000;

namespace {
struct DtypeRow {
  const char *name;
  unsigned bytes;
  std::optional<ElementType> type;
};
} // namespace

static constexpr std::array<DtypeRow, 15> dtypes{{{"F32", 4, ElementType::f32},
                                                  {"F16", 2, ElementType::f16},
                                                  {"BF16", 2, ElementType::bf16},
                                                  {"I32", 4, ElementType::i32},
                                                  {"BOOL", 1, ElementType::boolean},
                                                  {"F64", 8, std::nullopt},
                                                  {"I64", 8, std::nullopt},
                                                  {"U64", 8, std::nullopt},
                                                  {"U32", 4, std::nullopt},
                                                  {"I16", 2, std::nullopt},
                                                  {"U16", 2, std::nullopt},
                                                  {"I8", 1, std::nullopt},
                                                  {"U8", 1, std::nullopt},
                                                  {"F8_E4M3", 1, std::nullopt},
                                                  {"F8_E5M2", 1, std::nullopt}}};

static const DtypeRow *findDtype(const std::string &name) {
  for (const DtypeRow &row : dtypes)
    if (name == row.name)
      return &row;
  return nullptr;
}

/// The name without control characters, for messages: a damaged file may have any bytes.
static std::string printable(const std::string &name) {
  std::string text = name.substr(0, 80);
  for (char &c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      c = '?';
  return '\'' + text + '\'';
}

/// Reads one member of the header, and checks it against the length of the data.
static Result<SafetensorsFile::Entry> parseEntry(const std::string &name, const json &member,
                                                 uint64_t dataBytes) {
  auto damaged = [&](const std::string &what) {
    return Error(Code::inputOutput, fmt::format("tensor {}: {}", printable(name), what));
  };
  if (!member.is_object())
    return damaged("its entry in the header is not a JSON object.");
  auto dtype = member.find("dtype"), shape = member.find("shape"),
       offsets = member.find("data_offsets");
  if (dtype == member.end() || !dtype->is_string())
    return damaged("\"dtype\" is missing or not a string.");
  if (shape == member.end() || !shape->is_array())
    return damaged("\"shape\" is missing or not an array.");
  if (offsets == member.end() || !offsets->is_array() || offsets->size() != 2 ||
      !(*offsets)[0].is_number_unsigned() || !(*offsets)[1].is_number_unsigned())
    return damaged("\"data_offsets\" is missing or not two whole numbers.");

  SafetensorsFile::Entry entry;
  entry.dtype = dtype->get<std::string>();
  const DtypeRow *row = findDtype(entry.dtype);
  if (!row)
    return damaged(
        fmt::format("dtype {} is not a dtype of the .safetensors format.", printable(entry.dtype)));
  entry.type = row->type;

  uint64_t bytes = row->bytes;
  bool overflow = false, empty = false;
  for (const json &extent : *shape) {
    if (!extent.is_number_unsigned() ||
        extent.get<uint64_t>() > uint64_t(std::numeric_limits<int64_t>::max()))
      return damaged("an extent of \"shape\" is not a whole number from 0 to 2^63 - 1.");
    uint64_t value = extent.get<uint64_t>();
    entry.shape.push_back(static_cast<int64_t>(value));
    empty |= value == 0;
    overflow |= __builtin_mul_overflow(bytes, value, &bytes);
  }
  if (empty)
    bytes = 0;
  else if (overflow)
    return damaged(fmt::format("shape [{}] has more bytes than fit into 64 bits.",
                               fmt::join(entry.shape, ", ")));

  entry.begin = (*offsets)[0].get<uint64_t>();
  entry.end = (*offsets)[1].get<uint64_t>();
  if (entry.begin > entry.end || entry.end > dataBytes)
    return damaged(fmt::format("its data_offsets [{}, {}] do not lie in the {} bytes of data: the "
                               "file is damaged or cut short.",
                               entry.begin, entry.end, dataBytes));
  if (entry.end - entry.begin != bytes)
    return damaged(fmt::format("its data_offsets hold {} bytes, but {} [{}] takes {}.",
                               entry.end - entry.begin, entry.dtype, fmt::join(entry.shape, ", "),
                               bytes));
  return entry;
}

/// Fails unless the tensors cover the data exactly.
static Status checkTiling(const std::map<std::string, SafetensorsFile::Entry> &entries,
                          uint64_t dataBytes) {
  std::vector<std::pair<const std::string *, const SafetensorsFile::Entry *>> order;
  order.reserve(entries.size());
  for (const auto &[name, entry] : entries)
    order.emplace_back(&name, &entry);
  std::sort(order.begin(), order.end(), [](const auto &a, const auto &b) {
    return std::pair(a.second->begin, a.second->end) < std::pair(b.second->begin, b.second->end);
  });
  uint64_t at = 0;
  for (const auto &[name, entry] : order) {
    if (entry->begin != at)
      return Error(Code::inputOutput,
                   fmt::format("tensor {} {} at byte {} of the data, where {} was expected.",
                               printable(*name),
                               entry->begin < at ? "overlaps another" : "leaves a gap",
                               entry->begin, at));
    at = entry->end;
  }
  if (at != dataBytes)
    return Error(Code::inputOutput, fmt::format("the tensors take {} bytes, but {} follow the "
                                                "header: the file is damaged or cut short.",
                                                at, dataBytes));
  return Status::success();
}

Result<SafetensorsFile> SafetensorsFile::open(const std::string &path) {
  auto fail = [&](const std::string &what) {
    return Error(Code::inputOutput, fmt::format("{}: {}", path, what));
  };
  SafetensorsFile result;
  result.path = path;
  result.file.reset(std::fopen(path.c_str(), "rb"));
  if (!result.file)
    return fail(fmt::format("cannot be opened: {}.", std::strerror(errno)));
  struct stat information;
  if (fstat(fileno(result.file.get()), &information) != 0)
    return fail(fmt::format("cannot be read: {}.", std::strerror(errno)));
  if (!S_ISREG(information.st_mode))
    return fail("is not a regular file; give a .safetensors file.");
  auto fileBytes = static_cast<uint64_t>(information.st_size);

  unsigned char prefix[8];
  if (fileBytes < 8 || std::fread(prefix, 1, 8, result.file.get()) != 8)
    return fail(
        fmt::format("has {} bytes, too few for a .safetensors file (8 and a header).", fileBytes));
  uint64_t headerBytes = 0;
  for (int i = 8; i-- > 0;)
    headerBytes = headerBytes << 8 | prefix[i];
  if (headerBytes > maxHeaderBytes || headerBytes > fileBytes - 8)
    return fail(fmt::format(
        "its header claims {} bytes, but the file has {} after the first eight "
        "(and at most {} are allowed): it is not a .safetensors file, or it was cut short.",
        headerBytes, fileBytes - 8, maxHeaderBytes));
  std::unique_ptr<char[]> header(new (std::nothrow) char[headerBytes + 1]);
  if (!header)
    return Error(Code::outOfMemory,
                 fmt::format("{}: no memory for a header of {} bytes.", path, headerBytes));
  if (std::fread(header.get(), 1, headerBytes, result.file.get()) != headerBytes)
    return fail("the header cannot be read to its end.");

  json document = json::parse(header.get(), header.get() + headerBytes, nullptr,
                              /*allow_exceptions=*/false);
  if (!document.is_object())
    return fail("the header is not a JSON object: the file is damaged.");
  result.dataStart = 8 + headerBytes;
  uint64_t dataBytes = fileBytes - result.dataStart;
  for (const auto &[name, member] : document.items()) {
    if (name == "__metadata__")
      continue;
    Result<Entry> entry = parseEntry(name, member, dataBytes);
    if (!entry)
      return entry.error().within(path);
    result.entries_.emplace(name, std::move(*entry));
  }
  if (Status tiling = checkTiling(result.entries_, dataBytes); !tiling)
    return tiling.error().within(path);
  return result;
}

Result<HostTensor> SafetensorsFile::read(const std::string &name) const {
  auto found = entries_.find(name);
  if (found == entries_.end()) {
    std::vector<std::string> names;
    names.reserve(entries_.size());
    for (const auto &[known, entry] : entries_)
      names.push_back(printable(known));
    return Error(
        Code::notFound,
        fmt::format("{}: holds no tensor '{}', only: {}.", path, name,
                    names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ", "))));
  }
  const Entry &entry = found->second;
  if (!entry.type)
    return Error(Code::unsupported,
                 fmt::format("{}: tensor '{}' is {}; convert it to F32, F16, BF16, I32 or BOOL.",
                             path, name, entry.dtype));
  if (entry.shape.size() > Tensor::maxRank)
    return Error(Code::unsupported, fmt::format("{}: tensor '{}' has {} axes; at most {} work.",
                                                path, name, entry.shape.size(), Tensor::maxRank));

  Result<HostTensor> tensor = HostTensor::allocate(rowMajor(*entry.type, entry.shape));
  if (!tensor)
    return tensor.error().within(path);
  if (fseeko(file.get(), static_cast<off_t>(dataStart + entry.begin), SEEK_SET) != 0 ||
      std::fread(tensor->data(), 1, tensor->bytes(), file.get()) != tensor->bytes())
    return Error(Code::inputOutput,
                 fmt::format("{}: tensor '{}' cannot be read to its end.", path, name));
  if (entry.type == ElementType::boolean) {
    auto *flags = static_cast<uint8_t *>(tensor->data());
    std::transform(flags, flags + tensor->bytes(), flags,
                   [](uint8_t flag) { return uint8_t(flag != 0); });
  }
  return tensor;
}

static const char *dtypeOf(ElementType type) {
  for (const DtypeRow &row : dtypes)
    if (row.type == type)
      return row.name;
  return "";
}

Status writeSafetensors(const std::string &path,
                        const std::vector<std::pair<std::string, Tensor>> &tensors) {
  json document = json::object();
  uint64_t at = 0;
  for (const auto &[name, tensor] : tensors) {
    uint64_t bytes = uint64_t(tensor.elementCount()) * uint64_t(elementSize(tensor.type));
    std::vector<int64_t> shape(tensor.extents.begin(), tensor.extents.begin() + tensor.rank);
    document[name] = {
        {"dtype", dtypeOf(tensor.type)}, {"shape", shape}, {"data_offsets", {at, at + bytes}}};
    at += bytes;
  }
  std::string header = document.dump();
  header.resize((header.size() + 7) / 8 * 8, ' '); // the data begins at a multiple of eight bytes

  char prefix[8];
  for (int i = 0; i < 8; ++i)
    prefix[i] = static_cast<char>(header.size() >> 8 * i);
  std::vector<std::string_view> parts{{prefix, sizeof prefix}, header};
  for (const auto &[name, tensor] : tensors)
    parts.emplace_back(static_cast<const char *>(tensor.data),
                       size_t(tensor.elementCount()) * size_t(elementSize(tensor.type)));
  return writeFile(path, parts);
}

} // namespace tesela::tool
