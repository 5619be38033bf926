//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "bundle/Manifest.h"

#include "artifact/Digest.h"
#include "bundle/CNames.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

namespace tesela {

using nlohmann::json;
using nlohmann::ordered_json; // keeps members in the order in which they are written

/// To be increased when readers of the previous format would misread the file.
static constexpr int formatVersion = 1;

/// Far more than there are targets.
static constexpr size_t maxTargets = 64;

std::string_view codeFormatName(CodeFormat format) {
  switch (format) {
  case CodeFormat::hostObject:
    return "object";
  case CodeFormat::ptx:
    return "ptx";
  case CodeFormat::cubin:
    return "cubin";
  }
  return "";
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

static std::string extentText(const CaptureExtent &extent) {
  if (extent.coefficient == 0)
    return std::to_string(extent.offset);
  std::string text =
      extent.coefficient == 1 ? extent.name : fmt::format("{}*{}", extent.coefficient, extent.name);
  return extent.offset ? text + fmt::format("{:+}", extent.offset) : text;
}

static ordered_json describe(const Parameter &parameter) {
  ordered_json described{{"name", parameter.name}, {"type", elementTypeName(parameter.type)}};
  if (parameter.isCapture) {
    ordered_json &extents = described["extents"] = ordered_json::array();
    for (const CaptureExtent &extent : parameter.extents)
      extents.push_back(extentText(extent));
  }
  if (parameter.defaultValue && parameter.type == ElementType::i32)
    described["default"] = int64_t(*parameter.defaultValue);
  else if (parameter.defaultValue) // a text, because JSON has no infinities
    described["default"] = fmt::format("{}", float(*parameter.defaultValue));
  return described;
}

static ordered_json textsOf(const std::vector<Expression> &expressions) {
  ordered_json texts = ordered_json::array();
  for (const Expression &expression : expressions)
    texts.push_back(expression.text());
  return texts;
}

/// The size in bytes of a kernel's parameter.
static int slotBytes(ArgumentSlot::Kind kind) {
  using Kind = ArgumentSlot::Kind;
  switch (kind) {
  case Kind::data:
  case Kind::stride:
  case Kind::counter:
    return 8;
  case Kind::extent:
  case Kind::scalar:
  case Kind::scale:
  case Kind::coordinateStep:
    return 4;
  case Kind::tensorMap:
    return 128;
  }
  return 0;
}

static ordered_json describe(const ArgumentSlot &slot) {
  using Kind = ArgumentSlot::Kind;
  constexpr std::string_view kinds[] = {"data",  "stride",     "extent",          "scalar",
                                        "scale", "tensor map", "coordinate step", "counter"};
  ordered_json described{{"kind", kinds[int(slot.kind)]}, {"bytes", slotBytes(slot.kind)}};
  if (!slot.name.empty())
    described["name"] = slot.name;
  bool hasAxis =
      slot.kind == Kind::stride || slot.kind == Kind::extent || slot.kind == Kind::coordinateStep;
  if (hasAxis)
    described["axis"] = slot.axis;
  if (slot.kind == Kind::tensorMap) {
    described["positions"] = slot.axis;
    described["heads"] = slot.heads;
  }
  return described;
}

static ordered_json describe(const TensorArgument &tensor) {
  ordered_json extents = ordered_json::array();
  for (const std::optional<Expression> &extent : tensor.extents)
    extents.push_back(extent ? extent->text() : "?");
  return {{"name", tensor.name},
          {"type", elementTypeName(tensor.type)},
          {"role", tensor.role == TensorArgument::Role::out ? "out" : "in"},
          {"extents", std::move(extents)},
          {"contiguous", tensor.contiguous},
          {"optional", tensor.optional}};
}

static ordered_json describe(const Launch &launch, const Target &target) {
  ordered_json described{{"kernel", launch.kernel}, {"items", launch.items.text()}};
  if (!launch.extents.empty())
    described["extents"] = textsOf(launch.extents);
  if (!launch.summarizes.empty())
    described["summarizes"] = launch.summarizes;
  if (target.kind == Target::Kind::cuda) {
    described["threads"] = launch.threads;
    described["shared_bytes"] = launch.sharedBytes;
    described["persistent"] = launch.persistent;
    described["dependent"] = launch.dependent;
  } else {
    described["scratch_bytes"] = launch.workspaceBytes;
  }
  ordered_json &parameters = described["parameters"] = ordered_json::array();
  for (const ArgumentSlot &slot : launch.slots)
    parameters.push_back(describe(slot));
  return described;
}

static ordered_json describe(const BundleTarget &target, const Artifact &artifact) {
  ordered_json described{{"target", target.target},
                         {"architecture", target.architecture},
                         {"file", target.file},
                         {"digest", target.digest},
                         {"bytes", target.bytes},
                         {"code_format", target.codeFormat},
                         {"code_bytes", artifact.code.size()},
                         {"schedule", target.schedule}};
  if (artifact.resources) {
    described["registers"] = artifact.resources->registers;
    described["spill_bytes"] = artifact.resources->spillBytes;
  }
  if (artifact.target.kind == Target::Kind::cuda) {
    int64_t sharedBytes = 0;
    for (const Launch &launch : artifact.launches)
      sharedBytes = std::max(sharedBytes, launch.sharedBytes);
    described["shared_bytes"] = sharedBytes;
  }
  ordered_json &launches = described["launches"] = ordered_json::array();
  for (const Launch &launch : artifact.launches)
    launches.push_back(describe(launch, artifact.target));
  ordered_json &workspaces = described["workspaces"] = ordered_json::array();
  for (const Workspace &workspace : artifact.workspaces)
    workspaces.push_back({{"name", workspace.name},
                          {"type", elementTypeName(workspace.type)},
                          {"extents", textsOf(workspace.extents)}});
  return described;
}

std::string writeManifest(const BundleInfo &info, const ManifestDetails &details) {
  ordered_json constants = ordered_json::object();
  for (const ConstantValue &constant : details.constants)
    constants[constant.name] = fmt::format("{}", constant.value);
  ordered_json tensors = ordered_json::array(), parameters = ordered_json::array();
  if (!details.artifacts.empty())
    for (const TensorArgument &tensor : details.artifacts.front().tensors)
      tensors.push_back(describe(tensor));
  if (!details.artifacts.empty())
    for (const Parameter &parameter : details.artifacts.front().parameters)
      parameters.push_back(describe(parameter));
  ordered_json targets = ordered_json::array();
  for (size_t i = 0; i < info.targets.size(); ++i)
    targets.push_back(describe(info.targets[i], details.artifacts[i]));
  // A variant's comments may contain any bytes, but JSON only UTF-8.
  std::string text =
      json::parse(json(info.variantText).dump(-1, ' ', false, json::error_handler_t::replace))
          .get<std::string>();
  ordered_json document{
      {"format", formatVersion},
      {"tesela", info.version},
      {"name", info.name},
      {"variant", {{"name", info.variantName}, {"text", text}, {"digest", sha256Hex(text)}}},
      {"input_type", elementTypeName(info.inputType)},
      {"head_dim_qk", info.headDimQk},
      {"head_dim_v", info.headDimV},
      {"constants", constants},
      {"tensors", tensors},
      {"parameters", parameters},
      {"targets", targets},
      {"c_files", details.cFiles},
  };
  return document.dump(2) + "\n";
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

namespace {

/// The members of one object. After the first failure `problem` says what was wrong, and all other
/// members read as empty.
class Members {
public:
  Members(const json &object, std::string where, std::string &problem)
      : object(object), where(std::move(where)), problem(problem) {
    if (!object.is_object())
      fail("is not a JSON object");
  }

  std::string text(const char *name) {
    const json *member = find(name);
    if (!member || !member->is_string()) {
      fail(fmt::format("has no text \"{}\"", name));
      return "";
    }
    return member->get<std::string>();
  }
  uint64_t number(const char *name, uint64_t limit) {
    const json *member = find(name);
    if (!member || !member->is_number_unsigned() || member->get<uint64_t>() > limit) {
      fail(fmt::format("has no whole number \"{}\" of at most {}", name, limit));
      return 0;
    }
    return member->get<uint64_t>();
  }
  const json &member(const char *name) {
    static const json none;
    const json *found = find(name);
    if (!found)
      fail(fmt::format("has no \"{}\"", name));
    return found ? *found : none;
  }
  void fail(const std::string &what) {
    if (problem.empty())
      problem = where + " " + what;
  }

private:
  const json &object;
  std::string where;
  std::string &problem;

  const json *find(const char *name) const {
    if (!object.is_object())
      return nullptr;
    auto found = object.find(name);
    return found == object.end() ? nullptr : &*found;
  }
};

} // namespace

/// Whether the name is a file name without a folder.
static bool isPlainFileName(std::string_view name) {
  auto isPlain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  };
  return !name.empty() && name.size() <= 255 && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), isPlain);
}

/// The limit of compilations for keys, the widest (tesela/compiler/Compile.h).
static constexpr uint64_t maxHeadDim = 576;

static bool isDigest(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

static BundleTarget parseTarget(const json &object, size_t index, std::string &problem) {
  Members members(object, fmt::format("its target {}", index), problem);
  BundleTarget target;
  target.target = members.text("target");
  target.architecture = members.text("architecture");
  target.file = members.text("file");
  target.digest = members.text("digest");
  target.bytes = members.number("bytes", uint64_t(1) << 40);
  target.codeFormat = members.text("code_format");
  target.schedule = members.text("schedule");
  if (Result<Target> known = Target::parse(target.target); !known)
    members.fail("is not known: " + known.error().message());
  if (!isPlainFileName(target.file))
    members.fail("names a file that may lie outside of the bundle's folder");
  if (!isDigest(target.digest))
    members.fail("has a digest that is not 64 hexadecimal digits");
  constexpr std::string_view formats[] = {"cubin", "ptx", "object"};
  if (std::find(std::begin(formats), std::end(formats), target.codeFormat) == std::end(formats))
    members.fail("has a code format other than cubin, ptx and object");
  return target;
}

Result<BundleInfo> parseManifest(std::string_view text) {
  auto damaged = [](const std::string &what) {
    return Error(Code::inputOutput, "the manifest " + what + "; export the bundle again");
  };
  if (text.size() > maxManifestBytes)
    return damaged(fmt::format("has {} bytes, more than {}", text.size(), maxManifestBytes));
  json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object())
    return damaged("is not a JSON object");
  std::string problem;
  Members members(document, "itself", problem);
  uint64_t format = members.number("format", uint64_t(1) << 32);
  if (problem.empty() && format != formatVersion)
    return Error(Code::unsupported,
                 fmt::format("the manifest has format {}, this version of Tesela reads format {}: "
                             "export the bundle again with this version",
                             format, formatVersion));
  BundleInfo info;
  info.version = members.text("tesela");
  info.name = members.text("name");
  Members variant(members.member("variant"), "its variant", problem);
  info.variantName = variant.text("name");
  info.variantText = variant.text("text");
  if (std::string digest = variant.text("digest"); digest != sha256Hex(info.variantText))
    variant.fail("does not have the digest that the manifest gives");
  std::optional<ElementType> type = parseElementType(members.text("input_type"));
  if (type != ElementType::f32 && type != ElementType::f16 && type != ElementType::bf16)
    members.fail("has an input type other than f32, f16 and bf16");
  info.inputType = type.value_or(ElementType::bf16);
  info.headDimQk = int(members.number("head_dim_qk", maxHeadDim));
  info.headDimV = int(members.number("head_dim_v", maxHeadDim));
  if (info.headDimQk < 1 || info.headDimV < 1)
    members.fail("has a head dimension of 0");
  if (!isCName(info.name))
    members.fail("has a name that is not valid in C");
  const json &targets = members.member("targets");
  if (!targets.is_array() || targets.empty() || targets.size() > maxTargets) {
    members.fail(fmt::format("has no list of 1 to {} targets", maxTargets));
    return damaged("is damaged: " + problem);
  }
  std::set<std::string> seen;
  for (size_t i = 0; i < targets.size(); ++i) {
    info.targets.push_back(parseTarget(targets[i], i, problem));
    if (!seen.insert(info.targets.back().target).second)
      members.fail("has the target " + info.targets.back().target + " twice");
  }
  if (!problem.empty())
    return damaged("is damaged: " + problem);
  return info;
}

bool looksLikeManifest(std::string_view text) {
  if (text.size() > maxManifestBytes)
    return false;
  json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  return document.is_object() && document.contains("tesela") && document.contains("targets");
}

} // namespace tesela
