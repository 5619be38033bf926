// RUN: tesela-opt %s --verify-diagnostics --tile-bind=bindings=input=f8

// expected-error @+1 {{the value of a template's parameter is an integer, f32, f16, bf16, e4m3, i8 or i32; 'input=f8' has 'f8'}}
module {
}
