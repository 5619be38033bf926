//===----------------------------------------------------------------------===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "targets/nvvm/RoleRegisters.h"

#include "targets/nvvm/TileRegisters.h"

namespace tesela::nvvm {

namespace {

/// Registers of a thread, (producer, consumer), by the number of consuming warpgroups. The sums are
/// what the warpgroups enter with; a producer of 24 beside two consumers of 240 spills the
/// coordinates of wide heads.
constexpr std::pair<int64_t, int64_t> registersOf[] = {{0, 0}, {56, 256}, {40, 232}, {32, 160}};
/// Of one consumer that has one work item and products of few columns: two thread blocks a
/// multiprocessor, so that one loads while the other begins or ends. With wide heads the sums take
/// more, and the buffers leave no room.
constexpr std::pair<int64_t, int64_t> registersOfTwo = {56, 200};
constexpr int64_t columnsOfTwo = 128;
/// The most that tiles hold in a thread by `tileRegisters`, before products are started early.
/// Parts of the keys have 208 with D 128, where ptxas spills nothing; gradients with D 128 have 224
/// to 352 and were serialised (C7512).
constexpr int64_t tilesOfTwo = 208;
constexpr int64_t leanProducer = 24; ///< the fewest that setmaxnreg takes
/// Where the ends of an item's keys follow from captured tensors, or take long to compute, the
/// producer holds as many values at once (image_before; block_diffusion).
constexpr int64_t readsOfLongProducer = 8, opsOfLongProducer = 400;
constexpr std::pair<int64_t, int64_t> registersOfLongProducer[] = {
    {0, 0}, {56, 256}, {56, 224}, {32, 160}};
/// Where a finder stands beside the producer: it would spill the bounds of what it tests. Beside
/// blocks of 128 columns it may have fewer.
constexpr std::pair<int64_t, int64_t> registersOfFinder[] = {
    {0, 0}, {88, 256}, {104, 200}, {32, 160}};
constexpr std::pair<int64_t, int64_t> registersBesideWideBlocks[] = {
    {0, 0}, {88, 256}, {88, 208}, {32, 160}};
/// Where it tests more than most: of the library big_bird alone (AssemblyTest).
constexpr std::pair<int64_t, int64_t> registersOfLongFinder[] = {
    {0, 0}, {120, 256}, {120, 192}, {32, 160}};
constexpr int64_t opsOfLongFinder = 700;

/// Whether two thread blocks fit a multiprocessor. A finder takes the registers that this needs.
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
  // Without overlap the consumers go through the rounds of reductions, which take registers, too.
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

} // namespace tesela::nvvm
