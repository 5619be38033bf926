// With `trap-waits`, as in debug builds, each wait for a channel counts its tries and traps.
// RUN: tesela-opt %S/hand-written-forward.mlir --pipe-place-buffers --pipe-lower-to-nvvm=trap-waits=true | FileCheck %s
// RUN: tesela-opt %S/hand-written-forward.mlir --pipe-place-buffers --pipe-lower-to-nvvm | FileCheck %s --check-prefix=WITHOUT

// The producer waits for the item, three parts of Q, the first K, K and V in the loop, and the last V; the consumers for the same with
// only their own part of Q.
// CHECK-COUNT-14: mov.u32 tries, 4000000;\0ASPIN:\0A mbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1;\0A @done bra DONE;\0A sub.u32 tries, tries, 1;\0A setp.eq.u32 hangs, tries, 0;\0A @hangs trap;\0A bra SPIN;
// CHECK-NOT: mbarrier.try_wait

// WITHOUT: mbarrier.try_wait
// WITHOUT-NOT: trap
