// Work items from the launch's counter, down to the LLVM dialect: which thread asks for them, and in which order.
// RUN: tesela-opt %s --pipe-assign-fragments --pipe-split-roles --pipe-place-buffers --pipe-lower-to-nvvm | FileCheck %s

// The counter comes behind all arguments but the tensor maps: 8 bytes.
// CHECK-LABEL: llvm.func @items
// CHECK-SAME: %[[COUNTER:[a-z0-9]+]]: !llvm.ptr<1>) attributes
// One thread sends where an item lies, fills, and then asks for the next item. At the end it ends the count.
// CHECK: setmaxnreg.dec
// CHECK: scf.while
// CHECK: mbarrier.try_wait.parity
// CHECK-COUNT-4: "st.shared.b32 [$0
// CHECK: mbarrier.arrive.shared::cta.b64 _
// CHECK: scf.condition
// CHECK: cp.async.bulk.tensor.4d.shared::cluster.global
// CHECK: %[[TAKEN:.*]] = llvm.inline_asm {{.*}}atom.relaxed.gpu.global.add.u32 $0, [at], 1;{{.*}} %[[COUNTER]]
// The first items go to the thread blocks by their numbers.
// CHECK: %[[BLOCKS:.*]] = nvvm.read.ptx.sreg.nctaid.x
// CHECK: %[[NEXT:.*]] = arith.addi %[[TAKEN]], %[[BLOCKS]]
// CHECK: scf.yield %[[NEXT]]
// CHECK: nvvm.read.ptx.sreg.nctaid.x
// CHECK: atom.acq_rel.gpu.global.inc.u32
// CHECK-SAME: %[[COUNTER]]
// The consumers take all four numbers before they release their stage. They write when the last item's copies have read the buffer.
// CHECK: setmaxnreg.inc
// CHECK: scf.while
// CHECK: mbarrier.try_wait.parity
// CHECK: ld.shared.v4.b32
// CHECK: shfl.sync.idx.b32
// CHECK: mbarrier.arrive.shared::cta.b64 _
// CHECK: scf.condition
// CHECK: cp.async.bulk.wait_group.read 0;
// CHECK: bar.sync $0, 128;
// CHECK: "st.shared.b32 [$0], $1;"
// CHECK: fence.proxy.async.shared::cta;
// CHECK: bar.sync $0, 128;
// CHECK: cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group
// CHECK-NOT: cp.async.bulk.wait_group
// CHECK: scf.yield
// The thread block must not end before the buffer has been read.
// CHECK: cp.async.bulk.wait_group.read 0;
// CHECK-NOT: atom.
// CHECK: llvm.return
tile.kernel @items(%q: !tile.view<[?, ?, ?, 64], f16>, %o: !tile.view<[?, ?, ?, 64], f16>)
    attributes {schedule = #tile.schedule<block_m = 64, block_n = 64, stages = 2, warps = 4, q_in_registers = false, consumers = 1, persistent = true, output_buffer = true>} {
  %rows = tile.work : !tile.block<query, 64>
  %Q = tile.load %q[%rows] : !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>] -> !tile.tile<[64, 64], f16>
  %none = tile.constant 0.0 : !tile.tile<[64, 64], f32>
  %S = tile.dot %Q, %Q transposed plus %none : (!tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f32>) -> !tile.tile<[64, 64], f32>
  %R = tile.convert %S : !tile.tile<[64, 64], f32> -> !tile.tile<[64, 64], f16>
  tile.store %R, %o[%rows] : !tile.tile<[64, 64], f16>, !tile.view<[?, ?, ?, 64], f16>[!tile.block<query, 64>]
}
