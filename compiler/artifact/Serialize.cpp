//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The serialised form is little-endian: "TESELA\0A", the format's version (u32), the length
// of the fields (u64), the fields, and SHA-256 over everything before it. Numbers have a fixed
// width. Strings and lists begin with their length (u64).
//
//===----------------------------------------------------------------------===//
#include "artifact/Digest.h"
#include "tesela/compiler/Artifact.h"

#include <bit>
#include <type_traits>

namespace tesela {

namespace {

constexpr std::string_view magic("TESELA\0A", 8);
constexpr uint32_t formatVersion = 8;
constexpr size_t headerSize = 8 + 4 + 8;
constexpr size_t digestSize = 32;

class Writer {
public:
  std::string bytes;

  void number(uint64_t value, int width) {
    for (int i = 0; i < width; ++i)
      bytes += char(value >> (8 * i));
  }
  void field(bool &value) { number(value, 1); }
  void field(int32_t &value) { number(uint32_t(value), 4); }
  void field(int64_t &value) { number(uint64_t(value), 8); }
  void field(double &value) { number(std::bit_cast<uint64_t>(value), 8); }
  void field(std::string &value) {
    number(value.size(), 8);
    bytes += value;
  }
  void field(Expression &value) {
    std::string text = value.text();
    field(text);
  }
  template <typename Enum> void enumeration(Enum &value, Enum last) { number(uint32_t(value), 4); }
  template <typename T> void list(std::vector<T> &values, size_t leastBytes) {
    number(values.size(), 8);
    for (T &value : values)
      fields(*this, value);
  }
  template <typename T, typename F> void optional(std::optional<T> &value, F each) {
    number(value.has_value(), 1);
    if (value)
      each(*value);
  }
};

/// Reads what Writer writes. After the first failure everything reads as zero
/// or empty, and `failed` is true.
class Reader {
public:
  explicit Reader(std::string_view bytes) : bytes(bytes) {}
  bool failed = false;
  bool atEnd() const { return bytes.empty(); }

  uint64_t number(int width) {
    if (bytes.size() < size_t(width)) {
      fail();
      return 0;
    }
    uint64_t value = 0;
    for (int i = 0; i < width; ++i)
      value |= uint64_t(uint8_t(bytes[i])) << (8 * i);
    bytes.remove_prefix(width);
    return value;
  }
  void field(bool &value) {
    uint64_t byte = number(1);
    if (byte > 1)
      fail();
    value = byte == 1;
  }
  void field(int32_t &value) { value = int32_t(number(4)); }
  void field(int64_t &value) { value = int64_t(number(8)); }
  void field(double &value) { value = std::bit_cast<double>(number(8)); }
  void field(std::string &value) {
    uint64_t size = number(8);
    if (size > bytes.size())
      return fail();
    value = bytes.substr(0, size);
    bytes.remove_prefix(size);
  }
  void field(Expression &value) {
    std::string text;
    field(text);
    if (failed)
      return;
    if (Result<Expression> parsed = Expression::parse(text))
      value = std::move(*parsed);
    else
      fail();
  }
  template <typename Enum> void enumeration(Enum &value, Enum last) {
    uint64_t number = this->number(4);
    if (number > uint64_t(last))
      return fail();
    value = Enum(number);
    if constexpr (std::is_same_v<Enum, ElementType>)
      if (elementSize(value) == 0) // the enum's numbers are not contiguous
        fail();
  }
  template <typename T> void list(std::vector<T> &values, size_t leastBytes) {
    uint64_t count = number(8);
    if (count > bytes.size() / leastBytes) // the remaining bytes cannot hold so many
      return fail();
    values.resize(count);
    for (T &value : values)
      fields(*this, value);
  }
  template <typename T, typename F> void optional(std::optional<T> &value, F each) {
    bool present = false;
    field(present);
    if (present)
      each(value.emplace());
  }

private:
  std::string_view bytes;
  void fail() {
    failed = true;
    bytes = {};
  }
};

// The lists of fields serve reading and writing.

template <typename Stream> void fields(Stream &stream, Expression &expression) {
  stream.field(expression);
}

template <typename Stream> void fields(Stream &stream, std::optional<Expression> &expression) {
  stream.optional(expression, [&](Expression &value) { stream.field(value); });
}

template <typename Stream> void fields(Stream &stream, TensorArgument &tensor) {
  stream.field(tensor.name);
  stream.enumeration(tensor.type, ElementType::e4m3);
  stream.enumeration(tensor.role, TensorArgument::Role::out);
  stream.list(tensor.extents, 1);
  stream.field(tensor.contiguous);
  stream.field(tensor.optional);
}

template <typename Stream> void fields(Stream &stream, Workspace &workspace) {
  stream.field(workspace.name);
  stream.list(workspace.extents, 8);
  stream.enumeration(workspace.type, ElementType::e4m3);
}

template <typename Stream> void fields(Stream &stream, ArgumentSlot &slot) {
  stream.enumeration(slot.kind, ArgumentSlot::Kind::counter);
  stream.field(slot.name);
  stream.field(slot.axis);
  stream.field(slot.heads);
}

template <typename Stream> void fields(Stream &stream, Launch &launch) {
  stream.field(launch.kernel);
  stream.field(launch.items);
  stream.list(launch.extents, 8);
  stream.field(launch.summarizes);
  stream.field(launch.persistent);
  stream.field(launch.dependent);
  stream.field(launch.threads);
  stream.field(launch.sharedBytes);
  stream.field(launch.workspaceBytes);
  stream.list(launch.slots, 20);
}

template <typename Stream> void fields(Stream &stream, CaptureExtent &extent) {
  stream.field(extent.coefficient);
  stream.field(extent.name);
  stream.field(extent.offset);
}

template <typename Stream> void fields(Stream &stream, Parameter &parameter) {
  stream.field(parameter.name);
  stream.enumeration(parameter.type, ElementType::e4m3);
  stream.field(parameter.isCapture);
  stream.list(parameter.extents, 16);
  stream.optional(parameter.defaultValue, [&](double &value) { stream.field(value); });
}

template <typename Stream> void fields(Stream &stream, Artifact &artifact) {
  stream.field(artifact.variantName);
  stream.enumeration(artifact.target.kind, Target::Kind::cuda);
  stream.field(artifact.target.sm);
  stream.enumeration(artifact.inputType, ElementType::e4m3);
  stream.field(artifact.headDimQk);
  stream.field(artifact.headDimV);
  stream.field(artifact.schedule);
  stream.field(artifact.scoreIsIdentity);
  stream.list(artifact.tensors, 25);
  stream.list(artifact.parameters, 22);
  stream.enumeration(artifact.format, CodeFormat::cubin);
  stream.field(artifact.code);
  stream.list(artifact.launches, 61);
  stream.list(artifact.workspaces, 20);
  stream.optional(artifact.resources, [&](Resources &resources) {
    stream.field(resources.registers);
    stream.field(resources.spillBytes);
  });
}

} // namespace

std::string Artifact::serialize() const {
  Artifact copy = *this; // `fields` takes a reference that is not const
  Writer body;
  fields(body, copy);
  Writer writer;
  writer.bytes = magic;
  writer.number(formatVersion, 4);
  writer.number(body.bytes.size(), 8);
  writer.bytes += body.bytes;
  writer.bytes += sha256(writer.bytes);
  return std::move(writer.bytes);
}

Result<Artifact> Artifact::deserialize(std::string_view bytes) {
  auto damaged = [](const std::string &what) {
    return Error(Code::inputOutput, "the artifact " + what + "; compile it anew");
  };
  if (bytes.size() < headerSize + digestSize)
    return damaged("is truncated: " + std::to_string(bytes.size()) + " bytes, at least " +
                   std::to_string(headerSize + digestSize) + " are needed");
  if (bytes.substr(0, magic.size()) != magic)
    return damaged("does not begin as one of Tesela's does");
  Reader header(bytes.substr(magic.size()));
  if (uint64_t version = header.number(4); version != formatVersion)
    return damaged("has format " + std::to_string(version) + ", this version reads format " +
                   std::to_string(formatVersion));
  if (uint64_t size = header.number(8); size != bytes.size() - headerSize - digestSize)
    return damaged("is truncated or too long: its header tells of " + std::to_string(size) +
                   " bytes, there are " + std::to_string(bytes.size() - headerSize - digestSize));
  std::string_view covered = bytes.substr(0, bytes.size() - digestSize);
  if (sha256(covered) != bytes.substr(covered.size()))
    return damaged("is damaged: its checksum does not hold");

  Artifact artifact;
  Reader body(covered.substr(headerSize));
  fields(body, artifact);
  if (body.failed || !body.atEnd())
    return damaged("is not well-formed");
  return artifact;
}

} // namespace tesela
