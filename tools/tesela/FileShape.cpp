//===- FileShape.cpp ------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "FileShape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <map>
#include <optional>
#include <set>

namespace tesela::tool {

namespace {

/// An extent's value, and the tensor (or option) that it comes from.
struct Told {
  int64_t value;
  std::string tensor;
};

class FileShape {
public:
  FileShape(const InputFile &file, const VariantInfo &variant) : file(file), variant(variant) {}

  Result<LaunchShape> resolve(LaunchShape shape) {
    if (Status status = listen(); !status)
      return status.error();
    for (auto [name, option, value] : {std::tuple("B", "--batch", shape.batch),
                                       {"H", "--heads", shape.heads},
                                       {"Hkv", "--kv-heads", shape.kvHeads.value_or(0)},
                                       {"Sq", "--length", shape.length},
                                       {"Sk", "--kv-length", shape.kvLength.value_or(0)},
                                       {"Dqk", "--head-dim", shape.headDim},
                                       {"Dv", "--head-dim-v", shape.headDimV.value_or(0)}}) {
      auto said = told.find(name);
      if (!shape.given.contains(option))
        continue;
      if (said != told.end() && said->second.value != value)
        return contradiction(option, fmt::format("{}", value), name, said->second);
      told.insert_or_assign(name, Told{value, option});
    }
    if (dtype && shape.given.contains("--dtype") && shape.dtype != *dtype)
      return Error(Code::invalidArgument,
                   fmt::format("--dtype {}: 'q' of {} is {}; leave --dtype out.", shape.dtype,
                               file.path, *dtype));
    if (own && own->value >= 0 && !told.contains("Sq") && !told.contains("Sk"))
      told.emplace("Sk", *own);
    shape.batch = number("B", shape.batch);
    shape.heads = number("H", number("Hkv", shape.heads));
    shape.kvHeads = number("Hkv", shape.heads);
    shape.length = number("Sq", number("Sk", shape.length));
    shape.kvLength = number("Sk", shape.length);
    shape.headDim = number("Dqk", shape.headDim);
    shape.headDimV = number("Dv", shape.headDim);
    shape.dtype = dtype.value_or(shape.dtype);
    return shape;
  }

private:
  /// Collects the extents that the file's tensors have.
  Status listen() {
    bool bshd = file.layout == Layout::bshd;
    using Names = std::vector<const char *>;
    const Names queries = bshd ? Names{"B", "Sq", "H", "Dqk"} : Names{"B", "H", "Sq", "Dqk"};
    const Names keys = bshd ? Names{"B", "Sk", "Hkv", "Dqk"} : Names{"B", "Hkv", "Sk", "Dqk"};
    Names values = keys;
    values.back() = "Dv";
    for (const auto &[tensor, names] : {std::pair("q", &queries), {"k", &keys}, {"v", &values}}) {
      const SafetensorsFile::Entry *entry = find(tensor);
      if (!entry || isCapture(tensor))
        continue;
      if (entry->shape.size() != names->size())
        return Error(Code::invalidArgument,
                     fmt::format("{}: '{}' has the extents [{}], but [{}] is needed.", file.path,
                                 tensor, fmt::join(entry->shape, ", "), fmt::join(*names, ", ")));
      for (size_t axis = 0; axis < names->size(); ++axis)
        if (Status status = tell((*names)[axis], {entry->shape[axis], tensor}); !status)
          return status;
      if (std::string(tensor) == "q" && entry->type)
        dtype = elementTypeName(*entry->type);
    }
    for (const VariantParameter &parameter : variant.parameters) {
      const SafetensorsFile::Entry *entry = parameter.isCapture ? find(parameter.name) : nullptr;
      if (!entry || entry->shape.size() != parameter.extents.size())
        continue; // the launch reports the wrong rank
      for (size_t axis = 0; axis < entry->shape.size(); ++axis)
        if (Status status = listen(parameter, axis, entry->shape[axis]); !status)
          return status;
    }
    return Status::success();
  }

  Status listen(const VariantParameter &parameter, size_t axis, int64_t shape) {
    const VariantExtent &extent = parameter.extents[axis];
    int64_t scaled = shape - extent.offset;
    if (extent.coefficient <= 0 || scaled % extent.coefficient != 0 || scaled < 0)
      return Status::success(); // no extent gives this shape: the launch reports it
    Told number{scaled / extent.coefficient, parameter.name};
    if (launchExtents.contains(extent.name))
      return tell(extent.name == "Sq" && file.areAmongKeys ? "Sk" : extent.name, number);
    if (!own)
      own = number;
    else if (own->value != number.value)
      own = Told{-1, ""};
    return Status::success();
  }

  Status tell(const std::string &name, const Told &number) {
    constexpr int64_t most = std::numeric_limits<int32_t>::max();
    if (number.value < 0 || number.value > most)
      return Error(Code::invalidArgument,
                   fmt::format("{}: '{}' says that {} is {}, at most {} is possible.", file.path,
                               number.tensor, name, number.value, most));
    auto [earlier, isNew] = told.try_emplace(name, number);
    if (isNew || earlier->second.value == number.value)
      return Status::success();
    return Error(Code::invalidArgument,
                 fmt::format("{}: '{}' says that {} is {}, '{}' that it is {}: they are not of one "
                             "launch{}.",
                             file.path, earlier->second.tensor, name, earlier->second.value,
                             number.tensor, number.value,
                             isOfInputs(earlier->second) ? " (--layout)" : ""));
  }

  static bool isOfInputs(const Told &number) {
    return number.tensor == "q" || number.tensor == "k" || number.tensor == "v";
  }

  Error contradiction(const char *option, const std::string &value, const char *name,
                      const Told &said) const {
    return Error(Code::invalidArgument,
                 fmt::format("{} {}: '{}' of {} says that {} is {}; leave {} out.", option, value,
                             said.tensor, file.path, name, said.value, option));
  }

  const SafetensorsFile::Entry *find(const std::string &name) const {
    auto entry = file.tensors.entries().find(name);
    return entry == file.tensors.entries().end() ? nullptr : &entry->second;
  }
  bool isCapture(const std::string &name) const {
    for (const VariantParameter &parameter : variant.parameters)
      if (parameter.isCapture && parameter.name == name)
        return true;
    return false;
  }
  int64_t number(const char *name, int64_t otherwise) const {
    auto found = told.find(name);
    return found == told.end() ? otherwise : found->second.value;
  }

  const InputFile &file;
  const VariantInfo &variant;
  const std::set<std::string> launchExtents{"B", "H", "Hkv", "Sq", "Sk"};
  std::map<std::string, Told> told; ///< by the name of the extent
  std::optional<Told> own; ///< value of the extents that captures name themselves; -1: they differ
  std::optional<std::string> dtype;
};

} // namespace

Result<LaunchShape> shapeOfFile(const InputFile &file, const VariantInfo &variant,
                                const LaunchShape &asked) {
  return FileShape(file, variant).resolve(asked);
}

} // namespace tesela::tool
