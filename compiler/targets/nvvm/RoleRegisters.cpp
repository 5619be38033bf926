//===- RoleRegisters.cpp - The registers of each role -----------*- C++ -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/RoleRegisters.h"

#include "targets/nvvm/TileRegisters.h"

#include <algorithm>

namespace tesela::nvvm {

namespace {

/// Registers of each thread (producer, consumer), by the number of consumer warpgroups. In sum they
/// are what the warpgroups have at entry. With 24 for the producer and 240 for each of two
/// consumers, the coordinates of wide heads are spilled.
constexpr std::pair<int64_t, int64_t> registersOf[] = {{0, 0}, {56, 256}, {40, 232}, {32, 160}};
/// For one consumer with one work item and products of few columns: two thread blocks fit a
/// multiprocessor, so one loads while the other begins or ends. With wide heads the sums need more
/// registers, and the buffers leave no room for a second thread block.
constexpr std::pair<int64_t, int64_t> registersOfTwo = {56, 200};
constexpr int64_t columnsOfTwo = 128;
/// The most tile registers of a thread (`tileRegisters`), before products are started early.
/// Kernels for parts of the keys have 208 with D 128, where ptxas spills nothing. Gradients with D
/// 128 have 224 to 352, and ptxas serialised them (C7512).
constexpr int64_t tilesOfTwo = 208;
constexpr int64_t leanProducer = 24; ///< the least that setmaxnreg accepts
/// A producer with more reads or more ops than this needs more registers. Examples are variants for
/// which the ends of an item's keys depend on captured tensors (image_before) or take long to
/// compute (block_diffusion).
constexpr int64_t readsOfLongProducer = 8, opsOfLongProducer = 400;
constexpr std::pair<int64_t, int64_t> registersOfLongProducer[] = {
    {0, 0}, {56, 256}, {56, 224}, {32, 160}};
/// With a finder beside the producer: with fewer registers it would spill the bounds of what it
/// tests. Beside blocks of 128 columns it may have fewer.
constexpr std::pair<int64_t, int64_t> registersOfFinder[] = {
    {0, 0}, {88, 256}, {104, 200}, {32, 160}};
constexpr std::pair<int64_t, int64_t> registersBesideWideBlocks[] = {
    {0, 0}, {88, 256}, {88, 208}, {32, 160}};
/// For finders that test more than most: in the library only big_bird (AssemblyTest).
constexpr std::pair<int64_t, int64_t> registersOfLongFinder[] = {
    {0, 0}, {120, 256}, {120, 192}, {32, 160}};
constexpr int64_t opsOfLongFinder = 700;

/// Whether two such thread blocks fit a multiprocessor. A finder needs the registers for that.
bool isOneOfTwo(pipe::RolesOp roles, tile::ScheduleAttr schedule) {
  auto kernel = roles->getParentOfType<tile::KernelOp>();
  bool isNarrow = schedule->consumers == 1 && !schedule->persistent && roles.getFinder().empty() &&
                  tileRegisters(kernel.getBodyBlock()) <= tilesOfTwo;
  kernel.walk([&](mlir::Operation *op) {
    if (llvm::isa<tile::DotOp, pipe::DotStartOp>(op))
      isNarrow &=
          llvm::cast<tile::TileType>(op->getResult(0).getType()).getExtent(1) <= columnsOfTwo;
  });
  return isNarrow;
}

} // namespace

void dealRegisters(pipe::RolesOp roles, tile::ScheduleAttr schedule) {
  auto opsOf = [](mlir::Region &role) {
    int64_t ops = 0;
    role.walk([&](mlir::Operation *) { ++ops; });
    return ops;
  };
  int64_t ops = opsOf(roles.getFinder()), reads = 0;
  roles.getProducer().walk([&](tile::ReadOp) { ++reads; });
  // Without overlap the consumers do the rounds of reductions, which need registers, too.
  bool isWide = schedule->blockN >= 128 || !schedule->overlap;
  const auto *registers = registersOf;
  if (ops > opsOfLongFinder)
    registers = registersOfLongFinder;
  else if (ops > 0)
    registers = isWide ? registersBesideWideBlocks : registersOfFinder;
  else if (reads > readsOfLongProducer || opsOf(roles.getProducer()) > opsOfLongProducer)
    registers = registersOfLongProducer;
  auto [producer, consumer] =
      isOneOfTwo(roles, schedule) ? registersOfTwo : registers[schedule->consumers];
  roles.setProducerRegisters(producer);
  roles.setConsumerRegisters(consumer);
}

bool dealConsumersMore(pipe::RolesOp roles) {
  if (roles.getCount() != 2)
    return false;
  auto [producer, consumer] = registersOf[2];
  roles.setProducerRegisters(leanProducer);
  roles.setConsumerRegisters(consumer + (producer - leanProducer) / 2);
  return true;
}

int64_t blocksOfMultiprocessor(pipe::RolesOp roles) {
  constexpr int64_t registersOfMultiprocessor = 65536, threadsOfWarpgroup = 128;
  int64_t registers =
      roles.getProducerRegisters() + int64_t(roles.getCount()) * roles.getConsumerRegisters();
  return std::max<int64_t>(1, registersOfMultiprocessor / (threadsOfWarpgroup * registers));
}

} // namespace tesela::nvvm
