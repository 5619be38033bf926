//===- BindTemplate.cpp - tile-bind -----------------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tile/Extents.h"
#include "tile/WorkOps.h"
#include "transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_TILEBIND
#include "transforms/Passes.h.inc"

namespace {

struct TileBind : impl::TileBindBase<TileBind> {
  using Base::Base;

  void runOnOperation() override {
    llvm::StringMap<Attribute> values; // an IntegerAttr, or a TypeAttr
    for (const std::string &binding : bindings)
      if (failed(addBinding(binding, values)))
        return signalPassFailure();
    for (auto kernel : getOperation().getOps<tile::KernelOp>())
      if (failed(bind(kernel, values)))
        return signalPassFailure();
  }

  LogicalResult addBinding(StringRef binding, llvm::StringMap<Attribute> &values) {
    auto [name, value] = binding.split('=');
    int64_t number;
    if (!value.getAsInteger(10, number)) {
      values[name] = tile::getExtent(&getContext(), number);
      return success();
    }
    Builder builder(&getContext());
    Type type = llvm::StringSwitch<Type>(value)
                    .Case("f32", builder.getF32Type())
                    .Case("f16", builder.getF16Type())
                    .Case("bf16", builder.getBF16Type())
                    .Case("e4m3", Float8E4M3FNType::get(&getContext()))
                    .Case("i8", builder.getI8Type())
                    .Case("i32", builder.getI32Type())
                    .Default(Type());
    if (!type)
      return getOperation().emitError() << "the value of a template's parameter is an integer, "
                                           "f32, f16, bf16, e4m3, i8 or i32; '"
                                        << binding << "' has '" << value << "'";
    values[name] = TypeAttr::get(type);
    return success();
  }

  LogicalResult bind(tile::KernelOp kernel, llvm::StringMap<Attribute> values) {
    if (tile::ScheduleAttr schedule = kernel.getScheduleAttr()) {
      values["block_m"] = tile::getExtent(&getContext(), schedule->blockM);
      values["block_n"] = tile::getExtent(&getContext(), schedule->blockN);
      values["heads"] = tile::getExtent(&getContext(), schedule->heads);
    }
    for (Attribute parameter : kernel.getParameters())
      if (!values.count(cast<StringAttr>(parameter).getValue()))
        return kernel.emitError() << "the template's parameter " << parameter
                                  << " has no value: bind it with bindings="
                                  << cast<StringAttr>(parameter).getValue() << "=…";

    AttrTypeReplacer replacer;
    replacer.addReplacement([&](tile::SymbolAttr symbol) -> std::optional<Attribute> {
      auto value = values.find(symbol.getName());
      if (value == values.end() || !isa<IntegerAttr>(value->second))
        return std::nullopt;
      return value->second;
    });
    replacer.addReplacement([&](tile::ExtentExprAttr expression) -> std::optional<Attribute> {
      auto replaced = tile::ExtentExprAttr::get(&getContext(), expression.getOp(),
                                                replacer.replace(expression.getLeft()),
                                                replacer.replace(expression.getRight()));
      if (std::optional<int64_t> number = tile::staticExtent(replaced))
        return tile::getExtent(&getContext(), *number);
      return replaced;
    });
    replacer.addReplacement([&](tile::ElementParamType parameter) -> std::optional<Type> {
      auto value = values.find(parameter.getName());
      if (value == values.end() || !isa<TypeAttr>(value->second))
        return std::nullopt;
      return cast<TypeAttr>(value->second).getValue();
    });
    // The replacer builds types without verifying them, and no op's verifier does it later.
    bool isValid = true;
    auto checked = [&](Type bound, Type old) {
      isValid &= bool(bound);
      return std::pair(bound ? bound : old, WalkResult::skip());
    };
    auto emitKernelError = [&] { return kernel.emitError(); };
    llvm::function_ref<InFlightDiagnostic()> emitError = emitKernelError;
    // One wrong value makes several types invalid. One message is enough.
    replacer.addReplacement([&](tile::TileType tile) -> std::optional<std::pair<Type, WalkResult>> {
      if (!isValid)
        return std::pair(Type(tile), WalkResult::skip());
      SmallVector<Attribute> extents = llvm::map_to_vector(
          tile.getExtents(), [&](Attribute extent) { return replacer.replace(extent); });
      return checked(tile::TileType::getChecked(emitError, &getContext(), ArrayRef(extents),
                                                replacer.replace(tile.getElementType()),
                                                tile.getEncoding()),
                     tile);
    });
    replacer.addReplacement(
        [&](tile::BlockType block) -> std::optional<std::pair<Type, WalkResult>> {
          if (!isValid)
            return std::pair(Type(block), WalkResult::skip());
          return checked(tile::BlockType::getChecked(emitError, &getContext(), block.getAxis(),
                                                     replacer.replace(block.getExtent()),
                                                     replacer.replace(block.getHeads())),
                         block);
        });
    replacer.recursivelyReplaceElementsIn(kernel, /*replaceAttrs=*/true, /*replaceLocs=*/false,
                                          /*replaceTypes=*/true);
    kernel.setParametersAttr(ArrayAttr::get(&getContext(), {}));
    if (!isValid)
      return failure();

    // Report an extent that names no parameter here; otherwise the error would come much later.
    WalkResult unbound = kernel.walk([&](Operation *op) {
      if (auto number = dyn_cast<tile::NumberOp>(op)) {
        std::optional<int64_t> value = tile::staticExtent(number.getExtent());
        if (!value) {
          op->emitError() << "its extent names something that is no parameter of the template";
          return WalkResult::interrupt();
        }
        OpBuilder builder(op);
        number.replaceAllUsesWith(
            arith::ConstantIntOp::create(builder, op->getLoc(), *value, 32).getResult());
        op->erase();
        return WalkResult::advance();
      }
      auto slots = dyn_cast<tile::WorkSlotsOp>(op);
      auto more = dyn_cast<tile::MoreSlotsOp>(op);
      auto work = dyn_cast<tile::WorkOp>(op);
      auto dealt = dyn_cast<tile::HeadPartsOp>(op);
      auto items = dyn_cast<tile::WorkItemsOp>(op);
      auto heads = dyn_cast<tile::WorkHeadsOp>(op);
      if (heads && !tile::staticExtent(heads.getMost())) {
        op->emitError() << "its number of work items names something that is no parameter of the "
                           "template";
        return WalkResult::interrupt();
      }
      if ((work && work.getWorkersAttr() && !tile::staticExtent(work.getWorkersAttr())) ||
          (dealt && !tile::staticExtent(dealt.getWorkers())) ||
          (items && items.getWorkersAttr() && !tile::staticExtent(items.getWorkersAttr())) ||
          (slots && !tile::staticExtent(slots.getWorkers())) ||
          (more && !tile::staticExtent(more.getWorkers()))) {
        op->emitError() << "its workers name something that is no parameter of the template";
        return WalkResult::interrupt();
      }
      for (Type type : op->getResultTypes())
        if (auto tileType = dyn_cast<tile::TileType>(type); tileType && !tileType.isBound()) {
          op->emitError() << type << " names something that is no parameter of the template";
          return WalkResult::interrupt();
        }
      return WalkResult::advance();
    });
    return failure(unbound.wasInterrupted());
  }
};

} // namespace
} // namespace tesela
