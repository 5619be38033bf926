// RUN: tesela-opt %s --split-input-file --allow-unregistered-dialect --canonicalize | FileCheck %s

// CHECK-DAG: %[[BY_ZERO:.*]] = arith.constant 0 : i32
// CHECK-DAG: %[[ROUNDED:.*]] = arith.constant -4 : i32
// CHECK-DAG: %[[WRAPPED:.*]] = arith.constant -2147483648 : i32
// CHECK: "test.floor_div"(%[[BY_ZERO]], %[[ROUNDED]], %[[WRAPPED]])
%m7 = arith.constant -7 : i32
%2 = arith.constant 2 : i32
%0 = arith.constant 0 : i32
%m1 = arith.constant -1 : i32
%low = arith.constant -2147483648 : i32
%a = attn.floor_div %m7, %0 : i32
%b = attn.floor_div %m7, %2 : i32
%c = attn.floor_div %low, %m1 : i32
"test.floor_div"(%a, %b, %c) : (i32, i32, i32) -> ()

// -----

// CHECK-DAG: %[[BY_ZERO:.*]] = arith.constant 0 : i32
// CHECK-DAG: %[[POSITIVE:.*]] = arith.constant 1 : i32
// CHECK: "test.floor_mod"(%[[BY_ZERO]], %[[POSITIVE]])
%m7 = arith.constant -7 : i32
%2 = arith.constant 2 : i32
%0 = arith.constant 0 : i32
%a = attn.floor_mod %m7, %0 : i32
%b = attn.floor_mod %m7, %2 : i32
"test.floor_mod"(%a, %b) : (i32, i32) -> ()

// -----

// CHECK-DAG: %[[SATURATED:.*]] = arith.constant 2147483647 : i32
// CHECK-DAG: %[[OF_NAN:.*]] = arith.constant 0 : i32
// CHECK-DAG: %[[TOWARDS_ZERO:.*]] = arith.constant -2 : i32
// CHECK: "test.to_int"(%[[SATURATED]], %[[OF_NAN]], %[[TOWARDS_ZERO]])
%inf = arith.constant 0x7F800000 : f32
%nan = arith.constant 0x7FC00000 : f32
%x = arith.constant -2.9 : f32
%a = attn.to_int %inf : f32 to i32
%b = attn.to_int %nan : f32 to i32
%c = attn.to_int %x : f32 to i32
"test.to_int"(%a, %b, %c) : (i32, i32, i32) -> ()
