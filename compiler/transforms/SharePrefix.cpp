//===- SharePrefix.cpp - tile-share-prefix ----------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "transforms/SharePrefix.h"

#include "tile/Extents.h"
#include "transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_TILESHAREPREFIX
#include "transforms/Passes.h.inc"

namespace {

bool isOfSequence(attn::ExtentOp extent) {
  return extent.getExtent() == attn::Extent::Sq || extent.getExtent() == attn::Extent::Sk;
}

/// In a kernel of the prefix, a row's index is the number of a token. Replaces q, b, Sq and Sk of a
/// variant by reads at that number. `first` is the number of argument b, before h, hkv and q.
void readOfTokens(Block &block, unsigned first) {
  Value batch = block.getArgument(first), query = block.getArgument(first + 3);
  OpBuilder builder = OpBuilder::atBlockBegin(&block);
  Operation *last = nullptr;
  auto read = [&](StringRef name) {
    auto value = attn::ReadOp::create(builder, query.getLoc(), builder.getI32Type(), name, query);
    last = value;
    return value.getResult();
  };
  SmallVector<attn::ExtentOp> extents;
  block.walk([&](attn::ExtentOp extent) {
    if (isOfSequence(extent))
      extents.push_back(extent);
  });
  SmallPtrSet<Operation *, 4> reads;
  if (!query.use_empty()) {
    Value position = read(tile::shared_prefix::positions);
    query.replaceAllUsesExcept(position, last);
    reads.insert(last);
  }
  auto addRead = [&](StringRef name) {
    Value value = read(name);
    last->setOperand(0, query);
    return value;
  };
  if (!batch.use_empty())
    batch.replaceAllUsesWith(addRead(tile::shared_prefix::sequences));
  if (extents.empty())
    return;
  Value keys = addRead(tile::shared_prefix::keys);
  for (attn::ExtentOp extent : extents) {
    extent.replaceAllUsesWith(keys);
    extent.erase();
  }
}

attn::CaptureAttr capture(Builder &builder, StringRef name, StringRef extent) {
  return attn::CaptureAttr::get(builder.getContext(), name, builder.getI32Type(),
                                builder.getArrayAttr(builder.getStringAttr(extent)));
}

void addCaptures(attn::VariantOp variant, ArrayRef<Attribute> captures) {
  SmallVector<Attribute> all(variant.getParameters().getValue());
  llvm::append_range(all, captures);
  variant.setParametersAttr(Builder(variant.getContext()).getArrayAttr(all));
}

/// Adds to the mask of a suffix that it keeps no key of the prefix.
void dropPrefix(attn::VariantOp variant) {
  Block &mask = variant.getMaskBody();
  Operation *yield = mask.getTerminator();
  OpBuilder builder(yield);
  Location loc = yield->getLoc();
  Value zero = arith::ConstantIntOp::create(builder, loc, 0, 32);
  Value length =
      attn::ReadOp::create(builder, loc, builder.getI32Type(), tile::shared_prefix::length, zero);
  Value isBehind =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sge, mask.getArgument(4), length);
  Value kept = yield->getOperand(0);
  yield->setOperand(0, variant.maskIsTrue()
                           ? isBehind
                           : arith::AndIOp::create(builder, loc, kept, isBehind).getResult());
}

} // namespace

OwningOpRef<attn::VariantOp> variantOf(tile::PrefixPart part, attn::VariantOp variant) {
  OwningOpRef<attn::VariantOp> own = variant.clone();
  Builder builder(variant.getContext());
  if (part == tile::PrefixPart::Prefix) {
    addCaptures(*own, {capture(builder, tile::shared_prefix::positions, "tokens"),
                       capture(builder, tile::shared_prefix::sequences, "tokens"),
                       capture(builder, tile::shared_prefix::keys, "tokens")});
    readOfTokens(own->getScoreBody(), 1);
    readOfTokens(own->getMaskBody(), 0);
    own->getSink().getBlocks().clear(); // the kernel of the suffix counts the sink
  } else if (part == tile::PrefixPart::Suffix) {
    addCaptures(*own, {capture(builder, tile::shared_prefix::length, "1")});
    dropPrefix(*own);
  }
  return own;
}

namespace {

/// Turns a copy of a template's kernel into the kernel of the prefix.
class PrefixKernel {
public:
  explicit PrefixKernel(tile::KernelOp kernel) : kernel(kernel), context(kernel.getContext()) {}

  LogicalResult run() {
    kernel.setSymName((kernel.getSymName() + "_of_prefix").str());
    names.assign(kernel.getArgumentNames().begin(), kernel.getArgumentNames().end());
    if (std::optional<ArrayAttr> all = kernel.getArgumentRoles())
      roles.assign(all->begin(), all->end());
    for (BlockArgument argument : kernel.getBodyBlock().getArguments())
      if (failed(change(argument)))
        return failure();
    kernel.setArgumentNamesAttr(ArrayAttr::get(context, names));
    if (!roles.empty())
      kernel.setArgumentRolesAttr(ArrayAttr::get(context, roles));
    return success();
  }

private:
  /// An output becomes a workspace, and a workspace gets its own name.
  LogicalResult change(BlockArgument argument) {
    unsigned index = argument.getArgNumber();
    std::optional<tile::Role> role = kernel.getArgumentRole(index);
    if (!role || *role == tile::Role::In)
      return success();
    names[index] = StringAttr::get(context, (kernel.getArgumentName(index) + "_of_prefix").str());
    if (*role == tile::Role::Workspace)
      return success();
    StringRef name = kernel.getArgumentName(index);
    auto view = cast<tile::ViewType>(argument.getType());
    if (name != "o" && name != "lse")
      return kernel.emitOpError()
             << "expected the results o and lse, got '" << name
             << "': prefix=shared is for templates that compute attention; leave it out";
    roles[index] = StringAttr::get(context, tile::stringifyRole(tile::Role::Workspace));
    // A computed first extent says that all kernels store the rows in the same order.
    SmallVector<Attribute> extents(view.getExtents());
    extents[0] = tile::ExtentExprAttr::get(context, tile::ExtentOperator::Multiply, extents[0],
                                           tile::getExtent(context, 1));
    Type f32 = Float32Type::get(context);
    argument.setType(tile::ViewType::get(context, extents, f32, /*contiguous=*/false));
    for (Operation *user : llvm::to_vector(argument.getUsers()))
      if (failed(storeInF32(user)))
        return failure();
    return success();
  }

  LogicalResult storeInF32(Operation *user) {
    auto store = dyn_cast<tile::StoreOp>(user);
    if (!store)
      return user->emitOpError() << "expected o and lse to be stored alone, got another use of "
                                    "them: leave out prefix=shared";
    auto convert = store.getTile().getDefiningOp<tile::ConvertOp>();
    if (cast<tile::TileType>(store.getTile().getType()).getElementType().isF32())
      return success();
    if (!convert || !cast<tile::TileType>(convert.getOperand().getType()).getElementType().isF32())
      return user->emitOpError() << "expected a tile that is converted from f32, got another: "
                                    "leave out prefix=shared";
    store.getTileMutable().assign(convert.getOperand());
    if (convert->use_empty())
      convert.erase();
    return success();
  }

  tile::KernelOp kernel;
  MLIRContext *context;
  SmallVector<Attribute> names, roles;
};

struct TileSharePrefix : impl::TileSharePrefixBase<TileSharePrefix> {
  void runOnOperation() override {
    if (failed(checkVariant()))
      return signalPassFailure();
    SmallVector<tile::KernelOp> kernels;
    for (auto kernel : getOperation().getOps<tile::KernelOp>())
      if (!tile::prefixPartOf(kernel))
        kernels.push_back(kernel);
    if (kernels.empty())
      return;
    OpBuilder builder(kernels.front());
    auto named = [&](StringRef part) { return builder.getStringAttr(part); };
    for (tile::KernelOp kernel : kernels) {
      auto ofPrefix = cast<tile::KernelOp>(builder.clone(*kernel));
      ofPrefix->setAttr(tile::prefixPartAttr, named("prefix"));
      kernel->setAttr(tile::prefixPartAttr, named("suffix"));
      if (failed(PrefixKernel(ofPrefix).run()))
        return signalPassFailure();
    }
    for (auto kernel : getOperation().getOps<tile::KernelOp>())
      addArguments(kernel);
  }

private:
  /// Whether `value` depends on Sq or Sk.
  static bool followsFromSequence(Value value) {
    SmallVector<Value> pending = {value};
    DenseSet<Value> known;
    while (!pending.empty()) {
      Operation *op = pending.pop_back_val().getDefiningOp();
      if (auto extent = dyn_cast_or_null<attn::ExtentOp>(op); extent && isOfSequence(extent))
        return true;
      for (Value operand : op ? ValueRange(op->getOperands()) : ValueRange())
        if (known.insert(operand).second)
          pending.push_back(operand);
    }
    return false;
  }

  LogicalResult checkVariant() {
    for (auto variant : getOperation().getOps<attn::VariantOp>()) {
      for (StringRef name :
           {tile::shared_prefix::table, tile::shared_prefix::length, tile::shared_prefix::positions,
            tile::shared_prefix::sequences, tile::shared_prefix::keys})
        if (variant.findParameter(name))
          return variant.emitError() << "the parameter '" << name
                                     << "' has the name of a tensor that prefix=shared adds: "
                                        "rename it";
      WalkResult found = variant.walk([](Operation *op) {
        if (auto extent = dyn_cast<attn::ExtentOp>(op);
            extent && extent.getExtent() == attn::Extent::B) {
          extent.emitError() << "prefix=shared computes the prefix as one sequence, which does not "
                                "know the number B of sequences: pass it as a parameter";
          return WalkResult::interrupt();
        }
        if (auto reduce = dyn_cast<attn::ReduceOp>(op);
            reduce && followsFromSequence(reduce.getBound())) {
          reduce.emitError()
              << "prefix=shared computes the prefix as one sequence, whose rows have "
                 "several Sq and Sk, and a reduction has one bound: pass it as a "
                 "parameter";
          return WalkResult::interrupt();
        }
        return WalkResult::advance();
      });
      if (found.wasInterrupted())
        return failure();
    }
    return success();
  }

  /// Adds the arguments in the same order to all kernels of the plan.
  static void addArguments(tile::KernelOp kernel) {
    MLIRContext *context = kernel.getContext();
    Attribute any = tile::getExtent(context, ShapedType::kDynamic),
              one = tile::getExtent(context, 1);
    auto add = [&](StringRef name, ArrayRef<Attribute> extents) {
      kernel.addArgument(("$" + name).str(),
                         tile::ViewType::get(context, extents, IntegerType::get(context, 32)),
                         kernel.getLoc());
    };
    add(tile::shared_prefix::table, {one, any});
    add(tile::shared_prefix::length, {one});
    add(tile::shared_prefix::positions, {any});
    add(tile::shared_prefix::sequences, {any});
    add(tile::shared_prefix::keys, {any});
  }
};

} // namespace
} // namespace tesela
