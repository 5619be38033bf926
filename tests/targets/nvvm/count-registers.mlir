// RUN: tesela-opt %s --pipe-count-registers | FileCheck %s

!shared = !tile.tile<[64, 64], bf16, #pipe.shared>
!s = !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4>>
!s_in_flight = !tile.tile<[64, 64], f32, #pipe.accumulator<warps = 4, in_flight = true>>
!p = !tile.tile<[64, 64], bf16, #pipe.operand<warps = 4>>

// A product of 64 by 64 takes 32 values in each of 128 threads. The zeros to which it adds and operands in shared memory take none.
// CHECK: tile.kernel @one(){{.*}}pipe.tile_registers = 32
tile.kernel @one() {
  %n = arith.constant 0 : i32
  %b = pipe.alloc : !pipe.buffer<1, [64, 64], bf16, panels = true>
  %a = pipe.slot %b[%n] : !pipe.buffer<1, [64, 64], bf16, panels = true> -> !shared
  %zero = tile.constant 0.0 : !s
  %x = tile.dot %a, %a plus %zero : (!shared, !shared, !s) -> !s
  %y = tile.dot %a, %a plus %x : (!shared, !shared, !s) -> !s
}

// The left operand in registers (16 pairs) is held until its product is done. A loop holds what its next iteration reads.
// CHECK: tile.kernel @in_flight(%{{.*}}){{.*}}pipe.tile_registers = 80
tile.kernel @in_flight(%n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %b = pipe.alloc : !pipe.buffer<1, [64, 64], bf16, panels = true>
  %a = pipe.slot %b[%zero] : !pipe.buffer<1, [64, 64], bf16, panels = true> -> !shared
  %start = tile.constant 0.0 : !s
  %x = tile.dot %a, %a plus %start : (!shared, !shared, !s) -> !s
  %c = tile.convert %x : !s -> !tile.tile<[64, 64], bf16, #pipe.accumulator<warps = 4>>
  %p = pipe.convert %c : !tile.tile<[64, 64], bf16, #pipe.accumulator<warps = 4>> -> !p
  %sum = scf.for %i = %zero to %n step %one iter_args(%o = %start) -> (!s) : i32 {
    %r = pipe.dot_start %p, %a plus %o : (!p, !shared, !s) -> !s_in_flight
    %t = tile.dot %a, %a plus %start : (!shared, !shared, !s) -> !s
    %done = pipe.dot_wait %r pending 0 : !s_in_flight -> !s
    %both = tile.map %t, %done : (!s, !s) -> !s {
    ^body(%l: f32, %m: f32, %row: i32, %column: i32):
      %u = arith.addf %l, %m : f32
      tile.yield %u : f32
    }
    scf.yield %both : !s
  }
}
