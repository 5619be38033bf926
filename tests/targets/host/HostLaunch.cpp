//===- HostLaunch.cpp - Compile a core and run it ---------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "HostLaunch.h"

#include "targets/common/KernelSignature.h"
#include "tile/Tile.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <random>

using namespace mlir;

namespace tesela::test {

std::string substitute(std::string text,
                       const std::vector<std::pair<std::string, std::string>> &values) {
  for (const auto &[name, value] : values) {
    std::string token = "{" + name + "}";
    for (size_t at = 0; (at = text.find(token, at)) != std::string::npos; at += value.size())
      text.replace(at, token.size(), value);
  }
  return text;
}

static OwningOpRef<ModuleOp> parseCore(MLIRContext &context, const std::string &text) {
  context.loadDialect<tile::TileDialect, arith::ArithDialect, math::MathDialect, scf::SCFDialect>();
  std::string diagnostics;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    llvm::raw_string_ostream(diagnostics) << diagnostic.getLocation() << ": " << diagnostic << '\n';
  });
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  if (!module)
    ADD_FAILURE() << "the core does not parse: " << diagnostics << text;
  return module;
}

std::optional<std::string> llvmText(const std::string &text, const VectorUnit &unit) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  OwningOpRef<ModuleOp> module = parseCore(context, text);
  if (!module)
    return std::nullopt;
  Result<std::string> result = hostLLVMText(*module, unit);
  if (!result) {
    ADD_FAILURE() << result.error().message();
    return std::nullopt;
  }
  return *result;
}

std::unique_ptr<HostKernelUnderTest> HostKernelUnderTest::compile(const std::string &text,
                                                                  const VectorUnit &unit) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  OwningOpRef<ModuleOp> module = parseCore(context, text);
  if (!module)
    return nullptr;
  auto result = std::make_unique<HostKernelUnderTest>();
  tile::KernelOp kernel = *module->getOps<tile::KernelOp>().begin();
  std::string symbol = kernel.getSymName().str();
  result->slots_ = KernelSignature(kernel).slots();
  result->items_ = workItems(kernel);

  Result<HostObject> object = hostObject(*module, unit);
  if (!object) {
    ADD_FAILURE() << object.error().message();
    return nullptr;
  }
  result->workspaceBytes_ = object->workspaceBytes;
  result->object_ = object->object;

  Result<std::shared_ptr<HostCode>> code = HostCode::load(object->object);
  if (!code) {
    ADD_FAILURE() << code.error().message();
    return nullptr;
  }
  result->code_ = *code;
  Result<HostKernel *> found = result->code_->find(symbol);
  if (!found) {
    ADD_FAILURE() << found.error().message();
    return nullptr;
  }
  result->kernel_ = *found;
  return result;
}

void HostKernelUnderTest::run(const HostArguments &arguments) const {
  std::vector<uint64_t> values(slots_.size());
  std::vector<const void *> pointers(slots_.size());
  auto set = [&](size_t slot, const auto &value) {
    std::memcpy(&values[slot], &value, sizeof(value));
  };
  const Extents &e = arguments.extents;
  int32_t extents[] = {e.B, e.H, e.Hkv, e.Sq, e.Sk};
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    const auto &[kind, name, axis, heads] = slots_[slot];
    pointers[slot] = &values[slot];
    switch (kind) {
    case ArgumentSlot::Kind::data:
      set(slot, arguments.tensors.at(name).data);
      break;
    case ArgumentSlot::Kind::stride:
      set(slot, arguments.tensors.at(name).strides.at(axis));
      break;
    case ArgumentSlot::Kind::extent:
      set(slot, name.empty() ? extents[axis] : arguments.tensors.at(name).extents.at(axis));
      break;
    case ArgumentSlot::Kind::scalar:
    case ArgumentSlot::Kind::scale:
      if (auto found = arguments.floats.find(name); found != arguments.floats.end())
        set(slot, found->second);
      else
        set(slot, arguments.integers.at(name));
      break;
    case ArgumentSlot::Kind::tensorMap:
    case ArgumentSlot::Kind::coordinateStep:
    case ArgumentSlot::Kind::counter:
      ADD_FAILURE() << "a host kernel has no tensor maps and no counters";
      break;
    }
  }
  size_t bytes = (workspaceBytes_ + 63) / 64 * 64 + 64;
  std::unique_ptr<void, decltype(&std::free)> scratch(std::aligned_alloc(64, bytes), &std::free);
  std::memset(scratch.get(), 0xff, bytes);
  for (int64_t item = 0; item < items_.evaluate(e); ++item)
    kernel_(pointers.data(), item, scratch.get());
  // The kernel must not write behind its workspace.
  for (size_t at = workspaceBytes_; at < bytes; ++at)
    if (static_cast<unsigned char *>(scratch.get())[at] != 0xff) {
      ADD_FAILURE() << "byte " << at << " behind the workspace of " << workspaceBytes_
                    << " bytes was written";
      break;
    }
}

HostTensor contiguousRows(const void *data, int64_t rows, int64_t d) {
  return {data, {rows * d, rows * d, d}, {}};
}

std::vector<VectorUnit> vectorUnits() {
  std::vector<VectorUnit> units{hostVectorUnit()};
  for (VectorUnit unit = units[0]; unit.width > 4; units.push_back(unit))
    unit.width /= 2;
  units.push_back({4, false, false});
  return units;
}

std::vector<char> encode(ElementType type, const std::vector<float> &values) {
  std::vector<char> bytes(values.size() * elementSize(type));
  for (size_t i = 0; i < values.size(); ++i) {
    if (type == ElementType::f32) {
      std::memcpy(&bytes[i * 4], &values[i], 4);
    } else {
      uint16_t bits = type == ElementType::f16 ? floatToF16(values[i]) : floatToBf16(values[i]);
      std::memcpy(&bytes[i * 2], &bits, 2);
    }
  }
  return bytes;
}

std::vector<float> decode(ElementType type, const std::vector<char> &bytes) {
  std::vector<float> values(bytes.size() / elementSize(type));
  for (size_t i = 0; i < values.size(); ++i) {
    if (type == ElementType::f32) {
      std::memcpy(&values[i], &bytes[i * 4], 4);
    } else {
      uint16_t bits;
      std::memcpy(&bits, &bytes[i * 2], 2);
      values[i] = type == ElementType::f16 ? f16ToFloat(bits) : bf16ToFloat(bits);
    }
  }
  return values;
}

std::vector<float> randomValues(ElementType type, size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float &value : values)
    value = roundTo(type, normal(generator));
  return values;
}

} // namespace tesela::test
