// RUN: tesela-opt %s --scalars-to-llvm | FileCheck %s

// CHECK-LABEL: llvm.func @scalars
llvm.func @scalars(%a: f32, %b: f32) -> f32 {
  // CHECK: llvm.fadd %{{.*}}, %{{.*}} : f32
  %sum = arith.addf %a, %b : f32
  // CHECK: llvm.intr.fma
  %fma = math.fma %sum, %a, %b : f32
  // CHECK-NOT: unrealized
  llvm.return %fma : f32
}
