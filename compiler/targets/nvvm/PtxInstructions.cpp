//===- PtxInstructions.cpp - Instructions as inline assembly ----*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/PtxInstructions.h"

#include "tesela/compiler/Artifact.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace tesela::nvvm {

Values PtxInstructions::emit(TypeRange results, ValueRange operands, StringRef text,
                             StringRef constraints, bool hasSideEffects) {
  SmallVector<Type> resultType;
  if (results.size() == 1)
    resultType.push_back(results.front());
  else if (results.size() > 1)
    resultType.push_back(LLVM::LLVMStructType::getLiteral(
        builder.getContext(), SmallVector<Type>(results.begin(), results.end())));
  auto dialect = LLVM::AsmDialectAttr::get(builder.getContext(), LLVM::AsmDialect::AD_ATT);
  auto op = LLVM::InlineAsmOp::create(builder, loc, TypeRange(resultType), operands, text,
                                      constraints, hasSideEffects, /*is_align_stack=*/false,
                                      LLVM::tailcallkind::TailCallKind::None, dialect, ArrayAttr());
  if (results.size() <= 1)
    return Values(op->getResults());
  Values values;
  for (size_t index = 0; index < results.size(); ++index)
    values.push_back(LLVM::ExtractValueOp::create(builder, loc, op->getResult(0), index));
  return values;
}

Value PtxInstructions::emitPure(StringRef text, StringRef constraints, Type result,
                                ValueRange operands) {
  return emit(result, operands, text, constraints, /*hasSideEffects=*/false).front();
}

static std::string address(unsigned operand, int64_t offset) {
  return ("[$" + Twine(operand) + (offset ? "+" + Twine(offset) : Twine()) + "]").str();
}

Value PtxInstructions::exp2(Value x) {
  return emitPure("ex2.approx.ftz.f32 $0, $1;", "=f,f", x.getType(), x);
}

Value PtxInstructions::log2(Value x) {
  return emitPure("lg2.approx.f32 $0, $1;", "=f,f", x.getType(), x);
}

Value PtxInstructions::tanh(Value x) {
  return emitPure("tanh.approx.f32 $0, $1;", "=f,f", x.getType(), x);
}

Value PtxInstructions::divide(Value x, Value y) {
  return emitPure("div.full.f32 $0, $1, $2;", "=f,f,f", x.getType(), {x, y});
}

Value PtxInstructions::packPair(Type element, Value low, Value high) {
  StringRef text =
      element.isBF16() ? "cvt.rn.bf16x2.f32 $0, $1, $2;" : "cvt.rn.f16x2.f32 $0, $1, $2;";
  return emitPure(text, "=r,f,f", builder.getI32Type(), {high, low});
}

Values PtxInstructions::mma(Type element, ValueRange a, ValueRange b, ValueRange c) {
  StringRef text = element.isBF16() ? "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                                      "{$0,$1,$2,$3}, {$4,$5,$6,$7}, {$8,$9}, {$10,$11,$12,$13};"
                                    : "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                                      "{$0,$1,$2,$3}, {$4,$5,$6,$7}, {$8,$9}, {$10,$11,$12,$13};";
  SmallVector<Value> operands(a);
  operands.append(b.begin(), b.end());
  operands.append(c.begin(), c.end());
  return emit(SmallVector<Type>(4, builder.getF32Type()), operands, text,
              "=f,=f,=f,=f,r,r,r,r,r,r,0,1,2,3", /*hasSideEffects=*/false);
}

Values PtxInstructions::loadMatrices(Value base, int64_t offset, bool transposed) {
  std::string text = ("ldmatrix.sync.aligned.m8n8.x4" + Twine(transposed ? ".trans" : "") +
                      ".shared.b16 {$0,$1,$2,$3}, " + address(4, offset) + ";")
                         .str();
  return emit(SmallVector<Type>(4, builder.getI32Type()), base, text, "=r,=r,=r,=r,r",
              /*hasSideEffects=*/true);
}

void PtxInstructions::storeMatrices(Value base, int64_t offset, ValueRange x) {
  SmallVector<Value> operands = {base};
  operands.append(x.begin(), x.end());
  emit({}, operands,
       "stmatrix.sync.aligned.m8n8.x4.shared.b16 " + address(0, offset) + ", {$1,$2,$3,$4};",
       "r,r,r,r,r,~{memory}", /*hasSideEffects=*/true);
}

void PtxInstructions::copyAsync(Value base, int64_t offset, Value global, Value bytes) {
  std::string text = "cp.async.cg.shared.global " + address(0, offset) + ", [$1], 16, $2;";
  emit({}, {base, global, bytes}, text, "r,l,r,~{memory}", /*hasSideEffects=*/true);
}

void PtxInstructions::commitCopies() {
  emit({}, {}, "cp.async.commit_group;", "~{memory}", /*hasSideEffects=*/true);
}

void PtxInstructions::waitForCopies(int64_t pending) {
  emit({}, {}, ("cp.async.wait_group " + Twine(pending) + ";").str(), "~{memory}",
       /*hasSideEffects=*/true);
}

void PtxInstructions::barrier() {
  emit({}, {}, "bar.sync 0;", "~{memory}", /*hasSideEffects=*/true);
}

Value PtxInstructions::shuffleXor(Value x, int64_t bits) {
  std::string text = ("shfl.sync.bfly.b32 $0, $1, " + Twine(bits) + ", 31, -1;").str();
  const char *constraints = x.getType().isInteger(32) ? "=r,r" : "=f,f";
  return emit(x.getType(), x, text, constraints, /*hasSideEffects=*/true).front();
}

Value PtxInstructions::shuffleFrom(Value x, Value lane) {
  const char *constraints = x.getType().isInteger(32) ? "=r,r,r" : "=f,f,r";
  return emit(x.getType(), {x, lane}, "shfl.sync.idx.b32 $0, $1, $2, 31, -1;", constraints,
              /*hasSideEffects=*/true)
      .front();
}

Value PtxInstructions::ballot(Value x) {
  return emit(builder.getI32Type(), x, "vote.sync.ballot.b32 $0, $1, -1;", "=r,b",
              /*hasSideEffects=*/true)
      .front();
}

Value PtxInstructions::anyPositive(Value x) {
  Value flag = emit(builder.getI32Type(), x,
                    "{\n .reg .pred p;\n setp.gt.f32 p, $1, 0f00000000;\n"
                    " vote.sync.any.pred p, p, -1;\n selp.b32 $0, 1, 0, p;\n}",
                    "=r,f", /*hasSideEffects=*/true)
                   .front();
  Value zero = arith::ConstantIntOp::create(builder, loc, 0, 32);
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, flag, zero);
}

Value PtxInstructions::anyPositive(Value x, Value barrier, int64_t threads) {
  Value flag = emit(builder.getI32Type(), {x, barrier},
                    ("{\n .reg .pred p;\n setp.gt.f32 p, $1, 0f00000000;\n"
                     " bar.red.or.pred p, $2, " +
                     Twine(threads) + ", p;\n selp.b32 $0, 1, 0, p;\n}")
                        .str(),
                    "=r,f,r,~{memory}", /*hasSideEffects=*/true)
                   .front();
  Value zero = arith::ConstantIntOp::create(builder, loc, 0, 32);
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, flag, zero);
}

void PtxInstructions::storeShared(Value base, int64_t offset, Value x) {
  emit({}, {base, x}, "st.shared.b32 " + address(0, offset) + ", $1;", "r,r,~{memory}",
       /*hasSideEffects=*/true);
}

void PtxInstructions::storeSharedPair(Value base, int64_t offset, Value low, Value high) {
  emit({}, {base, low, high}, "st.shared.v2.f32 " + address(0, offset) + ", {$1,$2};",
       "r,f,f,~{memory}", /*hasSideEffects=*/true);
}

void PtxInstructions::storeShared16Bytes(Value base, int64_t offset, ValueRange x) {
  SmallVector<Value> operands = {base};
  operands.append(x.begin(), x.end());
  emit({}, operands, "st.shared.v4.f32 " + address(0, offset) + ", {$1,$2,$3,$4};",
       "r,f,f,f,f,~{memory}", /*hasSideEffects=*/true);
}

Value PtxInstructions::loadShared(Value base, int64_t offset) {
  return emit(builder.getI32Type(), base, "ld.shared.b32 $0, " + address(1, offset) + ";",
              "=r,r,~{memory}", /*hasSideEffects=*/true)
      .front();
}

Values PtxInstructions::loadSharedPair(Value base, int64_t offset) {
  return emit(SmallVector<Type>(2, builder.getF32Type()), base,
              "ld.shared.v2.f32 {$0,$1}, " + address(2, offset) + ";", "=f,=f,r,~{memory}",
              /*hasSideEffects=*/true);
}

Values PtxInstructions::loadShared16Bytes(Value base, int64_t offset) {
  return emit(SmallVector<Type>(4, builder.getI32Type()), base,
              "ld.shared.v4.b32 {$0,$1,$2,$3}, " + address(4, offset) + ";",
              "=r,=r,=r,=r,r,~{memory}",
              /*hasSideEffects=*/true);
}

void PtxInstructions::storeSharedWords(Value base, int64_t offset, ValueRange x) {
  SmallVector<Value> operands(x);
  operands.push_back(base);
  emit({}, operands, "st.shared.v4.b32 " + address(4, offset) + ", {$0,$1,$2,$3};",
       "r,r,r,r,r,~{memory}", /*hasSideEffects=*/true);
}

void PtxInstructions::storeGlobal16Bytes(Value global, ValueRange x) {
  SmallVector<Value> operands(x);
  operands.push_back(global);
  emit({}, operands, "st.global.v4.b32 [$4], {$0,$1,$2,$3};", "r,r,r,r,l,~{memory}",
       /*hasSideEffects=*/true);
}

void PtxInstructions::addGlobal(Value global, Value x) {
  emit({}, {global, x}, "red.global.add.f32 [$0], $1;", "l,f,~{memory}", /*hasSideEffects=*/true);
}

void PtxInstructions::addGlobal16Bytes(Value global, ValueRange x, Value adds) {
  SmallVector<Value> operands{global, adds};
  llvm::append_range(operands, x);
  emit({}, operands, "@$1 red.global.add.v4.f32 [$0], {$2, $3, $4, $5};", "l,b,f,f,f,f,~{memory}",
       /*hasSideEffects=*/true);
}

void PtxInstructions::addBulk(Value global, Value address, Value bytes, Value adds) {
  emit({}, {global, address, bytes, adds},
       "@$3 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [$0], [$1], $2;",
       "l,r,r,b,~{memory}", /*hasSideEffects=*/true);
}

void PtxInstructions::initBarrier(Value base, int64_t offset, int64_t arrivals) {
  emit({}, base,
       ("mbarrier.init.shared::cta.b64 " + address(0, offset) + ", " + Twine(arrivals) + ";").str(),
       "r,~{memory}", /*hasSideEffects=*/true);
}

void PtxInstructions::fenceBarrierInit() {
  emit({}, {}, "fence.mbarrier_init.release.cluster;", "~{memory}", /*hasSideEffects=*/true);
}

// How often a wait is tried before it traps. A wait lasts for one or two blocks of keys. Whole
// kernels at the lengths that we measure needed fewer tries in all their waits together.
static constexpr int64_t maximalTries = 4'000'000;

void PtxInstructions::awaitBarrier(Value base, Value parity, bool traps) {
  std::string start, retry;
  if (traps) {
    start =
        (" .reg .u32 tries;\n .reg .pred hangs;\n mov.u32 tries, " + Twine(maximalTries) + ";\n")
            .str();
    retry = " sub.u32 tries, tries, 1;\n setp.eq.u32 hangs, tries, 0;\n @hangs trap;\n";
  }
  emit({}, {base, parity},
       "{\n .reg .pred done;\n" + start +
           "SPIN:\n mbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1;\n"
           " @done bra DONE;\n" +
           retry + " bra SPIN;\nDONE:\n}",
       "r,r,~{memory}", /*hasSideEffects=*/true);
}

void PtxInstructions::arrive(Value base, Value lane) {
  emit({}, {base, lane},
       "{\n .reg .pred first;\n setp.eq.u32 first, $1, 0;\n"
       " @first mbarrier.arrive.shared::cta.b64 _, [$0];\n}",
       "r,r,~{memory}", /*hasSideEffects=*/true);
}

void PtxInstructions::arriveExpecting(Value base, int64_t bytes) {
  emit({}, base, ("mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], " + Twine(bytes) + ";").str(),
       "r,~{memory}", /*hasSideEffects=*/true);
}

/// "{$2, $3, …}" of `count` operands from number `first` on.
static std::string coordinateList(int first, int count) {
  std::string text;
  for (int index = first; index < first + count; ++index)
    text += (index == first ? "{$" : ", $") + std::to_string(index);
  return text + "}";
}

void PtxInstructions::copyTensorIn(Value base, Value map, ValueRange coordinates, Value barrier) {
  int rank = coordinates.size();
  SmallVector<Value> operands = {base, map};
  operands.append(coordinates.begin(), coordinates.end());
  operands.push_back(barrier);
  std::string constraints = "r,l,";
  for (int index = 0; index < rank + 1; ++index)
    constraints += "r,";
  emit({}, operands,
       "cp.async.bulk.tensor." + std::to_string(rank) +
           "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [$0], [$1, " +
           coordinateList(2, rank) + "], [$" + std::to_string(2 + rank) + "];",
       constraints + "~{memory}", /*hasSideEffects=*/true);
}

void PtxInstructions::copyBulkIn(Value base, Value global, int64_t bytes, Value barrier) {
  emit({}, {base, global, barrier},
       ("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1], " +
        Twine(bytes) + ", [$2];")
           .str(),
       "r,l,r,~{memory}", /*hasSideEffects=*/true);
}

void PtxInstructions::copyTensorOut(Value map, ValueRange coordinates, Value base) {
  int rank = coordinates.size();
  SmallVector<Value> operands = {map};
  operands.append(coordinates.begin(), coordinates.end());
  operands.push_back(base);
  std::string constraints = "l,";
  for (int index = 0; index < rank + 1; ++index)
    constraints += "r,";
  emit({}, operands,
       "cp.async.bulk.tensor." + std::to_string(rank) +
           "d.global.shared::cta.tile.bulk_group [$0, " + coordinateList(1, rank) + "], [$" +
           std::to_string(1 + rank) + "];",
       constraints + "~{memory}", /*hasSideEffects=*/true);
}

void PtxInstructions::commitTensorCopies() {
  emit({}, {}, "cp.async.bulk.commit_group;", "~{memory}", /*hasSideEffects=*/true);
}

void PtxInstructions::awaitTensorReads() {
  emit({}, {}, "cp.async.bulk.wait_group.read 0;", "~{memory}", /*hasSideEffects=*/true);
}

void PtxInstructions::fenceAsyncProxy() {
  emit({}, {}, "fence.proxy.async.shared::cta;", "~{memory}", /*hasSideEffects=*/true);
}

void PtxInstructions::awaitLaunch() {
  emit({}, {}, "griddepcontrol.wait;", "~{memory}", /*hasSideEffects=*/true);
}

void PtxInstructions::releaseLaunch() {
  emit({}, {}, "griddepcontrol.launch_dependents;", "~{memory}", /*hasSideEffects=*/true);
}

void PtxInstructions::arriveAtBarrier(Value id, int64_t threads) {
  emit({}, id, ("bar.arrive $0, " + Twine(threads) + ";").str(), "r,~{memory}",
       /*hasSideEffects=*/true);
}

void PtxInstructions::barrier(Value id, int64_t threads) {
  emit({}, id, ("bar.sync $0, " + Twine(threads) + ";").str(), "r,~{memory}",
       /*hasSideEffects=*/true);
}

/// PTX that sets `at` to the address of the counter that operand `counter` names, and goes on at
/// FOUND. If there is no counter, it jumps to NONE (Artifact.h, CounterTable).
static std::string findCounter(int counter) {
  return (" .reg .pred single, own, more;\n .reg .b64 at, end, grid, held;\n .reg .b32 low;\n"
          " mov.b64 at, $" +
          Twine(counter) +
          ";\n cvt.u32.u64 low, at;\n and.b32 low, low, 1;\n setp.eq.u32 single, low, 0;\n"
          " @single bra FOUND;\n"
          " sub.s64 at, at, 1;\n add.s64 end, at, " +
          Twine(CounterTable::bytes) +
          ";\n mov.u64 grid, %gridid;\n add.s64 grid, grid, 1;\n"
          "PROBE:\n atom.relaxed.gpu.global.cas.b64 held, [at], 0, grid;\n"
          " setp.eq.u64 own, held, grid;\n setp.eq.or.u64 own, held, 0, own;\n"
          " @own bra OWN;\n add.s64 at, at, " +
          Twine(CounterTable::entryBytes) +
          ";\n setp.lt.u64 more, at, end;\n @more bra PROBE;\n bra NONE;\n"
          "OWN:\n add.s64 at, at, 8;\nFOUND:\n")
      .str();
}

Value PtxInstructions::countUp(Value counter, Value address, const ItemTicket &ticket) {
  SmallVector<Value> operands{counter, address};
  std::string takeTicket, constraints = "=&r,l,r,";
  if (ticket.base) {
    operands.append({ticket.base, ticket.isSet});
    constraints += "l,r,";
    takeTicket = (" setp.ne.s32 own, $4, 0;\n @own add.s64 at, $3, " + Twine(ticket.offset) +
                  ";\n @own bra FOUND;\n")
                     .str();
  }
  return emit(builder.getI32Type(), operands,
              "{\n" + findCounter(1) +
                  " atom.relaxed.gpu.global.add.u32 $0, [at], 1;\n bra DONE;\n"
                  "NONE:\n" +
                  takeTicket +
                  " ld.shared.u32 $0, [$2];\n mov.u32 low, %nctaid.x;\n"
                  " add.s32 $0, $0, low;\n st.shared.u32 [$2], $0;\nDONE:\n}",
              constraints + "~{memory}", /*hasSideEffects=*/true)
      .front();
}

void PtxInstructions::endCount(Value counter, Value last) {
  emit({}, {counter, last},
       "{\n .reg .pred ends;\n .reg .u32 ended;\n" + findCounter(0) +
           " atom.acq_rel.gpu.global.inc.u32 ended, [at+4], $1;\n"
           " setp.eq.u32 ends, ended, $1;\n @ends st.relaxed.gpu.global.u32 [at], 0;\nNONE:\n}",
       "l,r,~{memory}", /*hasSideEffects=*/true);
}

Value PtxInstructions::lowBits(Value count) {
  return emitPure("bmsk.clamp.b32 $0, 0, $1;", "=r,r", count.getType(), count);
}

std::pair<Value, Value> PtxInstructions::multiplyWide(Value x, uint32_t factor) {
  Type i32 = builder.getI32Type();
  std::string text =
      ("{\n .reg .b64 t;\n mul.wide.u32 t, $2, " + Twine(factor) + ";\n mov.b64 {$1, $0}, t;\n}")
          .str();
  Values halves = emit({i32, i32}, x, text, "=r,=r,r", /*hasSideEffects=*/false);
  return {halves[0], halves[1]};
}

Value PtxInstructions::scalePair(StringRef type, Value x, Value factors) {
  std::string text = ("fma.rn." + type + " $0, $1, $2, $3;").str();
  Value zeros =
      arith::ConstantIntOp::create(builder, loc, int32_t(0x80008000), 32); // -0 keeps zeros' signs
  return emitPure(text, "=r,r,r,r", builder.getI32Type(), {x, factors, zeros});
}

Value PtxInstructions::permuteBytes(Value low, Value high, Value selector) {
  return emitPure("prmt.b32 $0, $1, $2, $3;", "=r,r,r,rn", low.getType(), {low, high, selector});
}

Value PtxInstructions::lessByBit(Value bits, Value than, Value less) {
  // The majority of ~bits, than and less. The operands' own tables are 0xF0, 0xCC and 0xAA.
  constexpr unsigned table = (0x0F & 0xCC) | (0x0F & 0xAA) | (0xCC & 0xAA);
  std::string text = ("lop3.b32 $0, $1, $2, $3, " + Twine(table) + ";").str();
  return emitPure(text, "=r,r,r,r", bits.getType(), {bits, than, less});
}

Value PtxInstructions::both(Value a, Value b) {
  return emitPure("and.pred $0, $1, $2;", "=b,b,b", a.getType(), {a, b});
}

Value PtxInstructions::hasBitAnd(Value word, int64_t bit, Value a) {
  std::string text =
      ("{\n .reg .b32 t;\n .reg .pred p;\n and.b32 t, $1, " + Twine(uint32_t(1) << bit) +
       ";\n setp.ne.s32 p, t, 0;\n and.pred $0, p, $2;\n}")
          .str();
  return emitPure(text, "=b,r,b", a.getType(), {word, a});
}

Value PtxInstructions::withBitIf(Value word, int64_t bit, Value a) {
  std::string text =
      ("{\n mov.b32 $0, $1;\n @$2 or.b32 $0, $0, " + Twine(uint32_t(1) << bit) + ";\n}").str();
  return emitPure(text, "=r,r,b", word.getType(), {word, a});
}

void PtxInstructions::keepLoop() {
  emit({}, {}, ".pragma \"nounroll\";", "", /*hasSideEffects=*/true);
}

Value PtxInstructions::opaque(Value x) {
  return emit(x.getType(), x, "mov.b32 $0, $1;", "=r,r", /*hasSideEffects=*/false).front();
}

Value PtxInstructions::pinned(Value x) {
  bool isPointer = isa<LLVM::LLVMPointerType>(x.getType());
  return emit(x.getType(), x, isPointer ? "mov.b64 $0, $1;" : "mov.b32 $0, $1;",
              isPointer ? "=l,l" : "=r,r", /*hasSideEffects=*/true)
      .front();
}

Value PtxInstructions::uniform(Value x) {
  return emit(x.getType(), x, "shfl.sync.idx.b32 $0, $1, 0, 31, -1;", "=r,r",
              /*hasSideEffects=*/true)
      .front();
}

void PtxInstructions::setRegisters(int64_t count, bool increase) {
  emit({}, {},
       ("setmaxnreg." + Twine(increase ? "inc" : "dec") + ".sync.aligned.u32 " + Twine(count) + ";")
           .str(),
       "~{memory}", /*hasSideEffects=*/true);
}

Values PtxInstructions::multiplyWarpgroup(Type element, int64_t columns, ValueRange a,
                                          ArrayRef<int64_t> aOffsets, bool aTransposed, Value b,
                                          ArrayRef<int64_t> bOffsets, bool bTransposed,
                                          ValueRange start, bool awaits) {
  int64_t count = columns / 2, steps = bOffsets.size();
  bool aInShared = a.size() == 1;
  // Operands: the accumulators; if there is a start, the same as tied inputs; a; b.
  int64_t firstA = count + start.size(), operandB = firstA + a.size();
  std::string sums, constraints;
  for (int64_t index = 0; index < count; ++index) {
    sums += (index ? ",$" : "$") + std::to_string(index);
    constraints += std::string(index ? "," : "") + (start.empty() ? "=&f" : "=f");
  }
  for (size_t index = 0; index < start.size(); ++index)
    (constraints += ',') += std::to_string(index);
  for (size_t index = 0; index < a.size(); ++index)
    constraints += aInShared ? ",l" : ",r";
  constraints += ",l,~{memory}";

  std::string type = element.isBF16() ? "bf16" : "f16";
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << "{\n .reg .b64 da, db;\n wgmma.fence.sync.aligned;\n";
  for (int64_t step = 0; step < steps; ++step) {
    if (aInShared)
      stream << " add.s64 da, $" << firstA << ", " << aOffsets[step] << ";\n";
    stream << " add.s64 db, $" << operandB << ", " << bOffsets[step] << ";\n";
    stream << " wgmma.mma_async.sync.aligned.m64n" << columns << "k16.f32." << type << '.' << type
           << " {" << sums << "}, ";
    if (aInShared) {
      stream << "da";
    } else {
      stream << '{';
      for (int64_t index = 0; index < 4; ++index)
        stream << (index ? ",$" : "$") << firstA + 4 * step + index;
      stream << '}';
    }
    stream << ", db, " << (step == 0 && start.empty() ? 0 : 1) << ", 1, 1"
           << (aInShared ? aTransposed ? ", 1" : ", 0" : "") << ", " << (bTransposed ? 1 : 0)
           << ";\n";
  }
  stream << " wgmma.commit_group.sync.aligned;\n";
  if (awaits)
    stream << " wgmma.wait_group.sync.aligned 0;\n";
  stream << '}';

  SmallVector<Value> operands(start);
  operands.append(a.begin(), a.end());
  operands.push_back(b);
  return emit(SmallVector<Type>(count, builder.getF32Type()), operands, text, constraints,
              /*hasSideEffects=*/true);
}

Values PtxInstructions::awaitProducts(int64_t pending, ValueRange sums) {
  std::string constraints;
  for (size_t index = 0; index < sums.size(); ++index)
    constraints += index ? ",=f" : "=f";
  for (size_t index = 0; index < sums.size(); ++index)
    (constraints += ',') += std::to_string(index);
  constraints += ",~{memory}";
  return emit(SmallVector<Type>(sums.getTypes()), sums,
              ("wgmma.wait_group.sync.aligned " + Twine(pending) + ";").str(), constraints,
              /*hasSideEffects=*/true);
}

} // namespace tesela::nvvm
