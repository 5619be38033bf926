//===- Passes.td - From the core to NVVM --------------------*- tablegen -*-===//
// Part of Tesela, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The passes of GPU targets, in the order in which they run, after those of
// transforms/Passes.td.
//
//===----------------------------------------------------------------------===//
#ifndef TESELA_NVVM_PASSES
#define TESELA_NVVM_PASSES

include "mlir/Pass/PassBase.td"

def PipeVerifyLowerable : Pass<"pipe-verify-lowerable", "::tesela::tile::KernelOp"> {
  let summary = "refuse what this target cannot lower";
  let description = [{
    Changes nothing. The compiler asks the same before the passes below run, in every build (`verifyLowerable`), so that
    what a template asks of the target is refused at the op that asks it, with the remedy.

    ```mlir
    // error: 'tile.dot' op expected a left operand that is not transposed; …
    %s = tile.dot %p transposed, %v plus %zero : …
    ```
  }];
}

def PipeAssignFragments : Pass<"pipe-assign-fragments", "::tesela::tile::KernelOp"> {
  let summary = "decide where the elements of each tile live";
  let description = [{
    Gives each tile its encoding. What is loaded goes through a buffer: a right operand of a product
    is used from there, a left operand too or (`q_in_registers`) from registers. All else of two
    extents is an accumulator, of one extent a row slice. What is stored goes through a buffer as well.
    Loads of a loop's body are gathered at its top, between two barriers. A schedule with consumers
    leaves loads and stores to `pipe-split-roles`.

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
    With n = `stages` of the schedule greater than 1, copies of a loop's body run n - 1 iterations
    ahead into n stages, and one barrier an iteration is enough.

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
    Where the schedule has `overlap`: the loop's last product, which takes its left operand from registers and
    adds to a carried accumulator, is put off by one iteration and starts right behind the first product of
    the next, so that the tensor cores work while that first product's result is used. Each is awaited where it is
    first used: what needs neither runs beside both. The first
    iteration stands before the loop without the last product, which follows behind the loop; a sum that
    begins with zeros is not scaled there. The loop runs at least once: of an empty range its first block is computed. So it must have the attribute
    `tile.drops_empty` (tile/EmptyRange.h): such a block changes nothing. Another loop is an error.

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
    A matrix instruction takes its right operand from shared memory, and a left one that is transposed too. Where such an operand is
    computed, all threads write it to a buffer, between two barriers, right before the first product of a block of operations
    that reads it. Without roles the tiles of a block share a barrier: each is written as soon as it is there if all threads have met before,
    and products that are needed later move behind the last write. Runs behind the passes that move products.

    With roles, a loop writes to two stages in turn, by a count that all loops around it carry. Then the first barrier is not
    needed: who writes a stage has passed the barrier of the other one since it was read. The write comes as soon as the tile is there,
    and the second barrier is cut in two: it begins behind the write and ends before the first reader. Where the schedule is
    `persistent`, pipe-split-roles ends each work item with a barrier, since each begins with the first stage; pipe-start-products takes
    the barrier away where a channel hands the stages over.

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
    Where the schedule has consumers, each `tile.load` becomes a buffer and a channel: the producer fills the stages in the
    order of the loads, the consumers await each where the load stood and release it after its last
    use. Loads of one view share these. The producer's program is that of the consumers with
    nothing but what its copies need, so the n-th fill of a channel is the n-th await: both count a
    channel's uses, through all loops.

    Where the schedule is `persistent`, the programs stand in a loop over the thread block's work items,
    whose numbers the producer takes and sends; what is loaded once an item is then released, too. An output may leave over a
    buffer that only the consumers' own warpgroup has read: then its channel is released behind a `pipe.drain` at the item's end. Where other
    items follow and sums leave by `pipe.add_out`, it leaves over these, each warpgroup's rows over its own share, and nothing is left to wait for.
    Else it may leave over an operand of pipe-stage-operands: then an item ends with a `pipe.drain` and a `pipe.barrier`, behind which the next one
    may write there.

    Where blocks are looked for (`tile.find_blocks`), a finder does so, and takes the items. It sends each item and the
    count of its blocks to both, and each block to the producer, whose first load of it brings the consumers what else
    they need to know of it. So the search for an item runs beside the products of the one before.

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
    One after the other, 1024-byte aligned; a buffer `over` another has its offset; the barriers of
    channels behind them; then what sums of lines need, and what is kept of them (`LinesPlace.h`), and values that a map of consumers computes once a diagonal
    (`DiagonalValues.h`), where there is room. The sum becomes the kernel's attribute `pipe.shared_bytes`.

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
    Changes nothing. Of each `pipe.roles`:

    - **C1** Each `pipe.acquire` is followed, in its block, by one `pipe.fill` or `pipe.send` of the same use
      and part, and none of these stands without its own.
    - **C2** Each `pipe.await` is followed, in its block, by one `pipe.release` of the same use, and none of these
      stands without its own. A channel with no more uses than stages, all outside loops, needs no release.
    - **C3** A role's uses of a channel count up by one from 0, through all loops; the producer's with all parts.
    - **C4** One role fills a channel or sends through it, and at least one reads it. Each that does makes the same
      uses in the same loops, which run equally often; fills are awaited, what is sent is received. Nothing of
      this stands in a branch.
    - **C5** A product in flight is used by one `pipe.dot_wait` of its block, which leaves no more in flight than
      were started later. Nothing uses what it adds to until then.
    - **C6** The registers of the roles do not exceed what the warpgroups entered with.
    - **C7** Turns are opened once, outside loops; each `pipe.begin_turn` is followed, in its block, by one
      `pipe.end_turn` before the next.

    `pipe-run-roles` checks what depends on the order of operations, behind the last pass that changes it.

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
    Where the schedule has `overlap` and the queries of the next item are loaded ahead (`query_stages` above 1): the
    consumers take the next item before the last product of this one, start its first product ahead of
    that, and compute its first exponentials meanwhile. So the tensor cores need not wait for an item's end and the
    next one's beginning. What the head of an item gives is carried to the next round, but for
    constants and names, which are made again.

    A role's uses of each channel keep their order and number, and only their places between those of other
    channels change: nothing that the producer waits for is released later than it was. `pipe-verify-protocol`, which reads
    roles without branches, runs before; `pipe-run-roles` behind it.

    ```mlir
    // before
    scf.while (…) {
      %more, %item = pipe.receive %items
      scf.condition(%more) %item
    } do {
      %S = tile.dot %Q, %K transposed plus %none
      %P = … %S
      %P1, %O = scf.for … iter_args(%P, %zero)
      pipe.await %v
      %O1 = tile.dot %P1, %V plus %O
      pipe.release %v
      … %O1                                   // the output
    // after
    %more, %item = pipe.receive %items
    %S = tile.dot %Q, %K transposed plus %none
    %P = … %S
    scf.while (%more, %item, %P) {
      scf.condition(%more) %item, %P
    } do {
      %P1, %O = scf.for … iter_args(%P, %zero)
      %more1, %item1 = pipe.receive %items
      %O1, %P2 = scf.if %more1 {
        %s = pipe.dot_start %Q1, %K1 transposed plus %none
        pipe.await %v
        %o = pipe.dot_start %P1, %V plus %O
        %S1 = pipe.dot_wait %s pending 1
        %p = … %S1
        %O1 = pipe.dot_wait %o pending 0
        pipe.release %v
      } else {
        …                                     // the last product alone
      }
      … %O1
      scf.yield %more1, %item1, %P2
    ```
  }];
  let dependentDialects = ["::tesela::pipe::PipeDialect", "::mlir::arith::ArithDialect",
                           "::mlir::scf::SCFDialect"];
}

def PipeStartProducts : Pass<"pipe-start-products", "::tesela::tile::KernelOp"> {
  let summary = "let the products of a long chain run beside what does not need them";
  let description = [{
    Of each innermost loop of the consumers with three products or more, or with two where another loop stands around it or both are of stages: products become asynchronous, at most two of them in
    flight. Each is awaited where it is first used, or where a third one starts; stages are released behind that. A product of
    stages alone, which nothing in the iteration has to be computed for, starts at the top, and the first of these starts in
    the iteration before: behind the last product of that, so that it runs while the result of the last one is used. So the loop becomes a `scf.while` that
    ends in its middle. ptxas 13.0 makes all products wait (C7514) where one that started before the exit is awaited behind one that
    started after it. So the exit is in front of the last products, those between which nothing waits for a product, and what was started
    before them is awaited there. Where all products are of stages alone, the exit stands in front of what first uses the result of another than
    the first, and the next iteration's first product begins behind it. A branch keeps empty ranges out; it and the loop are marked `pipe.counted`: they run
    as the loop before did.

    Where a consumer's registers do not hold the tiles that are needed at once then, the loop stays as it is: ptxas would make each
    product wait for the one before, and spill. The kernel says so (`pipe.products_wait`).

    The last product may read stages that the consumers write for each other, behind a `pipe.barrier`. Then they would all compute their
    exponentials at one time, and all their products at another, while the tensor cores or the other units wait. Where the result of that product leaves by an
    addition to memory, which nothing in the loop waits for, it is computed one iteration late, and a channel takes the barrier's place: so a warpgroup may
    be most of an iteration ahead of another, and one computes exponentials beside the products of the other. The first iteration
    computes the product of a stage that nobody wrote, which is added nowhere. The count of the channel's uses goes on from work item to work item, so the
    barrier at an item's end goes, unless an output lies over the stages.

    Runs behind `pipe-verify-protocol`, which reads roles without branches; `pipe-run-roles` checks the result.

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

def PipeRunRoles : Pass<"pipe-run-roles", "::tesela::tile::KernelOp"> {
  let summary = "run the roles against each other: nobody waits for ever or reads what is not there";
  let description = [{
    Changes nothing. It runs each `pipe.roles` for one, two and three work items and for as many iterations as there are stages and one more,
    by computing the numbers of uses and stages; tiles stay unknown. It runs behind the last pass that moves an operation. In each run:

    - **R1** A role's uses of a channel count up by one from 0, those that it acquires and those that it awaits each for itself.
    - **R2** A stage is read between its await and its release only; products in flight read until their `pipe.dot_wait`. One channel fills
      a buffer. A buffer that is filled in parts, or where an output goes, is read as a left operand only, of which a warpgroup reads its own rows.
    - **R3** A `pipe.write` is followed by a `pipe.empty_out` or a `pipe.add_out` and that by a `pipe.drain`; until then nothing writes or reads
      the buffer. A `pipe.add_out` that is `late` stands in the iteration behind that of its write. What is written over a filled buffer is written while its stage is held, and has left before the release. A buffer that the consumers
      write to read it themselves has a `pipe.barrier` between the write and the reads of a stage, and one between these and the next write
      or an output over it; behind such an output a `pipe.drain` and a `pipe.barrier` before the next write. Where they publish it on a channel, a stage
      is written between the acquire and the publish of its use, and read between its await and its release; an output over it needs the barriers.
    - **R4** What is written has left, and has been copied, before the role ends.
    - **R5** The roles do not wait for each other in a circle.
    - **R6** A product that a `pipe.dot_wait` gives is not among the `pending` last ones.

    A branch by a value that a run does not know must not contain what others count on. One that is marked `pipe.counted` is taken, and a loop that is so marked
    runs as often as a `scf.for` of unknown bounds.

    ```mlir
    pipe.await %c[%n] : !pipe.channel<2>
    %K = pipe.slot %buffer[%stage] : …
    pipe.release %c[%n] : !pipe.channel<2>
    // error: 'tile.dot' op expected to read a stage between its pipe.await and its pipe.release; …
    %S = tile.dot %Q, %K transposed plus %zero : …
    ```
  }];
}

def PipeCountRegisters : Pass<"pipe-count-registers", "::tesela::tile::KernelOp"> {
  let summary = "count what a thread holds of tiles";
  let description = [{
    The most 32-bit values of tiles that are needed at once by a thread becomes the kernel's attribute
    `pipe.tile_registers`: accumulators, operands in registers, values of columns. A product in flight holds its
    left operand until its `pipe.dot_wait`. Constants and what is computed of them, tiles in shared memory and row
    slices (two values for 16 rows) count nothing.

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
    A kernel whose launch stands behind another of the plan has the attribute `pipe.follows_launch`, one whose launch stands in front of
    another `pipe.precedes_launch`; the compiler knows the plan and sets them, for chips that can do it (`ChipFacts`). The first begins with a
    `pipe.await_launch`. The second lets the next launch begin at its own start: that begins when the last
    thread blocks of this one have started, and takes room that nobody waits for.

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
    Each `tile.kernel` becomes an `llvm.func` with one argument a slot (KernelSignature.h); tiles
    become the values that a thread holds of them. The path of sm_80 and later: mma.sync, ldmatrix,
    cp.async. What remains is scf, arith, math and the LLVM dialect.

    `trap-waits` ends a kernel whose roles wait for each other for ever: a debug build has it on.
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
    One walk instead of one a dialect: thousands of scalar ops make the difference between a
    lean compile and a slow one.

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
