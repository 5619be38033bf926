//===- SplitOutputs.cpp - tile-split-outputs --------------------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tile/GradientOps.h"
#include "transforms/Passes.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_TILESPLITOUTPUTS
#include "transforms/Passes.h.inc"

namespace {

/// The initial values of a loop's carried values. They are consecutive operands.
OperandRange initsOf(Operation *loop) {
  if (auto blocks = dyn_cast<tile::BlocksOp>(loop))
    return blocks.getInit();
  return cast<scf::ForOp>(loop).getInitArgs();
}

Block &bodyOf(Operation *loop) { return loop->getRegion(0).front(); }

/// The block argument of a carried value. A loop has as many carried values as results, and their
/// arguments come last.
BlockArgument argumentOf(Operation *loop, unsigned index) {
  Block &body = bodyOf(loop);
  return body.getArgument(body.getNumArguments() - loop->getNumResults() + index);
}

bool isLoop(Operation *op) { return isa_and_nonnull<tile::BlocksOp, scf::ForOp>(op); }

/// The values that a kernel's stores and additions depend on, or those of one of them. A carried
/// value depends on its initial value and on the value that an iteration yields for it.
class UsedValues {
public:
  explicit UsedValues(tile::KernelOp kernel, Operation *only = nullptr) {
    kernel.walk([&](Operation *op) {
      if (only ? op == only : isa<tile::StoreOp, tile::AccumulateOp>(op))
        addAll(op->getOperands());
      if (!isLoop(op))
        return;
      // The operands that say which blocks the loop visits.
      OperandRange inits = initsOf(op);
      unsigned first = inits.empty() ? op->getNumOperands() : inits.getBeginOperandIndex();
      addAll(op->getOperands().take_front(first));
      addAll(op->getOperands().drop_front(
          std::min<size_t>(first + inits.size(), op->getNumOperands())));
    });
    for (size_t next = 0; next < used.size(); ++next) // addSources appends to `used`
      addSources(used[next]);
  }

  bool contains(Value value) const { return used.contains(value); }

private:
  void addAll(ValueRange values) { used.insert(values.begin(), values.end()); }

  void addCarried(Operation *loop, unsigned index) {
    used.insert(initsOf(loop)[index]);
    used.insert(bodyOf(loop).getTerminator()->getOperand(index));
  }

  void addSources(Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      Operation *loop = argument.getOwner()->getParentOp();
      if (!isLoop(loop))
        return;
      int64_t index = int64_t(argument.getArgNumber()) - bodyOf(loop).getNumArguments() +
                      int64_t(loop->getNumResults());
      if (index >= 0)
        addCarried(loop, unsigned(index));
      return;
    }
    auto result = cast<OpResult>(value);
    Operation *op = result.getOwner();
    if (isLoop(op))
      return addCarried(op, result.getResultNumber());
    addAll(op->getOperands());
    for (Region &region : op->getRegions())
      region.walk([&](Operation *inner) { addAll(inner->getOperands()); });
  }

  llvm::SetVector<Value> used;
};

/// Replaces `loop` by a loop without the carried values `unused`. Its body must not yield them any
/// more.
void dropCarried(Operation *loop, const llvm::BitVector &unused) {
  OpBuilder builder(loop);
  SmallVector<Value> inits, results;
  for (auto [index, init] : llvm::enumerate(initsOf(loop)))
    if (!unused.test(index)) {
      inits.push_back(init);
      results.push_back(loop->getResult(index));
    }
  Block &body = bodyOf(loop);
  unsigned first = body.getNumArguments() - loop->getNumResults();
  for (int index = unused.find_last(); index >= 0; index = unused.find_prev(index))
    body.eraseArgument(first + index);
  Operation *smaller;
  if (auto blocks = dyn_cast<tile::BlocksOp>(loop)) {
    smaller = tile::BlocksOp::create(builder, loop->getLoc(), ValueRange(inits).getTypes(),
                                     blocks.getRows(), inits, blocks.getRuns(), blocks.getDrops(),
                                     blocks.getAmong(), blocks.getPart());
  } else {
    auto counted = cast<scf::ForOp>(loop);
    smaller = scf::ForOp::create(builder, loop->getLoc(), counted.getLowerBound(),
                                 counted.getUpperBound(), counted.getStep(), inits);
  }
  smaller->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
  smaller->getRegion(0).takeBody(loop->getRegion(0));
  for (auto [old, result] : llvm::zip_equal(results, smaller->getResults()))
    old.replaceAllUsesWith(result);
  loop->erase();
}

/// Erases ops that no store depends on, and arguments without uses.
void eraseUnused(tile::KernelOp kernel) {
  UsedValues used(kernel);
  SmallVector<Operation *> unused;
  SmallVector<std::pair<Operation *, llvm::BitVector>> smaller;
  kernel.walk([&](Operation *op) {
    auto isUsed = [&](Value value) { return used.contains(value); };
    if (!isa<tile::KernelOp, tile::BlocksOp, scf::ForOp>(op->getParentOp()))
      return; // it is erased together with the op around it
    if (isLoop(op)) {
      llvm::BitVector dropped(op->getNumResults());
      for (unsigned index = 0; index < op->getNumResults(); ++index)
        dropped[index] = !isUsed(op->getResult(index)) && !isUsed(argumentOf(op, index));
      if (dropped.any())
        smaller.push_back({op, dropped});
    } else if (op->getNumResults() > 0 && llvm::none_of(op->getResults(), isUsed)) {
      unused.push_back(op);
    }
  });
  for (Operation *op : unused) {
    op->dropAllUses(); // by other unused ops, and by yields of values that are not carried any more
    op->erase();
  }
  for (auto &[loop, dropped] : smaller)
    bodyOf(loop).getTerminator()->eraseOperands(dropped);
  for (auto &[loop, dropped] :
       smaller) // inner loops first: their initial values are values of the outer ones
    dropCarried(loop, dropped);

  llvm::BitVector erased(kernel.getBody().getNumArguments());
  SmallVector<Attribute> names, roles;
  for (BlockArgument argument : kernel.getBody().getArguments()) {
    unsigned index = argument.getArgNumber();
    erased[index] = argument.use_empty();
    if (erased[index])
      continue;
    names.push_back(kernel.getArgumentNames()[index]);
    if (std::optional<ArrayAttr> all = kernel.getArgumentRoles())
      roles.push_back((*all)[index]);
  }
  kernel.getBodyBlock().eraseArguments(erased);
  kernel.setArgumentNamesAttr(ArrayAttr::get(kernel.getContext(), names));
  if (kernel.getArgumentRoles())
    kernel.setArgumentRolesAttr(ArrayAttr::get(kernel.getContext(), roles));
}

/// The loop's result from which a stored tile is computed.
Value sumOf(Value tile) {
  Operation *op = tile.getDefiningOp();
  while (op && !isLoop(op) && op->getNumOperands() > 0) {
    tile = op->getOperand(0);
    op = tile.getDefiningOp();
  }
  return tile;
}

/// An output, the stores to workspaces of tiles that are computed from the same sum, and the
/// additions to workspaces that share its products.
struct Output {
  tile::StoreOp store;
  SmallVector<Operation *> others;
};

/// How many products that `store` does not need `addition` needs.
int64_t ownProducts(tile::KernelOp kernel, tile::AccumulateOp addition, tile::StoreOp store) {
  UsedValues ofAddition(kernel, addition), ofStore(kernel, store);
  int64_t count = 0;
  kernel.walk([&](tile::DotOp dot) {
    count += ofAddition.contains(dot.getResult()) && !ofStore.contains(dot.getResult());
  });
  return count;
}

/// The outputs of a kernel with products that only stores them at its end; empty otherwise.
SmallVector<Output> outputsOf(tile::KernelOp kernel) {
  bool hasProducts = false, hasOthers = false;
  SmallVector<tile::StoreOp> others; ///< to workspaces
  SmallVector<tile::AccumulateOp> additions;
  SmallVector<Output> outputs;
  kernel.walk([&](Operation *op) {
    hasProducts |= isa<tile::DotOp>(op);
    if (auto addition = dyn_cast<tile::AccumulateOp>(op))
      return additions.push_back(addition);
    auto store = dyn_cast<tile::StoreOp>(op);
    auto view = store ? dyn_cast<BlockArgument>(store.getView()) : BlockArgument();
    if (!view || op->getParentOp() != kernel) {
      hasOthers |= isa<tile::StoreOp, tile::ScorePartialsOp>(op);
      return;
    }
    std::optional<tile::Role> role = kernel.getArgumentRole(view.getArgNumber());
    if (role == tile::Role::Out)
      outputs.push_back({store, {}});
    else if (role == tile::Role::Workspace)
      others.push_back(store);
    else
      hasOthers = true;
  });
  for (tile::StoreOp other : others) {
    Output *output = llvm::find_if(outputs, [&](Output &each) {
      return sumOf(each.store.getTile()) == sumOf(other.getTile());
    });
    hasOthers |= output == outputs.end();
    if (output != outputs.end())
      output->others.push_back(other);
  }
  for (tile::AccumulateOp addition : additions) {
    auto products = [&](const Output &each) { return ownProducts(kernel, addition, each.store); };
    auto best =
        std::min_element(outputs.begin(), outputs.end(), [&](const Output &a, const Output &b) {
          return products(a) < products(b);
        });
    if (best != outputs.end())
      best->others.push_back(addition);
  }
  return hasProducts && !hasOthers ? outputs : SmallVector<Output>();
}

struct TileSplitOutputs : impl::TileSplitOutputsBase<TileSplitOutputs> {
  void runOnOperation() override {
    for (auto kernel : llvm::make_early_inc_range(getOperation().getOps<tile::KernelOp>())) {
      tile::ScheduleAttr schedule = kernel.getScheduleAttr();
      if (schedule && schedule->splitOutputs)
        split(kernel);
    }
  }

  static void split(tile::KernelOp kernel) {
    size_t count = outputsOf(kernel).size();
    if (count < 2)
      return;
    OpBuilder builder(kernel);
    for (size_t index = 0; index < count; ++index) {
      auto own = cast<tile::KernelOp>(builder.clone(*kernel));
      for (auto [place, output] : llvm::enumerate(outputsOf(own))) {
        unsigned number = cast<BlockArgument>(output.store.getView()).getArgNumber();
        if (place == index) {
          own.setSymName((kernel.getSymName() + "_" + own.getArgumentName(number)).str());
          continue;
        }
        for (Operation *other : output.others)
          other->erase();
        output.store.erase();
      }
      eraseUnused(own);
    }
    kernel.erase();
  }
};

} // namespace
} // namespace tesela
