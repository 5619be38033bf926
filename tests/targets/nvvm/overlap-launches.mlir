// RUN: tesela-opt %s --pipe-overlap-launches | FileCheck %s

// Of three launches of a plan, the first waits for none, and none waits for the last.
// CHECK-LABEL: tile.kernel @first
// CHECK-NOT: attributes
// CHECK-NEXT: pipe.release_launch
// CHECK-NEXT: tile.work
tile.kernel @first(out %o: !tile.view<[B, H, Sq, 64], bf16>) attributes {pipe.precedes_launch} {
  %rows = tile.work : !tile.block<query, 64>
}

// CHECK-LABEL: tile.kernel @second
// CHECK-NEXT: pipe.await_launch
// CHECK-NEXT: pipe.release_launch
// CHECK-NEXT: tile.work
tile.kernel @second(out %o: !tile.view<[B, H, Sq, 64], bf16>) attributes {pipe.follows_launch, pipe.precedes_launch} {
  %rows = tile.work : !tile.block<query, 64>
}

// CHECK-LABEL: tile.kernel @third
// CHECK-NEXT: pipe.await_launch
// CHECK-NEXT: tile.work
tile.kernel @third(out %o: !tile.view<[B, H, Sq, 64], bf16>) attributes {pipe.follows_launch} {
  %rows = tile.work : !tile.block<query, 64>
}

// CHECK-LABEL: tile.kernel @alone
// CHECK-NEXT: tile.work
tile.kernel @alone(out %o: !tile.view<[B, H, Sq, 64], bf16>) {
  %rows = tile.work : !tile.block<query, 64>
}
