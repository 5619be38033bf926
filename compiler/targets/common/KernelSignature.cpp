//===- KernelSignature.cpp - A kernel's arguments as launch slots -*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/common/KernelSignature.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace tesela {

static constexpr llvm::StringLiteral extentNames[] = {"B", "H", "Hkv", "Sq", "Sk"};

unsigned KernelSignature::extent(llvm::StringRef name) {
  return llvm::find(extentNames, name) - std::begin(extentNames);
}

/// Whether blocks of queries of the view are loaded or stored.
static bool isOfQueries(BlockArgument view) {
  return llvm::any_of(view.getUsers(), [](Operation *user) {
    auto types = user->getOperandTypes();
    auto block = llvm::find_if(types, llvm::IsaPred<tile::BlockType>); // of the rows
    return block != types.end() && cast<tile::BlockType>(*block).getAxis() == tile::Axis::Query;
  });
}

void KernelSignature::add(ArgumentSlot::Kind kind, std::string name, int axis, Type type) {
  slots_.push_back({kind, std::move(name), axis});
  types_.push_back(type);
}

KernelSignature::KernelSignature(tile::KernelOp kernel) {
  using Kind = ArgumentSlot::Kind;
  MLIRContext *context = kernel.getContext();
  Type i32 = IntegerType::get(context, 32), i64 = IntegerType::get(context, 64);
  for (int axis = 0; axis < 5; ++axis)
    add(Kind::extent, "", axis, i32);
  for (BlockArgument argument : kernel.getBodyBlock().getArguments()) {
    std::string name = kernel.getArgumentName(argument.getArgNumber()).str();
    ViewSlots &view = views_.emplace_back();
    view.data = slots_.size();
    auto viewType = dyn_cast<tile::ViewType>(argument.getType());
    if (!viewType) {
      add(name == "scale" ? Kind::scale : Kind::scalar, name, 0, argument.getType());
      continue;
    }
    add(Kind::data, name, 0, Type());
    bool isCapture = name.starts_with("$");
    int strides = isCapture ? viewType.getRank() : viewType.getRank() == 4 ? 3 : 0;
    for (int axis = 0; axis < strides; ++axis) {
      if (isCapture) {
        view.extents.push_back(slots_.size());
        add(Kind::extent, name, axis, i32);
      }
      view.strides.push_back(slots_.size());
      add(Kind::stride, name, axis, i64);
    }
  }
  tile::ScheduleAttr schedule = kernel.getScheduleAttr();
  if (!schedule || schedule.getConsumers() == 0)
    return;
  for (BlockArgument argument : kernel.getBodyBlock().getArguments()) {
    auto viewType = dyn_cast<tile::ViewType>(argument.getType());
    std::string name = kernel.getArgumentName(argument.getArgNumber()).str();
    if (!viewType || viewType.getRank() != 4 || name.starts_with("$"))
      continue;
    // Boxes of what one copy moves: a warpgroup's rows of a block of queries, a whole block of
    // keys.
    int64_t rows = isOfQueries(argument) ? 64 : schedule.getBlockN();
    views_[argument.getArgNumber()].tensorMap = slots_.size();
    add(Kind::tensorMap, name, rows, Type());
    add(Kind::coordinateStep, name, 0, i32);
    add(Kind::coordinateStep, name, 1, i32);
  }
  if (schedule.getPersistent())
    add(Kind::counter, "", 0, Type());
}

Expression workItems(tile::KernelOp kernel) {
  std::string rows = std::to_string(kernel.getScheduleAttr().getBlockM());
  return Expression::parse("(* (ceildiv Sq " + rows + ") (* B H))").value();
}

} // namespace tesela
