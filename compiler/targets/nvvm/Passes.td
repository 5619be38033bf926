//===- Passes.td - From the core to NVVM --------------------*- tablegen -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The passes of GPU targets, in the order in which they run. They run after the passes of
// transforms/Passes.td.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_NVVM_PASSES
#define TESELA_NVVM_PASSES

include "mlir/Pass/PassBase.td"

def PipeVerifyLowerable : Pass<"pipe-verify-lowerable", "::tesela::tile::KernelOp"> {
  let summary = "refuse what this target cannot lower";
  let description = [{
    Changes nothing. `verifyLowerable` fails at each op that this target cannot lower, with a message that names a
    remedy. The compiler calls it in every build before the passes below run.

    ```mlir
    // error: 'tile.dot' op expected a left operand that is not transposed; …
    %s = tile.dot %p transposed, %v plus %zero : …
    ```
  }];
}

def PipeAssignFragments : Pass<"pipe-assign-fragments", "::tesela::tile::KernelOp"> {
  let summary = "decide where the elements of each tile live";
  let description = [{
    Gives each tile an encoding. A loaded tile that a product reads goes through a buffer in shared memory. Products
    read a right operand from there. They read a left operand from there, too, or, with `q_in_registers`, from
    registers. Every other tile of two extents is an accumulator, a tile of one extent is a row slice, and a tile of a
    single row holds a value for each column. Outputs of 16 bits are stored through a buffer as well. The loads of a
    loop's body move to its top, between two barriers. If the schedule has consumers, the pass leaves loads and stores
    to `pipe-split-roles`.

    ```mlir
    // before
    %K = tile.load %k[%keys] : … -> !tile.tile<[64, 128], bf16>
    // after
    pipe.barrier
    pipe.copy %k[%keys] to %buffer[%zero] : …
    pipe.commit
    pipe.wait 0
    pipe.barrier
    %K = pipe.slot %buffer[%zero] : … -> !tile.tile<[64, 128], bf16, #pipe.shared>
    ```
  }];
  let dependentDialects = ["::tesela::pipe::PipeDialect", "::mlir::arith::ArithDialect"];
}

def PipeRotateLoop : Pass<"pipe-rotate-loop", "::tesela::tile::KernelOp"> {
  let summary = "copy blocks ahead of their use";
  let description = [{
    If n = `stages` of the schedule is greater than 1, the copies of a loop's body start n - 1 iterations ahead, into
    n stages. Then each iteration needs one barrier instead of two.

    ```mlir
    // before
    scf.for %j = … {
      pipe.barrier
      pipe.copy %k[%keys_j] to %buffer[%zero] : …
      pipe.commit
      pipe.wait 0
      pipe.barrier
      …
    // after (n = 2)
    pipe.copy %k[%keys_low] to %buffer[%zero] : …     // if there is such a block
    pipe.commit
    scf.for %j = … {
      pipe.wait 0
      pipe.barrier
      pipe.copy %k[%keys_next] to %buffer[%other] : … // if there is such a block
      pipe.commit
      …
    ```
  }];
  let dependentDialects = ["::mlir::scf::SCFDialect"];
}

def PipeOverlapProducts : Pass<"pipe-overlap-products", "::tesela::tile::KernelOp"> {
  let summary = "run the last product of a loop beside the first of the next iteration";
  let description = [{
    Applies if the schedule has `overlap`. The loop's last product must take its left operand from registers and add to
    a carried accumulator. The pass delays this product by one iteration: it starts right behind the first product of
    the next iteration, so that the tensor cores work while the first product's result is used. Each product is awaited
    at its first use, and ops that need neither result run beside both products.

    The first iteration moves in front of the loop, without its last product. The last product of the last iteration
    follows behind the loop. A sum that begins with zeros is not scaled in the first iteration.

    The result computes its first block even if the range is empty. So the loop must have the attribute
    `tile.drops_empty` (tile/EmptyRange.h), which says that such a block changes nothing. A loop without it is an error.

    ```mlir
    // before; the loop has `tile.drops_empty`
    scf.for %j = %low to %high iter_args(%O = %zero) {
      %K = tile.load %k[%keys_j]
      %S = tile.dot %Q, %K transposed plus %none
      %P, %O1 = … %S, %O
      %V = tile.load %v[%keys_j]
      %O2 = tile.dot %P, %V plus %O1
      scf.yield %O2
    // after
    %K0 = tile.load %k[%keys_low]
    %P0, %O0 = …
    scf.for %j = %low + 1 to %high iter_args(%P = %P0, %O = %O0) {
      %K = tile.load %k[%keys_j]
      %s = pipe.dot_start %Q, %K transposed plus %none
      %V = tile.load %v[%keys_j - 1]
      %o = pipe.dot_start %P, %V plus %O
      …                                    // what uses neither
      %S = pipe.dot_wait %s pending 1
      …                                    // what uses %S alone
      %O1 = pipe.dot_wait %o pending 0
      %P1, %O2 = … %S, %O1
      scf.yield %P1, %O2
    %V = tile.load %v[%keys_high - 1]
    tile.dot %P, %V plus %O
    ```
  }];
  let dependentDialects = ["::tesela::pipe::PipeDialect", "::mlir::arith::ArithDialect",
                           "::mlir::scf::SCFDialect"];
}

def PipeStageOperands : Pass<"pipe-stage-operands", "::tesela::tile::KernelOp"> {
  let summary = "bring computed operands of products to shared memory";
  let description = [{
    A matrix instruction reads its right operand from shared memory, and a transposed left operand, too. If such an
    operand is computed, all threads write it to a buffer in front of the first product that reads it in a block of
    operations. One barrier stands before the write and one before the read. The pass runs after the passes that move
    products.

    Without roles, the tiles of a block share the second barrier: products whose results are needed later move behind
    the last write. The first barrier is left out if all threads have met earlier in the same iteration. Then the tile
    is written as soon as it is computed.

    With roles, a loop writes to two stages in turn. The stage follows from a count that all loops around the write
    carry. The first barrier is not needed then: a thread that writes one stage has passed the barrier of the other
    stage since the first one was read. So the tile is written as soon as it is computed. If the schedule is
    `persistent`, `pipe-split-roles` ends each work item with a barrier, because each item begins with the first stage.
    `pipe-start-products` removes that barrier where a channel hands the stages over.

    ```mlir
    // before
    %dQ = tile.dot %dS transposed, %K plus %zero : (!tile.tile<[64, 32], bf16, #pipe.accumulator<warps = 4>>, …) -> …
    // after
    pipe.barrier
    pipe.write %dS to %buffer[%none] : …
    pipe.barrier
    %staged = pipe.slot %buffer[%none] : … -> !tile.tile<[64, 32], bf16, #pipe.shared>
    %dQ = tile.dot %staged transposed, %K plus %zero : …
    ```
  }];
  let dependentDialects = ["::tesela::pipe::PipeDialect", "::mlir::arith::ArithDialect"];
}

def PipeSplitRoles : Pass<"pipe-split-roles", "::tesela::tile::KernelOp"> {
  let summary = "let one warpgroup copy and the others compute";
  let description = [{
    If the schedule has consumers, each loaded view gets a buffer and a channel. All loads of a view share them. The
    producer fills the stages in the order of the loads. The consumers await each stage where the load stood and release
    it behind its last use. The producer's program has the same loops as that of the consumers, but only those ops that
    its copies need. So the n-th fill of a channel belongs to the n-th await: both roles count a channel's uses, through
    all loops.

    If the schedule is `persistent`, the programs stand in a loop over the thread block's work items. The producer takes
    the items and sends the consumers where they lie. Tiles that are loaded once per item are then released, too.

    An output is staged in shared memory before it is copied out. If the schedule gives it no buffer of its own, it takes
    the place of another buffer:

    - If other items follow and sums leave by `pipe.add_out`, it lies over the sums: each warpgroup's rows lie over that
      warpgroup's share. Then no warpgroup waits for another one.
    - Otherwise it may lie over a buffer of which each warpgroup has read only its own rows. The channel of that buffer
      is then released behind a `pipe.drain` at the end of the item.
    - Otherwise it may lie over an operand that `pipe-stage-operands` writes. Then the item ends with a `pipe.drain` and
      a `pipe.barrier`, and the next item may write there.

    If the kernel searches for its blocks (`tile.find_blocks`), a finder does the search and takes the items. It sends
    each item and the number of its blocks to the producer and the consumers. It sends each block to the producer only.
    The producer's first load of a block carries to the consumers what else they need to know of the block. So the
    search for an item runs beside the products of the item before.

    ```mlir
    // before
    scf.for %j = … {
      %K = tile.load %k[%keys] : …
      %S = tile.dot %Q, %K transposed plus %zero : …
    // after
    pipe.roles producer 40 {
      scf.for %j = … iter_args(%n = …) {
        pipe.acquire %c[%n] : …
        pipe.fill %k[%keys] to %buffer on %c[%n] : …
        scf.yield %n + 1
    } consumers 2 232 {
      scf.for %j = … iter_args(%n = …) {
        pipe.await %c[%n] : …
        %K = pipe.slot %buffer[%n mod stages] : …
        %S = tile.dot %Q, %K transposed plus %zero : …
        pipe.release %c[%n] : …
        scf.yield %n + 1
    ```
  }];
  let dependentDialects = ["::tesela::pipe::PipeDialect", "::mlir::arith::ArithDialect",
                           "::mlir::scf::SCFDialect"];
}

def PipePlaceBuffers : Pass<"pipe-place-buffers", "::tesela::tile::KernelOp"> {
  let summary = "give each buffer its offset in shared memory";
  let description = [{
    Buffers come first, one after the other, at multiples of 1024 bytes (of 16 bytes for f32). A buffer `over` another
    one has the offset of that one. Behind the buffers come the barriers of channels, the memory of finders, the memory
    that joins the rows of cut tiles, the sums of lines and what threads keep of them (`LinesPlace.h`), and, if there is
    room, values that a map of consumers computes once per diagonal (`DiagonalValues.h`). The total becomes the kernel's
    attribute `pipe.shared_bytes`.

    ```mlir
    // before
    %q = pipe.alloc : !pipe.buffer<1, [128, 128], bf16>
    // after
    %q = pipe.alloc {offset = 0 : i64} : !pipe.buffer<1, [128, 128], bf16>
    ```
  }];
}

def PipeVerifyProtocol : Pass<"pipe-verify-protocol", "::tesela::tile::KernelOp"> {
  let summary = "check that the roles use channels alike, for any number of items and iterations";
  let description = [{
    Changes nothing. For each `pipe.roles` it checks:

    - **C1** Each `pipe.acquire` is followed, in its block, by one `pipe.fill` or `pipe.send` of the same use and part.
      No fill and no send stands without its acquire.
    - **C2** Each `pipe.await` is followed, in its block, by one `pipe.release` of the same use. No release stands without
      its await. A channel needs no release if it has no more uses than stages and all uses are outside of loops.
    - **C3** A role's uses of a channel count up by one from 0, through all loops. The producer makes each use with all
      its parts.
    - **C4** One role fills a channel or sends through it, and at least one role reads it. Every reader makes the same uses
      in the same loops as the writer, and these loops run equally often. Fills are awaited, and sent numbers are
      received. None of these ops stands in a branch.
    - **C5** A product in flight is used by one `pipe.dot_wait` in its block. The wait leaves at most as many products in
      flight as have started later. Until then nothing uses the accumulator to which the product adds.
    - **C6** All roles together have at most as many registers as the warpgroups had at the start.
    - **C7** Turns are opened once, outside of loops. Each `pipe.begin_turn` is followed, in its block, by one
      `pipe.end_turn` before the next `pipe.begin_turn`.

    `pipe-run-roles` checks the rules that depend on the order of operations. It runs after the last pass that changes
    that order.

    ```mlir
    pipe.await %c[%n] : !pipe.channel<2>
    // error: 'pipe.await' op expected a pipe.release of the same use behind it, in its block; …
    scf.yield %n
    ```
  }];
}

def PipeOverlapItems : Pass<"pipe-overlap-items", "::tesela::tile::KernelOp"> {
  let summary = "begin the next work item beside the last product of this one";
  let description = [{
    Applies if the schedule has `overlap` and loads the next item's queries ahead (`query_stages` above 1). The consumers
    take the next item before the last product of this item. They start the next item's first product in front of that
    last product, and compute its first exponentials meanwhile. So the tensor cores do not wait for the end of one item
    and the beginning of the next. The values that an item's head computes are carried to the next round of the loop over
    items. Constants and values that only name something, such as blocks, are computed again instead.

    The first item has no item before it. A copy of the head in front of the loop would cost ptxas 16 to 23 % of its
    time. So the loop begins with an item that does not exist (`%exists` is false): its loop has no iterations, the
    product beside the first item's head is dropped, and nothing is stored. That product reads a stage of values that the
    producer hands over with anything in it.

    A role's uses of each channel keep their order. Only their places between the uses of other channels change, and
    nothing that the producer waits for is released later than before. `pipe-verify-protocol` runs before this pass,
    since it reads roles without branches. `pipe-run-roles` runs after it.

    The consumers must have the form below. If the producer has another one, as in kernels with a finder, it keeps its
    program, and only hands over the first stage of values.

    ```mlir
    // before: the consumers
    scf.while (…) {
      %more, %item = pipe.receive %items
      scf.condition(%more) %item
    } do {
      %S = tile.dot %Q, %K transposed plus %none
      %P = … %S
      %P1, %O = scf.for %j = %low to %high iter_args(%P, %zero)
      pipe.await %v[%n]
      %O1 = tile.dot %P1, %V plus %O
      pipe.release %v[%n]
      … %O1                                   // the output
    // after: the producer hands over the stage, and the consumers begin without an item
    pipe.acquire %v[0]
    pipe.send to %v[0]
    scf.while (%more = true, %exists = false, %P = 0) {
      scf.condition(%more) %exists, %P
    } do {
      %end = arith.select %exists, %high, %low
      %P1, %O = scf.for %j = %low to %end iter_args(%P, %zero)
      %more1, %item1 = pipe.receive %items
      %O1, %P2 = scf.if %more1 {
        %s = pipe.dot_start %Q1, %K1 transposed plus %none
        pipe.await %v[%n]
        %o = pipe.dot_start %P1, %V plus %O
        %S1 = pipe.dot_wait %s pending 1
        %p = … %S1
        %O1 = pipe.dot_wait %o pending 0
        pipe.release %v[%n]
      } else {
        …                                     // the last product alone
      }
      scf.if %exists {
        … %O1
      }
      scf.yield %more1, true, %P2
    ```
  }];
  let dependentDialects = ["::tesela::pipe::PipeDialect", "::mlir::arith::ArithDialect",
                           "::mlir::scf::SCFDialect"];
}

def PipeStartProducts : Pass<"pipe-start-products", "::tesela::tile::KernelOp"> {
  let summary = "run the products of a long chain beside work that does not need them";
  let description = [{
    Rewrites innermost loops of the consumers that have at least three products. Two products are enough if another loop
    stands around the loop, or if both read only stages: tiles that are there before the iteration computes anything.
    Products become asynchronous, and at most two of them are in flight. Each is awaited at its first use, or where a
    third one starts. Stages are released behind that.

    A product that reads only stages needs nothing that the iteration computes. Such products start at the top of the
    iteration. The first of them starts even earlier, in the iteration before: behind that iteration's last product, so
    that it runs while the result of the last product is used.

    So the loop becomes an `scf.while` with its exit in the middle. ptxas 13.0 makes all products wait (C7514) if a product
    that started before the exit is awaited behind a product that starts after the exit. So the exit stands in front of
    the last products, which are those between which no op waits for a product, and all products that started earlier
    are awaited there. If all products read only stages, the exit stands in front of the first op that uses the result
    of any product but the first, and the next iteration's first product starts behind the exit. A branch keeps empty
    ranges out. The branch and the loop are marked `pipe.counted`: they run as often as the original loop did.

    The loop stays as it is if a consumer's registers cannot hold all tiles that it would then need at once. ptxas would
    make each product wait for the one before, and would spill. The kernel gets the attribute `pipe.products_wait`.

    If the consumers add the last product's result to memory from their registers (`tile.accumulate`), the loop stays an `scf.for`, and all products
    start in the iteration to which they belong: those that read only stages at its top, and the last one when no other is in flight.

    The last product may read stages that the consumers write for each other, behind a `pipe.barrier`. With that barrier
    all warpgroups would compute exponentials at the same time and products at the same time, so that either the tensor
    cores or the other units would be idle. If the product's result is only added to memory, nothing in the loop waits
    for it. Then the product is computed one iteration late, and a channel replaces the barrier. So one warpgroup may be
    most of an iteration ahead of another, and its exponentials run beside the other's products. The first iteration
    computes the product of a stage that nobody has written; that result is added nowhere. The count of the channel's
    uses continues from one work item to the next. So the barrier at the end of an item is removed, unless an output
    lies over these stages.

    The pass runs after `pipe-verify-protocol`, which reads roles without branches. `pipe-run-roles` checks the result.

    ```mlir
    // a last product of stages that the consumers write: before
      pipe.write %dS to %exchange[%n]
      pipe.barrier
      %dQ = tile.dot %slot_n transposed, %K plus %zero
      pipe.write %dQ to %sums[0]
      pipe.add_out %sums to %dq_sum[%queries]
    // after, without the products around it
      pipe.acquire %c[%n]
      pipe.write %dS to %exchange[%n]
      pipe.publish %exchange on %c[%n]
      pipe.await %c[%n - 1]
      %dq = pipe.dot_start %slot_n_less_1 transposed, %K plus %zero
      %dQ = pipe.dot_wait %dq pending 0
      pipe.release %c[%n - 1]
      pipe.drain
      pipe.write %dQ to %sums[0]              // added beside the first products of the next iteration
    ```

    ```mlir
    // before
    scf.for %j = %low to %high iter_args(%n, %sum) {
      pipe.await %q[%n]
      %Q = pipe.slot …
      %S = tile.dot %K, %Q transposed plus %zero
      %P = … %S
      %dP = tile.dot %V, %Q transposed plus %zero
      %dS = … %P, %dP
      %sum1 = tile.dot %dS, %Q plus %sum
      pipe.release %q[%n]
      scf.yield %n + 1, %sum1
    // after
    scf.if %low < %high {
      pipe.await %q[%n0]
      %s0 = pipe.dot_start %K, %Q0 transposed plus %zero
      scf.while (%j, %n, %sum, %s = %s0) {
        %dp = pipe.dot_start %V, %Q transposed plus %zero
        %S = pipe.dot_wait %s pending 1
        %P = … %S
        %dP = pipe.dot_wait %dp pending 0
        %dS = … %P, %dP
        scf.condition(%j + 1 < %high) %j + 1, %n, %sum, %dS
      } do {
        %sum1 = pipe.dot_start %dS, %Q plus %sum
        pipe.await %q[%n + 1]
        %s1 = pipe.dot_start %K, %Q1 transposed plus %zero
        %sum2 = pipe.dot_wait %sum1 pending 1
        pipe.release %q[%n]
        scf.yield %j + 1, %n + 1, %sum2, %s1
      }
      %sum1 = pipe.dot_start %dS, %Q plus %sum
      %sum2 = pipe.dot_wait %sum1 pending 0
      pipe.release %q[%n]
    ```
  }];
  let dependentDialects = ["::tesela::pipe::PipeDialect", "::mlir::arith::ArithDialect",
                           "::mlir::scf::SCFDialect"];
}

def PipeHoldQueries : Pass<"pipe-hold-queries", "::tesela::tile::KernelOp"> {
  let summary = "keep some columns of the queries in a consumer's registers";
  let description = [{
    Applies if the schedule has `query_panels` above 0 and the kernel has roles. With heads wider than 256 two warpgroups
    have the same rows, and each multiplies them with half of the keys. Such a product reads shared memory at a higher
    rate than the tensor cores need, and the queries are most of it. So the first `query_panels` panels of 64 columns are
    loaded into registers once, in front of the loop, and the product becomes two: one of these columns, and one of the
    others that adds to it. The first one is not awaited, since the second adds to the same registers.

    ```mlir
    // before; query_panels = 3
    %Q = pipe.slot %q[%0] : … -> !tile.tile<[64, 576], bf16, #pipe.shared>
    scf.for … {
      %K = pipe.slot %k[%n] : … -> !tile.tile<[64, 576], bf16, #pipe.shared>
      %S = tile.dot %Q, %K transposed plus %zero : …
    // after
    %Q1 = pipe.slot %q[%0] : … -> !tile.tile<[64, 192], bf16, #pipe.shared>
    %held = pipe.convert %Q1 : … -> !tile.tile<[64, 192], bf16, #pipe.operand<warps = 4>>
    %Q2 = pipe.slot %q[%0] {first_column = 192 : i64} : … -> !tile.tile<[64, 384], bf16, #pipe.shared>
    scf.for … {
      %K1 = pipe.slot %k[%n] : … -> !tile.tile<[64, 192], bf16, #pipe.shared>
      %K2 = pipe.slot %k[%n] {first_column = 192 : i64} : … -> !tile.tile<[64, 384], bf16, #pipe.shared>
      %S1 = tile.dot %held, %K1 transposed plus %zero : …
      %S = tile.dot %Q2, %K2 transposed plus %S1 : …
    ```
  }];
}

def PipeRunRoles : Pass<"pipe-run-roles", "::tesela::tile::KernelOp"> {
  let summary = "execute the roles in the compiler: find deadlocks and reads of data that is not there";
  let description = [{
    Changes nothing. It executes each `pipe.roles` for one, two and three work items. In the last run, loops of unknown
    bounds run once more than there are stages. It computes the numbers of uses and stages; tiles stay unknown. It runs
    after the last pass that moves an operation. In each run it checks:

    - **R1** A role's uses of a channel count up by one from 0. Acquires and awaits are counted separately.
    - **R2** A stage is read only between its await and its release. A product in flight reads until its
      `pipe.dot_wait`. One channel fills a buffer. If a buffer is filled in parts, or an output lies over it, products read
      it as a left operand only, because a warpgroup reads only its own rows of a left operand.
    - **R3** A `pipe.write` of an output is followed by a `pipe.empty_out` or a `pipe.add_out`, and that by a `pipe.drain`.
      Until then nothing else writes or reads the buffer. A `late` `pipe.add_out` stands in the iteration after its write.
      An output over a filled buffer is written while its stage is held, and it has left before the release.
      If the consumers write a buffer and read it themselves, a `pipe.barrier` stands between the write and the reads of a
      stage, and another one between the reads and the next write or an output over the buffer. Behind such an output
      stand a `pipe.drain` and a `pipe.barrier` before the next write. If the consumers publish the buffer on a channel, a
      stage is written between the acquire and the publish of its use, and read between its await and its release. An
      output over it still needs the barriers.
    - **R4** When a role ends, everything that it has written has been copied out.
    - **R5** The roles do not wait for each other in a circle.
    - **R6** The product that a `pipe.dot_wait` gives is not one of the last `pending` products.

    A branch on a value that the run does not know may contain reads, but no op on which other roles depend. A branch that
    is marked `pipe.counted` is taken. A loop that is marked so runs as often as an `scf.for` of unknown bounds. A loop from
    `%low` to `arith.select %exists, %high, %low` does not run if `%exists` is known to be false.

    ```mlir
    pipe.await %c[%n] : !pipe.channel<2>
    %K = pipe.slot %buffer[%stage] : …
    pipe.release %c[%n] : !pipe.channel<2>
    // error: 'tile.dot' op expected to read a stage between its pipe.await and its pipe.release; …
    %S = tile.dot %Q, %K transposed plus %zero : …
    ```
  }];
}

def PipeMarkUniform : Pass<"pipe-mark-uniform", "::tesela::tile::KernelOp"> {
  let summary = "tell ptxas which numbers all threads share, in loops over several runs of blocks";
  let description = [{
    A loop over several runs of blocks chooses the run of an iteration. ptxas 13.0 takes a choice for a number that differs between
    threads. Near the limit of registers it then computes the addresses of the loop's products in each thread, and moves them to uniform
    registers in each iteration. One mark in front of the loop is enough to avoid this, but more marks than needed can bring it back
    (docs/log/2026-11-30-several-runs.md). Which numbers are marked was measured:

    - in a loop with `pipe.add_out`, which needs nearly all registers: the numbers among which the loop chooses;
    - in any other loop: the counts of uses with which it begins.

    Loops of the consumers whose first product starts in front of them (`pipe.counted`) are marked, no others.

    ```mlir
    // before
    scf.while (%i = %zero, …) {
      %is_second = arith.cmpi sge, %i, %start : i32
      %offset = arith.select %is_second, %second, %first : i32
      …
    // after
    %a = pipe.uniform %second
    %b = pipe.uniform %first
    %c = pipe.uniform %start
    scf.while (%i = %zero, …) {
      %is_second = arith.cmpi sge, %i, %c : i32
      %offset = arith.select %is_second, %a, %b : i32
      …
    ```
  }];
}

def PipeCountRegisters : Pass<"pipe-count-registers", "::tesela::tile::KernelOp"> {
  let summary = "count the tile values that a thread holds at once";
  let description = [{
    Sets the kernel's attribute `pipe.tile_registers` to the largest number of 32-bit tile values that a thread needs at
    once: accumulators, operands in registers, and values of columns. A product in flight holds its left operand until
    its `pipe.dot_wait`. Constants, values that are computed from constants, tiles in shared memory, and row slices (two
    values for 16 rows) are not counted.

    ```mlir
    // before
    tile.kernel @k(…) attributes {pipe.shared_bytes = 49152 : i64, …}
    // after
    tile.kernel @k(…) attributes {pipe.shared_bytes = 49152 : i64, pipe.tile_registers = 96 : i64, …}
    ```
  }];
}

def PipeOverlapLaunches : Pass<"pipe-overlap-launches", "::tesela::tile::KernelOp"> {
  let summary = "let a launch of a plan begin while the one before it ends";
  let description = [{
    The compiler knows the launch plan. For chips that can overlap launches (`ChipFacts`) it sets two attributes on
    kernels: `pipe.follows_launch` if another launch of the plan comes before this one, and `pipe.precedes_launch` if
    another one comes after it. A kernel with the first attribute begins with a `pipe.await_launch`. A kernel with the
    second attribute lets the next launch begin at its own start. The next launch then begins when the last thread blocks
    of this one have started, and uses only room that is free.

    ```mlir
    // before
    tile.kernel @merge_parts(…) attributes {pipe.follows_launch, pipe.precedes_launch, …} {
      …
    // after
    tile.kernel @merge_parts(…) attributes {…} {
      pipe.await_launch
      pipe.release_launch
      …
    ```
  }];
  let dependentDialects = ["::tesela::pipe::PipeDialect"];
}

def PipeLowerToNVVM : Pass<"pipe-lower-to-nvvm", "::mlir::ModuleOp"> {
  let summary = "turn kernels into functions of one thread";
  let description = [{
    Each `tile.kernel` becomes an `llvm.func` with one argument for each slot (KernelSignature.h). Tiles become the
    values that a thread holds of them. Kernels without consumers use mma.sync, ldmatrix and cp.async (sm_80 and later).
    Kernels with consumers use wgmma, mbarrier and tensor copies (sm_90a). The result consists of scf, arith, math and
    the LLVM dialect.

    With `trap-waits` a wait that spins too long ends the kernel with a trap. So roles that wait for each other forever
    become an error. Debug builds turn it on.

    ```mlir
    // before; four warps, 64 rows
    tile.kernel @k(in %q: !tile.view<[B, H, Sq, 64], bf16>, …) attributes {…} {
      …
      %S = tile.dot %Q, %K transposed plus %zero : …
    // after
    llvm.func @k(%B: i32, %H: i32, …, %q: !llvm.ptr<1>, …) attributes {nvvm.kernel, …} {
      …
      %k = llvm.inline_asm … "ldmatrix.sync.aligned.m8n8.x4.shared.b16 …"
      %s = llvm.inline_asm … "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 …"
    ```
  }];
  let options = [
    Option<"trapWaits", "trap-waits", "bool", /*default=*/"false",
           "trap where a wait for a channel spins too long">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect",
                           "::mlir::NVVM::NVVMDialect", "::mlir::math::MathDialect",
                           "::mlir::scf::SCFDialect"];
}

def ScalarsToLLVM : Pass<"scalars-to-llvm", "::mlir::ModuleOp"> {
  let summary = "turn arith, math and cf into the LLVM dialect, in one conversion";
  let description = [{
    One conversion for all dialects walks the module once. Kernels have thousands of scalar ops, so a walk for each
    dialect would make compilation slow.

    ```mlir
    // before
    %c = arith.addf %a, %b : f32
    // after
    %c = llvm.fadd %a, %b : f32
    ```
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

#endif // TESELA_NVVM_PASSES
