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

def PipeSplitRoles : Pass<"pipe-split-roles", "::tesela::tile::KernelOp"> {
  let summary = "let one warpgroup copy and the others compute";
  let description = [{
    Where the schedule has consumers, each `tile.load` becomes a buffer and a channel: the producer fills the stages in the
    order of the loads, the consumers await each where the load stood and release it after its last
    use. The producer's program is the loop with nothing but what its copies need.

    ```mlir
    // before
    scf.for %j = … {
      %K = tile.load %k[%keys] : …
      %S = tile.dot %Q, %K transposed plus %zero : …
    // after
    pipe.roles producer 24 {
      scf.for %j = … {
        pipe.acquire %c[%n] : …
        pipe.fill %k[%keys] to %buffer on %c[%n] : …
    } consumers 2 240 {
      scf.for %j = … {
        pipe.await %c[%n] : …
        %K = pipe.slot %buffer[%stage] : …
        %S = tile.dot %Q, %K transposed plus %zero : …
        pipe.release %c[%n] : …
    ```
  }];
  let dependentDialects = ["::tesela::pipe::PipeDialect", "::mlir::arith::ArithDialect",
                           "::mlir::scf::SCFDialect"];
}

def PipePlaceBuffers : Pass<"pipe-place-buffers", "::tesela::tile::KernelOp"> {
  let summary = "give each buffer its offset in shared memory";
  let description = [{
    One after the other, 1024-byte aligned; a buffer `over` another has its offset; the barriers of
    channels behind them. The sum becomes the kernel's attribute `pipe.shared_bytes`.

    ```mlir
    // before
    %q = pipe.alloc : !pipe.buffer<1, [128, 128], bf16>
    // after
    %q = pipe.alloc {offset = 0 : i64} : !pipe.buffer<1, [128, 128], bf16>
    ```
  }];
}

def PipeLowerToNVVM : Pass<"pipe-lower-to-nvvm", "::mlir::ModuleOp"> {
  let summary = "turn kernels into functions of one thread";
  let description = [{
    Each `tile.kernel` becomes an `llvm.func` with one argument a slot (KernelSignature.h); tiles
    become the values that a thread holds of them. The path of sm_80 and later: mma.sync, ldmatrix,
    cp.async. What remains is scf, arith, math and the LLVM dialect.
  }];
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
