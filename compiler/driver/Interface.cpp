//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "driver/Interface.h"

#include "targets/common/LoadUses.h"
#include "targets/common/ViewPlace.h"
#include "tile/Extents.h"
#include "tile/SharedPrefix.h"

#include <fmt/format.h>

#include <algorithm>

using namespace mlir;

namespace tesela {

namespace {

std::optional<ElementType> elementTypeOf(Type type) {
  if (type.isF32())
    return ElementType::f32;
  if (type.isF16())
    return ElementType::f16;
  if (type.isBF16())
    return ElementType::bf16;
  if (isa<Float8E4M3FNType>(type))
    return ElementType::e4m3;
  if (type.isInteger(32))
    return ElementType::i32;
  if (type.isInteger(8)) // a bool in memory
    return ElementType::boolean;
  return std::nullopt;
}

/// A bound extent in the prefix form of Expression. `ofTokens`: the kernel's launch has one batch
/// of all tokens.
std::string prefixText(Attribute extent, bool ofTokens = false) {
  if (auto number = dyn_cast<IntegerAttr>(extent))
    return std::to_string(number.getInt());
  if (auto symbol = dyn_cast<tile::SymbolAttr>(extent)) {
    size_t index =
        llvm::find(extentNames, std::string_view(symbol.getName())) - extentNames.begin();
    return ofTokens && index < tokenExtents.size() ? tokenExtents[index] : symbol.getName().str();
  }
  auto expression = cast<tile::ExtentExprAttr>(extent);
  return fmt::format("({} {} {})", tile::stringifyExtentOperator(expression.getOp()).str(),
                     prefixText(expression.getLeft(), ofTokens),
                     prefixText(expression.getRight(), ofTokens));
}

class Collector {
public:
  explicit Collector(const std::vector<Parameter> &variant) { interface.parameters = variant; }

  Status add(tile::KernelOp kernel) {
    for (BlockArgument argument : kernel.getBodyBlock().getArguments())
      if (Status status = add(kernel, argument); !status)
        return status;
    return Status::success();
  }

  Interface interface;

private:
  static Error invalid(tile::KernelOp kernel, const std::string &name, const std::string &what) {
    return Error(Code::invalidArgument, fmt::format("the argument '{}' of the kernel '{}' {}", name,
                                                    kernel.getSymName().str(), what));
  }

  Status add(tile::KernelOp kernel, BlockArgument argument) {
    unsigned index = argument.getArgNumber();
    std::string name = kernel.getArgumentName(index).str();
    auto view = dyn_cast<tile::ViewType>(argument.getType());
    if (kernel.isParameter(index))
      return addParameter(kernel, name.substr(1), argument.getType());
    if (!view) {
      if (name == "scale" && argument.getType().isF32())
        return Status::success();
      return invalid(kernel, name,
                     "is a scalar without '$': write '$' before the name of a scalar that the "
                     "caller passes; only the softmax scale, 'scale: f32', has no '$'");
    }
    std::optional<ElementType> type = elementTypeOf(view.getElementType());
    if (!type)
      return invalid(kernel, name,
                     "has an unsupported element type: use f32, f16, bf16, f8E4M3FN, i32 or i8");
    std::optional<tile::Role> role = kernel.getArgumentRole(index);
    if (!role)
      return invalid(kernel, name, "has no role: write in, out, optional or workspace before it");
    if (*role == tile::Role::Workspace)
      return addWorkspace(kernel, name, view, *type);
    return addTensor(kernel, argument, name, *type, *role);
  }

  /// Whether the kernel writes the tensor. If not, it reads it.
  static bool isStored(BlockArgument view) {
    return llvm::any_of(accessesOf(view), [](Operation *access) {
      return isa<tile::StoreOp, tile::AccumulateOp>(access);
    });
  }

  Status addTensor(tile::KernelOp kernel, BlockArgument argument, const std::string &name,
                   ElementType type, tile::Role role) {
    auto view = cast<tile::ViewType>(argument.getType());
    using Role = TensorArgument::Role;
    bool isOptional = role == tile::Role::Optional;
    bool isWritten = isOptional ? isStored(argument) : role == tile::Role::Out;
    TensorArgument tensor{
        name, type, isWritten ? Role::out : Role::in, {}, view.getContiguous(), isOptional};
    for (Attribute extent : view.getExtents())
      tensor.extents.push_back(tile::isDynamicExtent(extent)
                                   ? std::nullopt
                                   : std::optional(Expression::parse(prefixText(extent)).value()));
    // If rows are tokens, there are as many queries as tokens.
    if (tile::isOfTokens(kernel) && tensor.role == Role::in && view.getRank() == 4 &&
        tile::staticExtent(view.getExtents()[0]) == 1 && !tensor.extents[2])
      tensor.extents[2] = Expression::parse(tokenExtents[3]).value();
    auto known = std::ranges::find(interface.tensors, name, &TensorArgument::name);
    if (known == interface.tensors.end()) {
      interface.tensors.push_back(std::move(tensor));
      return Status::success();
    }
    if (known->type != tensor.type || known->contiguous != tensor.contiguous ||
        known->extents.size() != tensor.extents.size())
      return differs(kernel, name);
    for (auto [one, other] : llvm::zip(known->extents, tensor.extents)) {
      if (one && other && *one != *other)
        return differs(kernel, name);
      one = one ? one : other; // an extent that one kernel leaves open, another may have
    }
    if (tensor.role == Role::out)
      known->role = Role::out;
    known->optional &= tensor.optional; // optional only if it is so for all kernels
    return Status::success();
  }

  Status addWorkspace(tile::KernelOp kernel, const std::string &name, tile::ViewType view,
                      ElementType type) {
    Workspace workspace{name, {}, type};
    for (auto [axis, extent] : llvm::enumerate(view.getExtents())) {
      std::string text = prefixText(extent, tile::isOfTokens(kernel));
      bool isOfParts = isa<tile::ExtentExprAttr>(view.getExtents().front());
      if (axis == 2 && view.getRank() >= 3 && !view.getContiguous() && !isOfParts)
        text = fmt::format("(* {0} (ceildiv {1} {0}))", workspacePositions, text);
      workspace.extents.push_back(Expression::parse(text).value());
    }
    auto known = std::ranges::find(interface.workspaces, name, &Workspace::name);
    if (known == interface.workspaces.end())
      interface.workspaces.push_back(std::move(workspace));
    else if (known->type != workspace.type || known->extents != workspace.extents)
      return differs(kernel, name);
    return Status::success();
  }

  static Error differs(tile::KernelOp kernel, const std::string &name) {
    return invalid(kernel, name,
                   "is declared differently by an earlier kernel: kernels that use the same name "
                   "must declare the same element type and extents");
  }

  /// Adds a parameter of the template. Those of the variant have been added before. The view says
  /// about it what the language's declaration says about a parameter of the variant.
  Status addParameter(tile::KernelOp kernel, const std::string &name, Type type) {
    if (std::ranges::count(interface.parameters, name, &Parameter::name))
      return Status::success();
    Parameter parameter;
    parameter.name = name;
    auto view = dyn_cast<tile::ViewType>(type);
    std::optional<ElementType> element = elementTypeOf(view ? view.getElementType() : type);
    if (!element || (!view && *element != ElementType::f32 && *element != ElementType::i32))
      return invalid(kernel, "$" + name, "has an unsupported type: scalars must be f32 or i32");
    parameter.type = *element;
    parameter.isCapture = bool(view);
    for (int64_t axis = 0; view && axis < view.getRank(); ++axis) {
      Attribute extent = view.getExtents()[axis];
      if (auto symbol = dyn_cast<tile::SymbolAttr>(extent))
        parameter.extents.push_back({1, symbol.getName().str(), 0});
      else if (tile::isDynamicExtent(extent)) // a name that occurs only here fits every extent
        parameter.extents.push_back({1, fmt::format("{}.{}", name, axis), 0});
      else if (std::optional<int64_t> number = tile::staticExtent(extent);
               number && *number <= INT32_MAX)
        parameter.extents.push_back({0, "", int32_t(*number)});
      else
        return invalid(kernel, "$" + name,
                       "has an extent that is computed: a captured tensor's "
                       "are names, numbers or '?'");
    }
    interface.parameters.push_back(std::move(parameter));
    return Status::success();
  }
};

} // namespace

Result<Interface> interfaceOf(ArrayRef<tile::KernelOp> kernels,
                              const std::vector<Parameter> &variant) {
  Collector collector(variant);
  for (tile::KernelOp kernel : kernels)
    if (Status status = collector.add(kernel); !status)
      return status.error();
  return std::move(collector.interface);
}

} // namespace tesela
