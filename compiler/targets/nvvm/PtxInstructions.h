//===- PtxInstructions.h - Instructions as inline assembly ------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The PTX instructions that the lowering uses and for which LLVM has no op that takes 32-bit
// shared-memory addresses with constant offsets, or that names the rounding. Each comment names the
// section of the PTX ISA (9.0). Addresses in shared memory are i32.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_COMPILER_TARGETS_NVVM_PTXINSTRUCTIONS_H
#define TESELA_COMPILER_TARGETS_NVVM_PTXINSTRUCTIONS_H

#include "mlir/IR/Builders.h"
#include "llvm/ADT/SmallVector.h"

namespace tesela::nvvm {

using Values = llvm::SmallVector<mlir::Value>;

/// What the adder of one consumer adds, and where (AddInOrder.cpp).
struct AdderPlace {
  mlir::Value source;     ///< the address of the consumer's sums in shared memory
  mlir::Value limit;      ///< rows from here on do not exist
  int64_t bytes = 0;      ///< of the sums of a block of queries
  int64_t rowBytes = 0;   ///< from a row of a head's sums to the next, in the workspace
  int64_t sumsOffset = 0; ///< of the consumer's first column
  int64_t rowOffset = 0;  ///< of the consumer's first row in a block
  int64_t wordOffset = 0; ///< of the consumer's word in the words of a block of keys
};

/// A u32 in global memory that counts work items.
struct ItemTicket {
  mlir::Value base;       ///< its address less `offset`; null: there is no ticket
  int64_t offset = 0;     ///< in bytes
  mlir::Value isSet = {}; ///< if this i32 is 0, there is no ticket, either
};

class PtxInstructions {
public:
  PtxInstructions(mlir::OpBuilder &builder, mlir::Location loc) : builder(builder), loc(loc) {}

  /// 2^x, subnormal results flushed (9.7.3 ex2): relative error 2^-22.5.
  mlir::Value exp2(mlir::Value x);
  /// log₂ x (9.7.3 lg2): absolute error 2^-22 for x in [0.5, 2], relative 2^-22 elsewhere.
  mlir::Value log2(mlir::Value x);
  /// tanh x (9.7.3 tanh): relative error 2^-11.
  mlir::Value tanh(mlir::Value x);
  /// x / y (9.7.3 div.full): within 2 units of the last place.
  mlir::Value divide(mlir::Value x, mlir::Value y);
  /// Two f32 rounded to nearest even, as one i32 with `low` in its lower half (9.7.9 cvt).
  mlir::Value packPair(mlir::Type element, mlir::Value low, mlir::Value high);

  /// c + a · b for a 16×8×16 block (9.7.14 mma.m16n8k16): a four i32, b two i32, c four f32.
  Values mma(mlir::Type element, mlir::ValueRange a, mlir::ValueRange b, mlir::ValueRange c);
  /// Four 8×8 matrices of 16-bit elements (9.7.14 ldmatrix), transposed on the way if asked: lane
  /// t gives the address of row t mod 8 of matrix t / 8.
  Values loadMatrices(mlir::Value address, int64_t offset, bool transposed);

  /// Four 8×8 matrices of 16-bit elements, i32 each, to shared memory (9.7.14 stmatrix, sm_90 on):
  /// lane t gives the address of row t mod 8 of matrix t / 8.
  void storeMatrices(mlir::Value address, int64_t offset, mlir::ValueRange x);

  /// Starts a copy of 16 bytes from global to shared memory. The first `bytes` (i32) bytes are
  /// read, the rest become zeros (9.7.9 cp.async).
  void copyAsync(mlir::Value address, int64_t offset, mlir::Value global, mlir::Value bytes);
  void commitCopies();
  void waitForCopies(int64_t pending);
  /// bar.sync 0 (9.7.13 barrier).
  void barrier();

  /// The value of the lane whose number differs in `bits` (9.7.9 shfl.sync).
  mlir::Value shuffleXor(mlir::Value x, int64_t bits);
  /// The value of lane `lane` (i32).
  mlir::Value shuffleFrom(mlir::Value x, mlir::Value lane);

  /// An i32 with a bit for each lane of the warp: whether `x` (i1) holds there (9.7.13 vote.sync).
  mlir::Value ballot(mlir::Value x);
  /// Whether x > 0 in some lane of the warp, as i1 (9.7.13 vote.sync).
  mlir::Value anyPositive(mlir::Value x);
  /// The same over the `threads` threads that meet at named barrier `barrier`.
  mlir::Value anyPositive(mlir::Value x, mlir::Value barrier, int64_t threads);

  void storeShared(mlir::Value address, int64_t offset, mlir::Value x);
  /// Two adjacent f32; the address is a multiple of 8.
  void storeSharedPair(mlir::Value address, int64_t offset, mlir::Value low, mlir::Value high);
  mlir::Value loadShared(mlir::Value address, int64_t offset); ///< 32 bits
  Values loadSharedPair(mlir::Value address, int64_t offset);
  /// Four adjacent f32; the address is a multiple of 16.
  void storeShared16Bytes(mlir::Value address, int64_t offset, mlir::ValueRange x);
  Values loadShared16Bytes(mlir::Value address, int64_t offset);
  /// The same for four i32.
  void storeSharedWords(mlir::Value address, int64_t offset, mlir::ValueRange x);
  // Mailboxes (AddInOrder.cpp).
  /// Stores an address of global memory, 8 bytes.
  void storeSharedAddress(mlir::Value base, int64_t offset, mlir::Value pointer);
  /// If `leaves` (i1), this thread stores `message` and arrives at the barrier `barrier` bytes
  /// behind the mailbox's start.
  void leaveMessage(mlir::Value mailbox, mlir::Value message, int64_t barrier, mlir::Value leaves);
  /// The program of an adder: serves the messages of one consumer until there are no more items.
  void serveMailbox(mlir::Value mailbox, const AdderPlace &to);
  // Barriers in shared memory (9.7.13 mbarrier), 8 bytes each.
  void initBarrier(mlir::Value address, int64_t offset, int64_t arrivals);
  /// Makes the barriers' initial state visible to the tensor copies.
  void fenceBarrierInit();
  /// Spins until the phase of parity `parity` (i32) is complete. With `traps`, a wait that takes
  /// too long ends the launch with an error.
  void awaitBarrier(mlir::Value address, mlir::Value parity, bool traps);
  /// Arrives if `lane` (i32) is 0: one thread for its warp.
  void arrive(mlir::Value address, mlir::Value lane);
  /// Arrives and announces `bytes` bytes of copies.
  void arriveExpecting(mlir::Value address, int64_t bytes);

  /// Copies `bytes` (a multiple of 16) from `global` to `address`, both multiples of 16; `barrier`
  /// counts them (9.7.9 cp.async.bulk).
  void copyBulkIn(mlir::Value address, mlir::Value global, int64_t bytes, mlir::Value barrier);
  // Tensor copies (9.7.9 cp.async.bulk.tensor), coordinates are i32, innermost first: 4 or 5.
  void copyTensorIn(mlir::Value address, mlir::Value map, mlir::ValueRange coordinates,
                    mlir::Value barrier);
  void copyTensorOut(mlir::Value map, mlir::ValueRange coordinates, mlir::Value address);
  /// Adds `bytes` (a multiple of 16) of f32 at `address` to those at `global`; both addresses are
  /// multiples of 16 (9.7.9 cp.reduce.async.bulk). commitTensorCopies and awaitTensorReads cover
  /// it, too. Does nothing if `adds` (i1) is false: a predicate, because no branch may stand
  /// between products in flight.
  void addBulk(mlir::Value global, mlir::Value address, mlir::Value bytes, mlir::Value adds);
  void commitTensorCopies();
  /// Waits until the committed copies out of shared memory have read it.
  void awaitTensorReads();
  /// Makes what this thread has written to shared memory visible to tensor copies that start after
  /// this fence and a barrier.
  void fenceAsyncProxy();

  // Launches of a plan (9.7.13 griddepcontrol).
  /// Waits until the launches before this one have ended and their writes are visible.
  void awaitLaunch();
  void releaseLaunch();

  /// bar.arrive: counts for `threads` threads at barrier `id` without waiting.
  void arriveAtBarrier(mlir::Value id, int64_t threads);
  /// bar.sync `id` (i32) for `threads` threads.
  void barrier(mlir::Value id, int64_t threads);
  /// Adds 1 to the first u32 of the launch's counter (ArgumentSlot::Kind::counter) and returns the
  /// old value. If the launch has no counter, it does so with the ticket. If there is none, it adds
  /// the number of thread blocks to the u32 at `address` in shared memory and returns the sum.
  mlir::Value countUp(mlir::Value counter, mlir::Value address, const ItemTicket &ticket);
  /// Counts ended thread blocks in the second u32, from 0 to `last`. The last one resets both to 0.
  void endCount(mlir::Value counter, mlir::Value last);
  /// An i32 whose lowest `count` (i32, not negative) bits are 1; all bits if `count` >= 32 (9.7.1
  /// bmsk).
  mlir::Value lowBits(mlir::Value count);
  /// The upper and the lower half of `x` (i32) times `factor`, unsigned (9.7.1 mul.wide).
  std::pair<mlir::Value, mlir::Value> multiplyWide(mlir::Value x, uint32_t factor);
  /// Four of the eight bytes of `low` and `high` (i32). Their numbers are the lower four
  /// hexadecimal digits of `selector`, the lowest byte first (9.7.9 prmt).
  mlir::Value permuteBytes(mlir::Value low, mlir::Value high, mlir::Value selector);
  /// Two floats of 16 bits (`type`: f16x2 or bf16x2) times two others, each pair in an i32. Keeps
  /// subnormal numbers (9.7.4 fma: sm_80 has no mul of bf16x2).
  mlir::Value scalePair(llvm::StringRef type, mlir::Value x, mlir::Value factors);
  /// For each bit of i32 words: whether a number that begins with bit `bits` is less than one that
  /// begins with bit `than`, if `less` is the answer for the bits behind (9.7.8 lop3).
  mlir::Value lessByBit(mlir::Value bits, mlir::Value than, mlir::Value less);
  /// a && b (i1), opaque to LLVM: it would turn one select on both into two selects.
  mlir::Value both(mlir::Value a, mlir::Value b);
  /// Bit `bit` of `word` (i32) && a, also opaque: LLVM would shift the bit first.
  mlir::Value hasBitAnd(mlir::Value word, int64_t bit, mlir::Value a);
  /// `word` (i32) with bit `bit` set if `a` (i1) is true: one predicated instruction.
  mlir::Value withBitIf(mlir::Value word, int64_t bit, mlir::Value a);
  /// At the head of a loop: keeps ptxas from unrolling it (11.1 pragma nounroll).
  void keepLoop();
  /// `x` (i32), opaque to LLVM: it does not see, for example, that `x` counts a loop's iterations.
  mlir::Value opaque(mlir::Value x);
  /// `x` (i32 or a pointer), opaque and fixed to this place: LLVM may not move what is computed
  /// from it in front of a loop, where it would hold registers.
  mlir::Value pinned(mlir::Value x);
  /// `x` (i32) of the warp's first lane: tells the compiler that it is the same in all lanes.
  mlir::Value uniform(mlir::Value x);
  /// setmaxnreg (9.7.19): gives registers of the warpgroup back, or takes them.
  void setRegisters(int64_t count, bool increase);

  /// A whole product of a warpgroup (9.7.15 wgmma): f32 accumulators of 64 × `columns`, all steps
  /// of 16 of the depth, as one group. If `awaits`, waits for this group and all before it. `a` is
  /// a descriptor (i64) or four registers a step; `start` is empty for 0. Each step adds its offset
  /// (in units of 16 bytes) to the descriptors.
  Values multiplyWarpgroup(mlir::Type element, int64_t columns, mlir::ValueRange a,
                           llvm::ArrayRef<int64_t> aOffsets, bool aTransposed, mlir::Value b,
                           llvm::ArrayRef<int64_t> bOffsets, bool bTransposed,
                           mlir::ValueRange start, bool awaits);
  /// Waits until at most `pending` groups are under way; `sums` are the accumulators that are then
  /// ready.
  Values awaitProducts(int64_t pending, mlir::ValueRange sums);

  /// Adds an f32 to one in global memory, in one step (9.7.13 red).
  void addGlobal(mlir::Value global, mlir::Value x);
  /// Adds four f32 to 16 bytes of global memory, if `adds` (i1) holds; sm_90 and later. There is no
  /// branch, so it may stand between products in flight.
  void addGlobal16Bytes(mlir::Value global, mlir::ValueRange x, mlir::Value adds);
  /// Stores four i32 to 16 bytes of global memory.
  void storeGlobal16Bytes(mlir::Value global, mlir::ValueRange x);

private:
  Values emit(mlir::TypeRange results, mlir::ValueRange operands, llvm::StringRef text,
              llvm::StringRef constraints, bool hasSideEffects);
  mlir::Value emitPure(llvm::StringRef text, llvm::StringRef constraints, mlir::Type result,
                       mlir::ValueRange operands);

  mlir::OpBuilder &builder;
  mlir::Location loc;
};

} // namespace tesela::nvvm

#endif // TESELA_COMPILER_TARGETS_NVVM_PTXINSTRUCTIONS_H
