// The forward kernel of sm_90a in the pipe dialect, written by hand: three warpgroups of consumers, overlapping
// products, persistent thread blocks, no mask. HandWrittenTest compares its structure with that of the kernel
// which the passes make, and assembles it.
//
// RUN: tesela-opt %s --pipe-place-buffers --pipe-verify-protocol --pipe-lower-to-nvvm | FileCheck %s
// CHECK: llvm.func @forward
// CHECK: setmaxnreg.dec.sync.aligned.u32 32;
// CHECK: setmaxnreg.inc.sync.aligned.u32 160;
// Q Kᵀ of a block starts, then P V of the block before. Only the first one is awaited here.
// CHECK: scf.for
// CHECK: wgmma.mma_async.sync.aligned.m64n80k16
// CHECK-NOT: wgmma.wait_group
// CHECK: wgmma.mma_async.sync.aligned.m64n128k16
// CHECK: wgmma.wait_group.sync.aligned 1;
// CHECK: wgmma.wait_group.sync.aligned 0;
// CHECK-NOT: {{= (pipe|tile)[.]|^ *pipe[.]}}

!heads = !tile.view<[?, ?, ?, 128], bf16>
!rows = !tile.block<query, 192>
!keys = !tile.block<key, 80>

// Shared memory: Q once, in a part for each warpgroup; K and V in two stages; O separately, so that the next Q can
// come while O is copied out; and for each item whether it exists, and its batch, head and first row.
!q = !pipe.buffer<1, [192, 128], bf16, panels = true>
!kv = !pipe.buffer<2, [80, 128], bf16, panels = true>
!three_parts = !pipe.channel<1 parts = 3>
!two_stages = !pipe.channel<2>
!items = !pipe.channel<2 words = 4>
!Q = !tile.tile<[192, 128], bf16, #pipe.shared>
!KV = !tile.tile<[80, 128], bf16, #pipe.shared>

// Registers, over 12 warps: scores, output, P as an operand, one value per row, and one share of a row's sum.
!S = !tile.tile<[192, 80], f32, #pipe.accumulator<warps = 12>>
!S_flying = !tile.tile<[192, 80], f32, #pipe.accumulator<warps = 12, in_flight = true>>
!S16 = !tile.tile<[192, 80], bf16, #pipe.accumulator<warps = 12>>
!P = !tile.tile<[192, 80], bf16, #pipe.operand<warps = 12>>
!O = !tile.tile<[192, 128], f32, #pipe.accumulator<warps = 12>>
!O_flying = !tile.tile<[192, 128], f32, #pipe.accumulator<warps = 12, in_flight = true>>
!O16 = !tile.tile<[192, 128], bf16, #pipe.accumulator<warps = 12>>
!row = !tile.tile<[192], f32, #pipe.rows<warps = 12, shares = false>>
!shares = !tile.tile<[192], f32, #pipe.rows<warps = 12, shares = true>>

tile.kernel @forward(%q: !heads, %k: !heads, %v: !heads, %o: !heads, %lse: !tile.view<[?, ?, ?], f32, contiguous>, %scale: f32)
    attributes {schedule = #tile.schedule<block_m = 192, block_n = 80, stages = 2, warps = 12, q_in_registers = false, consumers = 3, overlap = true, persistent = true, output_buffer = true>} {
  %q_buffer = pipe.alloc : !q
  %q_channel = pipe.open : !three_parts
  %k_buffer = pipe.alloc : !kv
  %k_channel = pipe.open : !two_stages
  %v_buffer = pipe.alloc : !kv
  %v_channel = pipe.open : !two_stages
  %items = pipe.open : !items
  %o_buffer = pipe.alloc : !q

  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %seventy_nine = arith.constant 79 : i32
  %eighty = arith.constant 80 : i32

  // One thread copies, for each item: Q, the first K, then each further K before the V of the block before it.
  // qn, kn, vn, in: how often each channel has been used.
  pipe.roles producer 32 {
    %first_item = pipe.first_item
    %end:5 = scf.while (%item = %first_item, %qn = %zero, %kn = %zero, %vn = %zero, %in = %zero) : (i32, i32, i32, i32, i32) -> (i32, i32, i32, i32, i32) {
      // The consumers are told each item, and also the first one that does not exist: it ends their loops.
      %work_items = tile.work_items !rows
      %more = arith.cmpi ult, %item, %work_items : i32
      %place = tile.work item %item : !rows
      %batch, %head, %kv_head, %first = tile.coordinates %place : !rows
      pipe.acquire %items[%in] : !items
      %flag = arith.extui %more : i1 to i32
      pipe.send %flag, %batch, %head, %first to %items[%in] : !items
      %in1 = arith.addi %in, %one : i32
      scf.condition(%more) %item, %qn, %kn, %vn, %in1 : i32, i32, i32, i32, i32
    } do {
    ^bb0(%item: i32, %qn: i32, %kn: i32, %vn: i32, %in: i32):
      %rows = tile.work item %item : !rows
      pipe.acquire %q_channel[%qn] : !three_parts
      pipe.fill %q[%rows] to %q_buffer on %q_channel[%qn] : !heads[!rows], !q, !three_parts
      pipe.acquire %q_channel[%qn] part 1 : !three_parts
      pipe.fill %q[%rows] to %q_buffer on %q_channel[%qn] part 1 : !heads[!rows], !q, !three_parts
      pipe.acquire %q_channel[%qn] part 2 : !three_parts
      pipe.fill %q[%rows] to %q_buffer on %q_channel[%qn] part 2 : !heads[!rows], !q, !three_parts
      %qn1 = arith.addi %qn, %one : i32

      // Blocks 0 to high - 1 of keys. If there are no keys, one block, whose scores all become -inf.
      %Sk = tile.extent "Sk"
      %rounded = arith.addi %Sk, %seventy_nine : i32
      %blocks = arith.divui %rounded, %eighty : i32
      %high = arith.maxsi %blocks, %one : i32
      %keys0 = tile.block %zero of %rows : !rows -> !keys
      pipe.acquire %k_channel[%kn] : !two_stages
      pipe.fill %k[%keys0] to %k_buffer on %k_channel[%kn] : !heads[!keys], !kv, !two_stages
      %kn1 = arith.addi %kn, %one : i32
      %n:2 = scf.for %j = %one to %high step %one iter_args(%kn2 = %kn1, %vn2 = %vn) -> (i32, i32) : i32 {
        %keys = tile.block %j of %rows : !rows -> !keys
        pipe.acquire %k_channel[%kn2] : !two_stages
        pipe.fill %k[%keys] to %k_buffer on %k_channel[%kn2] : !heads[!keys], !kv, !two_stages
        %kn3 = arith.addi %kn2, %one : i32
        %before = arith.subi %j, %one : i32
        %keys_before = tile.block %before of %rows : !rows -> !keys
        pipe.acquire %v_channel[%vn2] : !two_stages
        pipe.fill %v[%keys_before] to %v_buffer on %v_channel[%vn2] : !heads[!keys], !kv, !two_stages
        %vn3 = arith.addi %vn2, %one : i32
        scf.yield %kn3, %vn3 : i32, i32
      }
      %last = arith.subi %high, %one : i32
      %keys_last = tile.block %last of %rows : !rows -> !keys
      pipe.acquire %v_channel[%n#1] : !two_stages
      pipe.fill %v[%keys_last] to %v_buffer on %v_channel[%n#1] : !heads[!keys], !kv, !two_stages
      %vn4 = arith.addi %n#1, %one : i32

      %next = pipe.next_item
      scf.yield %next, %qn1, %n#0, %vn4, %in : i32, i32, i32, i32, i32
    }
    pipe.end_items
  } consumers 3 160 {
    %log2e = arith.constant 1.44269502 : f32
    %factor = arith.mulf %scale, %log2e : f32
    %minus_infinity = arith.constant 0xFF800000 : f32
    %end:7 = scf.while (%qn = %zero, %kn = %zero, %vn = %zero, %in = %zero) : (i32, i32, i32, i32) -> (i32, i32, i32, i32, i32, i32, i32) {
      %flag, %batch, %head, %first = pipe.receive %items[%in] : !items -> i32, i32, i32, i32
      %more = arith.cmpi ne, %flag, %zero : i32
      %in1 = arith.addi %in, %one : i32
      scf.condition(%more) %batch, %head, %first, %qn, %kn, %vn, %in1 : i32, i32, i32, i32, i32, i32, i32
    } do {
    ^bb0(%batch: i32, %head: i32, %first_row: i32, %qn: i32, %kn: i32, %vn: i32, %in: i32):
      %rows = tile.block %first_row batch %batch head %head -> !rows
      pipe.await %q_channel[%qn] : !three_parts
      %Q = pipe.slot %q_buffer[%zero] : !q -> !Q
      %S0 = tile.constant 0.0 : !S
      %m0 = tile.constant 0xFF800000 : !row // -inf
      %l0 = tile.constant 0.0 : !shares
      %O0 = tile.constant 0.0 : !O

      %Sk = tile.extent "Sk"
      %rounded = arith.addi %Sk, %seventy_nine : i32
      %blocks = arith.divui %rounded, %eighty : i32
      %high = arith.maxsi %blocks, %one : i32
      %whole = arith.subi %Sk, %eighty : i32 // a block that begins later ends behind the last key

      // The first block: S, its maxima m and sums l, and P. Its product with V is delayed.
      %keys0 = tile.block %zero of %rows : !rows -> !keys
      %kstage0 = arith.remui %kn, %two : i32
      pipe.await %k_channel[%kn] : !two_stages
      %K0 = pipe.slot %k_buffer[%kstage0] : !kv -> !KV
      %s0 = tile.dot %Q, %K0 transposed plus %S0 : (!Q, !KV, !S) -> !S
      pipe.release %k_channel[%kn] : !two_stages
      %kn1 = arith.addi %kn, %one : i32
      %partial0 = arith.cmpi sgt, %zero, %whole : i32
      %S1 = scf.if %partial0 -> (!S) {
        %b, %h, %hkv, %first = tile.coordinates %keys0 : !keys
        %kept = tile.map %s0 : (!S) -> !S {
        ^bb0(%s: f32, %row: i32, %column: i32):
          %key = arith.addi %first, %column : i32
          %exists = arith.cmpi slt, %key, %Sk : i32
          %r = arith.select %exists, %s, %minus_infinity : f32
          tile.yield %r : f32
        }
        scf.yield %kept : !S
      } else {
        scf.yield %s0 : !S
      }
      %m1 = tile.reduce max %S1 from %m0 : !S -> !row
      %c1 = tile.map %m1 : (!row) -> !row { // the reference times the factor; 0 for a row without keys
      ^bb0(%m: f32, %row: i32, %column: i32):
        %scaled = arith.mulf %m, %factor : f32
        %zero_f = arith.constant 0.0 : f32
        %isEmpty = arith.cmpf oeq, %m, %minus_infinity : f32
        %r = arith.select %isEmpty, %zero_f, %scaled : f32
        tile.yield %r : f32
      }
      %p1 = tile.map %S1, %c1 : (!S, !row) -> !S {
      ^bb0(%s: f32, %c: f32, %row: i32, %column: i32):
        %minus_c = arith.negf %c : f32
        %x = math.fma %s, %factor, %minus_c : f32
        %r = math.exp2 %x : f32
        tile.yield %r : f32
      }
      %l1 = tile.reduce add %p1 from %l0 : !S -> !shares
      %p1_16 = tile.convert %p1 : !S -> !S16
      %P1 = pipe.convert %p1_16 : !S16 -> !P

      %m, %l, %P, %O, %kn_end, %vn_end = scf.for %j = %one to %high step %one
          iter_args(%m2 = %m1, %l2 = %l1, %P2 = %P1, %O2 = %O0, %kn2 = %kn1, %vn2 = %vn) -> (!row, !shares, !P, !O, i32, i32) : i32 {
        %keys = tile.block %j of %rows : !rows -> !keys
        %start = arith.muli %j, %eighty : i32
        %partial = arith.cmpi sgt, %start, %whole : i32

        // This block's Q Kᵀ starts, then the last block's P V. The tensor cores work while the code below runs.
        %kstage = arith.remui %kn2, %two : i32
        pipe.await %k_channel[%kn2] : !two_stages
        %K = pipe.slot %k_buffer[%kstage] : !kv -> !KV
        %s_flying = pipe.dot_start %Q, %K transposed plus %S0 : (!Q, !KV, !S) -> !S_flying
        %vstage = arith.remui %vn2, %two : i32
        pipe.await %v_channel[%vn2] : !two_stages
        %V = pipe.slot %v_buffer[%vstage] : !kv -> !KV
        %o_flying = pipe.dot_start %P2, %V plus %O2 : (!P, !KV, !O) -> !O_flying
        %s2 = pipe.dot_wait %s_flying pending 1 : !S_flying -> !S
        pipe.release %k_channel[%kn2] : !two_stages
        %kn3 = arith.addi %kn2, %one : i32

        %S3 = scf.if %partial -> (!S) {
          %b, %h, %hkv, %first = tile.coordinates %keys : !keys
          %kept = tile.map %s2 : (!S) -> !S {
          ^bb0(%s: f32, %row: i32, %column: i32):
            %key = arith.addi %first, %column : i32
            %exists = arith.cmpi slt, %key, %Sk : i32
            %r = arith.select %exists, %s, %minus_infinity : f32
            tile.yield %r : f32
          }
          scf.yield %kept : !S
        } else {
          scf.yield %s2 : !S
        }
        %m3 = tile.reduce max %S3 from %m2 : !S -> !row
        %c3 = tile.map %m3 : (!row) -> !row {
        ^bb0(%x: f32, %row: i32, %column: i32):
          %scaled = arith.mulf %x, %factor : f32
          %zero_f = arith.constant 0.0 : f32
          %isEmpty = arith.cmpf oeq, %x, %minus_infinity : f32
          %r = arith.select %isEmpty, %zero_f, %scaled : f32
          tile.yield %r : f32
        }
        %alpha = tile.map %m2, %c3 : (!row, !row) -> !row { // the factor for the old sums and the old output
        ^bb0(%old: f32, %c: f32, %row: i32, %column: i32):
          %minus_c = arith.negf %c : f32
          %x = math.fma %old, %factor, %minus_c : f32
          %r = math.exp2 %x : f32
          tile.yield %r : f32
        }
        %p3 = tile.map %S3, %c3 : (!S, !row) -> !S {
        ^bb0(%s: f32, %c: f32, %row: i32, %column: i32):
          %minus_c = arith.negf %c : f32
          %x = math.fma %s, %factor, %minus_c : f32
          %r = math.exp2 %x : f32
          tile.yield %r : f32
        }
        %l_old = tile.map %l2, %alpha : (!shares, !row) -> !shares {
        ^bb0(%x: f32, %a: f32, %row: i32, %column: i32):
          %r = arith.mulf %x, %a : f32
          tile.yield %r : f32
        }
        %l3 = tile.reduce add %p3 from %l_old : !S -> !shares

        // Not before here is the output of the last block needed.
        %o2 = pipe.dot_wait %o_flying pending 0 : !O_flying -> !O
        pipe.release %v_channel[%vn2] : !two_stages
        %vn3 = arith.addi %vn2, %one : i32
        %O3 = tile.map %o2, %alpha : (!O, !row) -> !O {
        ^bb0(%x: f32, %a: f32, %row: i32, %column: i32):
          %r = arith.mulf %x, %a : f32
          tile.yield %r : f32
        }
        %p3_16 = tile.convert %p3 : !S -> !S16
        %P3 = pipe.convert %p3_16 : !S16 -> !P
        scf.yield %m3, %l3, %P3, %O3, %kn3, %vn3 : !row, !shares, !P, !O, i32, i32
      }
      pipe.release %q_channel[%qn] : !three_parts
      %qn1 = arith.addi %qn, %one : i32

      // The last block's P V.
      %vstage_end = arith.remui %vn_end, %two : i32
      pipe.await %v_channel[%vn_end] : !two_stages
      %V_end = pipe.slot %v_buffer[%vstage_end] : !kv -> !KV
      %O_end = tile.dot %P, %V_end plus %O : (!P, !KV, !O) -> !O
      pipe.release %v_channel[%vn_end] : !two_stages
      %vn4 = arith.addi %vn_end, %one : i32

      // O / l, and L = ln 2 · (m · factor + log2 l).
      %sum = tile.total %l : !shares -> !row
      %inverse = tile.map %sum : (!row) -> !row {
      ^bb0(%x: f32, %row: i32, %column: i32):
        %one_f = arith.constant 1.0 : f32
        %zero_f = arith.constant 0.0 : f32
        %quotient = arith.divf %one_f, %x : f32
        %isEmpty = arith.cmpf oeq, %x, %zero_f : f32
        %r = arith.select %isEmpty, %zero_f, %quotient : f32
        tile.yield %r : f32
      }
      %Y = tile.map %O_end, %inverse : (!O, !row) -> !O {
      ^bb0(%x: f32, %i: f32, %row: i32, %column: i32):
        %r = arith.mulf %x, %i : f32
        tile.yield %r : f32
      }
      %L = tile.map %m, %sum : (!row, !row) -> !row {
      ^bb0(%x: f32, %s: f32, %row: i32, %column: i32):
        %ln2 = arith.constant 0.693147182 : f32
        %zero_f = arith.constant 0.0 : f32
        %log = math.log2 %s : f32
        %both = math.fma %x, %factor, %log : f32
        %natural = arith.mulf %both, %ln2 : f32
        %isEmpty = arith.cmpf oeq, %s, %zero_f : f32
        %r = arith.select %isEmpty, %minus_infinity, %natural : f32
        tile.yield %r : f32
      }
      %Y16 = tile.convert %Y : !O -> !O16
      pipe.drain // the last item's output
      pipe.write %Y16 to %o_buffer[%zero] : !O16, !q
      pipe.empty_out %o_buffer to %o[%rows] : !q, !heads[!rows]
      tile.store %L, %lse[%rows] : !row, !tile.view<[?, ?, ?], f32, contiguous>[!rows]
      scf.yield %qn1, %kn_end, %vn4, %in : i32, i32, i32, i32
    }
    pipe.drain
  }
}
