//===- KernelLowering.cpp - The function and its operations -----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The function of a kernel, and for each op the method that lowers it. What several of these
// methods need stands here, too: arithmetic, blocks, addresses.
//
//===----------------------------------------------------------------------===//
#include "targets/nvvm/KernelLowering.h"

#include "frontend/emit/ExpandArithmetic.h"
#include "targets/common/WorkHeads.h"
#include "targets/nvvm/EarlierLaunch.h"
#include "targets/nvvm/Passes.h"
#include "targets/nvvm/RoleRegisters.h"
#include "tile/ColumnOps.h"
#include "tile/Extents.h"
#include "tile/WorkOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tesela {
#define GEN_PASS_DEF_PIPELOWERTONVVM
#include "targets/nvvm/Passes.h.inc"

namespace nvvm {

// LLVM's address spaces of global and of shared memory (NVPTX).
static constexpr unsigned globalSpace = 1, sharedSpace = 3;
static constexpr StringLiteral sharedSymbol = "tesela_shared";

//===----------------------------------------------------------------------===//
// Helpers
//===----------------------------------------------------------------------===//

Value KernelLowering::constant(int64_t value, unsigned bits) {
  return arith::ConstantIntOp::create(builder, loc, value, bits);
}

Value KernelLowering::number(float value) {
  return arith::ConstantFloatOp::create(builder, loc, builder.getF32Type(), APFloat(value));
}

Value KernelLowering::add(Value a, Value b) { return arith::AddIOp::create(builder, loc, a, b); }

Value KernelLowering::multiply(Value a, Value b) {
  return arith::MulIOp::create(builder, loc, a, b);
}

Value KernelLowering::wide(Value value) {
  return arith::ExtSIOp::create(builder, loc, builder.getI64Type(), value);
}

Value KernelLowering::advance(Value pointer, Type element, Value index) {
  if (isa<Float8E4M3FNType>(element)) // LLVM has no such type
    element = builder.getI8Type();
  return LLVM::GEPOp::create(builder, loc, pointer.getType(), element, pointer, index);
}

/// Exchanges registers between two lanes whose numbers differ in `bit`: the lower lane gives its
/// `second` and gets the upper lane's `first`.
void KernelLowering::exchange(Value &first, Value &second, Value isUpper, int64_t bit) {
  auto select = [&](Value a, Value b) -> Value {
    return arith::SelectOp::create(builder, loc, isUpper, a, b);
  };
  Value received = ptx().shuffleXor(select(first, second), bit);
  Value kept = first;
  first = select(received, kept);
  second = select(second, received);
}

BlockCoordinates KernelLowering::blockOf(Value block) {
  const Values &parts = valuesOf(block);
  return {parts[0], parts[1], parts[2], parts[3], parts[4]};
}

ExtentValues KernelLowering::extents() {
  return {slots[0], slots[1], slots[2], slots[3], slots[4]};
}

void KernelLowering::setBlock(TypedValue<tile::BlockType> block, const BlockCoordinates &at) {
  values[block] = {at.batch, at.head, at.first, at.limit, at.other};
  if (block.getType().getAxis() == tile::Axis::Query)
    kvHeads[block] = emitKvHead(builder, loc, at.head, extents());
}

void KernelLowering::lowerBlockOp(tile::BlockOp op) {
  BlockCoordinates at = emitBlock(builder, loc, op, extents(),
                                  {[&](Value value) { return valueOf(value); },
                                   [&](Value block) { return blockOf(block); },
                                   [&](Value block) { return kvHeadOf(block); }});
  if (op.getHead())
    return setBlock(op, at);
  values[op] = {at.batch, at.head, at.first, at.limit, at.other};
  if (op.getBlock().getType().getAxis() == tile::Axis::Query) // its head follows from `of`
    kvHeads[op] = op.getOf().getType().getAxis() == tile::Axis::Query ? kvHeadOf(op.getOf())
                                                                      : blockOf(op.getOf()).head;
}

Value KernelLowering::kvHeadOf(Value block) {
  if (Value known = kvHeads.lookup(block))
    return known;
  return emitKvHead(builder, loc, blockOf(block).head, extents()); // from a loop or a branch
}

SmallVector<Type> KernelLowering::typesOf(Type type) {
  auto tile = dyn_cast<tile::TileType>(type);
  if (!tile)
    return isa<tile::BlockType>(type) ? SmallVector<Type>(5, builder.getI32Type())
                                      : SmallVector<Type>{type};
  Type element = tile.getElementType();
  if (isa<pipe::ColumnsAttr>(tile.getEncoding()))
    return SmallVector<Type>(tile.getExtent(1) / 4, element);
  FragmentShape shape(tile, warps);
  if (isa<pipe::RowsAttr>(tile.getEncoding())) {
    bool isWhole = element.isF32() || element.isInteger(32);
    return SmallVector<Type>(shape.rows(), isWhole ? element : Type(builder.getI32Type()));
  }
  if (element.isInteger(1))
    return SmallVector<Type>(shape.words(), builder.getI32Type());
  if (element.isF32() || element.isInteger(32))
    return SmallVector<Type>(shape.elements(), element);
  return SmallVector<Type>(shape.elements() / 2, builder.getI32Type()); // pairs
}

Value KernelLowering::blockAddress(Value view, const BlockCoordinates &block, Type element) {
  const ViewSlots &parts = viewOf(view);
  ViewPlace place = placeOf(view);
  Value outer = block.batch, row = block.first;
  if (place.ragged) {
    outer = constant(0);
    row = add(row, valueOf(place.ragged.getShift()));
  } else if (place.paged) {
    std::tie(outer, row) = placeInPage(place.paged, block);
  }
  Value offset = multiply(wide(outer), slots[parts.strides[0]]);
  offset = add(offset, multiply(wide(block.head), slots[parts.strides[1]]));
  bool hasRowStride = parts.strides.size() > 2; // else a row is one number
  offset = add(offset, hasRowStride ? multiply(wide(row), slots[parts.strides[2]]) : wide(row));
  return advance(slots[parts.data], element, offset);
}

//===----------------------------------------------------------------------===//
// The function
//===----------------------------------------------------------------------===//

void KernelLowering::createFunction() {
  MLIRContext *context = builder.getContext();
  auto global = LLVM::LLVMPointerType::get(context, globalSpace);
  SmallVector<Type> types;
  using Kind = ArgumentSlot::Kind;
  auto isMap = [&](unsigned slot) { return signature.slots()[slot].kind == Kind::tensorMap; };
  for (unsigned slot = 0; slot < signature.slots().size(); ++slot) {
    Type address = isMap(slot) ? LLVM::LLVMPointerType::get(context) : global;
    types.push_back(signature.type(slot) ? signature.type(slot) : address);
  }

  auto module = kernel->getParentOfType<ModuleOp>();
  if (!module.lookupSymbol(sharedSymbol)) {
    OpBuilder top = OpBuilder::atBlockBegin(module.getBody());
    LLVM::GlobalOp::create(top, loc, LLVM::LLVMArrayType::get(builder.getI8Type(), 0),
                           /*isConstant=*/false, LLVM::Linkage::External, sharedSymbol, Attribute(),
                           /*alignment=*/1024, sharedSpace);
  }

  builder.setInsertionPoint(kernel);
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context), types);
  auto function = LLVM::LLVMFuncOp::create(builder, loc, kernel.getSymName(), type);
  function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), builder.getUnitAttr());
  function->setAttr(NVVM::NVVMDialect::getReqntidAttrName(),
                    builder.getDenseI32ArrayAttr({int32_t(threads)}));
  // setmaxnreg needs a known number of registers at entry.
  for (auto roles : kernel.getBodyBlock().getOps<pipe::RolesOp>())
    function->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                      builder.getI32IntegerAttr(blocksOfMultiprocessor(roles)));
  for (unsigned slot = 0; slot < types.size(); ++slot) {
    if (isMap(slot)) {
      function.setArgAttr(slot, LLVM::LLVMDialect::getByValAttrName(),
                          TypeAttr::get(LLVM::LLVMArrayType::get(builder.getI8Type(), 128)));
      function.setArgAttr(slot, NVVM::NVVMDialect::getGridConstantAttrName(),
                          builder.getUnitAttr());
      function.setArgAttr(slot, LLVM::LLVMDialect::getAlignAttrName(),
                          builder.getI64IntegerAttr(64));
    }
    if (types[slot] != global || signature.slots()[slot].kind == Kind::counter)
      continue;
    Value view = kernel.getArgument(signature.slots()[slot].name);
    if (readsEarlierLaunch(view)) // other launches write it meanwhile
      continue;
    // No two tensors of a launch overlap where one is written.
    function.setArgAttr(slot, LLVM::LLVMDialect::getNoAliasAttrName(), builder.getUnitAttr());
    if (!llvm::any_of(accessesOf(view),
                      llvm::IsaPred<tile::AccumulateOp, tile::CollectOp, tile::DepositOp,
                                    tile::PutOp, tile::OrderAdditionsOp, tile::StoreOp,
                                    pipe::AddOutOp, pipe::EmptyOutOp, pipe::StoreOp>))
      function.setArgAttr(slot, LLVM::LLVMDialect::getReadonlyAttrName(), builder.getUnitAttr());
  }
  Block *entry = function.addEntryBlock(builder);
  builder.setInsertionPointToStart(entry);
  slots.assign(entry->args_begin(), entry->args_end());

  Type i32 = builder.getI32Type();
  numberThreads(NVVM::ThreadIdXOp::create(builder, loc, i32));
  Value shared = LLVM::AddressOfOp::create(
      builder, loc, LLVM::LLVMPointerType::get(context, sharedSpace), sharedSymbol);
  sharedBase = LLVM::PtrToIntOp::create(builder, loc, i32, shared);
  for (auto [index, argument] : llvm::enumerate(kernel.getBodyBlock().getArguments()))
    if (!isa<tile::ViewType>(argument.getType()))
      values[argument] = {slots[signature.scalar(index)]};
}

void KernelLowering::numberThreads(Value threadOfRole) {
  thread = threadOfRole;
  lane = arith::AndIOp::create(builder, loc, thread, constant(31));
  warp = arith::ShRUIOp::create(builder, loc, thread, constant(5));
  Value rowInStrip = arith::ShRUIOp::create(builder, loc, lane, constant(2));
  firstRow = add(arith::ShLIOp::create(builder, loc, warp, constant(4)), rowInStrip);
  Value quadLane = arith::AndIOp::create(builder, loc, lane, constant(3));
  firstColumn = arith::ShLIOp::create(builder, loc, quadLane, constant(1));
}

LogicalResult KernelLowering::run() {
  if (failed(verifyLowerable(kernel)))
    return failure();
  expandSinCos(kernel.getBody());
  createFunction();
  Block *entry = builder.getInsertionBlock();
  if (failed(lowerBlock(kernel.getBodyBlock())))
    return failure();
  builder.setInsertionPointToEnd(entry);
  LLVM::ReturnOp::create(builder, loc, ValueRange());
  return success();
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

LogicalResult KernelLowering::lowerBlock(Block &block) {
  for (Operation &op : block) {
    if (op.hasTrait<OpTrait::IsTerminator>())
      break;
    loc = op.getLoc();
    if (failed(lower(&op)))
      return failure();
  }
  return success();
}

/// Whether the next product adds to the sum of `dot` and nothing else reads it. wgmma instructions
/// that add to the same registers run in order (PTX ISA, "wgmma.fence"), so the next one's wait is
/// enough.
static bool isContinued(tile::DotOp dot) {
  auto next = dyn_cast_or_null<tile::DotOp>(dot->getNextNode());
  return next && dot.getResult().hasOneUse() && next.getC() == dot.getResult();
}

LogicalResult KernelLowering::lower(Operation *op) {
  auto done = [](int) { return success(); };
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](tile::WorkOp work) {
        Value item = work.getItem() ? valueOf(work.getItem())
                                    : NVVM::BlockIdXOp::create(builder, loc, builder.getI32Type());
        tile::BlockType type = work.getBlock().getType();
        bool isOfTokens = work.getItem() && tokenOrder().first;
        int64_t groupKeys = kernel.getScheduleAttr()->groupKeys;
        if (Attribute workers = work.getDealt()) {
          auto [block, part] = emitDealtWork(builder, loc, item, extents(), type, groupKeys,
                                             *tile::staticExtent(workers), work.getOrder());
          setBlock(work.getBlock(), block);
          workParts[work.getBlock()] = part;
          return success();
        }
        setBlock(work.getBlock(), isOfTokens ? tokenWork(item, type)
                                             : emitWork(builder, loc, item, extents(), type,
                                                        groupKeys, work.getOrder()));
        return success();
      })
      .Case([&](tile::WorkPartOp op) -> LogicalResult {
        Value part = workParts.lookup(op.getKeys());
        if (!part)
          return op.emitOpError() << "expected the block of a `tile.work dealt to`, got another "
                                     "one; ask for the part of the work item's own block";
        values[op.getPart()] = {part};
        return success();
      })
      .Case([&](tile::AtEndOp op) { return done((lowerAtEnd(op), 0)); })
      .Case([&](tile::HeadPartsOp op) {
        values[op.getCount()] = {emitHeadParts(builder, loc, extents(),
                                               cast<tile::BlockType>(op.getKeys()),
                                               *tile::staticExtent(op.getWorkers()))};
        return success();
      })
      .Case([&](tile::WorkSlotsOp work) {
        tile::BlockType type = work.getBlock().getType();
        Value item = NVVM::BlockIdXOp::create(builder, loc, builder.getI32Type());
        ExtentValues slots = extents();
        Value more =
            emitMoreSlots(builder, loc, slots, type, *tile::staticExtent(work.getWorkers()));
        slots.B = add(slots.B, more);
        values[work.getMore()] = {more};
        setBlock(work.getBlock(),
                 emitWork(builder, loc, item, slots, type, kernel.getScheduleAttr()->groupKeys));
        return success();
      })
      .Case([&](tile::MoreSlotsOp op) {
        values[op.getCount()] = {emitMoreSlots(builder, loc, extents(),
                                               cast<tile::BlockType>(op.getRows()),
                                               *tile::staticExtent(op.getWorkers()))};
        return success();
      })
      .Case([&](tile::WorkHeadsOp work) {
        Value item = NVVM::BlockIdXOp::create(builder, loc, builder.getI32Type());
        WorkHeads heads =
            emitWorkHeads(builder, loc, item, extents(), *tile::staticExtent(work.getMost()));
        for (auto [result, value] :
             llvm::zip_equal(work.getResults(),
                             std::array{heads.batch, heads.position, heads.first, heads.end}))
          values[result] = {value};
        return success();
      })
      .Case([&](tile::LeaveOp leave) { // the rest is a branch for thread blocks that stay
        Value goes = valueOf(leave.getCondition());
        Value stays = arith::XOrIOp::create(
            builder, loc, goes, arith::ConstantIntOp::create(builder, loc, 1, /*width=*/1));
        auto rest = scf::IfOp::create(builder, loc, stays, /*withElseRegion=*/false);
        builder.setInsertionPointToStart(rest.thenBlock());
        return success();
      })
      .Case([&](tile::BlockOp block) { return done((lowerBlockOp(block), 0)); })
      .Case([&](tile::SequenceOp sequence) {
        setBlock(sequence.getBlock(),
                 emitSequence(builder, loc, blockOf(sequence.getRows()),
                              valueOf(sequence.getFrom()), valueOf(sequence.getQueries()),
                              valueOf(sequence.getKeys())));
        return success();
      })
      // These ops describe memory. The lowering looks at them where the memory is accessed.
      .Case<tile::RaggedOp, tile::PagedOp, tile::FirstColumnsOp>([](auto) { return success(); })
      .Case([&](tile::WorkItemsOp count) {
        auto rows = cast<tile::BlockType>(count.getRows());
        ExtentValues all = extents();
        if (Attribute workers = count.getWorkersAttr())
          all = emitDealt(builder, loc, all,
                          emitHeadParts(builder, loc, all, rows, *tile::staticExtent(workers)));
        values[count] = {tokenOrder().first ? tokenItems(rows)
                                            : emitWorkItems(builder, loc, all, rows)};
        return success();
      })
      .Case([&](tile::FindBlocksOp find) { return lowerFindBlocks(find); })
      .Case([&](tile::FoundBlockOp found) { return lowerFoundBlock(found); })
      .Case([&](tile::CoordinatesOp coordinates) {
        BlockCoordinates block = blockOf(coordinates.getBlock());
        bool isQuery = coordinates.getBlock().getType().getAxis() == tile::Axis::Query;
        values[coordinates.getBatch()] = {block.batch};
        values[coordinates.getHead()] = {block.head};
        values[coordinates.getKvHead()] = {isQuery ? kvHeadOf(coordinates.getBlock()) : block.head};
        // Without `opaque`, LLVM's strength reduction keeps a counter for each column that a score
        // reads. A consumer would hold up to 64 registers for them over the whole loop, and it may
        // not spill. In other kernels `opaque` increases some spills and decreases others.
        bool countsColumns = !isQuery && consumers > 0;
        values[coordinates.getFirst()] = {countsColumns ? ptx().opaque(block.first) : block.first};
        return success();
      })
      .Case([&](scf::ForOp loop) { return lowerFor(loop); })
      .Case([&](scf::WhileOp loop) { return lowerWhile(loop); })
      .Case([&](scf::IfOp branch) { return lowerIf(branch); })
      .Case([&](pipe::AllocOp alloc) { return done((lowerAlloc(alloc), 0)); })
      .Case([&](pipe::SlotOp slot) { return done((lowerSlot(slot), 0)); })
      .Case([&](pipe::CopyOp copy) { return done((lowerCopy(copy), 0)); })
      .Case([&](pipe::CommitOp) { return done((ptx().commitCopies(), 0)); })
      .Case([&](pipe::WaitOp wait) { return done((ptx().waitForCopies(wait.getPending()), 0)); })
      .Case([&](pipe::BarrierOp) { return done((lowerBarrier(), 0)); })
      .Case([&](pipe::WriteOp write) { return done((lowerWrite(write), 0)); })
      .Case([&](pipe::StoreOp store) { return done((lowerStore(store), 0)); })
      .Case([&](pipe::ConvertOp convert) { return lowerConvertEncoding(convert); })
      .Case([&](tile::LoadOp load) { return done((lowerLoad(load), 0)); })
      .Case([&](tile::StoreOp store) {
        lowerRegisterStore(store.getTile(), store.getView(), store.getBlock(), /*adds=*/false);
        return success();
      })
      .Case([&](tile::AccumulateOp addition) {
        lowerRegisterStore(addition.getTile(), addition.getView(), addition.getBlock(),
                           /*adds=*/true);
        return success();
      })
      .Case([&](pipe::OpenOp open) {
        values[open] = {add(sharedBase, constant(*open.getOffset()))};
        return success();
      })
      .Case([&](pipe::RolesOp roles) { return lowerRoles(roles); })
      .Case([&](pipe::AcquireOp acquire) { return done((lowerAcquire(acquire), 0)); })
      .Case([&](pipe::AwaitOp await) { return done((lowerAwait(await), 0)); })
      .Case([&](pipe::ReleaseOp release) { return done((lowerRelease(release), 0)); })
      .Case([&](pipe::FillOp fill) { return done((lowerFill(fill), 0)); })
      .Case([&](pipe::PublishOp publish) { return done((lowerPublish(publish), 0)); })
      .Case([&](pipe::SendOp send) { return done((lowerSend(send), 0)); })
      .Case([&](pipe::ReceiveOp receive) { return done((lowerReceive(receive), 0)); })
      .Case([&](pipe::FirstItemOp first) { return done((lowerFirstItem(first), 0)); })
      .Case([&](pipe::NextItemOp next) { return done((lowerNextItem(next), 0)); })
      .Case([&](pipe::EndItemsOp) { return done((lowerEndItems(), 0)); })
      .Case([&](pipe::OpenTurnsOp) { return done((lowerOpenTurns(), 0)); })
      .Case([&](pipe::UniformOp op) {
        values[op] = {ptx().uniform(valueOf(op.getNumber()))};
        return success();
      })
      .Case([&](pipe::BeginTurnOp) {
        ptx().barrier(turnBarrierId(warpgroup), turnThreads);
        return success();
      })
      .Case([&](pipe::EndTurnOp) { return done((passTurn(add(warpgroup, constant(1))), 0)); })
      .Case([&](pipe::AwaitLaunchOp) { return done((ptx().awaitLaunch(), 0)); })
      .Case([&](pipe::ReleaseLaunchOp) { return done((ptx().releaseLaunch(), 0)); })
      .Case([&](pipe::DrainOp drain) { return done((lowerDrain(drain), 0)); })
      .Case([&](pipe::EmptyOutOp out) { return done((lowerEmptyOut(out), 0)); })
      .Case([&](tile::OrderAdditionsOp op) { return done((lowerOrderAdditions(op), 0)); })
      .Case([&](pipe::AddOutOp out) { return done((lowerAddOut(out), 0)); })
      .Case([&](tile::CoversOp covers) { return done((lowerCovers(covers), 0)); })
      .Case([&](tile::DotOp dot) {
        return consumers > 0 ? lowerWarpgroupDot(dot, /*awaits=*/!isContinued(dot)) : lowerDot(dot);
      })
      .Case([&](pipe::DotStartOp dot) { return lowerWarpgroupDot(dot, /*awaits=*/false); })
      .Case([&](pipe::DotWaitOp wait) {
        values[wait] = ptx().awaitProducts(wait.getPending(), valuesOf(wait.getSource()));
        return success();
      })
      .Case([&](tile::ConstantOp constant) { return done((lowerConstant(constant), 0)); })
      .Case([&](tile::MapOp map) { return lowerMap(map); })
      .Case([&](tile::BernoulliOp random) { return done((lowerBernoulli(random), 0)); })
      .Case([&](tile::AddLinesOp lines) { return done((lowerAddLines(lines), 0)); })
      .Case([&](tile::AddKeptOp) { return done((lowerAddKept(), 0)); })
      .Case([](tile::PerformOp) { return success(); }) // the map has done its work
      .Case([&](tile::ReduceOp reduce) { return done((lowerReduce(reduce), 0)); })
      .Case([&](tile::TotalOp total) { return done((lowerTotal(total), 0)); })
      .Case([&](tile::AnyPositiveOp any) { return done((lowerAnyPositive(any), 0)); })
      .Case([&](tile::ConvertOp convert) { return done((lowerConvertElements(convert), 0)); })
      .Default([&](Operation *other) { return lowerScalar(other); });
}

} // namespace nvvm

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
struct PipeLowerToNVVM : impl::PipeLowerToNVVMBase<PipeLowerToNVVM> {
  using PipeLowerToNVVMBase::PipeLowerToNVVMBase;

  void runOnOperation() override {
    for (auto kernel : llvm::make_early_inc_range(getOperation().getOps<tile::KernelOp>())) {
      if (!kernel.getScheduleAttr() || !kernel->hasAttr(sharedBytesAttr)) {
        kernel.emitError() << "expected a kernel with a schedule and with buffers in their places; "
                              "run pipe-place-buffers first";
        return signalPassFailure();
      }
      OpBuilder builder(&getContext());
      if (failed(nvvm::KernelLowering(kernel, builder, trapWaits).run()))
        return signalPassFailure();
      kernel.erase();
    }
  }
};
} // namespace

} // namespace tesela
